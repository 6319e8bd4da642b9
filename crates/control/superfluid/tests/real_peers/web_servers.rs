//! Two nginx behind the load balancer, and wrk as their clients.

use crate::{LIMIT, Product, is_installed, peer, shown};
use std::fs;
use testbed::{Background, Line, isolated};

const SERVERS: [&str; 2] = ["10.84.0.2", "10.84.0.3"];

const FILE: &str = "superfluid: 1
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan}
devices:
  front: {mode: direct, over: [lan], addresses: [10.83.0.9/24]}
  back: {mode: direct, over: [wan], addresses: [10.84.0.254/24]}
functions:
  balancer:
    image: load-balancer
    attach: {clients: front, servers: back}
    config:
      services:
        - name: web
          address: 10.83.0.9
          protocol: tcp
          ports: '80'
          check: {interval: 500ms, timeout: 400ms, rise: 2, fall: 10}
          servers: [{address: 10.84.0.2, port: 8080}, {address: 10.84.0.3, port: 8080}]
      unmatched: drop
";

/// Answers `/` by 64 KiB; its counters are at port 8081.
pub fn nginx(line: &Line, folder: &std::path::Path, address: &str) -> Option<Background> {
    let root = folder.join(address);
    fs::create_dir(&root).expect("a folder");
    fs::write(root.join("index.html"), testbed::pattern(65_536)).expect("written");
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {name}; "))
        .concat();
    let text = format!(
        "daemon off; master_process off; user root; pid nginx.pid; error_log stderr; events {{}}
        http {{ access_log off; {temporary}
        server {{ listen {address}:8080; root {}; }}
        server {{ listen {address}:8081; location / {{ stub_status; }} }} }}",
        root.display()
    );
    let file = root.join("nginx.conf");
    fs::write(&file, text).expect("written");
    peer(
        line.server.command("nginx").args(["-e", "stderr", "-p"]).arg(&root).arg("-c").arg(&file),
        "nginx-light",
    )
}

/// Requests that a server has answered.
pub fn requests(line: &Line, address: &str) -> u64 {
    let status = shown(&line.server, &format!("curl --silent --show-error http://{address}:8081/"));
    // `accepts handled requests`, and below the three numbers.
    let numbers = status.lines().nth(2).unwrap_or_default();
    numbers.split_whitespace().nth(2).and_then(|word| word.parse().ok()).expect("a number")
}

/// What wrk has asked for, each of which was answered.
fn wrk(line: &Line, header: &str) -> u64 {
    let told = shown(&line.client, &format!("wrk -t 1 -c 32 -d 3s -H {header} http://10.83.0.9/"));
    assert!(!told.contains("Socket errors") && !told.contains("Non-2xx"), "{told}");
    let asked = told.lines().find(|line| line.contains(" requests in ")).expect("a summary");
    asked.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
#[ignore = "make peers"]
fn requests_are_shared_out_and_all_answered() {
    isolated("web_servers::requests_are_shared_out_and_all_answered", || {
        let line = Line::new().expect("a line");
        if !is_installed(&line.client, "wrk", "wrk") {
            return;
        }
        line.server.ip("addr flush dev eth0").expect("it is up");
        for address in SERVERS {
            line.server.ip(&format!("addr add {address}/24 dev eth0")).expect("an address");
        }
        line.server.ip("route add 10.83.0.0/24 via 10.84.0.254").expect("a route");
        let folder = tempfile::tempdir().expect("a folder");
        let [Some(first), Some(second)] = SERVERS.map(|address| nginx(&line, folder.path(), address)) else {
            return;
        };
        let mut product = Product::start(&line, FILE);
        product.until("both servers are asked", || {
            let _ = line.client.run("curl --silent --max-time 1 --output /dev/null http://10.83.0.9/", LIMIT);
            SERVERS.iter().all(|address| requests(&line, address) > 3)
        });
        // Each connection has many requests, and then one.
        for header in ["X-Many:1", "Connection:close"] {
            let before = SERVERS.map(|address| requests(&line, address));
            let asked = wrk(&line, header);
            let after = SERVERS.map(|address| requests(&line, address));
            let answered = [after[0] - before[0], after[1] - before[1]];
            assert!(asked > 50 && answered[0] + answered[1] >= asked, "{header}: {asked}, {answered:?}");
            assert!(answered.iter().all(|&one| one > asked / 10), "{header}: {answered:?}");
        }
        let account = product.end();
        let events = &account["functions"]["balancer"]["report"]["events"];
        assert_eq!(
            (&events["servers-down"], &events["connections-evicted"]),
            (&0.into(), &0.into()),
            "{account}"
        );
        drop((first, second));
    });
}
