//! Sets of addresses and ports, against sets that name every member.

use crate::rules::network::{Variables, addresses, ports};
use crate::rules::ranges::Ranges;
use proptest::prelude::*;
use std::collections::BTreeSet;

const LAST: u128 = 40;

fn pairs() -> impl Strategy<Value = Vec<(u128, u128)>> {
    prop::collection::vec((0..=LAST, 0..=LAST).prop_map(|(a, b)| (a.min(b), a.max(b))), 0..6)
}

fn both(pairs: &[(u128, u128)]) -> (Ranges, BTreeSet<u128>) {
    (
        Ranges::union(pairs.iter().map(|(first, last)| Ranges::one(*first, *last))),
        pairs.iter().flat_map(|(first, last)| *first..=*last).collect(),
    )
}

proptest! {
    #[test]
    fn sets_are_what_their_members_say(a in pairs(), b in pairs()) {
        let ((a, plain_a), (b, plain_b)) = (both(&a), both(&b));
        let (minus, not) = (a.minus(&b, LAST), a.complement(LAST));
        for number in 0..=LAST {
            prop_assert_eq!(a.contains(number), plain_a.contains(&number));
            prop_assert_eq!(minus.contains(number), plain_a.contains(&number) && !plain_b.contains(&number));
            prop_assert_eq!(not.contains(number), !plain_a.contains(&number));
        }
        prop_assert_eq!(a.is_empty(), plain_a.is_empty());
        prop_assert_eq!(a.is_all(LAST), plain_a.len() as u128 == LAST + 1);
        // One form for each set.
        prop_assert_eq!(not.complement(LAST), a);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-f:.,!\\[\\]$A-C/ -]{0,40}") {
        let variables = Variables::from([("A".into(), "[1,!2]".into()), ("B".into(), "[$B,$B]".into())]);
        for wrong in [addresses(text.as_bytes(), &variables).err(), ports(text.as_bytes(), &variables).err()].into_iter().flatten() {
            prop_assert!(wrong.0 <= text.len());
        }
    }
}

fn has(text: &str, port: u16) -> bool {
    let variables = Variables::from([("HTTP".into(), "[80,8000:8100]".into())]);
    ports(text.as_bytes(), &variables).unwrap_or_else(|error| panic!("{text}: {error:?}")).contains(port)
}

#[test]
fn ports_of_every_form() {
    assert!(has("any", 0) && has("any", 65_535));
    assert!(has("80", 80) && !has("80", 81) && !has("!80", 80) && has("!80", 81));
    assert!(
        has("1024:", 1024)
            && has("1024:", 65_535)
            && !has("1024:", 1023)
            && has(":1023", 0)
            && !has(":1023", 1024)
    );
    assert!(has("[1:10,!5]", 4) && !has("[1:10,!5]", 5) && has("[!5]", 6) && !has("![1,[2,3]]", 3));
    assert!(has("$HTTP", 8050) && !has("!$HTTP", 80) && has("[22,$HTTP]", 22));
}

#[test]
fn addresses_of_every_form() {
    let variables = Variables::from([("HOME".into(), "[10.0.0.0/8, 2001:db8::/32]".into())]);
    let has = |text: &str, address: &str| {
        let set = addresses(text.as_bytes(), &variables).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        set.contains(address.parse().expect("an address"))
    };
    assert!(has("any", "1.2.3.4") && has("any", "::1"));
    assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.0") && !has("10.0.0.0/8", "::1"));
    assert!(has("10.0.0.0/255.0.0.0", "10.1.1.1") && has("0.0.0.0/0", "255.255.255.255"));
    assert!(has("10.0.0.5-10.0.0.9", "10.0.0.9") && !has("10.0.0.5-10.0.0.9", "10.0.0.10"));
    assert!(has("$HOME", "2001:db8::1") && has("!$HOME", "::1") && !has("!$HOME", "10.0.0.1"));
    assert!(has("[$HOME,!10.1.0.0/16]", "10.2.0.1") && !has("[$HOME,!10.1.0.0/16]", "10.1.0.1"));
}
