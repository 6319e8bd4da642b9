//! Stations on a clock of the tests, whose links are the tests' hands.

use super::claims::OfGuest;
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

/// Two functions that open one station, of tenants called `greedy` and `modest`.
struct Shared {
    state: State,
    now: Nanos,
}

fn station_name() -> StationName {
    StationName { device: "edge".to_owned(), interface: None }
}

fn asks(addresses: impl Iterator<Item = u32>, interface: u16) -> Vec<Ask> {
    addresses.map(|n| Ask { interface, address: Ipv4Addr::from(n).into() }).collect()
}

/// Addresses on the link of the station.
fn on_link(from: u32, count: u32) -> impl Iterator<Item = u32> {
    (from..from + count).map(|n| u32::from(Ipv4Addr::new(10, 1, 0, 0)) + n)
}

impl Shared {
    fn new() -> Shared {
        let mut settings = Settings::new(OWN);
        settings.addresses = vec![Prefix { address: Ipv4Addr::new(10, 0, 0, 1).into(), length: 8 }];
        settings.ipv6 = false;
        let now = Nanos(1_000_000_000_000);
        let mut state = State::default();
        let station = Station::new(&station_name(), &settings, now).expect("allowed settings");
        state.stations.insert(station_name(), station);
        for (name, id) in ["greedy", "modest"].into_iter().zip(crate::tests::two_instances()) {
            let mut feed = Feed::new(Reader::Function(id), name);
            feed.interfaces = vec![Some(station_name())];
            state.feeds.insert(name.to_owned(), feed);
        }
        state.tenants.follow(&["greedy", "modest"].into());
        let mut shared = Shared { state, now };
        // Until its address is its own.
        for _ in 0..200 {
            shared.pass(100);
        }
        shared.told();
        shared
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.saturating_add(Nanos::from_millis(ms));
        self.state.work(&mut VecDeque::new(), self.now);
    }

    fn ask(&mut self, function: &str, asks: Vec<Ask>) {
        let mut asked = VecDeque::from([(function.to_owned(), asks)]);
        while !asked.is_empty() {
            self.state.work(&mut asked, self.now);
        }
    }

    fn known(&self, tenant: &str) -> usize {
        let asker = self.state.tenants.by_name[tenant].asker;
        self.state.stations[&station_name()].device.neighbours_of(asker).count()
    }

    /// Which functions are told something, and how many entries.
    fn told(&mut self) -> Vec<(String, usize)> {
        let (told, _) = self.state.changed(self.now);
        let name = |reader: &Reader| {
            let feed = self.state.feeds.iter().find(|(_, feed)| feed.reader == *reader);
            feed.map(|(name, _)| name.clone()).unwrap_or_default()
        };
        told.iter().map(|(reader, entries)| (name(reader), entries.len() / DEVICE_ENTRY)).collect()
    }
}

#[test]
fn a_tenant_asks_no_faster_than_its_rate_and_another_one_is_told_at_once() {
    let mut shared = Shared::new();
    let mut next = 0;
    // For ten seconds, 256 addresses in a millisecond.
    for _ in 0..10_000 {
        shared.ask("greedy", asks(on_link(next, 256), 0));
        next += 256;
        shared.pass(1);
    }
    let table = &shared.state.stations[&station_name()].device;
    // Each of its asks was for an address of its own: those that are there no more gave way, or did not
    // answer.
    let asked = table.neighbours_count() as u64 + table.counters().evicted;
    assert!(asked <= 4_096 + 10 * 2_000 + 1, "{asked} asks were worked off");
    assert_eq!(shared.known("greedy"), 1024);
    shared.told();
    shared.ask("modest", asks(on_link(1 << 16, 100), 0));
    assert_eq!((shared.known("greedy"), shared.known("modest")), (924, 100));
    let told = shared.told();
    assert!(
        told.contains(&("modest".to_owned(), 102)),
        "its interface, its address and what it asked for: {told:?}"
    );
}

#[test]
fn what_one_asks_for_is_no_news_for_another() {
    let mut shared = Shared::new();
    shared.ask("greedy", asks(on_link(0, 10), 0));
    assert_eq!(shared.told(), [("greedy".to_owned(), 12)]);
    shared.ask("modest", asks(on_link(5, 1), 0));
    assert_eq!(shared.told(), [("modest".to_owned(), 3)]);
    // Neither answers: both are told that.
    (0..50).for_each(|_| shared.pass(100));
    let mut told = shared.told();
    told.sort();
    assert_eq!(told, [("greedy".to_owned(), 12), ("modest".to_owned(), 3)]);
}

#[test]
fn a_tenant_is_told_no_more_than_its_part() {
    let mut shared = Shared::new();
    let (mut next, mut told) = (0, 0);
    // What it is told changes each millisecond, and is up to 1,026 entries long.
    for _ in 0..3_000 {
        shared.ask("greedy", asks(on_link(next, 10), 0));
        next += 10;
        shared.pass(1);
        told += shared.told().iter().map(|(_, entries)| *entries).sum::<usize>();
    }
    assert!(told <= 65_536 + 3 * 200_000 + 1_026, "{told} entries");
    let pace = shared.state.tenants.by_name["greedy"].told.ready();
    shared.state.tenants.by_name.get_mut("greedy").expect("it is there").told.spend(200_000, shared.now);
    shared.ask("greedy", asks(on_link(next, 10), 0));
    shared.ask("modest", asks(on_link(0, 1), 0));
    let (told, later) = shared.state.changed(shared.now);
    assert_eq!(told.len(), 1, "the other one does not wait for it");
    assert!(later > Some(shared.now) && later > Some(pace), "it is looked at again when it may be told more");
}

#[test]
fn places_for_addresses_on_no_network_are_shared_too() {
    let mut shared = Shared::new();
    let elsewhere =
        |from: u32, count: u32| (from..from + count).map(|n| u32::from(Ipv4Addr::new(172, 16, 0, 0)) + n);
    shared.ask("greedy", asks(elsewhere(0, 1_000), 0));
    shared.ask("modest", asks(elsewhere(10_000, 100), 0));
    let off_link = |shared: &Shared, tenant: &str| {
        let asker = shared.state.tenants.by_name[tenant].asker;
        shared.state.stations[&station_name()].off_link.of(asker).count()
    };
    assert_eq!((off_link(&shared, "greedy"), off_link(&shared, "modest")), (156, 100));
    shared.ask("modest", asks(elsewhere(20_000, 1_000), 0));
    assert_eq!((off_link(&shared, "greedy"), off_link(&shared, "modest")), (128, 128));
    shared.told();
    (0..201).for_each(|_| shared.pass(100));
    assert_eq!((off_link(&shared, "greedy"), off_link(&shared, "modest")), (0, 0));
    assert_eq!(shared.told().len(), 2);
}

#[test]
fn asks_of_functions_wait_beside_each_other() {
    let waiting = Asks::default();
    let many = |n| vec![Ask { interface: 0, address: Ipv4Addr::LOCALHOST.into() }; n];
    for _ in 0..10_000 {
        waiting.put("greedy".to_owned(), many(256));
    }
    waiting.put("modest".to_owned(), many(3));
    let taken: HashMap<_, _> = waiting.take().into_iter().map(|(name, asks)| (name, asks.len())).collect();
    assert_eq!(taken, [("greedy".to_owned(), 256), ("modest".to_owned(), 3)].into());
    assert!(waiting.take().is_empty());
}

#[test]
fn frames_are_counted_by_what_became_of_them() {
    let mut bench = Bench::new();
    bench.pass(10, &[FIRST]);
    let before = bench.station.frames();
    assert!(before.received > 0 && before.sent > 0, "{before:?}");
    let reasons: Vec<&str> = before.dropped.keys().copied().collect();
    let all = ["address", "checksum", "hop-limit", "limited", "malformed", "missed", "unanswered", "unsent"];
    assert_eq!(reasons, all);
    bench.station.device.input(&reply(FIRST)[..20], bench.now);
    bench.station.device.input(&[0; 60], bench.now);
    let after = bench.station.frames();
    assert_eq!((after.received, after.ignored), (before.received + 2, before.ignored + 1));
    assert_eq!(after.dropped["malformed"], before.dropped["malformed"] + 1);
}

/// What a DHCP server tells the station in an exchange: an offer (2) or an acknowledgement (5) of an address
/// for 120 s.
fn from_server(kind: u8, exchange: u32) -> Vec<u8> {
    let server = router(FIRST).octets();
    let mut message = vec![2, 1, 6, 0];
    message.extend(exchange.to_be_bytes());
    message.extend([0; 8]);
    message.extend(LEASED);
    message.extend([0; 8]);
    message.extend(OWN);
    message.extend([0; 10 + 64 + 128]);
    message.extend([0x63, 0x82, 0x53, 0x63, 53, 1, kind, 54, 4]);
    message.extend(server);
    message.extend([1, 4, 255, 255, 255, 0, 51, 4, 0, 0, 0, 120, 255]);
    let length = |bytes: usize| u16::try_from(bytes).expect("short").to_be_bytes();
    let mut header = vec![0x45, 0];
    header.extend(length(28 + message.len()));
    header.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    header.extend(server);
    header.extend(LEASED);
    let words = header.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = [&[0, 67, 0, 68][..], &length(8 + message.len()), &[0, 0]].concat();
    [&OWN[..], &mac(FIRST), &[8, 0], &header, &udp, &message].concat()
}

const LEASED: [u8; 4] = [192, 0, 2, 77];

/// A guard of the device `edge`, whose list 7 has the device `other`, which gets its address by DHCP.
fn guarded() -> Shared {
    let mut shared = Shared::new();
    let other = StationName { device: "other".to_owned(), interface: None };
    let settings = Settings { dhcp: true, ipv6: false, ..Settings::new(OWN) };
    let station = Station::new(&other, &settings, shared.now).expect("allowed settings");
    shared.state.stations.insert(other.clone(), station);
    let guard = shared.state.feeds.get_mut("modest").expect("a function");
    guard.interfaces = vec![None, Some(station_name())];
    guard.members = vec![(7, other)];
    shared.told();
    shared
}

impl Shared {
    /// What the guard is told that members have learned, if it is told anything.
    fn learned(&mut self) -> Option<Vec<(u32, IpAddr)>> {
        let reader = self.state.feeds["modest"].reader.clone();
        let (told, _) = self.state.changed(self.now);
        let (_, entries) = told.into_iter().find(|(of, _)| *of == reader)?;
        let entries = entries.as_chunks::<DEVICE_ENTRY>().0.iter().filter_map(nf_abi::DeviceEntry::decode);
        let members = entries.filter_map(|entry| match entry {
            nf_abi::DeviceEntry::Member { list, address } => Some((list, address)),
            _ => None,
        });
        Some(members.collect())
    }

    fn serve(&mut self, kind: u8) {
        let other = StationName { device: "other".to_owned(), interface: None };
        let device = &mut self.state.stations.get_mut(&other).expect("it is there").device;
        let exchange = device.awaited_exchange().expect("it has asked");
        device.input(&from_server(kind, exchange), self.now);
    }
}

#[test]
fn a_guard_is_told_what_members_have_by_dhcp_as_long_as_they_have_it() {
    let mut shared = guarded();
    (0..50).for_each(|_| shared.pass(100));
    assert_eq!(shared.learned(), None, "nothing is learned yet");
    shared.serve(2);
    shared.pass(100);
    shared.serve(5);
    shared.pass(100);
    assert_eq!(shared.learned(), None, "the address may be another station's yet");
    (0..100).for_each(|_| shared.pass(100));
    assert_eq!(shared.learned(), Some(vec![(7, LEASED.into())]));
    // Another list, of the same device.
    shared.state.feeds.get_mut("modest").expect("a function").members[0].0 = 8;
    assert_eq!(shared.learned(), Some(vec![(8, LEASED.into())]));
    // No server renews it.
    (0..600).for_each(|_| shared.pass(100));
    assert_eq!(shared.learned(), None);
    (0..700).for_each(|_| shared.pass(100));
    assert_eq!(shared.learned(), Some(vec![]), "the lease has ended");
}

#[test]
fn functions_that_are_no_guards_are_told_of_no_members() {
    let mut shared = guarded();
    shared.state.feeds.get_mut("modest").expect("a function").members.clear();
    (0..50).for_each(|_| shared.pass(100));
    shared.serve(2);
    shared.pass(100);
    shared.serve(5);
    (0..100).for_each(|_| shared.pass(100));
    assert_eq!(shared.learned(), None);
}

/// Two guarded devices, `one` behind `groups@one~gate:0` and `two`, with the list 7 of `watcher`'s guard;
/// both may form addresses in a network that is advertised.
fn forming() -> Shared {
    let mut shared = Shared::new();
    shared.state.stations.clear();
    for (name, last) in [("one", 1), ("two", 2)] {
        let name = StationName { device: name.to_owned(), interface: None };
        let mut settings = Settings::new([2, 0, 0, 0, 0, last]);
        settings.slaac = vec![network()];
        let mut station = Station::new(&name, &settings, shared.now).expect("allowed settings");
        station.zone = Some(7);
        shared.state.stations.insert(name, station);
    }
    shared.state.feeds.remove("greedy");
    let mut guard = shared.state.feeds.remove("modest").expect("a function");
    guard.interfaces = vec![None, Some(device("one"))];
    guard.members = vec![(7, device("one")), (8, device("two"))];
    shared.state.feeds.insert("groups@one~gate:0".to_owned(), guard);
    shared.advertise("2001:db8:7::");
    shared.advertise("2001:db8:66::");
    (0..50).for_each(|_| shared.pass(100));
    shared
}

fn device(name: &str) -> StationName {
    StationName { device: name.to_owned(), interface: None }
}

fn network() -> Prefix {
    Prefix { address: ip("2001:db8:7::"), length: 64 }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl Shared {
    /// A router advertises a network to both devices for a day.
    fn advertise(&mut self, network: &str) {
        let std::net::IpAddr::V6(network) = ip(network) else { panic!("of IPv6") };
        let from = ip("fe80::2");
        let all = ip("ff02::1");
        let (IpAddr::V6(from), IpAddr::V6(all)) = (from, all) else { panic!("of IPv6") };
        let day = 86_400u32.to_be_bytes();
        let mut message = vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 64, 0xc0];
        message.extend([day, day, [0; 4]].concat());
        message.extend(network.octets());
        let pseudo = [&from.octets()[..], &all.octets(), &[0, 0, 0, 48, 0, 0, 0, 58], &message].concat();
        let words = pseudo.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        message[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        let mut frame =
            vec![0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 9, 9, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 48, 58, 255];
        frame.extend([from.octets(), all.octets()].concat());
        frame.extend(message);
        for station in self.state.stations.values_mut() {
            assert_eq!(station.device.input(&frame, self.now), neighbours::Input::Taken);
        }
    }

    /// The guard of `one` tells of an address that its opener claims.
    fn claim(&mut self, address: &str) {
        self.ask("groups@one~gate:0", vec![Ask { interface: INSIDE, address: ip(address) }]);
        (0..30).for_each(|_| self.pass(100));
    }

    /// The addresses of a device that openers formed.
    fn formed(&self, name: &str) -> Vec<IpAddr> {
        let own = self.state.stations[&device(name)].device.addresses();
        own.filter(|own| own.origin == neighbours::Origin::Opener).map(|own| own.prefix.address).collect()
    }

    /// What the guard of `one` is told: its own addresses of the network, and members.
    fn told_to_guard(&mut self) -> (Vec<IpAddr>, Vec<(u32, IpAddr)>) {
        let (told, _) = self.state.changed(self.now);
        let (mut own, mut members) = (vec![], vec![]);
        for (_, entries) in told {
            for entry in entries.as_chunks::<DEVICE_ENTRY>().0.iter().filter_map(nf_abi::DeviceEntry::decode)
            {
                match entry {
                    nf_abi::DeviceEntry::Address { address, .. } if network().contains(address) => {
                        own.push(address)
                    }
                    nf_abi::DeviceEntry::Member { list, address } => members.push((list, address)),
                    _ => {}
                }
            }
        }
        (own, members)
    }
}

const OF_ONE: &str = "2001:db8:7::ff:fe00:1";
const OF_TWO: &str = "2001:db8:7::ff:fe00:2";

#[test]
fn addresses_that_are_formed_where_they_may_be_count_as_members() {
    let mut shared = forming();
    // Each device forms an address of both networks; one of a router that no guard was told of is no member.
    let stable = [(7, ip(OF_ONE)), (8, ip(OF_TWO))];
    assert_eq!(shared.told_to_guard(), (vec![ip(OF_ONE)], stable.to_vec()));
    shared.claim("2001:db8:7::5");
    let own = vec![ip("2001:db8:7::5"), ip(OF_ONE)];
    assert_eq!(shared.told_to_guard(), (own, vec![(7, ip("2001:db8:7::5")), stable[0], stable[1]]));
    shared.claim("2001:db8:66::5");
    shared.claim("2001:db8:8::5");
    assert_eq!(shared.formed("one"), [ip("2001:db8:7::5")], "outside of the network");
    // A function that is no guard claims nothing.
    let guard = shared.state.feeds.remove("groups@one~gate:0").expect("a guard");
    shared.state.feeds.insert("mine".to_owned(), guard);
    shared.ask("mine", vec![Ask { interface: INSIDE, address: ip("2001:db8:7::6") }]);
    assert_eq!(shared.formed("one"), [ip("2001:db8:7::5")]);
}

#[test]
fn the_address_of_another_member_is_not_to_be_claimed() {
    let mut shared = forming();
    shared.claim(OF_TWO);
    assert!(shared.formed("one").is_empty());
    // One that it has by its own opener neither.
    let two = &mut shared.state.stations.get_mut(&device("two")).expect("it is there").device;
    let IpAddr::V6(address) = ip("2001:db8:7::7") else { panic!("of IPv6") };
    two.claim(address, || false, shared.now).expect("it may be");
    shared.claim("2001:db8:7::7");
    assert_eq!((shared.formed("one"), shared.formed("two")), (vec![], vec![ip("2001:db8:7::7")]));
    // In another zone, at another port, the same address is another's.
    shared.state.stations.get_mut(&device("two")).expect("it is there").zone = Some(8);
    shared.claim("2001:db8:7::7");
    assert_eq!(shared.formed("one"), [ip("2001:db8:7::7")]);
}

/// A guest's kernel hears no probe of another station of this host, and answers none.
#[test]
fn the_address_of_a_guest_that_answers_for_itself_is_not_to_be_claimed() {
    let mut shared = forming();
    let guest = |zone| OfGuest { addresses: vec![ip("2001:db8:7::9")], zone, ports: vec!["lan".to_owned()] };
    shared.state.guests = vec![guest(Some(7))];
    shared.claim("2001:db8:7::9");
    assert!(shared.formed("one").is_empty());
    let lan = ["lan".to_owned()];
    assert!(guest(None).is_beside(Some(7), &lan) && !guest(None).is_beside(None, &[]), "at the same port");
    // In another zone, at another port, the same address is another's.
    shared.state.guests = vec![guest(Some(8))];
    shared.claim("2001:db8:7::9");
    assert_eq!(shared.formed("one"), [ip("2001:db8:7::9")]);
    // One that comes to have it by the configuration has the better right.
    shared.state.guests = vec![guest(Some(7))];
    shared.state.compared = u64::MAX;
    shared.pass(1);
    assert!(shared.formed("one").is_empty());
}

#[test]
fn an_address_that_was_claimed_goes_to_the_station_that_it_is_meant_for() {
    let mut shared = forming();
    shared.claim("2001:db8:7::8");
    assert_eq!(shared.formed("one"), [ip("2001:db8:7::8")]);
    let mut settings = Settings::new([2, 0, 0, 0, 0, 2]);
    settings.addresses = vec![Prefix { address: ip("2001:db8:7::8"), length: 64 }];
    let two = shared.state.stations.get_mut(&device("two")).expect("it is there");
    two.change(&settings, shared.now).expect("allowed settings");
    shared.pass(1);
    assert!(shared.formed("one").is_empty());
}

#[test]
fn what_answers_for_itself_is_no_station_of_the_platforms() {
    let file = "superfluid: 1
ports: {lan: {type: af_packet, interface: lan}}
groups: {base: {}}
devices:
  d: {mode: direct, over: [lan], share: duplicate, addresses: [192.0.2.1/24], groups: [base], zone: 1}
functions:
  web:
    {guest: container, image: /a, memory: 16MiB, interfaces: {in: {addresses: [192.0.2.9/24]}}, attach: {in: d}}
  p:
    guest: program
    command: [/usr/bin/l2fwd]
    memory: 16MiB
    interfaces: {in: {as: memif}}
    attach: {in: {to: d, addresses: [192.0.2.8/24]}}
";
    let catalog = crate::Catalog::new(std::path::Path::new("."));
    let wiring = config::check("f.yaml", file, &catalog).expect("it is good").wiring;
    let names: Vec<String> = wanted(&wiring).keys().map(ToString::to_string).collect();
    assert_eq!(names, ["device `d`", "interface `p:0` at device `d`"]);
    let of_web = OfGuest { addresses: vec![ip("192.0.2.9")], zone: Some(1), ports: vec!["lan".to_owned()] };
    assert_eq!(claims::of_guests(&wiring), [of_web]);
    // The guard of the one is told what that is; the guard of the other is told nothing of the device's.
    let told: BTreeMap<String, Vec<Option<StationName>>> = feed::openers(&wiring).into_iter().collect();
    let told: Vec<_> = told.iter().map(|(guard, stations)| (guard.as_str(), &stations[1])).collect();
    let interface = Some(("p".to_owned(), 0));
    let [(guard, station)] = told[..] else { panic!("{told:?}") };
    assert!(guard.contains("p:in"), "{guard}");
    assert_eq!(*station, Some(StationName { device: "d".to_owned(), interface }));
}

#[test]
fn processes_at_a_port_are_told_and_ask_as_a_function_does() {
    let stations = Stations::new();
    let table = stations.table("p:in");
    assert!(Arc::ptr_eq(&table, &stations.table("p:in")), "the next port of the name has the same");
    let mut shared = Shared::new();
    // In the place of the one tenant's function there is its process.
    let mut feed = Feed::new(Reader::Port(table.clone()), "modest");
    feed.interfaces = vec![Some(station_name())];
    shared.state.feeds.remove("modest");
    shared.state.feeds.insert("p:in".to_owned(), feed);
    assert_eq!(shared.told(), [("p:in".to_owned(), 2)], "the interface and its address");
    // What it asks for comes to the same list as what functions ask for, and is bounded there.
    shared.ask("p:in", asks(on_link(0, 3), 0));
    shared.ask("p:in", asks(on_link(0, 3), 1));
    shared.pass(10);
    assert_eq!(shared.told(), [("p:in".to_owned(), 5)], "it has one interface");
    assert!(shared.known("greedy") == 0 && shared.known("modest") == 3, "they are its tenant's");
    drop(table);
    shared.state.feeds.clear();
    stations.table("other");
    assert_eq!(stations.shared.tables.lock().expect("no panic").len(), 1, "a port that is gone leaves none");
}

#[test]
fn processes_by_the_library_are_told_of_the_devices_that_they_open() {
    let file = "superfluid: 1
ports: {lan: {type: af_packet, interface: eth0}, wan: {type: af_packet, interface: eth1}, dmz: {type: af_packet, interface: eth2}}
groups: {base: {rules: []}}
devices:
  d: {mode: direct, over: [lan], addresses: [192.0.2.1/24]}
  e: {mode: direct, over: [wan], groups: [base], zone: 1}
  f: {mode: direct, over: [dmz]}
functions:
  r:
    guest: program
    command: [/usr/bin/r]
    memory: 16MiB
    interfaces: {a: {as: library}, b: {as: library}, c: {as: memif}}
    attach: {a: d, b: {to: e, addresses: [198.51.100.1/24]}, c: {to: f, addresses: [203.0.113.1/24]}}
";
    let catalog = crate::Catalog::new(std::path::Path::new("."));
    let wiring = config::check("f.yaml", file, &catalog).expect("it is good").wiring;
    let told: BTreeMap<String, Vec<Option<StationName>>> = feed::openers(&wiring).into_iter().collect();
    let at = |port: &str| told.get(port).cloned();
    let name = |device: &str, interface| Some(StationName { device: device.to_owned(), interface });
    assert_eq!(at("r:a"), Some(vec![name("d", None)]), "it is what the device is");
    // Behind its guard, which is told the same.
    let own = name("e", Some(("r".to_owned(), 1)));
    assert_eq!(at("r:b"), Some(vec![own.clone()]));
    assert!(told.iter().any(|(guard, stations)| guard.contains("r:b") && stations.get(1) == Some(&own)));
    assert_eq!(at("r:c"), None, "nothing is told by memif");
}
