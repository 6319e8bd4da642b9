//! What of the host's accounts is one tenant's: its functions, ports and devices, and what it is promised.

use super::controller::Controller;
use engine::Account;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use wiring::guarded_by;

/// The names of a tenant's functions, ports and devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) functions: BTreeSet<String>,
    pub(super) ports: BTreeSet<String>,
    pub(super) devices: BTreeSet<String>,
}

impl Controller {
    /// As they are now.
    pub(super) fn names_of(&self, tenant: &str) -> Names {
        let wiring = self.host.wiring();
        let functions = wiring.instances.keys().filter(|name| wiring.shown_to(name) == Some(tenant));
        let containers = wiring.containers.iter().filter(|(_, container)| container.tenant == tenant);
        let functions = functions.chain(containers.map(|(name, _)| name));
        let ports = wiring.ports.iter().filter(|(_, port)| port.tenant == tenant);
        let devices = wiring.devices.iter().filter(|(_, device)| device.tenant == tenant);
        Names {
            functions: functions.cloned().collect(),
            ports: ports.map(|(name, _)| name.clone()).collect(),
            devices: devices.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Takes an account, and leaves in it what is a tenant's, and was when it was taken.
    pub(super) fn account_of(
        &self,
        tenant: &str,
        take: impl FnOnce() -> Option<Account>,
    ) -> Option<(Account, Names)> {
        let before = self.names_of(tenant);
        let mut account = take()?;
        let after = self.names_of(tenant);
        let names = Names {
            functions: before.functions.intersection(&after.functions).cloned().collect(),
            ports: before.ports.intersection(&after.ports).cloned().collect(),
            devices: before.devices.intersection(&after.devices).cloned().collect(),
        };
        account.instances.retain(|instance| names.functions.contains(&instance.name));
        account.ports.retain(|port| names.ports.contains(&port.name));
        account.switches.clear();
        account.devices.retain(|device| names.devices.contains(&device.name));
        account.port_devices.clear();
        Some((account, names))
    }
}

/// A tenant's part of where memory goes.
pub(super) fn memory(whole: &Value, tenant: &str) -> Value {
    let of = |section: &str, is: &dyn Fn(&str, &Value) -> bool| -> Map<String, Value> {
        let entries = whole.get(section).and_then(Value::as_object).into_iter().flatten();
        entries
            .filter(|(name, entry)| is(name, entry))
            .map(|(name, entry)| (name.clone(), entry.clone()))
            .collect()
    };
    let named = |_: &str, entry: &Value| entry.get("tenant").and_then(Value::as_str) == Some(tenant);
    json!({
        "tenants": of("tenants", &|name, _| name == tenant),
        // The memory of guards is the platform's.
        "functions": of("functions", &|name, entry| guarded_by(name).is_none() && named(name, entry)),
        "containers": of("containers", &named),
        "pools": of("pools", &named),
    })
}

/// Of metrics in text, those that have a label of a tenant: its function, its port, its device, or itself.
pub(super) fn metrics(whole: &str, tenant: &str, names: &Names, to: &mut String) {
    // What is said of a family stands before its samples, and goes with them.
    let mut about = String::new();
    let mut told = false;
    for line in whole.lines() {
        if line.starts_with('#') {
            if told {
                about.clear();
                told = false;
            }
            about.push_str(line);
            about.push('\n');
            continue;
        }
        if is_of(line, tenant, names) {
            to.push_str(&about);
            about.clear();
            to.push_str(line);
            to.push('\n');
        }
        told = true;
    }
}

fn is_of(sample: &str, tenant: &str, names: &Names) -> bool {
    let labels = labels(sample);
    let label = |name: &str| labels.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    match (label("function"), label("port"), label("device"), label("tenant")) {
        (Some(function), ..) => names.functions.contains(function),
        (None, Some(port), ..) => names.ports.contains(port),
        (None, None, Some(device), _) => names.devices.contains(device),
        (None, None, None, of) => of == Some(tenant),
    }
}

/// The labels of a sample: `name{a="b",c="d"} 1`. Values may have `\"`, `\\` and `\n`.
fn labels(sample: &str) -> Vec<(&str, String)> {
    let mut labels = Vec::new();
    let Some((_, mut rest)) = sample.split_once('{') else { return labels };
    while let Some((name, behind)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut characters = behind.char_indices();
        let end = loop {
            match characters.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, other)) => value.push(other),
                    None => return labels,
                },
                Some((_, other)) => value.push(other),
                None => return labels,
            }
        };
        labels.push((name.trim_start_matches([',', ' ']), value));
        rest = &behind[end + 1..];
        if rest.starts_with('}') {
            break;
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            functions: ["fw".to_owned()].into(),
            ports: ["lan".to_owned()].into(),
            devices: ["d".to_owned()].into(),
        }
    }

    #[test]
    fn only_samples_of_the_tenant_stay_and_families_with_none_go() {
        let whole = "\
# HELP a_total All.
# TYPE a_total counter
a_total 9
# TYPE f_total counter
f_total{function=\"fw\",tenant=\"red\",image=\"x\\\"}y\"} 1
f_total{function=\"nat\",tenant=\"blue\",image=\"function=\\\"fw\\\"\"} 2
# TYPE p gauge
p{port=\"lan\"} 3
p{port=\"wan\"} 4
# TYPE d counter
d_total{device=\"d\",from=\"ports\"} 8
d_total{device=\"e\",from=\"ports\"} 9
# TYPE t gauge
t{tenant=\"blue\"} 5
# TYPE u gauge
u{tenant=\"red\"} 6
# TYPE w gauge
w{worker=\"0\"} 7
";
        let mut told = String::new();
        metrics(whole, "red", &names(), &mut told);
        let expected = "\
# TYPE f_total counter
f_total{function=\"fw\",tenant=\"red\",image=\"x\\\"}y\"} 1
# TYPE p gauge
p{port=\"lan\"} 3
# TYPE d counter
d_total{device=\"d\",from=\"ports\"} 8
# TYPE u gauge
u{tenant=\"red\"} 6
";
        assert_eq!(told, expected);
    }

    #[test]
    fn labels_are_read_with_what_is_escaped_in_them() {
        assert_eq!(
            labels(r#"x{a="b\\",c="d\"e",f="g,h=\"i"} 1"#),
            [("a", "b\\".into()), ("c", "d\"e".into()), ("f", "g,h=\"i".into())]
        );
        assert!(labels("x 1").is_empty() && labels("x{a=\"b").is_empty());
    }

    #[test]
    fn memory_has_the_tenants_own_alone() {
        let whole = json!({
            "process": {"resident_bytes": 1}, "tenants": {"red": {"promised_bytes": 2}, "blue": {}},
            "functions": {"fw": {"tenant": "red"}, "nat": {"tenant": "blue"}},
            "containers": {"ids": {"tenant": "red"}, "web": {"tenant": "blue"}}, "pools": {"red": {"tenant": "red"}, "blue": {"tenant": "blue"}},
        });
        let told = json!({"tenants": {"red": {"promised_bytes": 2}}, "functions": {"fw": {"tenant": "red"}},
            "containers": {"ids": {"tenant": "red"}}, "pools": {"red": {"tenant": "red"}}});
        assert_eq!(memory(&whole, "red"), told);
    }
}
