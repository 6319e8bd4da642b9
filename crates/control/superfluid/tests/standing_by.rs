//! Containers with interfaces of the kernel's that stand by each other: what `docs/containers.md` says of it
//! is carried out with a real runtime. Runs in namespaces of its own; needs root, runc and busybox.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::json;
use std::fs;
use std::time::Duration;
use support::containers::{SERVER, await_answer, with_launcher};
use support::daemon::Options;
use support::launcher::{has_ended, kill, missing};
use testbed::{Namespace, isolated};

const LIMIT: Duration = Duration::from_secs(20);
/// Pings of a second each until one is answered after a death.
const TRIES: u32 = 5;
const PORTS: [&str; 2] = ["router:in", "router:out"];
const GUESTS: [&str; 2] = ["router", "router.1"];

#[test]
fn a_container_of_veth_pairs_takes_over() {
    takes_over("a_container_of_veth_pairs_takes_over", "");
}

#[test]
fn a_container_of_tap_devices_takes_over() {
    takes_over("a_container_of_tap_devices_takes_over", "as: tap, ");
}

#[test]
fn a_container_of_af_xdp_ports_takes_over() {
    takes_over("a_container_of_af_xdp_ports_takes_over", "as: af_xdp, ");
}

/// What the host has learned of a neighbour.
fn neighbour(host: &Namespace, address: &str) -> String {
    let told = host.run(&format!("ip neighbour show {address}"), LIMIT).expect("ip").stdout;
    let (_, mac) = told.split_once("lladdr ").unwrap_or_else(|| panic!("{address}: {told}"));
    mac.split_whitespace().next().expect("an address").to_owned()
}

fn takes_over(test: &str, kind: &str) {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated(test, || {
        with_launcher(|line, folder, launcher, running| {
            let chain = fs::read_to_string(folder.join("chain.yaml")).expect("the chain");
            let alone = chain.replace("{addresses: [", &format!("{{{kind}addresses: ["));
            let both = alone.replace("memory: 64MiB", "memory: 64MiB\n    standby: 1");
            fs::write(folder.join("alone.yaml"), &alone).expect("written");
            fs::write(folder.join("both.yaml"), &both).expect("written");
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            daemon.done("apply -f both.yaml");
            let pid = |number: u64| launcher.pid_of(GUESTS[number as usize]);
            let stands = |daemon: &support::daemon::Daemon, active: u64, standing_by: u64| {
                let account = daemon.get("/v1/account");
                PORTS.iter().all(|port| {
                    let port = &account["ports"][port];
                    let details = &port["details"];
                    port["status"] == "up"
                        && details["active_guest"] == active
                        && details["processes_attached"] == 1
                        && details["processes_standby"] == standing_by
                })
            };
            let takeovers =
                || daemon.get("/v1/account")["ports"]["router:in"]["details"]["takeovers"].clone();
            daemon.wait("it stands by", || stands(&daemon, 0, 1));
            await_answer(&line.client);
            let all_pass = || {
                let told = line.client.run(&format!("ping -c 20 -i 0.02 -W 2 {SERVER}"), LIMIT);
                let told = told.expect("they are answered").stdout;
                assert!(told.contains(" 20 received"), "{told}");
            };
            let answers = || {
                let answer = || line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_ok();
                assert!((0..TRIES).any(|_| answer()), "no answer");
            };
            let learned = || [neighbour(&line.client, "192.0.2.1"), neighbour(&line.server, "198.51.100.1")];
            let before = learned();
            for life in 1..=4 {
                let (active, other) = ((life + 1) % 2, life % 2);
                all_pass();
                let stays = pid(other).expect("it runs");
                kill(pid(active).expect("it runs"));
                answers();
                daemon.wait("it has taken over", || takeovers() == life);
                assert_eq!(pid(other), Some(stays), "it was there before");
                daemon.wait("the dead one stands by", || stands(&daemon, other, 1));
                assert_eq!(learned(), before, "what neighbours know of it stays right");
            }
            let status = || daemon.get("/v1/functions/router")["status"].clone();
            assert_eq!(
                (&status()["state"], &status()["faults"], &status()["memory"]["promised"]),
                (&json!("running"), &json!(4), &json!(128 << 20)),
                "{}",
                status()
            );
            assert_eq!(
                status()["standby"],
                json!({"active": "router", "processes_standby": 1, "takeovers": 4}),
                "{}",
                status()
            );
            let described = daemon.done("describe function router");
            assert!(described.contains("active") && described.contains("processes_standby"), "{described}");
            assert!(daemon.text("/v1/functions/router/events").contains("signal 9 ended it"));
            let log = daemon.text("/v1/functions/router/logs");
            for told in ["guest router.1 has taken over", "guest router has taken over"] {
                assert!(log.contains(told), "{told}: {log}");
            }
            assert_eq!(daemon.get("/v1/memory")["containers"]["router"]["limit_bytes"], 128 << 20);

            // One that stands by ends, and no packet with it.
            kill(pid(1).expect("it runs"));
            all_pass();
            daemon.wait("it stands by again", || status()["faults"] == 5 && stands(&daemon, 0, 1));
            assert_eq!(takeovers(), 4);

            // The other one dies while it takes over.
            let [first, second] = [0, 1].map(|number| pid(number).expect("it runs"));
            kill(first);
            kill(second);
            await_answer(&line.client);
            daemon.wait("both are there again", || stands(&daemon, 0, 1) || stands(&daemon, 1, 1));

            // With the second one active: the next daemon finds it so.
            if stands(&daemon, 0, 1) {
                kill(pid(0).expect("it runs"));
                daemon.wait("the second one is active", || stands(&daemon, 1, 1));
            }
            let pids = [0, 1].map(pid);
            daemon.kill();
            let daemon = line.middle.enter(|| options.start());
            daemon.wait("it is as before", || stands(&daemon, 1, 1));
            assert_eq!([0, 1].map(pid), pids);
            all_pass();

            // No other any more: what is left is the first one.
            daemon.done("apply -f alone.yaml");
            daemon.wait("the second one is ended", || pids[1].is_some_and(has_ended) && pid(1).is_none());
            answers();
            assert_eq!(pid(0), pids[0], "it has stood by");
            all_pass();
            daemon.done("apply -f both.yaml");
            daemon.wait("the second one stands by", || stands(&daemon, 0, 1));
            assert_eq!(pid(0), pids[0]);
            all_pass();
            kill(pid(0).expect("it runs"));
            answers();
            assert_eq!(daemon.get("/v1/account")["balanced"], true);
            daemon.done("delete chain/site");
            daemon.done("delete function/router");
            daemon.wait("both are ended", || pid(0).or(pid(1)).is_none());
            running.interrupt(LIMIT).expect("it ends");
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        });
    });
}

#[test]
fn one_whose_probe_fails_gives_way_and_what_is_ready_comes_first() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("one_whose_probe_fails_gives_way_and_what_is_ready_comes_first", || {
        with_launcher(|line, folder, launcher, running| {
            let probed = "memory: 64MiB\n    standby: 2\n    probe: {exec: [/bin/sh, -c, 'read _ < /tmp/bad && exit 1; exit 0']}";
            let chain = fs::read_to_string(folder.join("chain.yaml")).expect("the chain");
            let (before, told) =
                ("[/bin/sleep, '100000']", "trap 'echo > /tmp/bad' USR1; while :; do sleep 1; done");
            assert!(chain.contains(before));
            let chain = chain.replace(before, &format!("[/bin/sh, -c, \"{told}\"]"));
            fs::write(folder.join("probed.yaml"), chain.replace("memory: 64MiB", probed)).expect("written");
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            daemon.done("apply -f probed.yaml");
            let standby = || daemon.get("/v1/functions/router")["status"]["standby"].clone();
            let is_so = |active: &str, takeovers: u64| {
                standby() == json!({"active": active, "processes_standby": 2, "takeovers": takeovers})
            };
            daemon.wait("two are ready", || is_so("router", 0));
            await_answer(&line.client);
            let spoil = |guest: &str| {
                let pid = launcher.pid_of(guest).expect("it runs");
                let sent = std::process::Command::new("kill").args(["-USR1", &pid.to_string()]).status();
                assert!(sent.expect("kill").success());
            };
            // One that stands by and does not work is ended, too, and changes nothing.
            spoil("router.1");
            daemon.wait("it is ended", || {
                daemon.text("/v1/functions/router/events").contains("its probe failed")
            });
            daemon.wait("it has come back", || is_so("router", 0));
            // So it is the youngest now.
            spoil("router");
            daemon.wait("the other one has taken over", || is_so("router.2", 1));
            await_answer(&line.client);
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
            running.interrupt(LIMIT).expect("it ends");
        });
    });
}
