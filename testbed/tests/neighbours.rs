//! The neighbours of a device beside real ones: the kernel's ARP, neighbour discovery and multicast snooping,
//! dnsmasq, radvd. The device's frames pass a TAP whose other end is the peer's `eth0`.

use neighbours::{AddressState, Device, DhcpState, Mac, Origin, Prefix, Resolution, Settings};
use packet_memory::{BufferSize, PageKind, Pool, PoolConfig};
use port::Port;
use port_tap::TapPort;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use telemetry::clock::{Clock, Nanos};
use testbed::{Background, CLIENT, Hosts, Namespace, SERVER, TestbedError, isolated};

const LIMIT: Duration = Duration::from_secs(10);
const MAC: Mac = [2, 0, 0, 0, 0, 9];

/// A device behind a TAP, driven by a thread of its own.
struct Station {
    hosts: Hosts,
    device: Arc<Mutex<Device>>,
    clock: Clock,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<TapPort>>,
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn prefix(address: &str, length: u8) -> Prefix {
    Prefix { address: ip(address), length }
}

fn locked(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Station {
    /// The peer's `eth0` has [`CLIENT`], and IPv6 without detection of duplicates.
    fn new(settings: Settings) -> Station {
        let hosts = Hosts::around(Namespace::here().expect("the test's own")).expect("two hosts");
        hosts.client.enter(|| {
            for (key, value) in [("disable_ipv6", "0"), ("accept_dad", "0")] {
                for which in ["all", "default"] {
                    let path = format!("/proc/sys/net/ipv6/conf/{which}/{key}");
                    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
                }
            }
        });
        // The kernel leaves checksums to receivers otherwise, and a device is given complete packets.
        let tap = port_tap::Settings { offload: false, ..port_tap::Settings::new("tap-lan") };
        let mut port = TapPort::open(tap).expect("root may make devices");
        hosts.give_client("tap-lan").expect("it moves");
        let config = PoolConfig {
            buffers: 512,
            buffer_size: BufferSize::DEFAULT,
            headroom: 128,
            pages: Some(PageKind::Ordinary),
        };
        let pool = Pool::new("testbed", config).expect("a small pool");
        let (clock, stop) = (Clock::calibrate(), Arc::new(AtomicBool::new(false)));
        let device = Device::new(settings, 7, clock.now()).expect("allowed settings");
        let device = Arc::new(Mutex::new(device));
        let (inside, time, ended) = (device.clone(), clock, stop.clone());
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                turn(&mut locked(&inside), &mut port, &pool, time.now());
                thread::sleep(Duration::from_millis(1));
            }
            let mut device = locked(&inside);
            device.stop(time.now());
            turn(&mut device, &mut port, &pool, time.now());
            port
        });
        Station { hosts, device, clock, stop, thread: Some(thread) }
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        locked(&self.device)
    }

    /// The peer.
    fn peer(&self) -> &Namespace {
        &self.hosts.client
    }

    /// What a command of the peer prints.
    fn run(&self, line: &str) -> String {
        self.peer().run(line, LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout
    }

    /// Waits until something holds of the device.
    fn until(&self, what: &str, mut holds: impl FnMut(&mut Device, Nanos) -> bool) {
        let begin = Instant::now();
        while !holds(&mut self.device(), self.clock.now()) {
            assert!(begin.elapsed() < Duration::from_secs(30), "{what}: {:?}", self.device());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until what a command of the peer prints is as wanted.
    fn until_peer(&self, line: &str, holds: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        loop {
            let output = self.run(line);
            if holds(&output) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "{line}: {output}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn until_valid(&self, count: usize) {
        let valid = |device: &mut Device, _| {
            device.addresses().filter(|own| own.state == AddressState::Valid).count() == count
        };
        self.until("its addresses are valid", valid);
    }

    /// The device asks, and the peer answers with the address of its `eth0`.
    fn finds(&self, address: &str) {
        let shown = self.run("ip -oneline link show eth0");
        let mac =
            shown.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
        let mac: Vec<u8> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect();
        let mac = Mac::try_from(mac).expect("six bytes");
        self.until("the peer is found", |device, now| {
            device.resolve(ip(address), now) == Resolution::Known(mac)
        });
    }

    fn pings(&self, address: &str) {
        let output = self.run(&format!("ping -c 5 -i 0.2 -W 2 {address}"));
        assert!(output.contains(" 0% packet loss"), "{output}");
    }

    /// Ends the device in order; the peer's interface goes with what is returned.
    fn end(&mut self) -> TapPort {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it ends well")
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in there has been shown.
            let _ = thread.join();
        }
    }
}

/// Frames in, what is due, frames out.
fn turn(device: &mut Device, port: &mut TapPort, pool: &Pool, now: Nanos) {
    let mut packets = Vec::new();
    port.receive(pool, now, 64, &mut packets);
    for packet in packets.drain(..) {
        device.input(&pool.to_vec(&packet), now);
        pool.free(packet);
    }
    device.poll(now);
    while let Some(frame) = device.next_frame() {
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, &frame).expect("it fits");
        packets.push(packet);
    }
    port.transmit(pool, now, &mut packets);
}

/// Starts a program beside the peer; says so and gives none when it is not installed.
fn started(station: &Station, program: &str, package: &str, arguments: &[&str]) -> Option<Background> {
    match Background::start(station.peer().command(program).args(arguments)) {
        Ok(running) => Some(running),
        Err(TestbedError::Missing { .. }) => {
            eprintln!("skipped: there is no {program} (Debian: {package})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_kernel_and_a_device_find_each_other() {
    isolated("the_kernel_and_a_device_find_each_other", || {
        let addresses = vec![prefix(SERVER, 24), prefix("2001:db8:83::2", 64)];
        let station =
            Station::new(Settings { addresses, router_advertisements: false, ..Settings::new(MAC) });
        station.peer().ip("addr add 2001:db8:83::1/64 dev eth0").expect("an address");
        station.until_valid(3);
        for address in [SERVER, "2001:db8:83::2"] {
            station.pings(address);
            let shown = station.run(&format!("ip neigh show {address}"));
            assert!(shown.contains("lladdr 02:00:00:00:00:09"), "{shown}");
        }
        station.finds(CLIENT);
        station.finds("2001:db8:83::1");
        // The kernel's own detection of duplicates finds the device.
        station.peer().enter(|| {
            std::fs::write("/proc/sys/net/ipv6/conf/eth0/accept_dad", "1").expect("it can be set");
            std::fs::write("/proc/sys/net/ipv6/conf/all/accept_dad", "1").expect("it can be set");
        });
        station.peer().ip("addr add 2001:db8:83::2/64 dev eth0").expect("an address");
        station.until_peer("ip -6 addr show dev eth0", |shown| shown.contains("dadfailed"));
        assert_eq!(station.device().addresses().filter(|own| own.state == AddressState::Valid).count(), 3);
    });
}

#[test]
fn an_address_that_the_kernel_has_is_a_duplicate() {
    isolated("an_address_that_the_kernel_has_is_a_duplicate", || {
        let addresses = vec![prefix(CLIENT, 24)];
        let station = Station::new(Settings { addresses, ipv6: false, ..Settings::new(MAC) });
        station.until("it is a duplicate", |device, _| {
            device.addresses().all(|own| own.state == AddressState::Duplicate)
        });
        let shown = station.run("ip neigh show");
        assert!(!shown.contains("02:00:00:00:00:09"), "{shown}");
    });
}

#[test]
fn dnsmasq_gives_an_address_and_takes_it_back() {
    isolated("dnsmasq_gives_an_address_and_takes_it_back", || {
        let mut station = Station::new(Settings { dhcp: true, ipv6: false, ..Settings::new(MAC) });
        let arguments = [
            "--no-daemon",
            "--conf-file=/dev/null",
            "--port=0",
            "--user=root",
            "--interface=eth0",
            "--bind-interfaces",
            "--dhcp-authoritative",
            "--leasefile-ro",
            "--dhcp-range=10.83.0.50,10.83.0.60,255.255.255.0,2m",
            "--dhcp-option=option:mtu,1400",
            "--log-dhcp",
            "--log-facility=-",
        ];
        let Some(dnsmasq) = started(&station, "dnsmasq", "dnsmasq-base", &arguments) else { return };
        station.until_valid(1);
        let own = *station.device().addresses().next().expect("the address");
        assert_eq!((own.origin, own.prefix.length), (Origin::Dhcp, 24));
        let lease = station.device().dhcp().expect("it is on");
        assert_eq!(lease.state, DhcpState::Bound);
        assert_eq!(station.device().mtu(), 1400);
        assert_eq!(station.device().routers().collect::<Vec<_>>(), [ip(CLIENT)]);
        station.pings(&own.prefix.address.to_string());
        station.finds(CLIENT);
        let port = station.end();
        // What was sent is read before the program ends.
        thread::sleep(Duration::from_millis(500));
        let (_, log) = dnsmasq.finish();
        drop(port);
        for message in ["DHCPDISCOVER", "DHCPOFFER", "DHCPREQUEST", "DHCPACK", "DHCPRELEASE"] {
            assert!(log.contains(message), "no {message}: {log}");
        }
    });
}

#[test]
fn radvd_brings_an_address_a_router_and_an_mtu() {
    isolated("radvd_brings_an_address_a_router_and_an_mtu", || {
        let station = Station::new(Settings::new(MAC));
        station.peer().ip("addr add 2001:db8:83::1/64 dev eth0").expect("an address");
        station.peer().enter(|| {
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").expect("it can be set");
        });
        let folder = tempfile::tempdir().expect("a folder");
        let (config, pid) = (folder.path().join("radvd.conf"), folder.path().join("pid"));
        let text =
            "interface eth0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvLinkMTU 1400;
            prefix 2001:db8:83::/64 { AdvOnLink on; AdvAutonomous on; }; };";
        std::fs::write(&config, text).expect("a file");
        let (config, pid) = (config.display().to_string(), pid.display().to_string());
        let arguments = ["-n", "-m", "stderr", "-C", &config, "-p", &pid];
        let Some(mut radvd) = started(&station, "radvd", "radvd", &arguments) else { return };
        station.until("an address of the prefix is valid", |device, _| {
            let made = |own: &&neighbours::Address| own.origin == Origin::Router;
            device.addresses().filter(made).any(|own| own.state == AddressState::Valid)
        });
        assert!(radvd.is_running());
        let router = station.device().routers().next().expect("a router");
        assert!(matches!(router, IpAddr::V6(address) if address.is_unicast_link_local()), "{router}");
        assert_eq!(station.device().mtu(), 1400);
        let made = "2001:db8:83::ff:fe00:9";
        assert!(station.device().addresses().any(|own| own.prefix.address == ip(made)));
        station.pings(made);
        station.finds("2001:db8:83::1");
        station.finds(&router.to_string());
    });
}

/// The kernel's bridge asks as a querier does, and lists at which of its ports which groups have members.
#[test]
fn a_bridge_that_snoops_sees_the_groups() {
    isolated("a_bridge_that_snoops_sees_the_groups", || {
        let addresses = vec![prefix(SERVER, 24)];
        let with = |multicast: &[&str]| Settings {
            addresses: addresses.clone(),
            multicast: multicast.iter().map(|text| ip(text)).collect(),
            ..Settings::new(MAC)
        };
        let station = Station::new(with(&["239.1.1.1", "ff05::7"]));
        let peer = station.peer();
        peer.ip("link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_igmp_version 3 mcast_mld_version 2")
            .expect("a bridge");
        peer.ip("addr flush dev eth0").expect("no addresses");
        peer.ip("link set eth0 master br0").expect("a port");
        peer.ip("link set br0 up").expect("it is up");
        peer.ip(&format!("addr add {CLIENT}/24 dev br0")).expect("an address");
        // It is silent for a while after it begins, and asks more often then: any report shows it the
        // members.
        station
            .until_peer("bridge mdb show", |shown| shown.contains("239.1.1.1") && shown.contains("ff05::7"));
        let now = station.clock.now();
        station.device().change(with(&["ff05::7"]), now).expect("allowed settings");
        station
            .until_peer("bridge mdb show", |shown| !shown.contains("239.1.1.1") && shown.contains("ff05::7"));
    });
}
