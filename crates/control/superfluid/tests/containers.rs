//! What `docs/containers.md` shows is carried out: a container of a real runtime in a chain, killed in the
//! middle of traffic and started again. Runs in namespaces of its own; needs root, runc and busybox.

#[path = "../../registry/tests/hostile/server.rs"]
#[expect(dead_code, reason = "other tests make it do more")]
mod server;
#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::{Value, json};
use server::{Act, Server};
use std::fs;
use std::time::{Duration, Instant};
use support::containers::{SERVER, await_answer, blocks, with_launcher};
use support::daemon::Options;
use support::launcher::{another_pid, has_ended, kill, missing};
use support::layouts;
use testbed::{Background, Iperf, TestbedError, isolated};

const LIMIT: Duration = Duration::from_secs(20);
const PROGRAM: &str = env!("CARGO_BIN_EXE_superfluid");

#[test]
fn a_container_in_a_chain_is_killed_and_comes_back() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("a_container_in_a_chain_is_killed_and_comes_back", || {
        with_launcher(|line, folder, launcher, running| {
            let mut command = line.middle.command(PROGRAM);
            command.args(["run", "--json", "--launcher"]).arg(folder.join("launcher.sock"));
            let mut program = Background::start(command.arg(folder.join("chain.yaml"))).expect("it starts");
            await_answer(&line.client);
            let iperf = Iperf::serve(&line.server).expect("a server");

            let pid = launcher.pid().expect("it runs");
            kill(pid);
            assert!(program.is_running(), "what runs beside it goes on");
            another_pid(launcher, Some(pid));
            await_answer(&line.client);
            line.client.run(&format!("iperf3 --client {SERVER} --time 1"), LIMIT).expect("TCP passes");
            drop(iperf);

            // Somebody else's containers are nobody's to end but the launcher's.
            let start = blocks("json", folder).remove(0);
            assert_eq!(launcher.ask(&start), Ok(String::new()));
            let refused =
                launcher.ask(&start.replace("\"default\"", "\"green\"")).expect_err("no such tenant");
            assert!(refused.contains("tenant: found `green`"), "{refused}");
            let ended = program.interrupt(LIMIT).expect("it ends");
            let last: Value =
                serde_json::from_str(ended.stdout.lines().last().expect("a line")).expect("JSON");
            assert_eq!(last["balanced"], true, "{last}");
            let router = &last["containers"]["router"];
            let count = |key: &str| router[key].as_u64().unwrap_or_else(|| panic!("{key}: {last}"));
            assert_eq!((&router["state"], count("faults")), (&"running".into(), 1), "{last}");
            let cycles = count("engine_cycles") + count("processes_cycles");
            assert!(count("packets") > 10 && count("memory") > 0 && count("cycles") == cycles, "{last}");
            assert!(count("engine_cycles") > 0 && count("processes_cycles") > 0, "{last}");
            let told = |what: &str| ended.stdout.lines().any(|line| line.contains(what));
            assert!(told("signal 9 ended it"), "{}", ended.stdout);
            let listed: Value =
                serde_json::from_str(&launcher.ask(r#"{"list": {}}"#).expect("a list")).expect("JSON");
            let names: Vec<&str> = listed["guests"]
                .as_array()
                .expect("guests")
                .iter()
                .map(|guest| guest["name"].as_str().expect("a name"))
                .collect();
            assert_eq!(names, ["probe"], "the run ended its own");
            let pid = launcher.pid().expect("it runs");
            running.interrupt(LIMIT).expect("it ends");
            assert!(has_ended(pid), "containers end with the launcher");
        });
    });
}

#[test]
fn the_launcher_is_asked_by_check_and_before_a_run() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("the_launcher_is_asked_by_check_and_before_a_run", || {
        with_launcher(|line, folder, launcher, running| {
            let said_within = |command: &str, file: &str, time: &str| {
                let mut program = line.middle.command(PROGRAM);
                program.arg(command).args(&launcher.arguments()[..2]).arg(folder.join(file));
                if command == "run" {
                    program.args(["--for", time]);
                }
                let output = program.output().expect("it runs");
                (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
            };
            let said = |command: &str, file: &str| said_within(command, file, "1s");
            let good = fs::read_to_string(folder.join("chain.yaml")).expect("the guide's");
            fs::create_dir_all(folder.join("files")).expect("made");
            fs::write(folder.join("files/a"), "a").expect("written");
            for (change, place) in [
                (
                    (
                        "memory: 64MiB",
                        "mounts: {/etc/a: ./files/a, /etc/b.c: ./files/none}\n    memory: 64MiB",
                    ),
                    "functions.router.mounts./etc/b.c: the launcher refuses it: mounts: ",
                ),
                (
                    ("memory: 64MiB", "files: 1048577\n    memory: 64MiB"),
                    "functions.router.files: found `1048577`; allowed: ",
                ),
                (("memory: 64MiB", "memory: 1MiB"), "functions.router.memory: found `1MiB`; allowed: "),
                (
                    ("memory: 64MiB", "memory: 2GiB"),
                    "functions.router.memory: the launcher refuses it: limits.memory: found",
                ),
                (
                    ("images/busybox", "images/missing"),
                    "functions.router.image: the launcher refuses it: image: ",
                ),
            ] {
                fs::write(folder.join("bad.yaml"), good.replacen(change.0, change.1, 1)).expect("written");
                for command in ["check", "run"] {
                    let (code, told) = said(command, "bad.yaml");
                    assert_eq!(code, Some(2), "{command}: {told}");
                    let (at, _) = told.split_once(place).unwrap_or_else(|| panic!("{command}: {told}"));
                    let numbers = at.rsplit(':').take(3).skip(1);
                    assert!(numbers.clone().all(|number| number.parse::<u32>().is_ok()), "{told}");
                }
            }
            // A name that another client's container has is not taken over, nor are its interfaces.
            let start = blocks("json", folder).remove(0).replace("\"probe\"", "\"router\"");
            assert_eq!(launcher.ask(&start), Ok(String::new()));
            let (code, told) = said("run", "chain.yaml");
            let taken =
                "functions.router: the launcher has a container of this name that another client has started";
            assert!(code == Some(2) && told.contains(taken) && told.contains("chain.yaml:9:5: "), "{told}");
            assert_eq!(said("check", "chain.yaml").0, Some(0), "the file is right");
            assert_eq!(launcher.ask(r#"{"stop": {"name": "router"}}"#), Ok(String::new()));
            // Which programs an image has is known when it is unpacked.
            fs::write(folder.join("bad.yaml"), good.replacen("/bin/sleep", "/bin/missing", 1))
                .expect("written");
            let lacks = "command: the image's `/bin/missing` is not there; allowed: a program of the image";
            for command in ["check", "run"] {
                let (code, told) = said(command, "bad.yaml");
                let place = format!("functions.router.command: the launcher refuses it: {lacks}");
                assert!(code == Some(2) && told.contains(&place), "{told}");
            }
            // What is not found out before it is started fails the run, if that is over by then.
            fs::remove_dir_all(folder.join("state/images/default")).expect("removed");
            let mut ran = said("run", "bad.yaml");
            if ran.0 == Some(0) {
                fs::remove_dir_all(folder.join("state/images/default")).expect("removed");
                ran = said_within("run", "bad.yaml", "5s");
            }
            let (code, told) = ran;
            let down = format!("function router: it was down at the end: {lacks}");
            assert!(code == Some(1) && told.contains(&down), "{told}");
            assert!(!told.contains("level="), "{told}");
            // A missing interface is a warning, that the launcher was not asked is none.
            let (code, told) = said("check", "chain.yaml");
            assert_eq!((code, told.contains("launcher")), (Some(0), false), "{told}");
            assert_eq!(launcher.pid(), None, "nothing was started");
            running.interrupt(LIMIT).expect("it ends");
            let (code, told) = said("check", "chain.yaml");
            let warning = "chain.yaml: whether the launcher starts `router` was not asked: the launcher at ";
            assert!(code == Some(0) && told.contains(warning), "{told}");
        });
    });
}

/// Of so many pings none was lost. Those at the end that are answered late were not waited for: ping leaves,
/// whatever `-W` says, after two of the longest times that it saw.
fn all_pass(told: &str, count: u32) {
    let answered = |number: &u32| told.contains(&format!("icmp_seq={number} "));
    let passed = (1..=count).take_while(answered).count();
    assert!(2 * passed > count as usize && told.matches("icmp_seq=").count() == passed, "{told}");
}

/// Between two hosts of one network.
const INLINE: &str = "
superfluid: 1
tenants: {default: {pool: {buffers: 2048, buffer_size: 64KiB}}}
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan}
functions:
  ids:
    guest: container
    image: /srv/images/busybox
    command: [/bin/sleep, '100000']
    interfaces: {in: {}, out: {}}
    memory: 16MiB
    restart: {first_delay: 1h, longest_delay: 1h}
    fail: open
chains: {site: [lan, ids, wan]}
";

#[test]
fn packets_pass_by_a_container_that_fails_open() {
    pass_by("packets_pass_by_a_container_that_fails_open", "{in: {}, out: {}}");
}

#[test]
fn packets_pass_by_a_container_of_tap_devices_that_fails_open() {
    let name = "packets_pass_by_a_container_of_tap_devices_that_fails_open";
    pass_by(name, "{in: {as: tap}, out: {as: tap}}");
}

fn pass_by(test: &str, interfaces: &str) {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated(test, || {
        with_launcher(|line, folder, launcher, running| {
            line.server.ip("address add 192.0.2.9/24 dev eth0").expect("an address");
            let answers = || line.client.run("ping -c 1 -W 1 192.0.2.9", LIMIT).is_ok();
            let await_that = |answer: bool| {
                let begin = Instant::now();
                while answers() != answer {
                    assert!(begin.elapsed() < LIMIT, "packets pass: {}", !answer);
                }
            };
            let image = folder.display().to_string();
            fs::write(
                folder.join("inline.yaml"),
                INLINE.replace("/srv", &image).replace("{in: {}, out: {}}", interfaces),
            )
            .expect("written");
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            daemon.done("apply -f inline.yaml");
            // A program that passes nothing on, and is there.
            let pid = another_pid(launcher, None);
            await_that(false);
            kill(pid);
            await_that(true);
            line.client.run("ping -c 20 -i 0.05 -W 2 192.0.2.9", LIMIT).expect("all pass");
            let account = daemon.get("/v1/account");
            let passed = |port: &str| account["ports"][port]["details"]["passed_by"].as_u64().unwrap_or(0);
            assert!(passed("ids:in") >= 20 && passed("ids:out") >= 20, "{account}");
            daemon.post("/v1/functions/ids/restart", None);
            another_pid(launcher, Some(pid));
            await_that(false);
            // Without a launcher there is no container either.
            running.interrupt(LIMIT).expect("it ends");
            await_that(true);
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        });
    });
}

#[test]
fn a_container_observes_what_passes_and_may_die() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("a_container_observes_what_passes_and_may_die", || {
        with_launcher(|line, folder, launcher, running| {
            line.server.ip("address add 192.0.2.9/24 dev eth0").expect("an address");
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            daemon.done("apply -f observed.yaml");
            let pid = another_pid(launcher, None);
            // Bytes and packets that have come in by the interface inside.
            let came = |pid: u64| {
                let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
                let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
                let numbers =
                    line.unwrap_or_default().split_whitespace().filter_map(|it| it.parse::<u64>().ok());
                let [bytes, packets] = numbers.take(2).collect::<Vec<_>>().try_into().unwrap_or([0; 2]);
                (bytes, packets)
            };
            let pings = |count| {
                let ping = format!("ping -c {count} -i 0.02 -W 2 192.0.2.9");
                let told = line.client.run(&ping, LIMIT).expect("all pass").stdout;
                all_pass(&told, count);
            };
            daemon.wait("its interface is there", || {
                daemon.get("/v1/account")["ports"]["ids:in"]["status"] == "up"
            });
            pings(20);
            daemon.wait("it has seen both directions", || came(pid).1 >= 40);
            let iperf = Iperf::serve(&line.server).expect("a server");
            let before = came(pid);
            line.client.run("iperf3 --client 192.0.2.9 --time 1", LIMIT).expect("TCP passes");
            drop(iperf);
            let after = came(pid);
            let (bytes, packets) = (after.0 - before.0, after.1 - before.1);
            assert!(
                bytes > 1_000_000 && bytes / packets > 1514,
                "{bytes} bytes in {packets} packets, as they were"
            );
            kill(pid);
            pings(50);
            let next = another_pid(launcher, Some(pid));
            daemon.wait("the next one sees packets", || {
                pings(1);
                came(next).1 > 0
            });
            // An observer is one in the graph, and sends nothing into it. It is a function there, whose
            // interface the port is.
            let graph = daemon.get("/v1/graph");
            let nodes = graph["nodes"].as_array().expect("nodes");
            let ids = nodes.iter().find(|node| node["name"] == "ids").expect("its node");
            assert_eq!((&ids["kind"], &ids["state"]), (&json!("function"), &json!("running")), "{ids}");
            assert!(ids["packets"].as_u64() > Some(0) && ids.get("worker").is_none(), "{ids}");
            assert!(!nodes.iter().any(|node| node["name"] == "ids:in"), "{graph}");
            let edges = graph["edges"].as_array().expect("edges");
            let observes = |edge: &&Value| edge["kind"] == "observes" && edge["to"] == "ids";
            assert_eq!(edges.iter().find(observes).expect("its edge")["to_part"], "in", "{graph}");
            // It has a history as functions in the sandbox have one.
            daemon.wait("its packets are in the history", || {
                pings(1);
                let (status, told) = daemon.ask("GET", "/v1/history?of=function/ids", None);
                let values = &told["fine"]["values"];
                let last = |name: &str| values[name].as_array().and_then(|all| all.last()).cloned();
                status == 200
                    && values["packets"].as_array().is_some_and(|all| all.iter().any(|it| *it != json!(0)))
                    && (last("state"), last("worker")) == (Some(json!(0)), Some(json!(1023)))
            });
            daemon.done("delete observer/ids");
            let before = came(next);
            pings(5);
            assert_eq!(came(next), before);
            running.interrupt(LIMIT).expect("it ends");
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        });
    });
}

#[test]
fn a_daemon_keeps_containers_through_its_own_end_and_the_launchers() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("a_daemon_keeps_containers_through_its_own_end_and_the_launchers", || {
        with_launcher(|line, folder, launcher, running| {
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .tenants_socket("tenants")
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            daemon.done("apply -f chain.yaml");
            await_answer(&line.client);
            daemon.done("token create own --tenant default --file own.token");
            let pid = launcher.pid().expect("it runs");
            let status = || daemon.get("/v1/functions/router")["status"].clone();
            daemon.wait("it is said to run", || status()["state"] == "running");
            assert!(
                status()["packets"].as_u64() > Some(0) && status()["memory"]["private"].as_u64() > Some(0)
            );

            let memory = daemon.get("/v1/memory");
            let (of, tenant) = (&memory["containers"]["router"], &memory["tenants"]["default"]);
            assert_eq!((&of["tenant"], &of["limit_bytes"]), (&json!("default"), &json!(64 << 20)), "{of}");
            assert!(
                of["bytes"].as_u64() > Some(0) && of["bytes"] == tenant["containers_used_bytes"],
                "{memory}"
            );
            // Limits are changed while it runs; the rest is another container.
            let mut spec = daemon.get("/v1/functions/router")["spec"].clone();
            spec["memory"] = json!("48MiB");
            daemon.put("/v1/functions/router", spec.clone());
            let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its groups");
            let limit = || {
                let parts = cgroup.lines().filter_map(|line| line.split(':').nth(2));
                let mut files = parts.flat_map(|path| {
                    ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(|root| {
                        let name = if root.ends_with('y') { "memory.limit_in_bytes" } else { "memory.max" };
                        format!("{root}{path}/{name}")
                    })
                });
                files.any(|file| fs::read_to_string(file).is_ok_and(|text| text.trim() == "50331648"))
            };
            daemon.wait("the kernel has the new limit", limit);
            assert_eq!(launcher.pid(), Some(pid));
            spec["command"] = json!(["/bin/sleep", "200000"]);
            daemon.put("/v1/functions/router", spec);
            let pid = another_pid(launcher, Some(pid));
            await_answer(&line.client);
            daemon.post("/v1/functions/router/restart", None);
            let pid = another_pid(launcher, Some(pid));
            assert_eq!(status()["faults"], 0, "nothing of it was one");
            kill(pid);
            let pid = another_pid(launcher, Some(pid));
            daemon
                .wait("it is counted", || status()["faults"] == 1 && status()["restarts"].as_u64() > Some(0));
            let metrics = daemon.text("/metrics");
            let of = "{function=\"router\",tenant=\"default\"}";
            let told = |line: String| assert!(metrics.contains(&line), "{line}: {metrics}");
            told(format!("superfluid_container_faults_total{of} 1\n"));
            told(format!("superfluid_container_memory_bytes{of} "));
            let events = daemon.text("/v1/functions/router/events");
            assert!(events.contains("signal 9 ended it"), "{events}");

            // It is no function in the sandbox.
            let (code, answer) = daemon.ask("POST", "/v1/functions/router/pause", None);
            assert!(code == 409 && answer.to_string().contains("`router` is a container"), "{code} {answer}");
            let (code, answer) = daemon.ask(
                "PUT",
                "/v1/functions/bad",
                Some(json!({"spec": {"guest": "container", "image": "/x"}})),
            );
            assert!(code == 422 && answer.to_string().contains("memory"), "{code} {answer}");

            // One that is killed finds it again, and what was not wanted any more is ended.
            await_answer(&line.client);
            daemon.kill();
            assert!(!has_ended(pid), "it goes on without the daemon");
            let daemon = line.middle.enter(|| options.start());
            let status = || daemon.get("/v1/functions/router")["status"].clone();
            daemon.wait("it is found", || status()["state"] == "running");
            assert_eq!(launcher.pid(), Some(pid), "the same as before");
            await_answer(&line.client);

            running.interrupt(LIMIT).expect("it ends");
            daemon.wait("it is told", || status()["state"] == "down");
            assert!(
                status()["reason"].as_str().is_some_and(|reason| reason.contains("launcher.sock")),
                "{}",
                status()
            );
            // A tenant reads what is its own of it.
            let own = daemon.clone().asking("tenants").variable("SUPERFLUID_TOKEN_FILE", "own.token");
            let reads = |withheld: &str, instead: &str| {
                let described = own.done("describe function router");
                assert!(described.contains(instead) && !described.contains(withheld), "{described}");
            };
            reads("launcher.sock", "the launcher does not answer; the host's administrator is told why");
            let running = launcher.start();
            another_pid(launcher, None);
            await_answer(&line.client);

            // What the launcher refuses later is said, and tried again.
            let (layout, away) = (folder.join("images/busybox"), folder.join("images/away"));
            fs::rename(&layout, &away).expect("renamed");
            kill(launcher.pid().expect("it runs"));
            let lies = || status()["reason"].as_str().is_some_and(|reason| reason.contains("No such file"));
            daemon.wait("the refusal is said", lies);
            reads(
                "No such file",
                "not allowed by the launcher's file; the host's administrator is told which",
            );
            let (events, log) = ("/v1/functions/router/events", "/v1/functions/router/logs");
            assert!(daemon.text(events).contains("the host's administrator is told which"));
            assert!([events, log].iter().all(|path| !daemon.text(path).contains("No such file")));
            fs::rename(&away, &layout).expect("renamed");
            await_answer(&line.client);
            daemon.done("delete chain/site");
            let pid = launcher.pid().expect("it runs");
            daemon.done("delete function/router");
            daemon.wait("it is ended", || has_ended(pid) && launcher.pid().is_none());
            running.interrupt(LIMIT).expect("it ends");
        });
    });
}

#[test]
fn tap_devices_go_on_after_the_end_of_container_daemon_and_launcher() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("tap_devices_go_on_after_the_end_of_container_daemon_and_launcher", || {
        with_launcher(|line, folder, launcher, running| {
            let chain = fs::read_to_string(folder.join("chain.yaml")).expect("the chain");
            let taps = chain.replace("{addresses: [", "{as: tap, addresses: [");
            assert_eq!(taps.matches("as: tap").count(), 2);
            fs::write(folder.join("taps.yaml"), &taps).expect("written");
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            fs::write(folder.join("bad.yaml"), taps.replacen("as: tap", "as: tap, mtu: 67", 1))
                .expect("written");
            let (_, refused) = daemon.refused("apply -f bad.yaml");
            assert!(
                refused.contains("functions.router.interfaces.in.mtu: found `67`; allowed: "),
                "{refused}"
            );
            daemon.done("apply -f taps.yaml");
            await_answer(&line.client);
            let pings = |count| {
                let ping = format!("ping -c {count} -i 0.02 -W 2 {SERVER}");
                let told = line.client.run(&ping, LIMIT).expect("all pass").stdout;
                all_pass(&told, count);
            };
            pings(50);
            let iperf = Iperf::serve(&line.server).expect("a server");
            let begin = Instant::now();
            let transfer = |option: &str| loop {
                match line.client.run(&format!("iperf3 --client {SERVER} --time 1{option}"), LIMIT) {
                    // It has still to do with the client before.
                    Err(TestbedError::Failed { output, .. })
                        if output.contains("busy") && begin.elapsed() < 2 * LIMIT =>
                    {
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    passed => return drop(passed.expect("TCP passes")),
                }
            };
            for (option, name) in [("", "router:out"), (" --reverse", "router:in")] {
                // What has come out of the container by one of its devices: acknowledgements of the other way
                // are few beside it.
                let counted = || {
                    let port = daemon.get("/v1/account")["ports"][name].clone();
                    let number = |value: &Value| value.as_u64().unwrap_or(0);
                    (number(&port["received_bytes"]), number(&port["packets"]["received"]))
                };
                let before = counted();
                transfer(option);
                let after = counted();
                let (bytes, packets) = (after.0 - before.0, after.1 - before.1);
                assert!(
                    bytes / packets > 2 * 1514,
                    "segments pass whole: {bytes} bytes in {packets} packets"
                );
            }
            let pid = launcher.pid().expect("it runs");
            kill(pid);
            let pid = another_pid(launcher, Some(pid));
            await_answer(&line.client);
            transfer("");
            // What another daemon finds is the same container, with the same devices.
            daemon.kill();
            let daemon = line.middle.enter(|| options.start());
            await_answer(&line.client);
            assert_eq!(launcher.pid(), Some(pid), "the same as before");
            transfer("");
            daemon.post("/v1/functions/router/restart", None);
            another_pid(launcher, Some(pid));
            await_answer(&line.client);
            running.interrupt(LIMIT).expect("it ends");
            daemon.wait("its ports are down", || {
                let account = daemon.get("/v1/account");
                ["router:in", "router:out"].iter().all(|name| account["ports"][name]["status"] != "up")
            });
            let running = launcher.start();
            another_pid(launcher, None);
            await_answer(&line.client);
            transfer("");
            // A change of what is the port's alone leaves the container and its device as they are.
            let pid = launcher.pid().expect("it runs");
            fs::write(folder.join("off.yaml"), taps.replace("as: tap", "as: tap, offload: 'off'"))
                .expect("written");
            daemon.done("apply -f off.yaml");
            await_answer(&line.client);
            assert_eq!(launcher.pid(), Some(pid), "the same as before");
            transfer("");
            drop(iperf);
            running.interrupt(LIMIT).expect("it ends");
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        });
    });
}

/// A tenant's, of a registry.
const OF_A_TENANT: &str = "
superfluid: 1
tenants: {default: {}, red: {pool: {buffers: 2048}, guests: [container], memory: {limit: 64MiB}}}
ports:
  lan: {type: af_packet, interface: sf-lan, tenant: red}
  wan: {type: af_packet, interface: sf-wan, tenant: red}
";

/// What a control group of version 1 or 2 says.
fn of_group(group: &str, file: &str) -> Option<String> {
    let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = hierarchies.map(|it| it.path()).chain(["/sys/fs/cgroup".into()]);
    let mut found = roots.filter_map(|root| fs::read_to_string(root.join(group).join(file)).ok());
    found.next().map(|text| text.trim().to_owned())
}

/// Microseconds of a processor that a control group has used.
fn used_by_group(group: &str) -> f64 {
    let first = of_group(group, "cpuacct.usage").and_then(|nanos| nanos.parse::<f64>().ok());
    let second = || {
        let text = of_group(group, "cpu.stat")?;
        text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse::<f64>().ok())
    };
    first.map(|nanos| nanos / 1e3).or_else(second).expect("its processor time")
}

/// What a control group may use of a processor.
fn quota_of(group: &str) -> Option<f64> {
    let second = of_group(group, "cpu.max");
    let text = second.or_else(|| {
        let [quota, period] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(|file| of_group(group, file));
        Some(format!("{} {}", quota?, period?))
    })?;
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok().filter(|quota| *quota > 0.0)? / period.parse::<f64>().ok()?)
}

/// Containers and functions of one worker, all of which want more than there is: what each gets is told by
/// what others get in the same time, so that it does not matter how much of the machine this test has.
#[test]
fn processors_are_divided_as_promised() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("processors_are_divided_as_promised", || {
        with_launcher(|line, folder, launcher, _running| {
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                // On a machine that is busy with other things containers start and shares settle slowly.
                .limit(Duration::from_secs(120))
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let document = |more: &str| {
                format!(
                    "superfluid: 1\nworkers: {{processors: [0]}}\nports:\n  source: {{type: generator, flows: 16}}\n  end: {{type: sink}}\n{more}"
                )
            };
            let spinning = |cpu: &str, rest: &str| {
                format!(
                    "{{guest: container, image: {}/images/busybox, command: [/bin/sh, -c, 'while :; do :; done & while :; do \
                     :; done'], memory: 32MiB, cpu: {cpu}{rest}}}",
                    folder.display()
                )
            };
            let daemon = line.middle.enter(|| options.start());
            daemon.write("workers.yaml", &document(""));
            daemon.done("apply -f workers.yaml");
            // Its workers are made when it starts.
            let daemon = line.middle.enter(|| daemon.kill().start());
            let group = format!("{}-beside", folder.file_name().expect("a name").to_string_lossy());

            // A function and two containers of one worker.
            let all = document(&format!(
                "functions:\n  fw: {{image: forwarder}}\n  large: {}\n  small: {}\nchains: {{one: [source, fw, end]}}\n",
                spinning("{weight: 75}", ", worker: 0"),
                spinning("{weight: 25}", ", worker: 0")
            ));
            daemon.write("all.yaml", &all);
            daemon.done("apply -f all.yaml");
            let status = |name: &str| daemon.get(&format!("/v1/functions/{name}"))["status"].clone();
            let promised = |name: &str| status(name)["promised_share"].as_f64().unwrap_or(0.0);
            let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
            daemon.wait("promises are told", || {
                near(promised("fw"), 0.5) && near(promised("large"), 0.375) && near(promised("small"), 0.125)
            });
            let cycles = || status("fw")["cycles"].as_f64().expect("a number");
            daemon.wait("both run", || {
                status("large")["state"] == "running" && status("small")["state"] == "running"
            });
            let used = |name: &str| used_by_group(&format!("{group}/{name}"));
            let mut told = (0.0, 0.0);
            daemon.wait("all get about what they are promised", || {
                let before = (cycles(), used("large"), used("small"));
                std::thread::sleep(Duration::from_secs(1));
                let after = (cycles(), used("large"), used("small"));
                let (large, small) = (after.1 - before.1, after.2 - before.2);
                // Cycles of some gigahertz: a function that is kept from running, or containers that are, are
                // off by more than that.
                told = (large / small, (after.0 - before.0) / (large + small));
                (2.2..4.0).contains(&told.0) && (700.0..12_000.0).contains(&told.1)
            });
            println!(
                "75 over 25: {:.2}; {:.0} cycles of the function for each microsecond of containers",
                told.0, told.1
            );

            // A cap is for packets and processes together.
            let capped = document(&format!(
                "functions:\n  eater: {}\nchains: {{one: [source, eater]}}\n",
                spinning("{cap: 30%}", ", interfaces: {in: {}}")
            ));
            daemon.write("capped.yaml", &capped);
            daemon.done("apply -f capped.yaml");
            let eater = format!("{}/eater", folder.file_name().expect("a name").to_string_lossy());
            daemon.wait("its packets are charged to it, and its processes have the rest", || {
                let processor = status("eater")["processor"].clone();
                let engine = processor["engine_share"].as_f64().unwrap_or(0.0);
                engine > 0.05 && engine < 0.25 && quota_of(&eater).is_some_and(|quota| quota < 0.25)
            });
            let metrics = daemon.text("/metrics");
            for name in
                ["container_engine_cpu_seconds", "container_got_cpu_seconds", "container_cpu_promised_ratio"]
            {
                assert!(metrics.contains(&format!("superfluid_{name}")), "{name}: {metrics}");
            }
            daemon.done("delete chain/one");
            for name in ["eater", "large", "small", "fw"] {
                daemon.done(&format!("delete function/{name}"));
            }
            // A launcher that ends leaves them running.
            daemon.wait("its containers are ended", || launcher.pid().is_none());
        });
    });
}

#[test]
fn what_the_launcher_would_refuse_is_told_when_it_is_applied() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("what_the_launcher_would_refuse_is_told_when_it_is_applied", || {
        with_launcher(|line, folder, launcher, running| {
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .arguments(["--launcher", folder.join("launcher.sock").to_str().expect("text")]);
            let daemon = line.middle.enter(|| options.start());
            let chain = fs::read_to_string(folder.join("chain.yaml")).expect("the chain");
            let image = "images/busybox";
            let with_digest = format!("{image}\n    digest: sha256:{}", "0".repeat(64));
            for (from, to, place, why) in [
                (image, "images/missing", "bad.yaml:10:12: functions.router.image:", "No such file"),
                (image, &*with_digest, "bad.yaml:10:12: functions.router.image:", "sha256:000000"),
                (
                    "memory: 64MiB",
                    "memory: 2GiB",
                    "bad.yaml:15:13: functions.router.memory:",
                    "limits.memory: found",
                ),
            ] {
                let bad = chain.replace(from, to);
                assert_ne!(bad, chain);
                daemon.write("bad.yaml", &bad);
                for command in ["apply", "apply --dry-run"] {
                    let (_, refused) = daemon.refused(&format!("{command} -f bad.yaml"));
                    assert!(refused.contains(place) && refused.contains(why), "{command}: {refused}");
                }
            }
            assert_eq!(daemon.ask("GET", "/v1/functions/router", None).0, 404, "nothing of it was changed");
            assert_eq!(launcher.pid(), None);
            let check = |image: &str, command: &[&str]| {
                let image = folder.join(image);
                let router =
                    json!({"guest": "container", "image": image, "command": command, "memory": "16MiB"});
                let document = json!({"superfluid": 1, "functions": {"router": router}});
                daemon.post("/v1/check", Some(document))
            };
            let report = check("images/missing", &["/bin/sh"]);
            assert_eq!(report["faults"][0]["at"], "functions.router.image", "{report}");
            let report = check("images/busybox", &[]);
            assert_eq!(report["faults"][0]["at"], "functions.router.command", "{report}");
            let report = check("images/busybox", &["/bin/sh"]);
            assert_eq!(report["faults"], json!([]), "{report}");
            assert!(!report["warnings"].to_string().contains("is not checked"), "{report}");
            // Without a launcher it is applied, and started when there is one.
            running.interrupt(LIMIT).expect("it ends");
            let report = check("images/busybox", &["/bin/sh"]);
            assert_eq!(report["faults"], json!([]), "{report}");
            let warnings = report["warnings"].to_string();
            assert!(warnings.contains("whether it may be started is not checked"), "{report}");
            daemon.done("apply -f chain.yaml");
            let running = launcher.start();
            await_answer(&line.client);
            running.interrupt(LIMIT).expect("it ends");
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        });
    });
}

#[test]
fn a_tenant_makes_a_container_of_a_registry() {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated("a_tenant_makes_a_container_of_a_registry", || {
        with_launcher(|line, folder, launcher, running| {
            running.interrupt(LIMIT).expect("it ends");
            let permits = fs::read_to_string(folder.join("launcher.yaml")).expect("the file");
            let images = folder.join("kept/container-images/red");
            let red = format!(
                "tenants:\n  red: {{uids: 2100000000, images: [{}], memory: 32MiB}}",
                images.display()
            );
            fs::write(folder.join("launcher.yaml"), permits.replace("tenants:", &red)).expect("written");
            let running = launcher.start();
            let layout = folder.join("images/busybox");
            let registry = line.middle.enter(|| {
                Server::new(move |asked| match layouts::answer(&layout, &asked.path) {
                    Some((media_type, bytes)) => Act::Answer(200, vec![("content-type", media_type)], bytes),
                    None => Act::Answer(404, Vec::new(), Vec::new()),
                })
            });
            let (host, socket) = (registry.host(), folder.join("launcher.sock").display().to_string());
            let arguments = ["--launcher", &socket, "--registry-insecure", &host, "--tenant-registry", &host];
            let options = Options::new(folder)
                .state("kept")
                .shared_cache()
                .tenants_socket("tenants")
                .arguments(arguments);
            let daemon = line.middle.enter(|| options.start());
            daemon.write("host.yaml", OF_A_TENANT);
            daemon.done("apply -f host.yaml");
            daemon.done("token create red --tenant red --file red.token");
            let commands: &support::commands::Commands = &daemon;
            let red = commands.clone().asking("tenants").variable("SUPERFLUID_TOKEN_FILE", "red.token");
            daemon.write(
                "red.yaml",
                &format!(
                    "superfluid: 1\nfunctions:\n  router:\n    guest: container\n    tenant: red\n    image: {host}/nf/router:1\n    \
                     command: [/bin/sleep, '100000']\n    memory: 16MiB\n    interfaces:\n      in: {{addresses: [192.0.2.1/24]}}\n      \
                     out: {{addresses: [198.51.100.1/24]}}\nwires: [[lan, 'router:in'], ['router:out', wan]]\n"
                ),
            );
            red.done("apply -f red.yaml");
            await_answer(&line.client);
            // What is about its own bounds is told to it.
            let document = fs::read_to_string(daemon.path("red.yaml")).expect("it was written");
            daemon.write("large.yaml", &document.replace("memory: 16MiB", "memory: 48MiB"));
            let (_, refused) = red.refused("apply -f large.yaml");
            assert!(refused.contains("functions.router.memory: limits.memory: found 48MiB"), "{refused}");
            assert!(!refused.contains(folder.to_str().expect("text")), "{refused}");
            let seen = red.json("get functions router");
            let image = seen["spec"]["image"].as_str().expect("text");
            assert!(image.starts_with(&format!("{host}/nf/router:1@sha256:")), "{image}");
            assert_eq!(Some(seen["status"]["image"].as_str().expect("text")), image.split('@').nth(1));
            // It starts again without the registry.
            drop(registry);
            let pid = launcher.pid().expect("it runs");
            kill(pid);
            another_pid(launcher, Some(pid));
            await_answer(&line.client);
            red.done("delete wire/lan~router:in");
            red.done("delete wire/router:out~wan");
            red.done("delete function/router");
            running.interrupt(LIMIT).expect("it ends");
            daemon.end();
        });
    });
}
