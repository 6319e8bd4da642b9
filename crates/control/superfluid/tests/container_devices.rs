//! Containers that open devices, as `docs/containers.md` shows it: hosts on the links of the device reach one
//! and are reached by it, what security groups do not allow does not pass, and it comes back when it was
//! killed, or another one takes over that stands by; and one behind address translation, whose router is the
//! way to all else. Runs in namespaces of its own; needs root, runc and busybox.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use support::containers::with_launcher;
use support::daemon::{Daemon, Options};
use support::launcher::{BUSYBOX, another_pid, has_ended, kill, missing};
use testbed::{Background, Line, Namespace, isolated};

const LIMIT: Duration = Duration::from_secs(20);
/// What the guide gives the container.
const CONTAINER: &str = "192.0.2.9";

/// Waits until the container answers its neighbour.
fn await_container(line: &Line) {
    let begin = Instant::now();
    while line.client.run(&format!("ping -c 1 -W 1 {CONTAINER}"), LIMIT).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(40), "no answer");
    }
}

/// Fetches a file of the container's, which has to come whole, by its port 8080.
fn fetches(line: &Line, folder: &Path) {
    let got = folder.join("got");
    // What serves it begins a moment after the interfaces are there.
    let fetch = format!("{BUSYBOX} wget -q -O {} http://{CONTAINER}:8080/sh", got.display());
    let begin = Instant::now();
    while let Err(error) = line.client.run(&fetch, LIMIT) {
        assert!(begin.elapsed() < LIMIT, "{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(fs::read(&got).expect("it came") == fs::read(BUSYBOX).expect("busybox"), "it came whole");
    fs::remove_file(got).expect("removed");
}

/// One station answers for the container's address, and once: its own kernel.
fn one_answers(line: &Line) {
    let asked = format!("{BUSYBOX} arping -c 3 -w 3 -I eth0 {CONTAINER}");
    let told = line.client.run(&asked, LIMIT).expect("it is answered for").stdout;
    let replies = told.lines().filter(|line| line.contains("reply from")).count();
    let asked = told.lines().find_map(|line| line.strip_prefix("Sent ")?.split(' ').next()?.parse().ok());
    assert!(replies > 0 && replies <= asked.unwrap_or(0_usize), "{told}");
}

fn counted(daemon: &Daemon, counter: &str) -> u64 {
    let account = daemon.get("/v1/account");
    let functions = account["functions"].as_object().expect("functions");
    let guards = functions.iter().filter(|(name, _)| name.starts_with("groups@"));
    guards.map(|(_, guard)| guard["counters"][counter].as_u64().unwrap_or(0)).sum()
}

/// What a host is told that listens. It has nothing to say and is at its end at once, which ends a peer that
/// has not said anything yet: the next one has.
fn heard(host: &Namespace) -> String {
    let begin = Instant::now();
    loop {
        let mut listens = host.command(BUSYBOX);
        let mut server = Background::start(listens.args(["nc", "-l", "-p", "8082"])).expect("it starts");
        while server.is_running() {
            assert!(begin.elapsed() < Duration::from_secs(40), "nothing came");
            std::thread::sleep(Duration::from_millis(50));
        }
        let heard = server.finish().0.trim().to_owned();
        if !heard.is_empty() {
            return heard;
        }
    }
}

#[test]
fn a_container_opens_a_device_behind_security_groups() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("a_container_opens_a_device_behind_security_groups", || {
        with_launcher(|line, folder, launcher, running| {
            let guide = fs::read_to_string(folder.join("device.yaml")).expect("the guide's");
            let (without, _) = guide.split_once("groups:").expect("groups");
            let (_, rest) = guide.split_once("devices:").expect("devices");
            let plain = format!("{without}devices:{}", rest.replace(", groups: [web], zone: 1", ""));
            assert!(!plain.contains("groups"), "{plain}");
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            daemon.write("plain.yaml", &plain);
            daemon.done("apply -f plain.yaml");
            await_container(line);
            fetches(line, folder);
            one_answers(line);
            let described = daemon.done("describe device bridge0");
            assert!(described.contains("web:in"), "{described}");
            let neighbours = daemon.done("neighbours bridge0");
            assert!(!neighbours.contains(CONTAINER), "the platform is no station there: {neighbours}");
            let graph = daemon.get("/v1/graph");
            let edges = graph["edges"].as_array().expect("edges");
            let opens = edges.iter().find(|edge| edge["kind"] == "opens").expect("it opens the device");
            assert_eq!((&opens["from"], &opens["to"]), (&json!("web"), &json!("bridge0")), "{opens}");

            // Groups come around it while it runs.
            let pid = launcher.pid().expect("it runs");
            daemon.done("apply -f device.yaml");
            await_container(line);
            fetches(line, folder);
            assert_eq!(launcher.pid(), Some(pid), "the same as before");
            one_answers(line);
            let denied = counted(&daemon, "denied");
            let other = format!("{BUSYBOX} nc -w 1 {CONTAINER} 8081");
            assert!(line.client.run(&other, LIMIT).is_err(), "no rule allows it");
            daemon.wait("it was refused", || counted(&daemon, "denied") > denied);
            assert_eq!(counted(&daemon, "spoofed"), 0, "what it sends is its own");

            kill(pid);
            let pid = another_pid(launcher, Some(pid));
            await_container(line);
            fetches(line, folder);

            // It reaches a host by itself, which is behind its router.
            line.client.ip("address add 203.0.113.7/32 dev lo").expect("an address");
            line.client.ip("link set lo up").expect("it is on");
            let says = "while :; do echo from within | nc -w 2 203.0.113.7 8082; sleep 1; done";
            let own = "addresses: [192.0.2.9/24]";
            assert_eq!(guide.matches(own).count(), 1);
            let guide = guide.replace(own, "addresses: [192.0.2.9/24], gateways: [192.0.2.2]");
            let speaks = format!("[/bin/sh, -c, '{says}']");
            let command = "[/bin/httpd, -f, -p, '8080', -h, /bin]";
            assert!(guide.contains(command), "{guide}");
            daemon.write("speaks.yaml", &guide.replace(command, &speaks));
            daemon.done("apply -f speaks.yaml");
            another_pid(launcher, Some(pid));
            assert_eq!(heard(&line.client), "from within");

            running.interrupt(LIMIT).expect("it ends");
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        });
    });
}

#[test]
fn a_container_at_a_device_takes_over_with_veth_pairs() {
    takes_over_at_a_device("a_container_at_a_device_takes_over_with_veth_pairs", "{in: {}}");
}

#[test]
fn a_container_at_a_device_takes_over_with_tap_devices() {
    takes_over_at_a_device("a_container_at_a_device_takes_over_with_tap_devices", "{in: {as: tap}}");
}

/// Behind groups, which know its connections: they are the platform's, and outlive each of the two.
fn takes_over_at_a_device(test: &str, interfaces: &str) {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated(test, || {
        with_launcher(|line, folder, launcher, running| {
            let guide = fs::read_to_string(folder.join("device.yaml")).expect("the guide's");
            assert!(guide.contains("interfaces: {in: {}}") && guide.contains("memory: 64MiB"), "{guide}");
            let guide = guide.replace("interfaces: {in: {}}", &format!("interfaces: {interfaces}"));
            let both = guide.replace("memory: 64MiB", "memory: 64MiB\n    standby: 1");
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            daemon.write("both.yaml", &both);
            daemon.write("alone.yaml", &guide);
            daemon.done("apply -f both.yaml");
            let standby = |daemon: &Daemon| daemon.get("/v1/functions/web")["status"]["standby"].clone();
            let stands = |daemon: &Daemon, active: &str, takeovers: u64| {
                let wanted = json!({"active": active, "processes_standby": 1, "takeovers": takeovers});
                standby(daemon) == wanted && daemon.get("/v1/account")["ports"]["web:in"]["status"] == "up"
            };
            daemon.wait("it stands by", || stands(&daemon, "web", 0));
            await_container(line);
            fetches(line, folder);
            one_answers(line);
            let mac = || {
                let told = line.client.run(&format!("ip neighbour show {CONTAINER}"), LIMIT).expect("ip");
                told.stdout.split_once("lladdr ").expect("it is known").1.split(' ').next().map(str::to_owned)
            };
            let learned = mac();
            for (life, [active, other]) in (1..).zip([["web", "web.1"], ["web.1", "web"]]) {
                let stays = launcher.pid_of(other).expect("it stands by");
                let dies = launcher.pid_of(active).expect("it runs");
                kill(dies);
                await_container(line);
                daemon.wait("it has taken over, and the dead one stands by", || stands(&daemon, other, life));
                assert_eq!(launcher.pid_of(other), Some(stays), "it was there before");
                assert_ne!(launcher.pid_of(active), Some(dies));
                fetches(line, folder);
                one_answers(line);
                assert_eq!(mac(), learned, "what neighbours know of it stays right");
            }
            assert_eq!(counted(&daemon, "spoofed"), 0, "what each sends is its own");

            // The next daemon finds the second one active, at the device.
            kill(launcher.pid_of("web").expect("it runs"));
            daemon.wait("the second one is active", || stands(&daemon, "web.1", 3));
            let pids = ["web", "web.1"].map(|guest| launcher.pid_of(guest));
            daemon.kill();
            let daemon = line.middle.enter(|| options.start());
            daemon.wait("it is as before", || stands(&daemon, "web.1", 0));
            assert_eq!(["web", "web.1"].map(|guest| launcher.pid_of(guest)), pids);
            await_container(line);
            fetches(line, folder);

            // Without another one the first one has the device, and has stood by for that.
            daemon.done("apply -f alone.yaml");
            daemon.wait("the second one is ended", || pids[1].is_some_and(has_ended));
            await_container(line);
            assert_eq!(launcher.pid_of("web"), pids[0]);
            fetches(line, folder);
            one_answers(line);
            running.interrupt(LIMIT).expect("it ends");
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        });
    });
}

#[test]
fn a_container_reaches_what_is_behind_its_router_through_nat() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("a_container_reaches_what_is_behind_its_router_through_nat", || {
        with_launcher(|line, folder, launcher, running| {
            let router = [
                "address add 192.0.2.1/24 dev eth0",
                "address add 203.0.113.5/32 dev lo",
                "link set lo up",
                "route add 198.51.100.7/32 via 192.0.2.9",
            ];
            router.iter().for_each(|command| line.server.ip(command).expect(command));
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            let guide = fs::read_to_string(folder.join("translated.yaml")).expect("the guide's");
            let taps = guide.replace("{addresses: [", "{as: tap, addresses: [");
            assert_ne!(guide, taps);
            let outward = || {
                let account = daemon.get("/v1/account");
                account["functions"]["home"]["counters"]["outward"].as_u64().unwrap_or(0)
            };
            let mut before = None;
            for (name, text) in [("veth.yaml", &guide), ("tap.yaml", &taps)] {
                daemon.write(name, text);
                daemon.done(&format!("apply -f {name} --allow-restart"));
                let pid = another_pid(launcher, before);
                let translated = outward();
                assert_eq!(heard(&line.server), "from within", "{name}");
                daemon.wait("it was translated", || outward() > translated);
                let routes = fs::read_to_string(format!("/proc/{pid}/net/ipv6_route")).expect("its routes");
                let gateway = "20010db8000000000000000000000001";
                let is_default = |line: &str| line.starts_with(&"0".repeat(32)) && line.contains(gateway);
                assert!(routes.lines().any(is_default), "{name}: {routes}");
                before = Some(pid);
            }
            running.interrupt(LIMIT).expect("it ends");
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        });
    });
}
