//! The stock router as a native process that the launcher starts, as `docs/native.md` shows it: it is told of
//! its devices, has its next hops resolved, and follows a neighbour that gets another network card. Runs in
//! namespaces of its own; needs root and runc.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use support::daemon::Options;
use support::launcher::{Launcher, another_pid, folders, kill, missing};
use testbed::{Line, Namespace, isolated};

const LIMIT: Duration = Duration::from_secs(20);
/// Met by a hang alone.
const LONG: Duration = Duration::from_secs(60);
/// Has the router's arguments where this program is to be it.
const ARGUMENTS: &str = "SUPERFLUID_TEST_ROUTER";
const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/native.md");
/// The guide's hosts, each behind one interface of the router.
const INNER: &str = "192.0.2.2";
const OUTER: &str = "198.51.100.2";

/// Not a test: the router, when this program is started as one.
#[test]
fn is_the_router() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let manifest = include_str!("../../../../functions/router/function.yaml");
    let ended = nf_native::run::<router::Router>(manifest, arguments.split(' ').map(str::to_owned));
    std::process::exit(match ended {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    });
}

/// The guide's file, whose program is this one.
fn file(programs: &Path) -> String {
    let text = fs::read_to_string(GUIDE).expect("the guide");
    let blocks = text.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let mut with_router = blocks.filter(|block| block.contains("/opt/nf/router"));
    let block = with_router.next().expect("its example");
    let command = "[/opt/nf/router, /run/superfluid/a.sock, /run/superfluid/b.sock]";
    assert_eq!(block.matches(command).count(), 1, "{block}");
    let this = programs.join("router").display().to_string();
    let started = format!(
        "[/usr/bin/env, '{ARGUMENTS}=/run/superfluid/a.sock /run/superfluid/b.sock', {this}, --exact, is_the_router, \
         --nocapture]"
    );
    block.replace(command, &started)
}

/// Asks until it is answered.
fn await_answer(from: &Namespace, to: &str) {
    let begin = Instant::now();
    while from.run(&format!("ping -c 1 -W 1 {to}"), LIMIT).is_err() {
        assert!(begin.elapsed() < LONG, "no answer of {to}");
    }
}

fn is_on_link(host: &Namespace, own: &str, router: &str, other: &str) {
    host.ip(&format!("addr replace {own}/24 dev eth0")).expect("an address");
    host.ip(&format!("route replace {other}/32 via {router}")).expect("a route");
}

#[test]
fn a_router_as_a_process_finds_its_next_hops_and_follows_one_that_changes() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("a_router_as_a_process_finds_its_next_hops_and_follows_one_that_changes", || {
        let line = Line::new().expect("a line");
        let (folder, programs) = folders();
        fs::copy(std::env::current_exe().expect("this test"), programs.path().join("router"))
            .expect("copied");
        let permits = format!(
            "superfluid_launcher: 1\nclients: [998]\ntenants: {{default: {{uids: 2000000000, programs: [/usr, {}]}}}}\n",
            programs.path().display()
        );
        fs::write(folder.path().join("launcher.yaml"), permits).expect("written");
        let launcher = Launcher { folder: folder.path(), programs: programs.path(), line: &line };
        let running = launcher.start();
        for (host, own, router, other) in
            [(&line.client, INNER, "192.0.2.1", OUTER), (&line.server, OUTER, "198.51.100.1", INNER)]
        {
            host.ip("addr flush dev eth0").expect("no other address");
            is_on_link(host, own, router, other);
        }
        let options =
            Options::new(folder.path()).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.write("router.yaml", &file(programs.path()));
        daemon.done("apply -f router.yaml");
        await_answer(&line.client, OUTER);
        let pinged = line.client.run(&format!("ping -c 20 -i 0.02 -W 2 {OUTER}"), LIMIT).expect("all pass");
        assert!(pinged.stdout.contains(" 0% packet loss"), "{}", pinged.stdout);
        assert!(pinged.stdout.contains("ttl=63"), "it was routed: {}", pinged.stdout);
        let neighbours = daemon.done("neighbours outer");
        assert!(neighbours.contains(OUTER), "the platform found it: {neighbours}");

        // The outer host has another card. What it asks tells the platform, and that the process.
        for words in ["link set eth0 down", "link set eth0 address 02:00:00:00:00:77", "link set eth0 up"] {
            line.server.ip(words).expect(words);
        }
        is_on_link(&line.server, OUTER, "198.51.100.1", INNER);
        await_answer(&line.server, INNER);
        let neighbours = daemon.done("neighbours outer");
        assert!(neighbours.contains("02:00:00:00:00:77"), "{neighbours}");
        let account = daemon.get("/v1/account");
        let of = |detail: &str| account["ports"]["core:b"]["details"][detail].as_u64();
        assert!(of("asks") > Some(0) && of("message_faults") == Some(0), "{account}");

        // The next process knows what this one knew.
        let pid = launcher.pid().expect("it runs");
        kill(pid);
        another_pid(&launcher, Some(pid));
        await_answer(&line.client, OUTER);
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
        running.interrupt(LIMIT).expect("it ends");
    });
}
