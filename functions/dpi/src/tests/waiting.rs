//! Rules that wait for more of a stream: what was compared in vain is not compared again with each segment,
//! and nothing is missed for it.

use super::frames::*;
use proptest::prelude::*;

/// A content and what is relative to it: its text, as options of a rule.
fn chain() -> impl Strategy<Value = String> {
    let word = || prop::sample::select(vec!["a", "b", "ab", "ba", "aab", "c"]);
    let relative = prop_oneof![
        (word(), 0u32..5, 1u32..6).prop_map(|(word, distance, more)| {
            format!("content:\"{word}\"; distance:{distance}; within:{}; ", more as usize + word.len())
        }),
        word().prop_map(|word| format!("content:\"{word}\"; distance:0; ")),
        (word(), 0u32..5, 1u32..6).prop_map(|(word, distance, more)| {
            format!("content:!\"{word}\"; distance:{distance}; within:{}; ", more as usize + word.len())
        }),
        (1u32..9).prop_map(|bytes| format!("isdataat:{bytes},relative; ")),
        (1u32..9).prop_map(|bytes| format!("isdataat:!{bytes},relative; ")),
        (0u32..4).prop_map(|offset| format!("byte_test:1,>,97,{offset},relative; ")),
        word().prop_map(|word| format!(
            "byte_jump:1,0,relative,multiplier 2; content:\"{word}\"; distance:-190; within:{}; ",
            word.len() + 3
        )),
    ];
    // A rule without a literal does not wait, and one of a byte is none.
    let first = prop::sample::select(vec!["ab", "ba", "aab", "bb"]);
    (first, prop::collection::vec(relative, 0..3))
        .prop_map(|(word, rest)| format!("content:\"{word}\"; {}", rest.concat()))
}

/// Whether the rule has alerted when a stream has come in these segments, and has ended.
fn alerts(rule: &str, data: &[u8], cuts: &[usize]) -> bool {
    let mut bench = Bench::new(rule, &[]);
    bench.handshake();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (data.len() + 1)).chain([data.len()]).collect();
    cuts.sort_unstable();
    let (mut at, mut sids) = (0, Vec::new());
    for cut in cuts {
        if cut > at {
            sids.extend(bench.client(at as u32, &data[at..cut]));
            at = cut;
        }
    }
    let end = tcp(CLIENT, SERVER, flags::ACK | flags::FIN, 100 + data.len() as u32, 500, &[]);
    sids.extend(bench.sids(end));
    !sids.is_empty()
}

proptest! {
    #[test]
    fn a_rule_matches_a_stream_however_it_is_cut(
        chains in prop::collection::vec(chain(), 1..3),
        data in prop::collection::vec(prop::sample::select(b"aaabbc".to_vec()), 1..40),
        cuts in prop::collection::vec(0usize..40, 1..8),
    ) {
        let rule = format!("alert tcp any any -> any any ({}sid:1;)", chains.concat());
        let whole = alerts(&rule, &data, &[]);
        prop_assert_eq!(alerts(&rule, &data, &cuts), whole, "{}", rule);
    }
}

/// A content that is there many times, and what follows it never: each place is compared once.
#[test]
fn what_failed_is_not_compared_again_with_each_segment() {
    for rule in [
        "alert tcp any any -> any any (content:\"abcd\"; byte_test:1,>,200,0,relative; sid:1;)",
        "alert tcp any any -> any any (content:\"abcd\"; content:\"#\"; distance:1; within:1; pcre:\"/xyz\\d/\"; sid:1;)",
    ] {
        let mut bench = Bench::new(rule, &[]);
        bench.handshake();
        let unit = b"abcd....".repeat(16);
        for n in 0..400 {
            assert_eq!(bench.client((n * unit.len()) as u32, &unit), NONE);
        }
        assert_eq!(bench.count("overloads"), 0, "{rule}");
        let last = [&unit[..], b"abcd\xff#xyz7"].concat();
        assert_eq!(bench.client((400 * unit.len()) as u32, &last), [1], "{rule}");
    }
}
