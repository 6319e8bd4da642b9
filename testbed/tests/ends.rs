//! What a test has started ends with the test's process, also when that is killed; and not before, with the
//! thread that started it.

use rustix::process::{Pid, Signal, getuid, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testbed::{Background, Namespace, start};

const LIMIT: Duration = Duration::from_secs(20);
/// In the environment of the process that is killed.
const VICTIM: &str = "SUPERFLUID_TESTBED_VICTIM";
const TEST: &str = "what_a_test_has_started_ends_with_its_process_and_not_with_its_thread";
/// What is started by threads that have ended.
const SLEEP: &str = "100000";

/// Whether a process has ended; its parent may not have been told yet.
fn has_ended(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

/// Which network namespace a process is in.
fn network_of(process: &str) -> u64 {
    fs::metadata(format!("/proc/{process}/ns/net")).expect("it is there").ino()
}

/// Starts what is to end with it, says which processes these are, and waits for its end.
#[expect(clippy::zombie_processes, reason = "it does not see their end: it is killed")]
fn victim() {
    let sleep = || {
        let mut command = Command::new("sleep");
        command.arg(SLEEP);
        command
    };
    let number = |one: &Background| one.id().as_raw_nonzero().get() as u32;
    let on_a_thread = |body: &(dyn Fn() -> Background + Sync)| {
        std::thread::scope(|scope| scope.spawn(body).join()).expect("it has started it")
    };
    let plain =
        std::thread::spawn(move || start(&mut sleep()).expect("sleep")).join().expect("it has started it");
    let background = on_a_thread(&|| Background::start(&mut sleep()).expect("sleep"));
    let asked = on_a_thread(&|| {
        let mut command = Command::new("sh");
        command.args(["-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"]);
        Background::start_ended_by(&mut command, Signal::TERM).expect("sh")
    });
    let mut started = vec![plain.id(), number(&background), number(&asked)];
    if getuid().is_root() {
        let namespace = Namespace::new().expect("root may");
        let entered = namespace.enter(|| start(&mut sleep()).expect("sleep"));
        let command =
            on_a_thread(&|| Background::start(namespace.command("sleep").arg(SLEEP)).expect("sleep"));
        let back = start(&mut sleep()).expect("sleep");
        let inode = |pid: u32| network_of(&pid.to_string());
        assert_ne!(network_of("self"), inode(entered.id()), "it is where its thread was");
        assert_eq!(inode(number(&command)), inode(entered.id()));
        assert_eq!(inode(back.id()), network_of("self"));
        started.extend([entered.id(), number(&command), back.id()]);
        std::mem::forget(command);
    }
    [background, asked].into_iter().for_each(std::mem::forget);
    let words: Vec<String> = started.iter().map(u32::to_string).collect();
    println!("\nstarted {}", words.join(" "));
    loop {
        std::thread::park();
    }
}

#[test]
fn what_a_test_has_started_ends_with_its_process_and_not_with_its_thread() {
    if std::env::var_os(VICTIM).is_some() {
        return victim();
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", TEST, "--nocapture"]).env(VICTIM, "").stdout(Stdio::piped());
    let mut child = start(&mut command).expect("this program");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let told = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("started ")?.to_owned()));
    let told = told.expect("it says what it has started");
    let started: Vec<u32> = told.split(' ').map(|word| word.parse().expect("a number")).collect();
    // What a thread's end would have ended is gone by now: the thread had ended before this was said.
    assert!(started.len() >= 3 && !started.iter().any(|pid| has_ended(*pid)), "{told}");
    kill_process(Pid::from_child(&child), Signal::KILL).expect("it runs");
    child.wait().expect("a child");
    let begin = Instant::now();
    while let Some(goes_on) = started.iter().find(|pid| !has_ended(**pid)) {
        assert!(begin.elapsed() < LIMIT, "{goes_on} of {told} goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
