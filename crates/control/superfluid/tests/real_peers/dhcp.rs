//! ISC's DHCP server gives a device its address.

use crate::{LIMIT, Product, peer};
use std::fs;
use testbed::{Line, isolated};

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

#[test]
#[ignore = "make peers"]
fn a_device_gets_its_address_and_gives_it_back() {
    isolated("dhcp::a_device_gets_its_address_and_gives_it_back", || {
        let line = Line::new().expect("a line");
        let folder = tempfile::tempdir().expect("a folder");
        let (file, leases) = (folder.path().join("dhcpd.conf"), folder.path().join("leases"));
        fs::write(&file, SERVER).expect("written");
        fs::write(&leases, "").expect("written");
        let mut command = line.client.command("dhcpd");
        command.args(["-4", "-f", "-d", "--no-pid", "-cf"]).arg(&file).arg("-lf").arg(&leases).arg("eth0");
        let Some(mut server) = peer(&mut command, "isc-dhcp-server") else { return };
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
