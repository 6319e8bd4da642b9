//! Both ways of matching against a rule's definition.

use crate::bit_vector::BitVectorRules;
use crate::linear::{self, LinearRules};
use crate::rule::{Action, Family, Rule, View, kind};
use crate::rule_set::{FamilyRules, Rules4, Rules6};
use nf_sdk::Prefix;
use proptest::prelude::*;
use std::net::IpAddr;

/// Few values, so that rules overlap and packets match.
fn address(v6: bool) -> impl Strategy<Value = IpAddr> {
    (prop::sample::select(vec![0u8, 1, 10, 128, 255]), any::<[u8; 2]>(), 0u8..4).prop_map(move |(a, b, c)| {
        if v6 {
            let mut bytes = [0u8; 16];
            (bytes[0], bytes[5], bytes[9], bytes[15]) = (a, b[0] & 3, b[1] & 1, c);
            IpAddr::from(bytes)
        } else {
            IpAddr::from([a, b[0] & 3, b[1] & 1, c])
        }
    })
}

fn prefix(v6: bool) -> impl Strategy<Value = Option<Prefix>> {
    let longest = if v6 { 128u8 } else { 32 };
    prop::option::of((address(v6), 0..=longest).prop_map(|(address, length)| Prefix { address, length }))
}

fn range() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![
        Just((0, u16::MAX)),
        (0u16..20).prop_map(|p| (p, p)),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| (a.min(b), a.max(b))),
        (0u16..20, 65_530u16..).prop_map(|(a, b)| (a, b)),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let prefixes = any::<bool>().prop_flat_map(|v6| (prefix(v6), prefix(v6)));
    let protocol = prop::option::of(prop::sample::select(vec![0u8, 6, 17, 255]));
    (prefixes, range(), range(), protocol, prop::option::of(0u8..2)).prop_map(
        |((source, destination), first, second, protocol, from)| Rule {
            name: String::new(),
            action: Action::Accept,
            from,
            protocol,
            source,
            destination,
            first,
            second,
        },
    )
}

fn view<const W: usize>() -> impl Strategy<Value = View<W>> {
    let ports = (prop_oneof![0u32..20, 0u32..65536], prop_oneof![0u32..20, 0u32..65536]);
    let protocol = prop::sample::select(vec![0u8, 6, 17, 255]);
    (address(W == 8), address(W == 8), ports, protocol, 0u32..2).prop_map(
        |(a, b, (s, d), protocol, ingress)| {
            let (a, b) = (Family::<W>::words(a).expect("family"), Family::<W>::words(b).expect("family"));
            let mut addresses = [0; W];
            addresses[..W / 2].copy_from_slice(&a[..W / 2]);
            addresses[W / 2..].copy_from_slice(&b[..W / 2]);
            View { addresses, ports: (s << 16) | d, kind: kind(protocol, ingress) }
        },
    )
}

fn agree<const W: usize, const C: usize>(rules: &[Rule], views: &[View<W>]) -> Result<usize, TestCaseError> {
    let concerned: Vec<Rule> = rules.iter().filter(|rule| rule.concerns::<W>()).cloned().collect();
    let linear = (concerned.len() <= linear::MAX_RULES).then(|| LinearRules::<W>::new(&concerned));
    let vectors = BitVectorRules::<W, C>::new(&concerned).expect("memory");
    let set = FamilyRules::<W, C>::new(rules, 10).expect("memory");
    let mut matches = 0;
    for view in views {
        let place = concerned.iter().position(|rule| rule.matches(view)).unwrap_or(concerned.len());
        if let Some(linear) = &linear {
            prop_assert_eq!(linear.find(view), place);
        }
        prop_assert_eq!(vectors.find(view), place);
        let number = rules.iter().position(|rule| rule.concerns::<W>() && rule.matches(view));
        prop_assert_eq!(set.find(view), number.unwrap_or(rules.len()));
        matches += usize::from(place < concerned.len());
    }
    Ok(matches)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn few_rules(rules in prop::collection::vec(rule(), 0..80), v4 in prop::collection::vec(view::<2>(), 60),
                 v6 in prop::collection::vec(view::<8>(), 60)) {
        agree::<2, 7>(&rules, &v4)?;
        agree::<8, 19>(&rules, &v6)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn many_rules(rules in prop::collection::vec(rule(), 65..400), v4 in prop::collection::vec(view::<2>(), 200),
                  v6 in prop::collection::vec(view::<8>(), 200)) {
        agree::<2, 7>(&rules, &v4)?;
        agree::<8, 19>(&rules, &v6)?;
    }
}

#[test]
fn the_tests_do_match() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut make =
        |count: usize| prop::collection::vec(rule(), count).new_tree(&mut runner).expect("rules").current();
    let rules = make(30);
    let views = prop::collection::vec(view::<2>(), 500);
    let views = views.new_tree(&mut TestRunner::deterministic()).expect("views").current();
    let matches = agree::<2, 7>(&rules, &views).expect("agreement");
    assert!((50..450).contains(&matches), "{matches} of 500 match: too few or too many to tell anything");
}

#[test]
fn the_most_rules_have_room() {
    // Every rule is a class of its own in most chunks.
    let rule = |n: u32| Rule {
        name: String::new(),
        action: Action::Accept,
        from: None,
        protocol: Some(6),
        source: Some(Prefix { address: IpAddr::from(((n * 7919) << 12).to_be_bytes()), length: 32 }),
        destination: Some(Prefix { address: IpAddr::from((n * 104_729).to_be_bytes()), length: 32 }),
        first: (n as u16 * 3, n as u16 * 3 + 40),
        second: (n as u16, n as u16 + 9),
    };
    let rules: Vec<Rule> = (0..4096).map(rule).collect();
    let set = Rules4::new(&rules, 64).expect("memory");
    for n in (0..4096u32).step_by(5) {
        let addresses =
            [((n * 7919) << 12).to_be_bytes(), (n * 104_729).to_be_bytes()].map(u32::from_le_bytes);
        let view = View { addresses, ports: ((n * 3) << 16) | n, kind: kind(6, 1) };
        let expected = rules.iter().position(|rule| rule.matches(&view));
        assert_eq!(Some(set.find(&view)), expected);
        assert_eq!(Some(n as usize), expected);
        assert_eq!(set.find(&View { kind: kind(17, 1), ..view }), 4096);
    }
    assert_eq!(
        Rules6::new(&rules, 64).expect("memory").find(&View { addresses: [0; 8], ports: 0, kind: 0 }),
        4096
    );
}
