//! Rules and connections against a model: the rules as lists that are looked through, and every connection
//! with the packet that opened it. Rules come and go meanwhile.

use super::frames::{A, A6, Bench, IN, OUT, remote, rule};
use nf_sdk::native::ConfigValue;
use nf_sdk::native::frames::udp;
use proptest::prelude::*;
use std::collections::HashSet;

/// The other ends.
const OTHERS: [&str; 4] = ["198.51.100.1", "198.51.100.2", "203.0.113.1", "2001:db8:1::1"];
const REMOTES: [&str; 5] =
    ["198.51.100.0/24", "198.51.100.2/32", "203.0.113.0/25", "2001:db8:1::/48", "0.0.0.0/0"];

/// A rule: whether it is for what comes in, the number of its remote, its port.
#[derive(Clone, Copy, Debug)]
struct Allows {
    is_in: bool,
    remote: Option<usize>,
    port: Option<u16>,
}

/// A connection by its ends, and whether it was begun from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Connection {
    other: usize,
    near: u16,
    far: u16,
    begun_outside: bool,
}

impl Allows {
    fn covers(&self, it: &Connection) -> bool {
        let port = if it.begun_outside { it.near } else { it.far };
        let within = |remote: usize| match remote {
            0 => it.other < 2,
            1 => it.other == 1,
            2 => it.other == 2,
            3 => it.other == 3,
            _ => it.other < 3,
        };
        self.is_in == it.begun_outside
            && self.port.is_none_or(|wanted| wanted == port)
            && self.remote.is_none_or(within)
    }

    fn rule(&self) -> ConfigValue {
        let mut pairs = vec![];
        pairs.extend(self.remote.map(|n| remote(REMOTES[n])));
        if let Some(port) = self.port {
            pairs.push(("protocol", ConfigValue::text("udp")));
            pairs.push(("ports", ConfigValue::PortRange(port, port)));
        }
        rule(if self.is_in { "in" } else { "out" }, &pairs)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Packet { other: usize, near: u16, far: u16, from_outside: bool },
    Rules(Layers),
}

#[derive(Clone, Debug)]
struct Layers {
    administrator: Option<Vec<Allows>>,
    tenant: Vec<Allows>,
}

impl Layers {
    fn allow(&self, it: &Connection) -> bool {
        let covers = |rules: &Vec<Allows>| rules.iter().any(|rule| rule.covers(it));
        covers(&self.tenant) && self.administrator.as_ref().is_none_or(covers)
    }

    fn config(&self) -> Vec<(&'static str, Vec<ConfigValue>)> {
        let rules = |all: &Vec<Allows>| all.iter().map(Allows::rule).collect();
        let mut layers = vec![("tenant", rules(&self.tenant))];
        layers.extend(self.administrator.as_ref().map(|all| ("administrator", rules(all))));
        layers
    }
}

fn rules() -> impl Strategy<Value = Vec<Allows>> {
    let one = (any::<bool>(), prop::option::of(0..REMOTES.len()), prop::option::of(1u16..4))
        .prop_map(|(is_in, remote, port)| Allows { is_in, remote, port });
    prop::collection::vec(one, 0..5)
}

fn layers() -> impl Strategy<Value = Layers> {
    (prop::option::of(rules()), rules()).prop_map(|(administrator, tenant)| Layers { administrator, tenant })
}

fn step() -> impl Strategy<Value = Step> {
    let packet = (0..OTHERS.len(), 1u16..4, 1u16..4, any::<bool>())
        .prop_map(|(other, near, far, from_outside)| Step::Packet { other, near, far, from_outside });
    prop_oneof![10 => packet, 1 => layers().prop_map(Step::Rules)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn connections_live_as_long_as_a_rule_allows_them(first in layers(), steps in prop::collection::vec(step(), 1..120)) {
        let mut current = first;
        let mut bench = Bench::new(&current.config());
        let mut live: HashSet<Connection> = HashSet::new();
        for step in steps {
            match step {
                Step::Rules(layers) => {
                    bench = bench.change(&layers.config());
                    live.retain(|it| layers.allow(it));
                    current = layers;
                }
                Step::Packet { other, near, far, from_outside } => {
                    let of = |begun_outside| Connection { other, near, far, begun_outside };
                    let is_known = live.contains(&of(true)) || live.contains(&of(false));
                    let opens = !is_known && current.allow(&of(from_outside));
                    if opens {
                        live.insert(of(from_outside));
                    }
                    let (a, b) = (if other == 3 { A6 } else { A }, OTHERS[other]);
                    let (verdict, passed) = match from_outside {
                        true => (bench.outside(udp(b, far, a, near)), IN),
                        false => (bench.inside(udp(a, near, b, far)), OUT),
                    };
                    prop_assert_eq!(verdict == passed, is_known || opens, "{:?}", verdict);
                }
            }
        }
    }
}
