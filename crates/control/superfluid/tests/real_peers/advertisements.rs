//! radvd advertises a network in which a host forms addresses of its own, behind a security group.

use crate::{LIMIT, Product, peer, set, shown};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;
use testbed::{Background, Line, Namespace, isolated};

/// A host of a tenant behind a device on the router's link, which forms its addresses.
const MEMBERS: &str = "superfluid: 1
tenants: {default: {}, red: {}}
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan, tenant: red}
groups:
  web: {tenant: red, rules: [{direction: in, protocol: tcp, ports: '7000'}, {direction: out}]}
devices:
  red: {mode: direct, over: [lan], tenant: red, slaac: ['2001:db8:7::/64'], mac: '02:00:00:00:00:02', groups: [web], zone: 7}
functions:
  gate: {image: monitor, tenant: red, attach: {left: red, right: wan}}
";

/// The network, for as long as the test takes, however often it is asked for.
const RADVD: &str = "interface eth0 {
  AdvSendAdvert on;
  MinRtrAdvInterval 3;
  MaxRtrAdvInterval 4;
  prefix 2001:db8:7::/64 { AdvPreferredLifetime 600; AdvValidLifetime 1200; };
  prefix 2001:db8:8::/64 { AdvPreferredLifetime 600; AdvValidLifetime 1200; };
};
";

/// The router at the client's interface, if it is installed.
fn advertise(host: &Namespace, folder: &Path) -> Option<Background> {
    let (file, pid) = (folder.join("radvd.conf"), folder.join("radvd.pid"));
    fs::write(&file, RADVD).expect("written");
    let mut command = host.command("radvd");
    command.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(&file).arg("--pidfile").arg(&pid);
    peer(&mut command, "radvd")
}

/// Answers connections of each host at these ports.
fn serve(server: &Namespace) {
    for port in [7000, 7001] {
        let listener = server.enter(|| TcpListener::bind(("::", port)).expect("a free port"));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = [0; 4];
                if stream.read_exact(&mut bytes).is_ok() {
                    // The client may have gone.
                    drop(stream.write_all(&bytes));
                }
            }
        });
    }
}

fn answers(client: &Namespace, address: &str, port: u16) -> bool {
    let to = SocketAddr::new(address.parse().expect("an address"), port);
    let Some(mut stream) = client.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(1)).ok())
    else {
        return false;
    };
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut answer = [0; 4];
    stream.write_all(b"ping").and_then(|()| stream.read_exact(&mut answer)).is_ok()
}

/// The host's addresses in a network, temporary ones among them.
fn addresses(host: &Namespace, network: &str) -> Vec<String> {
    let listed = shown(host, "ip -6 -o addr show dev eth0 scope global");
    let words = listed.lines().filter_map(|line| line.split_whitespace().nth(3));
    words
        .filter_map(|word| word.split('/').next())
        .filter(|at| at.starts_with(network))
        .map(str::to_owned)
        .collect()
}

#[test]
#[ignore = "make peers"]
fn hosts_form_addresses_that_their_groups_know() {
    isolated("advertisements::hosts_form_addresses_that_their_groups_know", || {
        let line = Line::new().expect("a line");
        for host in [&line.client, &line.server] {
            for which in ["all", "eth0"] {
                set(host, &format!("ipv6/conf/{which}/disable_ipv6"), "0");
            }
        }
        line.client.ip("addr add 2001:db8:7::1/64 dev eth0 nodad").expect("an address");
        set(&line.client, "ipv6/conf/all/forwarding", "1");
        // An address by the interface's own, and a temporary one that is preferred.
        set(&line.server, "ipv6/conf/eth0/use_tempaddr", "2");
        let folder = tempfile::tempdir().expect("a folder");
        let Some(mut router) = advertise(&line.client, folder.path()) else { return };
        serve(&line.server);
        let mut product = Product::start(&line, MEMBERS);
        let server = &line.server;
        product.until("two addresses", || addresses(server, "2001:db8:7:").len() >= 2);
        let formed = addresses(server, "2001:db8:7:");
        // What the host begins comes from the temporary one.
        product.until_done(server, "ping -6 -c 1 -W 1 2001:db8:7::1");
        for address in &formed {
            product.until_done(server, &format!("ping -6 -c 1 -W 1 -I {address} 2001:db8:7::1"));
            product.until(address, || answers(&line.client, address, 7000));
            assert!(!answers(&line.client, address, 7001), "{address}: the group does not allow it");
        }
        // The other network is advertised as well, and not one in which the opener may form addresses: there
        // it has the one that the platform forms for the device.
        product.until("two addresses there", || addresses(server, "2001:db8:8:").len() >= 2);
        line.client.ip("addr add 2001:db8:8::1/64 dev eth0 nodad").expect("an address");
        for address in addresses(server, "2001:db8:8:") {
            let ping = server.run(&format!("ping -6 -c 3 -i 0.2 -W 1 -I {address} 2001:db8:8::1"), LIMIT);
            assert!(ping.is_err() || address == "2001:db8:8::ff:fe00:2", "{address} is the device's");
        }
        assert!(router.is_running());
        let account = product.end();
        assert!(account["packets"]["dropped"].is_object(), "{account}");
    });
}
