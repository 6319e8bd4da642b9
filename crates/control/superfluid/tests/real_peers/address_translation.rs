//! The function `nat` before coturn, whose client finds out what a translator does (RFC 5780).

use crate::{Product, is_installed, peer, shown};
use std::path::Path;
use testbed::{Background, Line, SERVER, isolated};

/// Of the pool, at the server's link.
const OUTSIDE: &str = "10.83.0.9";
/// The server's second address, by which filtering is found out.
const SECOND: &str = "10.83.0.3";

/// A STUN server with two addresses and two ports.
fn coturn(line: &Line, folder: &Path) -> Option<Background> {
    line.server.ip(&format!("addr add {SECOND}/24 dev eth0")).expect("an address");
    let mut command = line.server.command("turnserver");
    command.args([
        "-n",
        "--stun-only",
        "--no-auth",
        "--no-tls",
        "--no-dtls",
        "--no-cli",
        "--log-file=stdout",
    ]);
    // Without these two it writes to folders of the system.
    command.arg(format!("--userdb={}", folder.join("users").display()));
    command.arg(format!("--pidfile={}", folder.join("pid").display()));
    peer(command.args(["-L", SERVER, "-L", SECOND]), "coturn")
}

/// Checks what coturn's client finds a translator with this filtering to do.
fn finds(filtering: &str, found: &str) {
    let line = Line::new().expect("a line");
    let folder = tempfile::tempdir().expect("a folder");
    if !is_installed(&line.client, "turnutils_natdiscovery", "coturn") {
        return;
    }
    let Some(mut server) = coturn(&line, folder.path()) else { return };
    // The function leaves ARP to the links: the pool's address is behind the client's Ethernet address.
    line.server
        .ip(&format!("neigh replace {OUTSIDE} lladdr 02:00:00:00:00:01 dev eth0"))
        .expect("a neighbour");
    let mut product = Product::start(
        &line,
        &format!(
            "superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
functions: {{home: {{image: nat, config: {{pool: [{OUTSIDE}/32], filtering: {filtering}}}}}}}
chains: {{c: [lan, home, wan]}}
"
        ),
    );
    let mut told = String::new();
    product.until("an answer of the server", || {
        told = shown(&line.client, &format!("turnutils_natdiscovery -m {SERVER}"));
        told.contains(&format!("UDP reflexive addr: {OUTSIDE}:"))
    });
    assert!(told.contains("NAT with Endpoint Independent Mapping!"), "{told}");
    let told = shown(&line.client, &format!("turnutils_natdiscovery -f {SERVER}"));
    assert!(told.contains(&format!("NAT with {found} Filtering!")), "{told}");

    let account = product.end();
    let counters = &account["functions"]["home"]["counters"];
    assert_eq!(counters["filtered"] == 0, filtering == "endpoint-independent", "{account}");
    assert!(server.is_running(), "{}", server.finish().1);
}

#[test]
#[ignore = "make peers"]
fn stun_finds_no_filtering() {
    isolated("address_translation::stun_finds_no_filtering", || {
        finds("endpoint-independent", "Endpoint Independent");
    });
}

#[test]
#[ignore = "make peers"]
fn stun_finds_filtering_by_address() {
    isolated("address_translation::stun_finds_filtering_by_address", || {
        finds("address-dependent", "Address Dependent");
    });
}

#[test]
#[ignore = "make peers"]
fn stun_finds_filtering_by_address_and_port() {
    isolated("address_translation::stun_finds_filtering_by_address_and_port", || {
        finds("address-and-port-dependent", "Address and Port Dependent");
    });
}
