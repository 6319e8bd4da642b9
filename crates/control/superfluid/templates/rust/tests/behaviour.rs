//! The function natively: what it decides, packet by packet.

use CRATE::Function;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};

fn function(longest: i64) -> Runner<Function> {
    let config = ConfigValue::map([("longest", ConfigValue::Integer(longest))]);
    Runner::new(&config.to_cbor()).expect("it takes this configuration")
}

#[test]
fn what_is_too_long_is_dropped_and_the_rest_passes() {
    let mut function = function(500);
    let packets = [
        TestPacket::new(vec![0; 60], 0),
        TestPacket::new(vec![0; 501], 0),
        TestPacket::new(vec![0; 500], 1),
    ];
    let outcomes = function.run(&packets, Nanos::from_secs(1));
    let verdicts: Vec<_> = outcomes.iter().map(|outcome| outcome.verdict).collect();
    let expected = [Verdict::Interface(1), Verdict::Drop(0), Verdict::Interface(0)];
    assert_eq!(verdicts, expected.map(Some));
    assert_eq!(function.host().counter(0), 2);
}
