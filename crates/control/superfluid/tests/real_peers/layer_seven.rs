//! haproxy in a container, as `examples/l7.yaml` has it: it chooses among nginx by what is asked for and by
//! how many connections they have, ends TLS, and is told of servers that come and go while it runs. nginx in
//! a container, as `examples/web.yaml` has it.

use crate::inspection::{Launcher, files};
use crate::web_servers::{nginx, requests};
use crate::{LIMIT, Product, is_installed, shown};
use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::{Line, Namespace, isolated};

const BALANCER: &str = "192.0.2.10";
/// `p1`, `p2` and `i1` of the example.
const SERVERS: [&str; 3] = ["198.51.100.11", "198.51.100.12", "198.51.100.13"];
const LATER: &str = "198.51.100.14";

/// What haproxy answers to a command of the administrator's.
fn told(admin: &Namespace, command: &str) -> String {
    let words = format!("exec 3<>/dev/tcp/203.0.113.1/9999; echo '{command}' >&3; timeout 5 cat <&3");
    let output = admin.command("bash").args(["-c", &words]).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asks so often; all are answered.
fn asked(client: &Namespace, count: usize, url: &str) {
    let words = format!("curl --silent --fail --insecure --max-time 5 --output /dev/null {url}");
    for _ in 0..count {
        client.run(&words, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A certificate of the folder's own, as the guide makes it.
fn certificate(folder: &Path) {
    let guide = include_str!("../../../../../docs/containers.md");
    let line = guide.lines().find(|line| line.starts_with("openssl req ")).expect("the command");
    let line = line.replace("/srv/files", &folder.display().to_string());
    let made = Command::new("bash").args(["-c", &line]).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
#[ignore = "make peers"]
fn haproxy_in_a_container_balances_and_is_told_of_servers_while_it_runs() {
    isolated("layer_seven::haproxy_in_a_container_balances_and_is_told_of_servers_while_it_runs", || {
        let line = Line::new().expect("a line");
        let here = |program| Path::new("/usr/sbin").join(program).exists();
        if !is_installed(&line.client, "runc", "runc") || !here("haproxy") || !here("nginx") {
            eprintln!("skipped: there is no runc, haproxy or nginx (Debian: runc, haproxy, nginx-light)");
            return;
        }
        for (host, own) in [(&line.client, "192.0.2.2"), (&line.server, SERVERS[0])] {
            host.ip("address flush dev eth0").expect("flushed");
            host.ip(&format!("address add {own}/24 dev eth0")).expect("an address");
        }
        // Of the servers no client has a way to one but by the balancer.
        line.client.ip(&format!("route add default via {BALANCER}")).expect("a route");
        line.server.ip("route add default via 198.51.100.1").expect("a route");
        for address in [SERVERS[1], SERVERS[2], LATER] {
            line.server.ip(&format!("address add {address}/24 dev eth0")).expect("an address");
        }
        let folder = files(&["l7.yaml", "l7.haproxy"], "haproxy");
        certificate(&folder.path().join("files"));
        let web = folder.path().join("web");
        fs::create_dir(&web).expect("made");
        let [Some(_p1), Some(_p2), Some(_i1), Some(_p3)] =
            [SERVERS[0], SERVERS[1], SERVERS[2], LATER].map(|address| nginx(&line, &web, address))
        else {
            return;
        };
        fs::create_dir(web.join(SERVERS[2]).join("images")).expect("made");
        fs::write(web.join(SERVERS[2]).join("images/one"), testbed::pattern(300_000)).expect("written");
        let launcher = Launcher::start(&line, folder.path());
        let file = folder.path().join("files/l7.yaml");
        let mut product = Product::of(&line, &file, &["--launcher".as_ref(), launcher.socket.as_os_str()]);
        product.until("the administrator's interface is there", || {
            line.middle.ip("address add 203.0.113.2/24 dev sf-admin").is_ok()
        });
        // A server that is looked for before its link is there counts as down for a moment.
        let all_are_up = || {
            let shown = told(&line.middle, "show stat");
            let up =
                |server: &str| shown.lines().any(|line| line.starts_with(server) && line.contains(",UP,"));
            ["pages,p1,", "pages,p2,", "images,i1,"].into_iter().all(up)
        };
        product.until("all servers are up", all_are_up);

        // What is asked for decides, then how many connections servers have.
        let counted = |address: &str| requests(&line, address);
        let between = |work: &dyn Fn()| {
            let all = [SERVERS[0], SERVERS[1], SERVERS[2], LATER];
            let before = all.map(counted);
            work();
            let after = all.map(counted);
            // Asking for the number is a request as well.
            [0, 1, 2, 3].map(|n| after[n] - before[n] - 1)
        };
        let pages =
            |count: usize| move |client: &Namespace| asked(client, count, &format!("http://{BALANCER}/"));
        let [p1, p2, ..] = between(&|| pages(20)(&line.client));
        assert!(p1 >= 5 && p2 >= 5, "both are asked: {p1}, {p2}");
        let [p1, .., i1, _] = between(&|| asked(&line.client, 20, &format!("http://{BALANCER}/images/one")));
        assert!(i1 == 20 && p1 == 0, "images are of another server: {i1}, {p1}");
        asked(&line.client, 5, &format!("https://{BALANCER}/"));
        let refused = format!("curl --silent --max-time 2 --output /dev/null http://{}:8080/", SERVERS[0]);
        assert!(line.client.run(&refused, LIMIT).is_err(), "the firewall lets none pass by the balancer");

        // Servers come and go, while requests go on.
        let added = told(&line.middle, &format!("add server pages/p3 {LATER}:8080 weight 1"));
        assert!(added.contains("New server registered"), "{added}");
        told(&line.middle, "enable server pages/p3");
        told(&line.middle, "set server pages/p1 state drain");
        let [p1, p2, _, p3] = between(&|| pages(40)(&line.client));
        assert!(p2 >= 10 && p3 >= 10 && p1 == 0, "{p1}, {p2}, {p3}");
        told(&line.middle, "set server pages/p1 state ready");
        told(&line.middle, "set server pages/p3 state maint");
        let [p1, .., p3] = between(&|| pages(20)(&line.client));
        assert!(p1 >= 5 && p3 == 0, "{p1}, {p3}");

        // One that is killed comes back, as its file says.
        let pid = launcher.pid("balancer").expect("it runs");
        shown(&line.middle, &format!("kill -9 {pid}"));
        product.until("another one runs", || launcher.pid("balancer").is_some_and(|next| next != pid));
        product.until("all servers are up", all_are_up);
        pages(5)(&line.client);
        let account = product.end();
        let received = |port: &str| account["ports"][port]["packets"]["received"].as_u64();
        assert!(
            received("balancer:clients") > Some(0) && received("balancer:servers") > Some(0),
            "{account}"
        );
        launcher.running.interrupt(LIMIT).expect("it ends");
    });
}

#[test]
#[ignore = "make peers"]
fn nginx_in_a_container_answers_behind_a_firewall() {
    isolated("layer_seven::nginx_in_a_container_answers_behind_a_firewall", || {
        let line = Line::new().expect("a line");
        if !is_installed(&line.client, "runc", "runc") || !Path::new("/usr/sbin/nginx").exists() {
            eprintln!("skipped: there is no runc or nginx (Debian: runc, nginx-light)");
            return;
        }
        line.server.ip("address flush dev eth0").expect("flushed");
        line.server.ip("address add 198.51.100.2/24 dev eth0").expect("an address");
        let folder = files(&["web.yaml", "web.nginx"], "nginx");
        let pages = folder.path().join("files/web");
        fs::create_dir(&pages).expect("made");
        let page = testbed::pattern(3_000_000);
        fs::write(pages.join("large"), &page).expect("written");
        let launcher = Launcher::start(&line, folder.path());
        let file = folder.path().join("files/web.yaml");
        let mut product = Product::of(&line, &file, &["--launcher".as_ref(), launcher.socket.as_os_str()]);
        let copy = folder.path().join("copy");
        let url = |rest: &str| {
            let words = "curl --silent --fail --max-time 5 --output";
            format!("{words} {} http://198.51.100.10{rest}", copy.display())
        };
        product.until("it answers", || line.server.run(&url("/large"), LIMIT).is_ok());
        assert!(fs::read(&copy).expect("the page") == page, "it comes as it is");
        assert!(line.server.run(&url("/missing"), LIMIT).is_err());
        let ping = "ping -c 1 -W 1 198.51.100.10";
        assert!(line.server.run(ping, LIMIT).is_err(), "the firewall lets nothing else pass");

        // One that is killed comes back.
        let pid = launcher.pid("web").expect("it runs");
        shown(&line.middle, &format!("kill -9 {pid}"));
        product.until("another one runs", || launcher.pid("web").is_some_and(|next| next != pid));
        product.until("it answers again", || line.server.run(&url("/large"), LIMIT).is_ok());
        let account = product.end();
        let received = account["ports"]["web:eth0"]["packets"]["received"].as_u64();
        assert!(received > Some(0), "{account}");
        launcher.running.interrupt(LIMIT).expect("it ends");
    });
}
