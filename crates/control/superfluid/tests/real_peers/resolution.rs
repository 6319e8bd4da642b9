//! The function `nat` between a client of IPv6 alone and a server of IPv4 alone: unbound makes an IPv6
//! address of the server's (DNS64, RFC 6147), and curl gets there through NAT64 (RFC 6146).

use crate::{LIMIT, Product, is_installed, peer, set};
use std::fs;
use std::path::Path;
use testbed::{Background, Line, Namespace, SERVER, isolated};

const PRODUCT: &str = "superfluid: 1
ports: {lan: {type: af_packet, interface: sf-lan}, wan: {type: af_packet, interface: sf-wan}}
functions: {home: {image: nat, config: {pool: [10.83.0.9/32], nat64_prefix: '2001:db8:64::/96'}}}
chains: {c: [lan, home, wan]}
";

/// Starts a resolver on the client's own address and a port, beside others.
fn resolver(client: &Namespace, port: u16, settings: &str, folder: &Path) -> Option<Background> {
    let text = format!(
        "server:\nchroot: \"\"\nusername: \"\"\npidfile: \"\"\nuse-syslog: no\nlogfile: \"\"\nnum-threads: 1\n\
         do-not-query-localhost: no\ninterface: 127.0.0.1@{port}\n{settings}"
    );
    let file = folder.join(format!("{port}.conf"));
    fs::write(&file, text).expect("written");
    peer(client.command("unbound").args(["-d", "-c"]).arg(file), "unbound")
}

/// The client has IPv6 alone, and a way to the prefix; the function leaves neighbours to the links.
fn addresses(line: &Line) {
    for which in ["all", "eth0"] {
        set(&line.client, &format!("ipv6/conf/{which}/disable_ipv6"), "0");
    }
    line.client.ip("addr flush dev eth0").expect("no IPv4");
    for words in [
        "-6 addr add 2001:db8::1/64 dev eth0 nodad",
        "-6 neigh replace 2001:db8::2 lladdr 02:00:00:00:00:02 dev eth0",
        "-6 route add 2001:db8:64::/96 via 2001:db8::2",
    ] {
        line.client.ip(words).expect("a way to the translator");
    }
    line.server.ip("neigh replace 10.83.0.9 lladdr 02:00:00:00:00:01 dev eth0").expect("a neighbour");
}

#[test]
#[ignore = "make peers"]
fn dns64_and_nat64_lead_to_a_server_of_ipv4() {
    isolated("resolution::dns64_and_nat64_lead_to_a_server_of_ipv4", || {
        let line = Line::new().expect("a line");
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        if !is_installed(&line.client, "curl", "curl") {
            return;
        }
        // One resolver knows an IPv4 address of a name, the other makes an IPv6 address of it.
        let knows = format!(
            "module-config: iterator\nlocal-zone: \"peer.example.\" static\nlocal-data: \"web.peer.example. A {SERVER}\"\n"
        );
        let makes = "module-config: \"dns64 iterator\"\ndns64-prefix: 2001:db8:64::/96\n\
            forward-zone:\nname: \".\"\nforward-addr: 127.0.0.1@5353\n";
        let Some(first) = resolver(&line.client, 5353, &knows, folder) else { return };
        let second = resolver(&line.client, 53, makes, folder);
        addresses(&line);

        let body = testbed::pattern(3 << 20);
        fs::write(folder.join("page"), &body).expect("written");
        let mut web = line.server.command("python3");
        web.args(["-m", "http.server", "--bind", SERVER, "80", "--directory"]).arg(folder);
        let web = Background::start(&mut web).expect("it starts");

        let mut product = Product::start(&line, PRODUCT);
        // curl reads which resolver to ask in a file of the system: here one of its own lies above it.
        let [names, got] = ["names", "got"].map(|name| folder.join(name));
        fs::write(&names, "nameserver 127.0.0.1\n").expect("written");
        let script = format!(
            "mount --bind {} /etc/resolv.conf && exec curl --silent --show-error --max-time 10 --output {} \
             http://web.peer.example/page",
            names.display(),
            got.display()
        );
        product.until("the page", || {
            let mut command = line.client.command("unshare");
            testbed::run(command.args(["--mount", "--", "sh", "-c", &script]), LIMIT).is_ok()
        });
        assert!(fs::read(&got).expect("the page") == body, "other bytes came");
        let account = product.end();
        let counters = &account["functions"]["home"]["counters"];
        assert!(counters["outward"].as_u64() > Some(10), "{account}");
        drop((first, second, web));
    });
}
