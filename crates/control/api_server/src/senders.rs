//! What may be sent from at devices that security groups bind.
//!
//! A guard lets what opens such a device send from the addresses that its interface has, and rules that name
//! a group let in what its members have. So these are an administrator's to say, as the device's own are:
//! 1. [`AT_DEVICE`] under `attach`, where it names such a device,
//! 2. [`OF_GUEST`] under `interfaces` of a container or program, whose kernel has the addresses, where the
//!    interface opens such a device by `attach`, or the guest one by a chain or a wire.
//!
//! A tenant leaves them as they are, or says less.

use crate::document::Faults;
use crate::owners::{base, names_in};
use crate::state::State;
use crate::wanted::{Wanted, WantedObject};
use api::{Fault, Kind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use yaml_document::spelling::shown;

/// What an interface has on a device's link.
const AT_DEVICE: [&str; 4] = ["addresses", "mac", "dhcp", "slaac"];
/// The same of a guest's interface, wherever it leads.
const OF_GUEST: [&str; 2] = ["addresses", "mac"];

/// What is found out for all of a change at once, when it is asked for.
#[derive(Default)]
pub(crate) struct Bound {
    /// What chains and wires join with devices that groups bind.
    joined: OnceLock<BTreeSet<String>>,
    /// Functions that come, and whether these are guests with addresses of their own.
    coming: OnceLock<BTreeMap<String, bool>>,
}

/// Whether a value says nothing that was not said: it is the same, or a list of some of the same.
fn says_less(now: &Value, before: Option<&Value>) -> bool {
    let some_of = |before: &Value| {
        now.as_array()
            .zip(before.as_array())
            .is_some_and(|(now, before)| now.iter().all(|it| before.contains(it)))
    };
    before.is_some_and(|before| now == before || some_of(before))
}

/// Of these keys those that say something that was not said.
fn changed<'a>(
    keys: &'a [&'static str],
    now: Option<&'a Value>,
    before: Option<&'a Value>,
) -> impl Iterator<Item = (&'static str, Option<&'a Value>)> {
    let both = move |key: &&'static str| {
        (*key, now.and_then(|now| now.get(*key)), before.and_then(|it| it.get(*key)))
    };
    let is_new = |(_, now, before): &(&str, Option<&Value>, Option<&Value>)| {
        now.is_some_and(|now| !says_less(now, *before))
    };
    keys.iter().map(both).filter(is_new).map(|(key, _, before)| (key, before))
}

fn fault(at: String, device: Option<&str>, before: Option<&Value>) -> Fault {
    let device = device.map_or("a device".to_owned(), |device| format!("`{}`", shown(device)));
    let allowed = match before {
        Some(before) => format!("`{}`, as it is", shown(&before.to_string())),
        None => "nothing, as it is".to_owned(),
    };
    let message = format!(
        "what may be sent from at {device}, which security groups bind, is an administrator's to say; allowed: {allowed}"
    );
    Fault::new(at, message)
}

/// Whether this is a guest whose interfaces have addresses by its spec.
pub(crate) fn says_addresses(spec: &Value) -> bool {
    let interfaces = spec.get("interfaces").and_then(Value::as_object);
    api::guest_of(spec).is_launched()
        && interfaces
            .is_some_and(|all| all.values().any(|it| OF_GUEST.iter().any(|key| it.get(*key).is_some())))
}

/// The name of the interface of a guest that a key of `attach` means, which may be its number.
fn named<'a>(spec: &'a Value, key: &'a str) -> &'a str {
    let interfaces = spec.get("interfaces").and_then(Value::as_object).filter(|all| !all.contains_key(key));
    let number = key.parse().ok();
    let by_number = interfaces.zip(number).and_then(|(all, number)| all.keys().nth(number));
    by_number.map_or(key, String::as_str)
}

impl State {
    /// What a function says of itself that is an administrator's to say, because of the devices that it
    /// opens.
    pub fn senders_of_function(
        &self,
        at: &str,
        (name, before, spec): (&str, Option<&Value>, &Value),
        (tenant, bound): (&str, &Bound),
        forbidden: &mut Faults,
    ) {
        let part = |spec: Option<&'_ Value>, part: &str, interface: &str| -> Option<Value> {
            spec?.get(part)?.get(interface).cloned()
        };
        let is_guest = api::guest_of(spec).is_launched();
        let mut by_attach = BTreeSet::new();
        for (interface, end) in spec.get("attach").and_then(Value::as_object).into_iter().flatten() {
            let Some(device) =
                api::attached_to(end).map(base).filter(|device| self.owners.bound_among(&[device]).is_some())
            else {
                continue;
            };
            let own = named(spec, interface);
            by_attach.insert(own);
            // At another device, or where it opened none, nothing was said.
            let there = part(before, "attach", interface);
            let there = there.filter(|there| api::attached_to(there) == api::attached_to(end));
            for (key, before) in changed(&AT_DEVICE, Some(end), there.as_ref()) {
                forbidden.push(fault(format!("{at}.attach.{interface}.{key}"), Some(device), before));
            }
            let of_guest = part(before, "interfaces", own).filter(|_| there.is_some());
            let now = part(Some(spec), "interfaces", own).filter(|_| is_guest);
            for (key, before) in changed(&OF_GUEST, now.as_ref(), of_guest.as_ref()) {
                forbidden.push(fault(format!("{at}.interfaces.{own}.{key}"), Some(device), before));
            }
        }
        let interfaces = spec.get("interfaces").and_then(Value::as_object).filter(|_| is_guest);
        for (interface, now) in interfaces.into_iter().flatten() {
            if by_attach.contains(interface.as_str()) {
                continue;
            }
            let there = part(before, "interfaces", interface);
            for (key, before) in changed(&OF_GUEST, Some(now), there.as_ref()) {
                if bound.joined.get_or_init(|| self.owners.joined_with_bound(tenant)).contains(name) {
                    forbidden.push(fault(format!("{at}.interfaces.{interface}.{key}"), None, before));
                }
            }
        }
    }

    /// The same of a chain or a wire that comes: a guest with addresses of its own is joined with no device
    /// that groups bind.
    pub fn senders_of_link(
        &self,
        at: &str,
        (object, spec): (&WantedObject, &Value),
        (wanted, bound): (&Wanted, &Bound),
    ) -> Option<Fault> {
        let kind = object.id.kind;
        let names = names_in(kind, &object.id.name, spec);
        let is_link = matches!(kind, Kind::Chain | Kind::Wire);
        let device = self.owners.bound_among(&names).filter(|_| is_link)?;
        let coming = bound.coming.get_or_init(|| {
            let functions = wanted.objects.iter().filter(|it| it.id.kind == Kind::Function);
            let says = |it: &WantedObject| Some((it.id.name.clone(), says_addresses(it.spec.as_ref()?)));
            functions.filter_map(says).collect()
        });
        let says = |name: &&String| match coming.get(*name) {
            Some(says) => *says,
            None => self.owners.has_addresses(name),
        };
        let guest = names.iter().find(says)?;
        let message = format!(
            "`{}` has addresses of its own, and what may be sent from at `{}`, which security groups bind, is an \
             administrator's to say; allowed: functions without `addresses` and `mac` of their interfaces",
            shown(guest),
            shown(device)
        );
        Some(Fault::new(at, message))
    }
}
