//! What `docs/programs.md` shows is carried out: a program in C and DPDK's testpmd, started by the launcher,
//! in a chain; killed in the middle of traffic and started again. Runs in namespaces of its own; needs root
//! and runc.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

#[path = "support/guest_system.rs"]
mod guest_system;
#[path = "support/native_forwarder.rs"]
mod native_forwarder;
#[path = "programs/testpmd.rs"]
mod testpmd;

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::commands::PROGRAM;
use support::daemon::Options;
use support::launcher::{BUSYBOX, Launcher, another_pid, folders, kill, missing, stop};
use support::{layouts, seen};
use testbed::{Background, Iperf, Line, SERVER, isolated};

const LIMIT: Duration = Duration::from_secs(20);
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The guide's examples, with folders of this test's.
fn guide(folder: &Path, programs: &Path) -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/programs.md")).expect("the guide");
    let blocks = text.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let images = folder.join("images").display().to_string();
    let to = programs.display().to_string();
    // Containers as well.
    let more = format!("images: [{images}]\n    mounts: [/boot, {images}]\n    programs: [");
    let permits = |text: String| text.replace("programs: [", &more);
    // On a busy machine a process is not always seen to within 100 ms, and each packet is waited for here.
    let seldom = |block: String| block.replace("heartbeat: 100ms", "heartbeat: 2s");
    blocks.map(|block| permits(seldom(block.replace("/opt/nf", &to)))).collect()
}

/// Two hosts of one network with nothing but this host between them, a launcher with the guide's file, and a
/// folder of programs.
fn with_launcher(test: &str, body: impl FnOnce(&Line, &Launcher<'_>, &[String])) {
    if let Some(missing) = missing() {
        println!("skipped: there is no {missing}");
        return;
    }
    isolated(test, || {
        let line = Line::new().expect("a line");
        let (folder, programs) = folders();
        native_forwarder::compile(&programs.path().join("forwarder"), &[]);
        let blocks = guide(folder.path(), programs.path());
        fs::create_dir(folder.path().join("images")).expect("made");
        fs::write(folder.path().join("launcher.yaml"), &blocks[0]).expect("written");
        let launcher = Launcher { folder: folder.path(), programs: programs.path(), line: &line };
        let running = launcher.start();
        body(&line, &launcher, &blocks[1..]);
        running.interrupt(LIMIT).expect("it ends");
    });
}

/// Asks the other end until it answers.
fn await_answer(line: &Line) {
    let begin = Instant::now();
    while line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(40), "no answer");
    }
}

/// All of so many are answered.
fn pings(line: &Line, count: u32) {
    let ping = format!("ping -c {count} -i 0.02 -W 2 {SERVER}");
    let told = line.client.run(&ping, LIMIT).expect("all pass").stdout;
    assert!(told.contains(" 0% packet loss"), "{told}");
}

/// Packets to a host and back, until this is dropped.
fn pinging(line: &Line, to: &str) -> Background {
    Background::start(line.client.command("ping").args(["-i", "0.01", to])).expect("ping")
}

fn transfer(line: &Line) {
    let iperf = Iperf::serve(&line.server).expect("a server");
    line.client.run(&format!("iperf3 --client {SERVER} --time 1"), LIMIT).expect("TCP passes");
    drop(iperf);
}

#[test]
fn a_program_by_the_library_is_killed_and_comes_back_in_a_run() {
    with_launcher("a_program_by_the_library_is_killed_and_comes_back_in_a_run", |line, launcher, blocks| {
        let file = launcher.folder.join("chain.yaml");
        fs::write(&file, &blocks[0]).expect("written");
        let mut command = line.middle.command(PROGRAM);
        command.args(["run", "--json"]).args(launcher.arguments());
        let mut program = Background::start(command.arg(&file)).expect("it starts");
        await_answer(line);
        pings(line, 20);
        let pid = launcher.pid().expect("it runs");
        kill(pid);
        assert!(program.is_running(), "what runs beside it goes on");
        another_pid(launcher, Some(pid));
        await_answer(line);
        transfer(line);
        let ended = program.interrupt(LIMIT).expect("it ends");
        let last: Value = serde_json::from_str(ended.stdout.lines().last().expect("a line")).expect("JSON");
        assert_eq!(last["balanced"], true, "{last}");
        assert!(ended.stdout.contains("signal 9 ended it"), "{}", ended.stdout);
        assert!(launcher.pid().is_none(), "the run ended its own");
        assert!(!launcher.folder.join("guests/forward").exists(), "and left no sockets");
    });
}

#[test]
fn a_daemon_keeps_a_program_by_the_library_through_deaths_of_either() {
    with_launcher(
        "a_daemon_keeps_a_program_by_the_library_through_deaths_of_either",
        |line, launcher, blocks| {
            let options =
                Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
            let daemon = line.middle.enter(|| options.start());
            daemon.write("chain.yaml", &blocks[0]);
            daemon.done("apply -f chain.yaml");
            await_answer(line);
            let status = || daemon.get("/v1/functions/forward")["status"].clone();
            daemon.wait("it is said to run", || status()["state"] == "running");
            assert!(status()["packets"].as_u64() > Some(0), "{}", status());
            let mut pid = launcher.pid();
            for life in 1..=3 {
                pings(line, 20);
                kill(pid.expect("it runs"));
                pid = Some(another_pid(launcher, pid));
                await_answer(line);
                daemon.wait("it is counted", || status()["faults"] == life);
            }
            transfer(line);
            let account = daemon.get("/v1/account");
            assert_eq!(account["balanced"], true, "{account}");
            let of = |port: &str, detail: &str| account["ports"][port]["details"][detail].as_u64();
            assert_eq!(
                (of("forward:in", "processes_refused"), of("forward:in", "descriptor_faults")),
                (Some(0), Some(0))
            );
            assert!(of("forward:out", "processes") >= Some(4), "{account}");

            // A process of another user, be it root, is none of the tenant's.
            let socket = launcher.folder.join("guests/forward/in.sock");
            let tried = Command::new(launcher.programs.join("forwarder")).args([&socket, &socket]).output();
            let told = String::from_utf8_lossy(&tried.expect("it runs").stderr).into_owned();
            let allowed = "found: user 0; allowed: users 2000000000 to 2000065535";
            assert!(told.contains(allowed), "{told}");
            pings(line, 5);

            // It is seen where functions in the sandbox are.
            let pinging = pinging(line, SERVER);
            seen::as_a_function(&daemon, "forward", "in");
            drop(pinging);

            // It is a program wherever it is named, and no function in the sandbox.
            let (code, answer) = daemon.ask("POST", "/v1/functions/forward/pause", None);
            assert!(code == 409 && answer.to_string().contains("`forward` is a program"), "{code} {answer}");
            let graph = daemon.get("/v1/graph");
            let node =
                graph["nodes"].as_array().and_then(|nodes| nodes.iter().find(|it| it["name"] == "forward"));
            assert_eq!(
                node.map(|node| (&node["kind"], &node["state"])),
                Some((&json!("function"), &json!("running")))
            );
            assert!(daemon.text("/v1/functions/forward/events").contains("signal 9 ended it"));
            let (code, answer) = daemon.ask(
                "PUT",
                "/v1/functions/bad",
                Some(json!({"spec": {"guest": "program", "image": "/x", "memory": "8MiB"}})),
            );
            assert!(code == 422 && answer.to_string().contains("command"), "{code} {answer}");

            // What the launcher does not allow is told with its place, and what runs goes on.
            let mut spec = daemon.get("/v1/functions/forward")["spec"].clone();
            let pid = launcher.pid();
            spec["command"][0] = json!("/root/forwarder");
            let (code, answer) = daemon.ask("PUT", "/v1/functions/forward", Some(json!({"spec": spec})));
            let fault = &answer["faults"][0];
            assert_eq!((code, &fault["at"]), (422, &json!("functions.forward.command")), "{answer}");
            assert!(fault["message"].to_string().contains("found the program `/root/forwarder`"), "{answer}");
            await_answer(line);
            assert_eq!(launcher.pid(), pid, "the same as before");

            // A daemon that is killed takes it along, because this program ends without its ports; it is
            // there again with the next one, at that one's sockets.
            daemon.kill();
            let daemon = line.middle.enter(|| options.start());
            await_answer(line);
            transfer(line);
            daemon.done("delete chain/site");
            daemon.done("delete function/forward");
            daemon.wait("it is ended", || launcher.pid().is_none());
            daemon.wait("its folder goes", || !launcher.folder.join("guests/forward").exists());
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        },
    );
}

#[test]
fn a_program_that_hangs_is_ended_and_started_again() {
    with_launcher("a_program_that_hangs_is_ended_and_started_again", |line, launcher, blocks| {
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.write("chain.yaml", &blocks[0]);
        daemon.done("apply -f chain.yaml");
        let status = || daemon.get("/v1/functions/forward")["status"].clone();
        for life in 1..=2 {
            await_answer(line);
            pings(line, 20);
            let pid = another_pid(launcher, None);
            stop(pid);
            // With packets in its rings.
            let _ = line.client.run(&format!("ping -c 20 -i 0.02 -W 1 {SERVER}"), LIMIT);
            another_pid(launcher, Some(pid));
            daemon.wait("it is counted", || status()["faults"] == life && status()["state"] == "running");
        }
        await_answer(line);
        transfer(line);
        let events = daemon.text("/v1/functions/forward/events");
        assert!(events.matches("heartbeat missed: no sign of life for").count() >= 2, "{events}");
        let account = daemon.get("/v1/account");
        assert_eq!(account["balanced"], true, "{account}");
        let back = |port: &str| account["ports"][port]["details"]["buffers_given_back"].as_u64().unwrap_or(0);
        assert!(back("forward:in") + back("forward:out") > 0, "what it had came back: {account}");
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

#[test]
fn a_program_that_never_attaches_is_ended_and_started_again() {
    with_launcher("a_program_that_never_attaches_is_ended_and_started_again", |line, launcher, blocks| {
        let told = "it has not attached at all of its sockets within";
        let with = |command: &str| {
            assert_eq!(blocks[0].matches("command: [").count(), 1);
            blocks[0].replace("command: [", command)
        };
        let idle = with("attach_within: 1s\n    command: [/usr/bin/sleep, '1000'] # [");
        let file = launcher.folder.join("idle.yaml");
        fs::write(&file, &idle).expect("written");
        let mut command = line.middle.command(PROGRAM);
        command.args(["run", "--json"]).args(launcher.arguments());
        let program = Background::start(command.arg(&file)).expect("it starts");
        let pid = another_pid(launcher, None);
        another_pid(launcher, Some(pid));
        let ended = program.interrupt(LIMIT).expect("it ends");
        assert!(ended.stdout.contains(told), "{}", ended.stdout);

        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.done("apply -f idle.yaml");
        let status = || daemon.get("/v1/functions/forward")["status"].clone();
        let faults = || status()["faults"].as_u64().unwrap_or(0);
        // It has not come to its work, wherever its state is said.
        daemon.wait("it is starting", || {
            is_starting(&status(), "`in`, `out` yet; it is ended after 1s without")
        });
        let of =
            |name: &str| format!("superfluid_container_{name}{{function=\"forward\",tenant=\"default\"}} ");
        daemon.wait("metrics say so", || {
            let metrics = daemon.text("/metrics");
            [("up", 0), ("starting", 1)]
                .iter()
                .all(|(name, value)| metrics.contains(&format!("{}{value}\n", of(name))))
        });
        daemon.wait("the graph says so", || {
            let graph = daemon.get("/v1/graph");
            let node =
                graph["nodes"].as_array().and_then(|all| all.iter().find(|it| it["name"] == "forward"));
            node.is_some_and(|node| node["state"] == "starting")
        });
        daemon.wait("lists say so", || daemon.done("get functions").contains("starting"));
        daemon.wait("it is counted, each time", || faults() >= 2);
        // The event is kept after the fault is counted.
        daemon.wait("it is told of, each time", || {
            daemon.text("/v1/functions/forward/events").matches(told).count() >= 2
        });

        // One that has attached is left alone from then on.
        daemon.write("attaches.yaml", &with("attach_within: 1s\n    command: ["));
        daemon.done("apply -f attaches.yaml");
        await_answer(line);
        let (pid, before) = (launcher.pid(), faults());
        daemon.wait("it runs", || status()["state"] == "running" && status()["since"].is_null());
        transfer(line);
        pings(line, 100);
        assert_eq!((launcher.pid(), faults()), (pid, before));

        // Of those that stand by each other it is the one that does not.
        let by_name = "attach_within: 1s\n    standby: 1\n    command: [/usr/bin/sh, -c, 'read name < /proc/sys/kernel/hostname; \
                       test $name = forward || exec /usr/bin/sleep 1000; exec \"$@\"', sh, ";
        daemon.write("one.yaml", &with(by_name));
        daemon.done("apply -f one.yaml");
        await_answer(line);
        let (pid, before) = (launcher.pid_of("forward"), faults());
        daemon.wait("the other one is ended, each time", || faults() >= before + 2);
        assert_eq!(launcher.pid_of("forward"), pid);
        pings(line, 5);
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

#[test]
fn a_program_that_stands_by_takes_over_and_the_dead_one_stands_by() {
    with_launcher(
        "a_program_that_stands_by_takes_over_and_the_dead_one_stands_by",
        |line, launcher, blocks| {
            let options =
                Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
            let daemon = line.middle.enter(|| options.start());
            daemon.write("chain.yaml", &blocks[0].replace("heartbeat: 2s", "heartbeat: 2s\n    standby: 1"));
            daemon.done("apply -f chain.yaml");
            let counted = |name: &str, count: u64| {
                let account = daemon.get("/v1/account");
                ["forward:in", "forward:out"]
                    .iter()
                    .all(|port| account["ports"][port]["details"][name] == count)
            };
            daemon.wait("it stands by", || counted("processes_standby", 1));
            await_answer(line);
            let [mut active, mut other] = ["forward", "forward.1"];
            for life in 1..=4 {
                pings(line, 5);
                // One that hangs is ended when the other one has taken over, or it would not stand by.
                let end = if life == 2 { stop } else { kill };
                end(launcher.pid_of(active).expect("it runs"));
                daemon.wait("it has taken over", || counted("takeovers", life));
                pings(line, 5);
                daemon.wait("the next one stands by", || counted("processes_standby", 1));
                (active, other) = (other, active);
            }
            let status = daemon.get("/v1/functions/forward")["status"].clone();
            assert_eq!((&status["state"], &status["faults"]), (&json!("running"), &json!(4)), "{status}");
            assert_eq!(status["standby"], json!({"processes_standby": 1, "takeovers": 4}), "{status}");
            let events = daemon.text("/v1/functions/forward/events");
            assert!(
                events.contains("signal 9 ended it") && events.contains("heartbeat missed: "),
                "{events}"
            );
            assert_eq!(daemon.get("/v1/account")["balanced"], true);
            daemon.done("delete chain/site");
            daemon.done("delete function/forward");
            daemon.wait("both are ended", || launcher.pid_of(active).or(launcher.pid_of(other)).is_none());
            let ended = daemon.end();
            assert!(ended.contains("the account balances"), "{ended}");
        },
    );
}

#[test]
fn the_other_examples_run_as_they_are() {
    with_launcher("the_other_examples_run_as_they_are", |line, launcher, _| {
        let native = fs::read_to_string(Path::new(ROOT).join("docs/native.md")).expect("the guide");
        let native = native.split("\n```yaml\n").nth(2).and_then(|rest| rest.split("\n```").next());
        let example = fs::read_to_string(Path::new(ROOT).join("examples/program.yaml")).expect("the example");
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        for (name, text) in [("native.yaml", native.expect("its second example")), ("example.yaml", &example)]
        {
            daemon.write(name, &text.replace("/opt/nf", &launcher.programs.display().to_string()));
            daemon.done(&format!("apply -f {name} --prune --allow-restart"));
            let delivered =
                || daemon.get("/v1/account")["ports"]["end"]["packets"]["delivered"].as_u64().unwrap_or(0);
            let details = || daemon.get("/v1/account")["ports"]["forward:out"]["details"].clone();
            daemon.wait("it is attached", || details()["processes"].as_u64() > Some(0));
            let before = delivered();
            daemon.wait("packets pass it", || delivered() > before + 2_000);
        }
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

/// Whether a function is said to run and to be waited for at sockets.
fn is_starting(status: &Value, at: &str) -> bool {
    let reason = status["reason"].as_str().unwrap_or_default();
    status["state"] == "starting"
        && reason.contains(&format!("it runs, and has not attached at {at}"))
        && status["since"].is_string()
}

/// A machine's kernel, and the folder of its modules; says so when something is not there.
fn machine_parts() -> Option<(PathBuf, PathBuf)> {
    if !Path::new("/usr/bin/qemu-system-x86_64").exists() {
        eprintln!("skipped: there is no qemu-system-x86_64 (Debian: qemu-system-x86)");
        return None;
    }
    guest_system::kernel()
}

/// The guide's virtual machine, with what it boots.
fn machine(launcher: &Launcher<'_>, (kernel, modules): &(PathBuf, PathBuf)) -> String {
    let folder = launcher.folder.join("images");
    fs::write(folder.join("initramfs"), guest_system::initramfs(modules, &[])).expect("written");
    let guide = fs::read_to_string(Path::new(ROOT).join("docs/vhost-user.md")).expect("the guide");
    let mut files = guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let file = files.find(|file| file.contains("guest: vm")).expect("its example");
    file.replace("/boot/vmlinuz", &kernel.display().to_string())
        .replace("/opt/vm", &folder.display().to_string())
        .replace("eth1", "sf-lan")
}

/// QEMU is at its socket, and no driver starts the device.
#[test]
#[ignore = "make peers"]
fn a_virtual_machine_that_does_not_start_its_device_is_ended() {
    let Some(parts) = machine_parts() else { return };
    with_launcher("a_virtual_machine_that_does_not_start_its_device_is_ended", |line, launcher, _| {
        let idle = "append: 'quiet rdinit=/bin/busybox -- sleep 100000'\n    attach_within: 3s";
        let file = machine(launcher, &parts).replace("append: quiet", idle);
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.write("vm.yaml", &file);
        daemon.done("apply -f vm.yaml");
        let (mut waited_for, mut ran) = (false, None);
        daemon.wait("it is ended", || {
            let status = daemon.get("/v1/functions/machine")["status"].clone();
            waited_for |= is_starting(&status, "`in` yet; it is ended after 3s without");
            if status["state"] == "running" {
                ran = Some(status.clone());
            }
            status["faults"].as_u64() > Some(0)
        });
        assert!(waited_for && ran.is_none(), "its device was not started: {waited_for}, {ran:?}");
        // It is counted first, and told then.
        daemon.wait("it is told why", || {
            let events = daemon.text("/v1/functions/machine/events");
            events.contains("it has not attached at all of its sockets within")
        });
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

/// The guide's virtual machine, which is killed and started again.
#[test]
#[ignore = "make peers"]
fn a_virtual_machine_stands_in_a_chain() {
    let Some(parts) = machine_parts() else { return };
    with_launcher("a_virtual_machine_stands_in_a_chain", |line, launcher, _| {
        let folder = launcher.folder.join("images");
        let file = machine(launcher, &parts);
        fs::write(folder.join("file"), testbed::pattern(2_000_000)).expect("written");
        let mut server = line.client.command("python3");
        server.args(["-m", "http.server", "8000", "--directory"]).arg(&folder);
        let _server = Background::start(&mut server).expect("python3");
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.write("vm.yaml", &file);
        daemon.done("apply -f vm.yaml");
        let status = || daemon.get("/v1/functions/machine")["status"].clone();
        daemon.wait("it boots", || is_starting(&status(), "`in` yet; it is ended after 5m without"));
        let mut before = None;
        for _ in 0..2 {
            daemon.wait("the guest has fetched its file", || {
                line.client.run("curl --silent --fail --max-time 2 http://10.83.0.9/queues", LIMIT).is_ok()
            });
            let fetched = line.client.run("curl --silent --fail http://10.83.0.9/file --output -", LIMIT);
            assert!(fetched.is_ok(), "{fetched:?}");
            assert_eq!(status()["state"], "running", "{}", status());
            let pid = launcher.pid().expect("it runs");
            assert_ne!(before, Some(pid));
            kill(pid);
            another_pid(launcher, Some(pid));
            before = Some(pid);
        }
        let pinging = pinging(line, "10.83.0.9");
        daemon.wait("it is started again", || {
            line.client.run("curl --silent --fail --max-time 2 http://10.83.0.9/queues", LIMIT).is_ok()
        });
        seen::as_a_function(&daemon, "machine", "in");
        let log = daemon.done("function logs machine");
        assert!(log.contains("the guest is ready"), "{log}");
        drop(pinging);
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

/// `docs/vms.md`: an image of a program of this host, and its machine in a chain.
#[test]
#[ignore = "make peers"]
fn an_image_that_is_made_of_nginx_serves_in_a_chain() {
    if guest_system::kernel().is_none() {
        return;
    }
    for (program, package) in
        [("/usr/sbin/nginx", "nginx-light"), ("/usr/bin/qemu-system-x86_64", "qemu-system-x86")]
    {
        if !Path::new(program).exists() {
            return eprintln!("skipped: there is no {program} (Debian: {package})");
        }
    }
    with_launcher("an_image_that_is_made_of_nginx_serves_in_a_chain", |line, launcher, _| {
        let folder = launcher.folder.join("images");
        let guide = fs::read_to_string(Path::new(ROOT).join("docs/vms.md")).expect("the guide");
        let build = guide.split("```console\n$ superfluid ").nth(1).and_then(|rest| rest.split("```").next());
        let build = build
            .expect("its first command")
            .replace("--output web", &format!("--output {}", folder.display()));
        let built = Command::new("sh")
            .args(["-c", &format!("{PROGRAM} {build}")])
            .current_dir(ROOT)
            .env("XDG_CACHE_HOME", launcher.folder.join("cache"))
            .output()
            .expect("it runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let file =
            guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("its example");
        let file = file.replace("/opt/vm", &folder.display().to_string()).replace("eth1", "sf-lan");
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.write("vm.yaml", &file);
        daemon.done("apply -f vm.yaml");
        let fetched = || line.client.run("curl --silent --fail --max-time 2 http://10.83.0.9/", LIMIT);
        daemon.wait("the page is served", || {
            fetched().is_ok_and(|it| it.stdout.contains("A page of a virtual machine"))
        });
        // Its file of the launcher says nothing of KVM.
        let listed = launcher.ask(r#"{"list": {"log_of": "web"}}"#).expect("a list");
        assert!(listed.contains("superfluid: without /dev/kvm"), "{listed}");
        let pid = launcher.pid().expect("it runs");
        kill(pid);
        another_pid(launcher, Some(pid));
        daemon.wait("the next one serves", || fetched().is_ok());
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

/// A program of a package, of which the kernel answers for its address.
const BY_XDP: &str = "
superfluid: 1
ports: {lan: {type: af_packet, interface: sf-lan}}
functions:
  host:
    guest: program
    command: [/usr/bin/sleep, '100000']
    interfaces: {in: {as: af_xdp, umem: own, addresses: [10.83.0.77/24]}}
    memory: 16MiB
wires: [[lan, 'host:in']]
";

#[test]
fn an_interface_is_driven_by_af_xdp_at_its_outer_end() {
    with_launcher("an_interface_is_driven_by_af_xdp_at_its_outer_end", |line, launcher, _| {
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.write("xdp.yaml", BY_XDP);
        daemon.done("apply -f xdp.yaml");
        let answers = || line.client.run("ping -c 1 -W 1 10.83.0.77", LIMIT).is_ok();
        daemon.wait("it answers", answers);
        let before = launcher.pid();
        kill(before.expect("it runs"));
        another_pid(launcher, before);
        daemon.wait("the next one answers", answers);
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

/// A container with the same program, and an image without anything else.
const CONTAINED: &str = "
superfluid: 1
tenants: {default: {pool: {buffers: 2048, buffer_size: 64KiB}}}
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan}
functions:
  forward:
    guest: container
    image: IMAGE
    command: [/forwarder, /run/superfluid/a.sock, /run/superfluid/out.sock]
    interfaces: {in: {as: library, name: a}, out: {as: library}, beside: {addresses: [192.0.2.1/24]}}
    memory: 32MiB
    restart: {first_delay: 1h, longest_delay: 1h}
    fail: open
chains: {site: [lan, forward, wan]}
";

/// An image with the program and busybox.
fn image_of_forwarder(launcher: &Launcher<'_>) -> PathBuf {
    let root = tempfile::tempdir().expect("a folder");
    for name in ["dev", "proc", "sys", "tmp", "run"] {
        fs::create_dir(root.path().join(name)).expect("made");
    }
    native_forwarder::compile(&root.path().join("forwarder"), &["-static"]);
    fs::copy(BUSYBOX, root.path().join("busybox")).expect("copied");
    let tar = Command::new("tar")
        .args(["--owner=0", "--group=0", "-cf", "-", "-C"])
        .arg(root.path())
        .arg(".")
        .output();
    let image = launcher.folder.join("images/forwarder");
    layouts::write(&image, &tar.expect("tar").stdout);
    image
}

#[test]
fn a_container_that_is_slow_is_passed_by_until_it_has_attached() {
    with_launcher("a_container_that_is_slow_is_passed_by_until_it_has_attached", |line, launcher, _| {
        let image = image_of_forwarder(launcher);
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        let file = CONTAINED.replace("IMAGE", &image.display().to_string());
        // It begins when it is told to.
        let slow = "command: [/busybox, sh, -c, 'trap \"exec /forwarder /run/superfluid/a.sock /run/superfluid/out.sock\" USR1; \
                    while /busybox sleep 0.1; do :; done']";
        let (command, _) =
            file.split_once("command: ").expect("its command").1.split_once('\n').expect("a line");
        daemon.write("chain.yaml", &file.replace(&format!("command: {command}"), slow));
        daemon.done("apply -f chain.yaml");
        let status = || daemon.get("/v1/functions/forward")["status"].clone();
        let passed_by =
            || daemon.get("/v1/account")["ports"]["forward:in"]["details"]["passed_by"].as_u64().unwrap_or(0);
        // The interface of the kernel's is there.
        daemon.wait("it is starting", || {
            is_starting(&status(), "`in`, `out` yet; it is ended after 1m without")
        });
        await_answer(line);
        assert!(passed_by() > 0 && status()["state"] == "starting", "{}", status());
        daemon.wait("it runs", || {
            launcher.pid().is_some_and(|pid| {
                let told = Command::new("kill").args(["-USR1", &pid.to_string()]).status().expect("kill");
                told.success() && status()["state"] == "running"
            })
        });
        daemon.wait("packets go by the program", || {
            let before = passed_by();
            line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_ok() && passed_by() == before
        });
        assert_eq!(status()["faults"], 0, "{}", status());
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

#[test]
fn a_container_has_interfaces_of_the_library_and_packets_pass_by_it() {
    with_launcher("a_container_has_interfaces_of_the_library_and_packets_pass_by_it", |line, launcher, _| {
        let image = image_of_forwarder(launcher);
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.write("chain.yaml", &CONTAINED.replace("IMAGE", &image.display().to_string()));
        daemon.done("apply -f chain.yaml");
        await_answer(line);
        let details = |port: &str, detail: &str| {
            daemon.get("/v1/account")["ports"][port]["details"][detail].as_u64().unwrap_or(0)
        };
        daemon.wait("it is attached", || details("forward:in", "processes") == 1);
        let passed = || details("forward:in", "passed_by");
        // Until the port has been looked at again they go on to pass by it.
        daemon.wait("packets go by the program", || {
            let before = passed();
            line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_ok() && passed() == before
        });
        let before = passed();
        pings(line, 20);
        assert_eq!(passed(), before, "by the program");
        kill(launcher.pid().expect("it runs"));
        daemon.wait("packets pass by it", || {
            let _ = line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT);
            passed() > before
        });
        pings(line, 20);
        let status = daemon.get("/v1/functions/forward")["status"].clone();
        assert!(status["reason"].as_str().is_some_and(|it| it.contains("signal 9 ended it")), "{status}");
        daemon.post("/v1/functions/forward/restart", None);
        daemon.wait("the next one is attached", || details("forward:in", "processes") == 2);
        await_answer(line);
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}
