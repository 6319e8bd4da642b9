//! Stations on a clock of the tests, whose links are the tests' hands.

use super::station::Station;
use super::*;
use neighbours::{Mac, Prefix};
use std::net::{IpAddr, Ipv4Addr};
use virtual_device::NextHop;

const OWN: Mac = [2, 0, 0, 0, 0, 9];
const ADDRESS: [u8; 4] = [192, 0, 2, 9];
/// Both routers of the device, by their last byte.
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// A device whose tunnel leads to another network, with two routers.
struct Bench {
    station: Station,
    next_hop: Arc<NextHop>,
    now: Nanos,
}

fn router(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

fn mac(last: u8) -> Mac {
    [2, 0, 0, 0, 1, last]
}

/// An ARP reply of a router.
fn reply(last: u8) -> Vec<u8> {
    let (from, own) = (mac(last), router(last).octets());
    [&OWN[..], &from, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &from, &own, &OWN, &ADDRESS].concat()
}

impl Bench {
    fn new() -> Bench {
        let mut settings = Settings::new(OWN);
        settings.addresses = vec![Prefix { address: ADDRESS.into(), length: 24 }];
        settings.gateways = [FIRST, SECOND].map(|last| router(last).into()).into();
        let name = StationName { device: "edge".to_owned(), interface: None };
        let now = Nanos(1_000_000_000_000);
        let mut station = Station::new(&name, &settings, now).expect("allowed settings");
        let next_hop = Arc::new(NextHop::default());
        let remote: IpAddr = Ipv4Addr::new(198, 51, 100, 1).into();
        station.lead(Some(&BTreeMap::from([("nic".to_owned(), (remote, next_hop.clone()))])));
        Bench { station, next_hop, now }
    }

    /// Lets time pass in which these routers answer whatever they are asked; the next hop after it.
    fn pass(&mut self, seconds: u64, answering: &[u8]) -> Option<Mac> {
        for _ in 0..seconds * 10 {
            self.now = self.now.saturating_add(Nanos::from_millis(100));
            for last in answering {
                self.station.device.input(&reply(*last), self.now);
            }
            self.station.work(self.now);
        }
        self.next_hop.get()
    }
}

#[test]
fn a_tunnel_goes_by_the_first_router_that_answers() {
    let mut bench = Bench::new();
    // Some seconds for the address to be its own.
    assert_eq!(bench.pass(10, &[FIRST, SECOND]), Some(mac(FIRST)));
    let known = bench.station.device.neighbours().count();
    assert_eq!(known, 1, "the second is not asked for while the first answers");
    // It goes: what is known of it holds for 45 s and some tries.
    assert_eq!(bench.pass(120, &[SECOND]), Some(mac(SECOND)));
    // It is asked again now and then, and packets go by the other one all the time.
    for _ in 0..600 {
        bench.pass(1, &[SECOND]);
        assert_eq!(bench.next_hop.get(), Some(mac(SECOND)));
    }
    assert_eq!(bench.pass(60, &[FIRST, SECOND]), Some(mac(FIRST)), "it is back");
    assert_eq!(bench.pass(200, &[]), None);
}

#[test]
fn a_tunnel_whose_first_router_never_answers_goes_by_the_second() {
    let mut bench = Bench::new();
    assert_eq!(bench.pass(20, &[SECOND]), Some(mac(SECOND)));
}
