//! Reading what functions and tenants may have of a core, and telling what is promised and cannot be kept.

use crate::format::cpu_schema;
use crate::read::Reader;
use cpu_share::{Cap, Weight};
use schema::Value;
use wiring::{Claimant, Cpu, Observation};
use yaml_document::{Location, Node};

/// Parts per billion, in which schemas count, in a millionth, in which the scheduler counts.
const IN_A_MILLIONTH: i64 = 1000;

impl Reader<'_> {
    /// Reads the key `cpu` of a function or tenant, which may be left out.
    pub(crate) fn cpu(&mut self, place: &Location<'_>, node: &Node, whose: Claimant) -> Option<Cpu> {
        let Some((_, node)) = node.entry("cpu") else { return Some(Cpu::default()) };
        let place = place.key("cpu", node.position);
        let values = cpu_schema().check_at(&place, Some(node), &[], &mut self.faults)?;
        let weight = values.get("weight").and_then(Value::as_integer);
        let weight = weight.and_then(|weight| u32::try_from(weight).ok()).and_then(Weight::new);
        let [cap, reserve] = ["cap", "reserve"].map(|key| self.share(&place, node, &values, key));
        let cpu = Cpu { weight: weight?, cap: cap?, reserve: reserve? };
        if let Some(reserve) = node.get("reserve") {
            self.reserves.insert(whose, reserve.position);
        }
        Some(cpu)
    }

    /// A share of a core: `Some(None)` where none is said, `None` after a fault.
    fn share(&mut self, place: &Location<'_>, node: &Node, values: &Value, key: &str) -> Option<Option<Cap>> {
        let Some(parts) = values.get(key).and_then(Value::as_integer) else { return Some(None) };
        let millionths = u32::try_from(parts / IN_A_MILLIONTH).ok().filter(|_| parts % IN_A_MILLIONTH == 0);
        let share = millionths.and_then(Cap::from_millionths);
        if share.is_none() {
            let node = node.get(key).unwrap_or(node);
            place.key(key, node.position).report(&mut self.faults, || {
                format!("{}; allowed: a whole number of ppm, such as `35%` or `1250ppm`", node.found())
            });
        }
        share.map(Some)
    }

    /// Reserves that weights and caps do not give.
    pub(crate) fn promises(&mut self, root: &Location<'_>) {
        for promise in self.wiring.broken_promises() {
            let position = self.reserves.get(&promise.whose).copied().unwrap_or(root.position());
            let (section, name) = match &promise.whose {
                Claimant::Tenant(name) => ("tenants", name),
                Claimant::Instance(name) => ("functions", name),
            };
            let section = root.key(section, position);
            let owner = section.key(name, position);
            let cpu = owner.key("cpu", position);
            cpu.key("reserve", position).report(&mut self.faults, || promise.to_string());
        }
    }

    /// Observers that have to run on another worker than the functions that they observe.
    pub(crate) fn distant_observers(&mut self, root: &Location<'_>) {
        if self.observations.is_empty() {
            return;
        }
        let homes = self.wiring.homes();
        for (Observation { observer, at, .. }, (number, position)) in &self.observations {
            let home = |name: &str| homes.get(name).copied();
            let Some(at) = at.beside().filter(|_| self.wiring.instances.contains_key(observer)) else {
                continue;
            };
            let (Some(here), Some(there)) = (home(observer), home(at)) else { continue };
            if here != there {
                let section = root.key("observers", *position);
                let observer_place = section.key(observer, *position);
                let list = observer_place.key("at", *position);
                list.item(*number, *position).report(&mut self.faults, || {
                    format!(
                        "`{at}` has to run on worker {there} and the observer on worker {here}; allowed: one `worker` for \
                         an observer and all that it observes"
                    )
                });
            }
        }
    }
}
