//! DPDK's testpmd as a program, by memif and by vhost-user: killed and started again, late and too late.

use super::support::daemon::Options;
use super::support::launcher::{another_pid, kill};
use super::{await_answer, is_starting, transfer, with_launcher};
use serde_json::json;
use std::fs;
use std::path::Path;

/// testpmd as the guide has it, if it is installed.
fn has_testpmd() -> bool {
    let there = Path::new("/usr/bin/dpdk-testpmd").is_file();
    if !there {
        println!("skipped: DPDK's testpmd is not installed (apt-get install dpdk-dev)");
    }
    there
}

#[test]
fn testpmd_is_a_program_between_memifs() {
    testpmd_is_a_program("testpmd::testpmd_is_a_program_between_memifs", str::to_owned);
}

#[test]
fn testpmd_is_a_program_between_devices_of_vhost_user() {
    testpmd_is_a_program("testpmd::testpmd_is_a_program_between_devices_of_vhost_user", by_vhost_user);
}

/// The guide's testpmd between devices of vhost-user.
fn by_vhost_user(file: &str) -> String {
    let mut changed = file.replace("as: memif", "as: vhost-user");
    for (number, name) in ["in", "out"].into_iter().enumerate() {
        let memif = format!("net_memif{number},role=client,socket=/tmp/{name}.sock,socket-abstract=no");
        assert!(changed.contains(&memif), "{changed}");
        let device = format!("net_virtio_user{number},path=/run/superfluid/{name}.sock");
        changed = changed.replace(&memif, &device);
    }
    changed
}

fn testpmd_is_a_program(test: &str, change: fn(&str) -> String) {
    if !has_testpmd() {
        return;
    }
    with_launcher(test, |line, launcher, blocks| {
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        daemon.write("pmd.yaml", &change(&blocks[1]));
        daemon.done("apply -f pmd.yaml");
        await_answer(line);
        let pid = launcher.pid().expect("it runs");
        kill(pid);
        another_pid(launcher, Some(pid));
        await_answer(line);
        transfer(line);
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}

#[test]
fn testpmd_between_memifs_may_come_late_and_not_too_late() {
    testpmd_comes_late("testpmd::testpmd_between_memifs_may_come_late_and_not_too_late", str::to_owned);
}

#[test]
fn testpmd_between_devices_of_vhost_user_may_come_late_and_not_too_late() {
    let test = "testpmd::testpmd_between_devices_of_vhost_user_may_come_late_and_not_too_late";
    testpmd_comes_late(test, by_vhost_user);
}

/// It begins when a file is there. Until then it is starting; when its time is over it is ended.
fn testpmd_comes_late(test: &str, change: fn(&str) -> String) {
    if !has_testpmd() {
        return;
    }
    with_launcher(test, |line, launcher, blocks| {
        let go = launcher.programs.join("go");
        let file = |within: &str| {
            let waits = format!("- until test -e {}; do sleep 0.1; done && ln -s", go.display());
            let file = change(&blocks[1]).replace("- ln -s", &waits);
            assert!(file.contains(&waits), "{file}");
            file.replace("memory: 512MiB", &format!("memory: 512MiB\n    attach_within: {within}"))
        };
        let options =
            Options::new(launcher.folder).state("kept").shared_cache().arguments(launcher.arguments());
        let daemon = line.middle.enter(|| options.start());
        let status = || daemon.get("/v1/functions/pmd")["status"].clone();
        daemon.write("pmd.yaml", &file("1h"));
        daemon.done("apply -f pmd.yaml");
        daemon.wait("it is starting", || {
            is_starting(&status(), "`in`, `out` yet; it is ended after 1h without")
        });
        fs::write(&go, "").expect("written");
        await_answer(line);
        daemon.wait("it runs", || status()["state"] == "running");
        assert_eq!(status()["faults"], 0, "{}", status());
        // The time is changed while it runs, and is none for what has attached.
        let pid = launcher.pid();
        daemon.write("pmd.yaml", &file("1s"));
        daemon.done("apply -f pmd.yaml");
        transfer(line);
        assert_eq!((launcher.pid(), &status()["faults"]), (pid, &json!(0)));
        // The next one has it, and never comes to its work.
        fs::remove_file(&go).expect("removed");
        kill(pid.expect("it runs"));
        let (mut waited_for, mut ran) = (false, false);
        daemon.wait("it is ended, each time", || {
            let status = status();
            waited_for |= is_starting(&status, "`in`, `out` yet");
            ran |= waited_for && status["state"] == "running";
            status["faults"].as_u64() >= Some(3)
        });
        assert!(waited_for && !ran, "it has not attached");
        let events = daemon.text("/v1/functions/pmd/events");
        assert!(events.contains("it has not attached at all of its sockets within"), "{events}");
        daemon.write("pmd.yaml", &file("1h"));
        daemon.done("apply -f pmd.yaml");
        fs::write(&go, "").expect("written");
        await_answer(line);
        let ended = daemon.end();
        assert!(ended.contains("the account balances"), "{ended}");
    });
}
