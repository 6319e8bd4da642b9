//! ISC's DHCP server gives devices and interfaces their addresses: on a link, inside of the kernel's VXLAN,
//! and as members of a security group.

use crate::{LIMIT, Product, peer};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use testbed::{Background, CLIENT, Line, Namespace, SERVER as FAR, isolated};

const DEVICE: &str = "superfluid: 1
ports: {lan: {type: af_packet, interface: sf-lan}}
devices:
  edge: {mode: direct, over: [lan], dhcp: true, mac: '02:00:00:00:00:09'}
functions:
  core: {image: router, attach: {a: edge}, config: {interfaces: [{name: a}]}}
";

const SERVER: &str = "authoritative;
default-lease-time 120;
max-lease-time 120;
subnet 10.83.0.0 netmask 255.255.255.0 { range 10.83.0.50 10.83.0.60; option routers 10.83.0.1; }
";

/// The server at an interface of a host, if it is installed.
fn serve(host: &Namespace, folder: &std::path::Path, settings: &str, interface: &str) -> Option<Background> {
    let (file, leases) = (folder.join("dhcpd.conf"), folder.join("leases"));
    fs::write(&file, settings).expect("written");
    fs::write(&leases, "").expect("written");
    let mut command = host.command("dhcpd");
    command.args(["-4", "-f", "-d", "--no-pid", "-cf"]).arg(&file).arg("-lf").arg(&leases).arg(interface);
    peer(&mut command, "isc-dhcp-server")
}

#[test]
#[ignore = "make peers"]
fn a_device_gets_its_address_and_gives_it_back() {
    isolated("dhcp::a_device_gets_its_address_and_gives_it_back", || {
        let line = Line::new().expect("a line");
        let folder = tempfile::tempdir().expect("a folder");
        let leases = folder.path().join("leases");
        let Some(mut server) = serve(&line.client, folder.path(), SERVER, "eth0") else { return };
        let mut product = Product::start(&line, DEVICE);
        let read = || fs::read_to_string(&leases).expect("the leases");
        product.until("a lease", || read().contains("hardware ethernet 02:00:00:00:00:09"));
        let lease = read();
        let own = lease.split("\nlease ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
        assert!(own.starts_with("10.83.0.5") || own == "10.83.0.60", "{lease}");
        product.until_done(&line.client, &format!("ping -c 1 -W 1 {own}"));
        let known = line.client.run(&format!("ip neigh show {own}"), LIMIT).expect("the neighbours").stdout;
        assert!(known.contains("02:00:00:00:00:09"), "{known}");
        product.end();
        assert!(server.is_running());
        let begin = std::time::Instant::now();
        // Written as another entry with the same address, which is free then.
        while !read().rsplit("\nlease ").next().is_some_and(|last| last.contains("binding state free")) {
            assert!(begin.elapsed() < LIMIT / 2, "it is not given back: {}", server.finish().1);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
}

const IN_TUNNEL: &str = "superfluid: 1
ports: {lan: {type: af_packet, interface: sf-lan}}
devices:
  edge:
    mode: direct
    addresses: [192.0.2.1/24]
    over: {lan: {decapsulate: [vxlan], encapsulate: [{vxlan: {vni: 7, local: 192.0.2.1, remote: 192.0.2.2}}]}}
functions:
  core: {image: router, attach: {a: {to: edge, dhcp: true, mac: '02:00:00:00:00:09'}}, config: {interfaces: [{name: a}]}}
";

#[test]
#[ignore = "make peers"]
fn an_interface_gets_its_address_inside_of_a_tunnel() {
    isolated("dhcp::an_interface_gets_its_address_inside_of_a_tunnel", || {
        let line = Line::new().expect("a line");
        for words in [
            "addr flush dev eth0".to_owned(),
            "addr add 192.0.2.2/24 dev eth0".to_owned(),
            "link add vxlan7 type vxlan id 7 local 192.0.2.2 remote 192.0.2.1 dstport 4789 dev eth0"
                .to_owned(),
            format!("addr add {CLIENT}/24 dev vxlan7"),
            "link set vxlan7 up".to_owned(),
        ] {
            line.client.ip(&words).expect("the kernel's VXLAN");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let Some(_server) = serve(&line.client, folder.path(), SERVER, "vxlan7") else { return };
        let mut product = Product::start(&line, IN_TUNNEL);
        let read = || fs::read_to_string(folder.path().join("leases")).expect("the leases");
        product.until("a lease", || read().contains("hardware ethernet 02:00:00:00:00:09"));
        let lease = read();
        let own = lease.split("\nlease ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
        product.until_done(&line.client, &format!("ping -c 1 -W 1 -I vxlan7 {own}"));
        product.end();
    });
}

const MEMBER: &str = "superfluid: 1
tenants: {default: {}, red: {}}
ports:
  lan: {type: af_packet, interface: sf-lan}
  other: {type: af_packet, interface: sf-other}
  wan: {type: af_packet, interface: sf-wan, tenant: red}
groups:
  web:
    tenant: red
    rules: [{direction: in, protocol: tcp, ports: '7000'}, {direction: in, from: {group: proxies}}, {direction: out}]
  proxies: {tenant: red}
devices:
  red: {mode: direct, over: [lan], tenant: red, addresses: [10.83.0.2/24], mac: '02:00:00:00:00:02', groups: [web], zone: 7}
  proxy: {mode: direct, over: [other], tenant: red, dhcp: true, groups: [proxies], zone: 7}
functions:
  gate: {image: monitor, tenant: red, attach: {left: red, right: wan}}
  idle: {image: monitor, tenant: red, attach: {left: proxy}}
";

/// Leases of 20 s of the address that the line's client has.
const OF_CLIENT: &str = "authoritative;
default-lease-time 20;
max-lease-time 20;
min-lease-time 20;
subnet 10.83.0.0 netmask 255.255.255.0 { range 10.83.0.1 10.83.0.1; }
";

fn answers(mut stream: &TcpStream) -> bool {
    let mut answer = [0; 4];
    stream.write_all(b"ping").and_then(|()| stream.read_exact(&mut answer)).is_ok()
}

#[test]
#[ignore = "make peers"]
fn a_member_counts_as_long_as_it_has_its_address() {
    isolated("dhcp::a_member_counts_as_long_as_it_has_its_address", || {
        let line = Line::new().expect("a line");
        line.server
            .ip(&format!("neigh replace {CLIENT} lladdr 02:00:00:00:00:01 dev eth0"))
            .expect("a neighbour");
        let other = Namespace::new().expect("a namespace");
        line.middle.join("sf-other", &other, "eth0").expect("a pair");
        other.ip("addr add 10.83.0.254/24 dev eth0").expect("an address");
        for port in [7000, 7001] {
            let listener = line.server.enter(|| TcpListener::bind((FAR, port)).expect("a free port"));
            thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    thread::spawn(move || {
                        let mut bytes = [0; 64];
                        while let Ok(count @ 1..) = stream.read(&mut bytes) {
                            if stream.write_all(&bytes[..count]).is_err() {
                                return;
                            }
                        }
                    });
                }
            });
        }
        let connect = |port: u16| {
            let to = std::net::SocketAddr::new(FAR.parse().expect("an address"), port);
            let stream =
                line.client.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(1)).ok())?;
            stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit");
            Some(stream)
        };
        let mut product = Product::start(&line, MEMBER);
        product.until("its own port", || connect(7000).is_some());
        assert!(connect(7001).is_none(), "no member has the client's address yet");
        let folder = tempfile::tempdir().expect("a folder");
        let Some(server) = serve(&other, folder.path(), OF_CLIENT, "eth0") else { return };
        let mut stream = None;
        product.until("the member's address counts", || {
            stream = connect(7001);
            stream.is_some()
        });
        let (stream, always) = (stream.expect("it is open"), connect(7000).expect("its own port"));
        assert!(answers(&stream) && answers(&always));
        server.finish();
        product.until("the lease has ended, and the connection with it", || !answers(&stream));
        assert!(connect(7001).is_none() && answers(&always));
        product.end();
    });
}
