//! Floods of suspicious packets.

use super::*;
use proptest::prelude::*;

proptest! {
    /// Whatever comes, the table and what is sent in a second are bounded.
    #[test]
    fn a_flood_is_bounded(
        ports in prop::collection::vec(any::<u16>(), 1..600), later in prop::collection::vec(0u64..20, 600),
    ) {
        let mut runner = ips("{rate: 10pps, burst: 5, max_connections: 8, resets: 2, block: 1s}");
        let mut now = 0;
        for (port, later) in ports.iter().zip(later) {
            now += later;
            suspicious(&mut runner, &request(*port, 1, 1), 1, at(now));
            prop_assert!(runner.function().connections.len() <= 8);
        }
        let most = 5 + now * 10 / 1000;
        prop_assert!(counted(&runner, "reset") <= most);
        prop_assert!(runner.host().emitted().len() as u64 <= 3 * most);
        prop_assert!(runner.host().log().len() as u64 <= 10 + now * 10 / 1000);
        let all = ["reset", "enough", "limited"].map(|name| counted(&runner, name)).iter().sum::<u64>();
        prop_assert_eq!(all, ports.len() as u64);
    }
}

#[test]
fn the_oldest_makes_room_and_time_ends_the_rest() {
    let mut runner = ips("{max_connections: 2, block: 5s}");
    for (port, when) in [(1, 0), (2, 1), (1, 2), (3, 3)] {
        suspicious(&mut runner, &request(port, 1, 1), 1, at(when));
    }
    assert_eq!(counted(&runner, "connections-displaced"), 1);
    assert_eq!(passing(&mut runner, &request(2, 1, 1), INSIDE, at(4)), Verdict::Interface(OUTSIDE));
    assert_eq!(passing(&mut runner, &request(1, 1, 1), INSIDE, at(4)), Verdict::Drop(0));
    suspicious(&mut runner, &request(9, 1, 1), 1, at(6000));
    assert_eq!(runner.function().connections.len(), 1);
    assert_eq!(counted(&runner, "connections-ended"), 2);
}

#[test]
fn without_a_buffer_nothing_is_sent() {
    let mut runner = ips("{}");
    runner.refuse_packets(true);
    suspicious(&mut runner, &request(1, 1, 1), 1, at(0));
    assert_eq!((counted(&runner, "unsent"), counted(&runner, "resets-sent")), (3, 0));
}

/// Others whose time is over are forgotten first, a few at a time.
#[test]
fn a_new_connection_of_the_same_ends_is_ended_too() {
    let mut runner = ips("{resets: 1, block: 5s}");
    for port in 1..=9 {
        suspicious(&mut runner, &request(port, 1, 1), 1, at(0));
    }
    suspicious(&mut runner, &request(9, 1, 1), 1, at(6000));
    assert_eq!((counted(&runner, "reset"), counted(&runner, "enough")), (10, 0));
    assert_eq!((counted(&runner, "connections-added"), counted(&runner, "connections-ended")), (10, 5));
}
