//! What the comparisons with other programs stand on: the kernel's own sender, and the line that it sends
//! into.

use packet_memory::{Pool, PoolConfig};
use peers::{Cores, Flood, IN, OUT, VethLine};
use port::Port;
use port_af_packet::{AfPacketPort, Settings};
use std::sync::Arc;
use testbed::Relay;

/// Runs `body` in namespaces of its own. BPF is for the host's root alone: for any other user the test is
/// whether the sender says so.
fn privileged(test: &str, body: impl FnOnce(&VethLine, Cores)) {
    testbed::isolated(test, || {
        let map = std::fs::read_to_string("/proc/self/uid_map").expect("a map of users");
        let (line, cores) = (VethLine::new().expect("a line"), Cores::find().expect("two processors"));
        if map.split_whitespace().eq(["0", "0", "4294967295"]) {
            return body(&line, cores);
        }
        let refused = Flood::during(&line, cores, || ()).expect_err("not for other users").to_string();
        assert!(refused.contains("priority") || refused.contains("CAP_BPF"), "{refused}");
    });
}

#[test]
fn every_frame_of_a_flood_is_offered() {
    privileged("every_frame_of_a_flood_is_offered", |line, cores| {
        let before = line.offered().expect("a counter");
        let (flood, ()) = Flood::during(line, cores, || ()).expect("a flood");
        assert_eq!(line.offered().expect("a counter") - before, flood.frames);
        assert!(flood.rate() > 0.0);
        assert_eq!(line.delivered().expect("a counter"), 0, "nothing forwards");
    });
}

#[test]
fn what_a_relay_delivers_arrives_at_the_far_end() {
    privileged("what_a_relay_delivers_arrives_at_the_far_end", |line, cores| {
        let pool = Arc::new(
            Pool::new("peers", PoolConfig { buffers: 1024, ..PoolConfig::default() }).expect("a pool"),
        );
        let ports = line.device.enter(|| {
            [IN, OUT].map(|name| -> Box<dyn Port> {
                Box::new(AfPacketPort::open(Settings::new(name)).expect("an interface"))
            })
        });
        let relay = Relay::between(pool, ports).start();
        let (flood, ()) = Flood::during(line, cores, || ()).expect("a flood");
        let account = relay.stop();
        let sent = account.ports[1].ledger.delivered;
        assert!(sent > 0, "{account:?}");
        assert_eq!(line.delivered().expect("a counter"), sent);
        let taken = account.ports[0].ledger.received + account.ports[0].kernel_lost;
        assert!(taken <= flood.frames && taken >= sent, "{account:?}");
    });
}
