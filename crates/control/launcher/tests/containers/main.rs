//! Containers by a real runtime, in network namespaces of the test: what they may, how they end, what is
//! found.

mod support;

use launcher::{
    Answer, Ended, Failure, Interface, InterfaceKind, Kill, KvmUse, Launcher, Limit, Limits, Probe, Request,
    Share, Start, State,
};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Host, UIDS};
use testbed::Namespace;

/// Runs `body` with each runtime that is there in a network namespace of its own, unless the machine lacks
/// something.
fn tried(test: &str, body: impl Fn(&mut Host)) {
    if let Some(missing) = support::missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    testbed::isolated(test, || {
        for runtime in support::RUNTIMES {
            if !support::is_there(runtime) {
                println!("skipped: there is no {runtime} (Debian: {runtime})");
                continue;
            }
            body(&mut Host::new(runtime));
        }
    });
}

/// Not a test: the launcher, when this executable is started as one.
#[test]
fn serves() {
    support::be_launcher();
}

fn interface(name: &str, outer: &str, addresses: &[&str]) -> Interface {
    Interface {
        name: name.into(),
        kind: InterfaceKind::Veth,
        outer: outer.into(),
        addresses: addresses.iter().map(|it| (*it).to_owned()).collect(),
        gateways: Vec::new(),
        mtu: None,
        mac: None,
    }
}

#[test]
fn a_container_has_what_is_its_own_and_nothing_else() {
    tried("a_container_has_what_is_its_own_and_nothing_else", |host| {
        std::fs::write(host.path("files/given"), "given\n").expect("written");
        let line = "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; ls /sys/class/net; cat \
                    /etc/given; touch /x 2>&1; mount -t tmpfs x /tmp 2>&1; touch /etc/given 2>&1; touch /tmp/x && \
                    echo wrote; cat /dev/mem 2>&1; echo end; sleep 1000";
        let mut start = host.guest("one", line);
        start.interfaces = vec![interface("eth0", "sfg-0", &["192.0.2.1/24"])];
        start.mounts.insert("/etc/given".into(), host.path("files/given").display().to_string());
        host.start(start);
        let guest = host.await_guest("one", |guest| guest.log.iter().any(|line| line == "end"));
        let log = guest.log.join("\n");
        let flat = log.replace("\\t", " ");
        assert!(log.starts_with("0\n"), "root inside: {log}");
        for line in ["CapEff: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2"] {
            assert!(flat.contains(line), "{line}: {log}");
        }
        assert!(log.contains("eth0\nlo\ngiven"), "{log}");
        assert!(log.contains("/x: Read-only file system"), "{log}");
        assert!(log.contains("permission denied") || log.contains("Operation not permitted"), "mount: {log}");
        assert!(log.contains("/etc/given: Read-only file system"), "{log}");
        assert!(log.contains("wrote"), "{log}");
        assert!(log.contains("/dev/mem"), "{log}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid("one"))).expect("a status");
        assert!(status.contains(&format!("Uid:\t{UIDS}\t")), "no user of the host: {status}");
        let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", host.pid("one"))).expect("groups");
        let own = format!("/{}/one", host.group());
        assert!(groups.lines().any(|line| line.ends_with(&own)), "{groups}");
        assert!(guest.memory.is_some_and(|bytes| bytes > 0), "{guest:?}");
    });
}

#[test]
fn traffic_passes_a_container_again_after_it_was_killed() {
    tried("traffic_passes_a_container_again_after_it_was_killed", |host| {
        let start = || {
            let mut start = host.guest("one", "sleep 1000");
            start.interfaces = vec![
                interface("eth0", "sfg-0", &["192.0.2.1/24"]),
                interface("eth1", "sfg-1", &["198.51.100.1/24"]),
            ];
            start
        };
        let here = Namespace::here().expect("a namespace");
        for _ in 0..2 {
            host.start(start());
            // They go with the interfaces.
            let (client, server) = (Namespace::new().expect("a host"), Namespace::new().expect("a host"));
            for (host, outer, own, router) in [
                (&client, "sfg-0", "192.0.2.2", "192.0.2.1"),
                (&server, "sfg-1", "198.51.100.2", "198.51.100.1"),
            ] {
                here.give(outer, host, "eth0").expect("given");
                host.ip(&format!("address add {own}/24 dev eth0")).expect("an address");
                host.ip("link set eth0 up").expect("up");
                host.ip(&format!("route add default via {router}")).expect("a route");
            }
            let ping =
                client.run("ping -c 3 -i 0.2 -w 20 198.51.100.2", Duration::from_secs(30)).expect("answers");
            assert!(ping.stdout.contains(" 0% packet loss"), "{}", ping.stdout);
            let pid = host.pid("one").to_string();
            testbed::run(std::process::Command::new("kill").args(["-9", &pid]), Duration::from_secs(10))
                .expect("killed");
            let guest = host.await_guest("one", |guest| matches!(guest.state, State::Ended(_)));
            assert_eq!(guest.state, State::Ended(Ended::Signal(9)));
            // The kernel takes namespaces down beside everything else.
            let begin = Instant::now();
            while client.ip("link show eth0").is_ok() {
                assert!(begin.elapsed() < Duration::from_secs(20), "the pair goes with the guest");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
}

#[test]
fn a_launcher_finds_what_the_one_before_started() {
    tried("a_launcher_finds_what_the_one_before_started", |host| {
        host.start(host.guest("one", "echo before; sleep 1000"));
        host.start(host.guest("two", "sleep 1000"));
        let (one, two) = (host.pid("one"), host.pid("two"));
        // What it may use by now is what the next launcher knows of it, without the share that it had.
        let limits = Limits { cap: Some(300), ..host.guest("one", "").limits };
        assert_eq!(host.ask(Request::Limit(Limit { name: "one".into(), limits })), Answer::Done);
        let share = |host: &Host, most| {
            let most = [("one".to_owned(), Some(most))].into();
            let answer = host.ask(Request::Share(Share { most }));
            assert!(matches!(&answer, Answer::Used(used) if used.contains_key("one")), "{answer:?}");
        };
        share(host, 200);
        let own = format!("{}/one", host.group());
        assert_eq!(quota(&own).as_deref(), Some("2000 10000"));
        host.replace();
        assert_eq!((host.pid("one"), host.pid("two")), (one, two));
        assert_eq!(quota(&own).as_deref(), Some("3000 10000"));
        share(host, 900);
        assert_eq!(quota(&own).as_deref(), Some("3000 10000"));
        assert_eq!(host.stop("two"), Answer::Done);
        assert!(!support::is_alive(two));
        host.end();
        assert!(!support::is_alive(one), "guests end with the launcher");
    });
}

/// What a guest sends is a port's: past the chain it reaches no address of the host, by no protocol.
#[test]
fn a_guest_does_not_reach_the_hosts_own_protocols() {
    tried("a_guest_does_not_reach_the_hosts_own_protocols", |host| {
        let here = Namespace::here().expect("a namespace");
        here.ip("link set lo up").expect("up");
        here.ip("address replace 203.0.113.1/24 dev lo").expect("an address");
        // The guest has an address in the host's network, and may look for what is on its link.
        let line = "nc -w 2 203.0.113.1 7; cat /proc/net/arp; echo end; sleep 1000";
        let mut start = host.guest("one", line);
        start.interfaces = vec![
            interface("eth0", "sfg-0", &["203.0.113.77/24", "2001:db8::1/64"]),
            interface("eth1", "sfg-1", &[]),
        ];
        host.start(start);
        let own = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        assert!(!own.contains("sfg-"), "the host has no address there: {own}");
        // The outer end says whose it is; no keeper has marked this one.
        let shown =
            std::process::Command::new("ip").args(["-o", "link", "show", "sfg-0"]).output().expect("ip");
        let owner = launcher::owner_of("user 0").address().map(|byte| format!("{byte:02x}")).join(":");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(&format!("link/ether {owner}")), "{owner}: {shown}");
        let guest = host.await_guest("one", |guest| guest.log.iter().any(|line| line == "end"));
        let asked = guest.log.iter().find(|line| line.starts_with("203.0.113.1 ")).expect("it was asked for");
        assert!(asked.contains(" 0x0 ") && asked.contains("00:00:00:00:00:00"), "no answer: {asked}");
        // Neither does the host say anything to it: nothing has come in.
        let text = std::fs::read_to_string(format!("/proc/{}/net/dev", host.pid("one"))).expect("counters");
        for name in ["eth0:", "eth1:"] {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name)).expect("its line");
            let received = line.split_whitespace().nth(1);
            assert_eq!(received, Some("0"), "{text}");
        }
    });
}

/// Sockets are those of the guest's own network and of its machine's processes: vsock leads past any network.
#[test]
fn a_guest_has_sockets_of_its_own_network_alone() {
    tried("a_guest_has_sockets_of_its_own_network_alone", |host| {
        if !Path::new("/usr/bin/perl").exists() {
            println!("skipped: there is no perl (Debian: perl-base)");
            return;
        }
        // UNIX, IPv4, IPv6, netlink; Bluetooth, the kernel's ciphers, vsock.
        let script = "for ([1,1],[2,1],[2,2],[10,1],[16,3],[31,3],[38,5],[40,1]) { socket(my $s, $$_[0], $$_[1], 0) \
                      ? print \"$$_[0] yes\\n\" : print \"$$_[0] $!\\n\" } print \"end\\n\"; sleep 1000";
        host.start(host.program("one", &format!("exec /usr/bin/perl -e '$| = 1; {script}'")));
        let guest = host.await_guest("one", |guest| guest.log.iter().any(|line| line == "end"));
        let denied = ["31", "38", "40"].map(|family| format!("{family} Operation not permitted"));
        let found: Vec<&str> = guest.log.iter().map(String::as_str).collect();
        assert_eq!(found[..5], ["1 yes", "2 yes", "2 yes", "10 yes", "16 yes"]);
        assert_eq!(found[5..8], denied);
    });
}

/// No control group of memory counts huge pages that the host has set aside: a guest has none of them.
#[test]
fn a_guest_has_no_huge_pages_of_the_host() {
    tried("a_guest_has_no_huge_pages_of_the_host", |host| {
        if !Path::new("/usr/bin/perl").exists() {
            println!("skipped: there is no perl (Debian: perl-base)");
            return;
        }
        // A page of 2 MiB, mapped and in a file of memory, and the same without huge pages.
        let (map, file) = if cfg!(target_arch = "aarch64") { (222, 279) } else { (9, 319) };
        let script = format!(
            "sub told {{ print \"$_[0] \", $_[1] == -1 ? \"$!\" : \"yes\", \"\\n\" }} \
             for (0x22, 0x40022) {{ told(\"map\", syscall({map}, 0, 2097152, 3, $_, -1, 0)) }} \
             my $name = \"x\"; for (0, 4) {{ told(\"file\", syscall({file}, $name, $_)) }} print \"end\\n\"; sleep 1000"
        );
        host.start(host.program("one", &format!("exec /usr/bin/perl -e '$| = 1; {script}'")));
        let guest = host.await_guest("one", |guest| guest.log.iter().any(|line| line == "end"));
        let found: Vec<&str> = guest.log.iter().map(String::as_str).take(4).collect();
        let denied = ["map", "file"].map(|what| format!("{what} Operation not permitted"));
        assert_eq!(found, ["map yes", &denied[0], "file yes", &denied[1]]);
    });
}

/// The runtime knows guests by their names alone: what one tenant may have is not given to a guest of another
/// one that has come to have the name meanwhile.
#[test]
fn limits_are_for_the_guest_that_they_were_checked_for() {
    tried("limits_are_for_the_guest_that_they_were_checked_for", |host| {
        host.start(host.guest("one", "sleep 1000"));
        std::fs::write(host.path("held"), "").expect("written");
        let host = &*host;
        let limits = Limits { memory: 512 << 20, ..host.guest("one", "").limits };
        std::thread::scope(|scope| {
            let limit = Request::Limit(Limit { name: "one".into(), limits });
            let limiting = scope.spawn(move || host.ask(limit));
            let begin = Instant::now();
            while !host.path("updating").exists() {
                assert!(begin.elapsed() < Duration::from_secs(20), "the runtime is not asked");
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(host.stop("one"), Answer::Done);
            let mut next = host.guest("one", "sleep 1000");
            next.tenant = "green".into();
            next.limits.memory = 8 << 20;
            let starting = scope.spawn(move || host.ask(Request::Start(Box::new(next))));
            let begin = Instant::now();
            while !starting.is_finished() && begin.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::fs::remove_file(host.path("held")).expect("removed");
            // The first one is not there any more.
            assert!(matches!(limiting.join().expect("no panic"), Answer::Refused(_)));
            assert_eq!(starting.join().expect("no panic"), Answer::Done);
        });
        let group = host.group();
        let v1 = format!("/sys/fs/cgroup/memory/{group}/one/memory.limit_in_bytes");
        let v2 = format!("/sys/fs/cgroup/{group}/one/memory.max");
        let limit = std::fs::read_to_string(v1).or_else(|_| std::fs::read_to_string(v2)).expect("a limit");
        assert_eq!(limit.trim(), (8 << 20).to_string());
    });
}

#[test]
fn a_container_whose_probe_fails_is_killed_and_its_log_says_why() {
    tried("a_container_whose_probe_fails_is_killed_and_its_log_says_why", |host| {
        let probe = Probe {
            exec: Vec::new(),
            tcp: None,
            every_ms: 1000,
            within_ms: 2000,
            failures: 2,
            start_ms: 10_000,
        };
        let ended = |host: &Host, name: &str| {
            let guest = host.await_guest(name, |guest| matches!(guest.state, State::Ended(_)));
            assert_eq!(guest.state, State::Ended(Ended::Probe), "{guest:?}");
            guest.log.join("\n")
        };
        // The port is open, until it is not.
        let mut start = host.guest("one", "nc -ll -p 70 -e cat & sleep 2; echo closing; kill $!; sleep 1000");
        start.interfaces = vec![interface("eth0", "sfg-0", &["192.0.2.1/24"])];
        start.probe = Some(Probe { tcp: Some(70), every_ms: 100, start_ms: 1000, ..probe.clone() });
        host.start(start);
        let log = ended(host, "one");
        assert!(log.contains("closing") && log.contains("its probe failed: port 70: "), "{log}");
        // It answers, until there is a file. A launcher that finds a guest goes on asking it.
        let mut start = host.guest("one", "sleep 4; echo falling ill; touch /tmp/ill; sleep 1000");
        let program = ["/bin/sh", "-c", "test ! -e /tmp/ill"].map(str::to_owned);
        start.probe = Some(Probe { exec: program.into(), ..probe.clone() });
        host.start(start);
        host.replace();
        let log = ended(host, "one");
        assert!(log.contains("falling ill") && log.contains("its probe failed: the OCI runtime"), "{log}");
        // One that does not come to an end is one that fails, and is not left behind.
        let mut start = host.guest("one", "sleep 1000");
        let program = ["/bin/sleep", "500"].map(str::to_owned);
        start.probe = Some(Probe { exec: program.into(), within_ms: 100, failures: 3, start_ms: 0, ..probe });
        host.start(start);
        let log = ended(host, "one");
        assert!(log.contains("no answer within 100ms"), "{log}");
    });
}

/// A guest that makes processes as fast as it can leaves the runtime waiting without end for that of a probe,
/// whose number is not known: the probe has failed, and keeps the tenant's others from their turns no longer
/// than others that fail.
#[test]
fn a_guest_in_which_no_probe_can_be_run_is_killed() {
    tried("a_guest_in_which_no_probe_can_be_run_is_killed", |host| {
        std::fs::write(host.path("hangs"), "").expect("written");
        let mut start = host.guest("one", "sleep 1000");
        let exec = ["/bin/sleep", "0"].map(str::to_owned).into();
        let (every_ms, within_ms) = (1000, 100);
        start.probe = Some(Probe { exec, tcp: None, every_ms, within_ms, failures: 1, start_ms: 0 });
        host.start(start);
        let guest = host.await_guest("one", |guest| matches!(guest.state, State::Ended(_)));
        assert_eq!(guest.state, State::Ended(Ended::Probe), "{guest:?}");
    });
}

/// The runtime knows guests by their names alone: a program of one tenant's probe is not run in a guest of
/// another one that has come to have the name meanwhile.
#[test]
fn a_probes_program_runs_in_its_own_guest_alone() {
    tried("a_probes_program_runs_in_its_own_guest_alone", |host| {
        std::fs::write(host.path("held"), "").expect("written");
        let mut start = host.guest("one", "sleep 1000");
        let exec = ["/bin/touch", "/tmp/entered"].map(str::to_owned).into();
        let within_ms = 30_000;
        start.probe = Some(Probe { exec, tcp: None, every_ms: 1000, within_ms, failures: 1, start_ms: 0 });
        host.start(start);
        let begin = Instant::now();
        while !host.path("updating").exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "the runtime is not asked");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(host.stop("one"), Answer::Done);
        let mut next = host.guest("one", "sleep 1000");
        next.tenant = "green".into();
        next.limits.memory = 16 << 20;
        let host = &*host;
        std::thread::scope(|scope| {
            let starting = scope.spawn(move || host.ask(Request::Start(Box::new(next))));
            let begin = Instant::now();
            while !starting.is_finished() && begin.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::fs::remove_file(host.path("held")).expect("removed");
            assert_eq!(starting.join().expect("no panic"), Answer::Done);
        });
        // The next one is started when the program has been tried.
        let entered = format!("/proc/{}/root/tmp/entered", host.pid("one"));
        for _ in 0..20 {
            assert!(!std::path::Path::new(&entered).exists(), "it ran in the other tenant's guest");
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn a_guest_whose_client_says_that_it_failed_is_killed_by_one_of_its_processes() {
    tried("a_guest_whose_client_says_that_it_failed_is_killed_by_one_of_its_processes", |host| {
        // What is attached may be another process than the first, and may be stopped.
        let one = host.guest("one", "sleep 1000 & kill -STOP $!; wait");
        let beside = Start { name: "one.1".into(), sockets_of: Some("one".into()), ..one.clone() };
        host.start(one);
        host.start(beside);
        let first = host.pid("one");
        let child = support::child(host.pid("one.1"));
        let kill_unless = |pid, unless: &[Vec<u32>]| {
            let (failure, unless) = (Failure::Silent(2_100), unless.to_vec());
            host.ask(Request::Kill(Kill { name: "one".into(), pid, unless, failure }))
        };
        let kill = |pid| kill_unless(pid, &[]);
        let refused = kill(std::process::id());
        assert!(
            matches!(&refused, Answer::Refused(why) if why.contains("a process of `one`")),
            "{refused:?}"
        );
        // Any process of its own at each socket spares it, and none of the other one's.
        let at_both = [vec![first, child], vec![host.pid("one.1"), first]];
        let spared = kill_unless(host.pid("one.1"), &at_both);
        assert!(matches!(&spared, Answer::Refused(why) if why.contains("unless: found")), "{spared:?}");
        let too_many = kill_unless(child, &[vec![first; 256], vec![]]);
        assert!(matches!(&too_many, Answer::Refused(why) if why.contains("at most 256")), "{too_many:?}");
        assert_eq!(kill_unless(child, &[vec![first, child], vec![first]]), Answer::Done, "at one of two");
        let guest = host.await_guest("one.1", |guest| matches!(guest.state, State::Ended(_)));
        assert_eq!(guest.state, State::Ended(Ended::Failed(Failure::Silent(2_100))));
        assert_eq!(host.pid("one"), first, "the other one runs");
        assert!(matches!(kill(child), Answer::Refused(_)), "it is gone");
        assert_eq!(kill(first), Answer::Done);
        let guest = host.await_guest("one", |guest| matches!(guest.state, State::Ended(_)));
        assert!(guest.log.iter().any(|line| line.contains("no sign of life for 2100 ms")), "{guest:?}");
    });
}

#[test]
fn a_container_that_needs_more_memory_than_its_limit_is_told_of_as_that() {
    tried("a_container_that_needs_more_memory_than_its_limit_is_told_of_as_that", |host| {
        // What ends is a process beside the first one, and then the first one.
        host.start(host.guest("one", "(x=a; while :; do x=$x$x; done); echo one less; sleep 1000"));
        let guest = host.await_guest("one", |guest| guest.killed_for_memory > 0);
        assert!(matches!(guest.state, State::Running { .. }), "{guest:?}");
        host.await_guest("one", |guest| guest.log.iter().any(|line| line.contains("one less")));
        assert_eq!(host.stop("one"), Answer::Done);
        host.start(host.guest("one", "x=a; while :; do x=$x$x; done"));
        let guest = host.await_guest("one", |guest| matches!(guest.state, State::Ended(_)));
        assert_eq!(guest.state, State::Ended(Ended::Memory), "{guest:?}");
        // Files that it has written and can be written back are not what it needs.
        host.start(host.guest("two", "while :; do /bin/cat /bin/busybox >/dev/null; done"));
        let guest = host.await_guest("two", |guest| guest.cpu_us > Some(200_000));
        assert!(guest.memory < Some(16 << 20), "{guest:?}");
        let plain = host.guest("two", "sleep 1000");
        assert_eq!(host.stop("two"), Answer::Done);
        host.start(plain);
        let pid = host.pid("two").to_string();
        testbed::run(std::process::Command::new("kill").args(["-9", &pid]), Duration::from_secs(10))
            .expect("killed");
        let guest = host.await_guest("two", |guest| matches!(guest.state, State::Ended(_)));
        assert_eq!(guest.state, State::Ended(Ended::Signal(9)), "that was another reason");
    });
}

#[test]
fn limits_hold_and_change() {
    tried("limits_hold_and_change", |host| {
        // Output without end neither grows the log nor stops the launcher.
        let mut start = host.guest("one", "yes");
        start.limits.cap = Some(100);
        host.start(start);
        let guest = host.await_guest("one", |guest| guest.log_lost > 0);
        assert!(guest.log.len() <= launcher::LOG_LINES + 1);
        let limits = Limits { memory: 16 << 20, weight: 50, cap: Some(200), processes: 8, files: 64 };
        assert_eq!(host.ask(Request::Limit(Limit { name: "one".into(), limits })), Answer::Done);
        let more = Limits { memory: 64 << 30, ..limits };
        let refused = host.ask(Request::Limit(Limit { name: "one".into(), limits: more }));
        assert!(matches!(&refused, Answer::Refused(why) if why.contains("limits.memory")), "{refused:?}");
        // More memory than there is of it: the kernel ends it, and nothing else.
        host.start(host.guest("two", "head -c 200m /dev/zero | grep x"));
        let ended = host.await_guest("two", |guest| matches!(guest.state, State::Ended(_)));
        assert_ne!(ended.state, State::Ended(Ended::Status(0)));
        assert!(matches!(host.await_guest("one", |_| true).state, State::Running { .. }));
        let third = host.ask(Request::Start(Box::new(host.guest("two", "sleep 1000"))));
        assert_eq!(third, Answer::Done, "one that has ended is replaced");
        let over = host.ask(Request::Start(Box::new(host.guest("three", "sleep 1000"))));
        assert!(matches!(&over, Answer::Refused(why) if why.contains("guests")), "{over:?}");
    });
}

/// A file of a control group, by the version that has it.
fn read(group: &str, file: &str) -> Option<String> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = hierarchies.map(|it| it.path()).chain(["/sys/fs/cgroup".into()]);
    let mut found = roots.filter_map(|root| std::fs::read_to_string(root.join(group).join(file)).ok());
    found.next().map(|text| text.trim().to_owned())
}

/// A group's quota of processor time and its period, in microseconds.
fn quota(group: &str) -> Option<String> {
    read(group, "cpu.max").or_else(|| {
        Some(format!("{} {}", read(group, "cpu.cfs_quota_us")?, read(group, "cpu.cfs_period_us")?))
    })
}

#[test]
fn a_share_bounds_a_guest_within_its_cap_until_it_is_not_renewed() {
    tried("a_share_bounds_a_guest_within_its_cap_until_it_is_not_renewed", |host| {
        let mut start = host.guest("one", "while :; do :; done");
        start.beside = Some(vec![0]);
        host.start(start);
        let group = format!("{}-beside", host.group());
        let own = format!("{group}/one");
        assert_eq!(read(&own, "cpuset.cpus").as_deref(), Some("0"));
        let weight = read(&group, "cpu.shares").or_else(|| read(&group, "cpu.weight"));
        assert!(matches!(weight.as_deref(), Some("512" | "50")), "it gives way: {weight:?}");
        let quota = || quota(&own);
        let most = |name: &str, most: Option<u32>| {
            host.ask(Request::Share(Share { most: [(name.to_owned(), most)].into() }))
        };
        for (said, expected) in [(Some(200), "2000 10000"), (Some(9_000), "5000 10000"), (None, "5000 10000")]
        {
            let answer = most("one", said);
            assert!(matches!(&answer, Answer::Used(used) if used.contains_key("one")), "{answer:?}");
            assert_eq!(quota().as_deref(), Some(expected), "of {said:?}");
        }
        assert_eq!(most("two", Some(100)), Answer::Used(Default::default()), "there is none");
        for wrong in [0, 9, 1_000_001] {
            let refused = most("one", Some(wrong));
            assert!(matches!(&refused, Answer::Refused(why) if why.contains("allowed: 10")), "{refused:?}");
        }
        most("one", Some(100));
        assert_eq!(quota().as_deref(), Some("2000 20000"));
        // It is not renewed: its limits count.
        let begin = Instant::now();
        while quota().as_deref() != Some("5000 10000") {
            assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", quota());
            std::thread::sleep(Duration::from_millis(50));
        }
        host.stop("one");
        assert_eq!(read(&own, "cgroup.procs"), None, "its group is gone");
    });
}

#[test]
fn what_is_checked_is_found_and_not_started() {
    tried("what_is_checked_is_found_and_not_started", |host| {
        let check = |change: &dyn Fn(&mut Start)| {
            let mut start = host.guest("one", "sleep 1000");
            change(&mut start);
            Launcher::check(&host.path("run/launcher.sock"), &start, Duration::from_secs(20))
                .expect("an answer")
        };
        let large = host.path("files/large").display().to_string();
        std::fs::File::create(&large).and_then(|file| file.set_len(65 << 20)).expect("made");
        assert_eq!(check(&|_| ()), Ok(()));
        for (change, wanted) in [
            (&(|start: &mut Start| start.image.push_str("-missing")) as &dyn Fn(&mut Start), "image: "),
            (&|start| start.digest = Some(format!("sha256:{}", "0".repeat(64))), "image: "),
            (&|start| start.limits.memory = 1 << 40, "limits.memory: "),
            // What the runtime could not start.
            (&|start| start.limits.memory = 2 << 20, "limits.memory: found 2MiB; allowed by"),
            (&|start| start.limits.files = 63, "limits.files: found 63; allowed by the host: 64 to "),
            (
                &|start| start.limits.files = u32::MAX,
                "limits.files: found 4294967295; allowed by the host: 64 to ",
            ),
            (&|start| drop(start.mounts.insert("/etc/large".into(), large.clone())), "mounts: `/"),
            (&|start| start.tenant = "white".into(), "tenant: found `white`"),
            (&|start| start.kvm = KvmUse::Required, "kvm: /dev/kvm cannot be used"),
        ] {
            let refused = check(change).expect_err(wanted);
            assert!(refused.starts_with(wanted), "{refused}");
        }
        assert_eq!(host.list().guests, [], "none was started");
        let unpacked = std::fs::read_dir(host.path("state/images")).expect("a folder");
        assert!(unpacked.flatten().all(|it| it.file_name() == ".unfinished"), "none was unpacked");
        // Of an image that is unpacked it is known which programs it has.
        let misspelt: &dyn Fn(&mut Start) = &|start| start.command = vec!["/bin/slep".into(), "9".into()];
        assert_eq!(check(misspelt), Ok(()));
        host.start(host.guest("two", "sleep 1000"));
        let refused = check(misspelt).expect_err("no such program");
        let wanted = "command: the image's `/bin/slep` is not there; allowed: ";
        assert!(
            refused.starts_with(wanted) && refused.ends_with("; did you mean `/bin/sleep`?"),
            "{refused}"
        );
    });
}

/// The most open files that a refusal says.
fn most_files(refused: &str) -> u32 {
    refused.rsplit(' ').next().and_then(|most| most.parse().ok()).expect("a number")
}

#[test]
fn what_cannot_start_leaves_nothing_behind() {
    tried("what_cannot_start_leaves_nothing_behind", |host| {
        let mut start = host.guest("one", "");
        start.command = vec!["/bin/missing".into()];
        let refused = host.ask(Request::Start(Box::new(start)));
        let lacks = "command: the image's `/bin/missing` is not there; allowed: ";
        assert!(matches!(&refused, Answer::Refused(why) if why.starts_with(lacks)), "{refused:?}");
        // All that the limits allow starts.
        let mut start = host.guest("one", "exec sleep 1000");
        start.limits.files = most_files(&host.ask_refused(|start| start.limits.files = u32::MAX));
        start.limits.memory = 6 << 20;
        host.start(start);
        host.stop("one");
        let mut start = host.guest("one", "exec sleep 1000");
        start.limits.files = 64;
        host.start(start);
        host.stop("one");
        // The name of an interface that is not the launcher's.
        Namespace::here()
            .expect("a namespace")
            .ip("link add sfg-9 type veth peer name other")
            .expect("a pair");
        let mut start = host.guest("one", "sleep 1000");
        start.interfaces = vec![interface("eth0", "sfg-9", &[])];
        let refused = host.ask(Request::Start(Box::new(start)));
        assert!(matches!(&refused, Answer::Refused(why) if why.contains("sfg-9")), "{refused:?}");
        // It is another's, and stays.
        Namespace::here().expect("a namespace").ip("link delete sfg-9").expect("deleted");
        assert_eq!(host.list().guests, []);
        let runtime = std::fs::read_dir(host.path("run/runtime")).expect("a folder").count();
        assert_eq!(runtime, 0, "the runtime knows of none");
        host.start(host.guest("one", "sleep 1000"));
    });
}

#[test]
fn a_program_that_may_use_kvm_opens_its_device_and_no_other_guest_does() {
    if !std::path::Path::new("/dev/kvm").exists() {
        return println!("skipped: there is no /dev/kvm");
    }
    tried("a_program_that_may_use_kvm_opens_its_device_and_no_other_guest_does", |host| {
        // A file that is not there would be made.
        let line = "([ -c /dev/kvm ] && exec 3<>/dev/kvm && echo opened) 2>&1; $0 cat </dev/mem 2>&1; echo end; $0 sleep 1000";
        let start = |kvm: KvmUse| {
            // The log is the name's: what the guest before said is in it, too.
            let (begin, end) = (format!("begin {kvm:?}"), format!("end {kvm:?}"));
            let mut start = host.program("one", &format!("echo {begin}; {}", line.replace("end", &end)));
            let shell = start.command[0].clone();
            start.command.push(shell);
            start.kvm = kvm;
            host.start(start);
            let guest = host.await_guest("one", |guest| guest.log.contains(&end));
            assert_eq!(host.stop("one"), Answer::Done);
            guest.log.join("\n").rsplit_once(&format!("{begin}\n")).expect("it began").1.to_owned()
        };
        let log = start(KvmUse::Required);
        assert!(log.starts_with("opened\n"), "{log}");
        let log = start(KvmUse::No);
        assert!(!log.contains("opened"), "{log}");
        // The host's file of it is what it was.
        assert_eq!(std::fs::metadata("/dev/kvm").expect("there").uid(), 0);
        // A container has no word for it.
        let mut contained = host.guest("three", line);
        contained.kvm = KvmUse::Required;
        match host.ask(Request::Start(Box::new(contained))) {
            Answer::Refused(why) => assert!(why.starts_with("kvm: /dev/kvm cannot be used"), "{why}"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_program_sees_its_folders_of_the_host_and_nothing_else_of_it() {
    tried("a_program_sees_its_folders_of_the_host_and_nothing_else_of_it", |host| {
        std::fs::write(host.path("files/given"), "given\n").expect("written");
        let line = "B=$0; id() { $B id \"$@\"; }; id -u; $B grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; \
                    echo root: $($B ls /); $B ls /sys/class/net; $B cat /etc/given; $B touch /x 2>&1; $B touch /usr/x 2>&1; $B \
                    touch $B 2>&1; $B mount -t tmpfs x /tmp 2>&1; $B touch /tmp/x && echo wrote; $B test -e /usr/bin/env && echo \
                    usr; $B test -e /root && echo root is there; /bin/true && echo linked; echo end; $B sleep 1000";
        let mut start = host.program("one", line);
        let shell = start.command[0].clone();
        start.command.push(shell);
        start.mounts.insert("/etc/given".into(), host.path("files/given").display().to_string());
        start.interfaces = vec![interface("eth0", "sfg-0", &["192.0.2.1/24"])];
        host.start(start);
        let guest = host.await_guest("one", |guest| guest.log.iter().any(|line| line == "end"));
        let log = guest.log.join("\n");
        let flat = log.replace("\\t", " ");
        assert!(log.starts_with("0\n"), "root inside: {log}");
        for line in ["CapEff: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2"] {
            assert!(flat.contains(line), "{line}: {log}");
        }
        for line in ["eth0\nlo\ngiven", "/x: Read-only file system", "/usr/x: Read-only file system"] {
            assert!(log.contains(line), "{line}: {log}");
        }
        assert!(log.contains("/busybox: Read-only file system"), "{log}");
        assert!(log.contains("\nwrote\nusr\nlinked\nend"), "{log}");
        let root = log.lines().find_map(|line| line.strip_prefix("root: ")).expect("its root");
        let known = [
            "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "var", "sbin", "sys",
            "tmp", "usr",
        ];
        assert!(root.split(' ').all(|name| known.contains(&name)), "{root}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid("one"))).expect("a status");
        assert!(status.contains(&format!("Uid:\t{UIDS}\t")), "no user of the host: {status}");
        // A program that is not there is told.
        let mut absent = host.program("two", "true");
        absent.command[0] = "/usr/bin/there-is-none".to_owned();
        match host.ask(Request::Start(Box::new(absent))) {
            Answer::Refused(why) => assert!(why.contains("there-is-none"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(host.stop("one"), Answer::Done);
    });
}

#[test]
fn a_guest_finds_its_sockets_and_may_not_make_any() {
    tried("a_guest_finds_its_sockets_and_may_not_make_any", |host| {
        let socket = Interface::new("in", InterfaceKind::Socket);
        let line = "ls /run/superfluid; touch /run/superfluid/x 2>&1; sleep 1000";
        for name in ["one", "two"] {
            let mut start = host.guest(name, line);
            start.interfaces = vec![socket.clone()];
            std::thread::scope(|scope| {
                // A client makes it when the folder is there; the start waits for that.
                let making = scope.spawn(|| {
                    let begin = Instant::now();
                    loop {
                        let made = std::os::unix::net::UnixListener::bind(
                            host.path("guests").join(name).join("in.sock"),
                        );
                        match made {
                            Ok(listener) => return listener,
                            Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "{error}"),
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                });
                host.start(start);
                drop(making.join().expect("made"));
            });
        }
        let guest = host.await_guest("one", |guest| guest.log.len() > 1);
        assert_eq!(guest.log[0], "in.sock", "its own alone: {:?}", guest.log);
        assert!(guest.log[1].contains("Read-only file system"), "{:?}", guest.log);
        // The folder stays for the client's socket, and goes with it.
        assert_eq!(host.stop("one"), Answer::Done);
        assert!(host.path("guests/one/in.sock").exists());
        std::fs::remove_file(host.path("guests/two/in.sock")).expect("removed");
        assert_eq!(host.stop("two"), Answer::Done);
        assert!(!host.path("guests/two").exists());
        host.replace();
        assert!(!host.path("guests/one").exists(), "the next launcher does not know it");
    });
}

/// Who has 192.0.2.1, asked by 192.0.2.2, behind a virtio-net header of which nothing is used.
const WHO_HAS: &[u8] = b"\0\0\0\0\0\0\0\0\0\0\
    \xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x02\x08\x06\0\x01\x08\0\x06\x04\0\x01\
    \x02\0\0\0\0\x02\xc0\0\x02\x02\0\0\0\0\0\0\xc0\0\x02\x01";

/// Asks by the queue of a guest's device until it answers; its Ethernet address.
fn asked(queue: &OwnedFd) -> [u8; 6] {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < Duration::from_secs(20), "no answer");
        rustix::io::write(queue, WHO_HAS).expect("written");
        std::thread::sleep(Duration::from_millis(5));
        let mut bytes = [0; 2048];
        while let Ok(length) = rustix::io::read(queue, &mut bytes) {
            // Behind both headers: an answer of the one that was asked for.
            let packet = &bytes[10..length];
            if packet.get(12..14) == Some(b"\x08\x06") && packet.get(20..22) == Some(b"\0\x02") {
                return packet[22..28].try_into().expect("six");
            }
        }
    }
}

#[test]
fn a_guests_tap_device_has_one_queue_which_one_client_has() {
    tried("a_guests_tap_device_has_one_queue_which_one_client_has", |host| {
        if !Path::new("/dev/net/tun").exists() {
            println!("skipped: there is no /dev/net/tun");
            return;
        }
        let line = "cat /sys/class/net/eth0/mtu; ls /dev/net 2>&1; /bin/busybox mknod /tmp/tun c 10 200 2>&1; sleep 1000";
        let start = {
            let mut start = host.guest("one", line);
            let tap = interface("eth0", "sfg-0", &["192.0.2.1/24"]);
            let mac = Some("02:00:00:00:00:07".to_owned());
            let tap = Interface { kind: InterfaceKind::Tap, mtu: Some(1400), mac, ..tap };
            start.interfaces = vec![tap, interface("eth1", "sfg-1", &[])];
            start
        };
        let socket = host.path("run/launcher.sock");
        let queues = || Launcher::queues(&socket, "one").map(|mut queues| queues.remove(0));
        let refused = queues().expect_err("no guest").to_string();
        assert!(refused.contains("there is no guest `one`"), "{refused}");
        host.start(start.clone());
        let guest = host.await_guest("one", |guest| guest.log.len() >= 3);
        let log = guest.log.join("\n");
        assert!(log.starts_with("1400\n") && log.matches("No such file").count() == 1, "{log}");
        assert!(log.contains("Operation not permitted"), "no device can be made: {log}");
        let (outer, queue) = queues().expect("a queue");
        assert_eq!((outer.as_str(), asked(&queue)), ("sfg-0", [2, 0, 0, 0, 0, 7]));
        let refused = queues().expect_err("it is taken").to_string();
        assert!(refused.contains("has the only queue"), "{refused}");
        drop(queue);
        // One that is closed is free; the device has stayed.
        let (_, queue) = queues().expect("a queue");
        asked(&queue);
        host.replace();
        let refused = queues().expect_err("it is taken").to_string();
        assert!(refused.contains("has the only queue"), "by the next launcher too: {refused}");
        asked(&queue);
        drop(queue);
        let (_, queue) = queues().expect("a queue");
        asked(&queue);
        // A queue that is kept keeps nothing of a guest that has ended.
        assert_eq!(host.stop("one"), Answer::Done);
        let gone = rustix::io::write(&queue, WHO_HAS).expect_err("no device");
        assert_eq!(gone, rustix::io::Errno::BADFD);
        host.start(start.clone());
        let (_, next) = queues().expect("a queue");
        assert_eq!(asked(&next), [2, 0, 0, 0, 0, 7]);
        let mut bad = start;
        bad.name = "two".into();
        bad.interfaces[0].outer = "sfg-2".into();
        bad.interfaces[0].name = "eth1".into();
        bad.interfaces.remove(1);
        bad.interfaces.push(Interface { kind: InterfaceKind::Tap, ..interface("eth2", "sfg-0", &[]) });
        match host.ask(Request::Start(Box::new(bad))) {
            Answer::Refused(why) => assert!(why.contains("`sfg-0` is the outer end of `one`"), "{why}"),
            other => panic!("{other:?}"),
        }
    });
}
