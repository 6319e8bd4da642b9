//! What takes longer than a second is shown on a terminal, and nowhere else.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

const PROGRAM: &str = env!("CARGO_BIN_EXE_superfluid");

/// A daemon that answers nothing: it takes one connection and holds it.
fn silent(folder: &std::path::Path) -> JoinHandle<UnixStream> {
    let listener = UnixListener::bind(folder.join("socket")).expect("a socket");
    std::thread::spawn(move || listener.accept().expect("a client").0)
}

/// What a command writes until it has written `wanted`.
fn read_until(from: &mut impl Read, wanted: &str) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 256]);
    while !text.contains(wanted) {
        let count = from.read(&mut bytes).expect("it can be read");
        assert!(count > 0, "it ended with {text:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    text
}

fn rest(mut from: impl Read, mut child: Child) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).expect("it ends");
    assert!(!child.wait().expect("ended").success(), "the daemon answered nothing");
    text
}

#[test]
fn a_terminal_shows_what_is_waited_for_until_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = silent(folder.path());
    // `script` gives the command a terminal, and what is written there to its own output.
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command"])
        .arg(format!("'{PROGRAM}' snapshot save fw first --socket socket"))
        .arg("/dev/null")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script");
    let mut shown = child.stdout.take().expect("it is piped");
    let before = read_until(&mut shown, "2s");
    assert!(before.starts_with("\r\u{1b}[Ksaving function/fw ... 1s"), "{before:?}");
    assert!(!before.contains('\n'), "one line: {before:?}");
    drop(daemon.join().expect("a client came"));
    let after = rest(shown, child);
    let (line, told) = after.rsplit_once("\r\u{1b}[K").expect("the line is erased");
    assert!(!line.contains('\n') && told.contains("the daemon at socket"), "{after:?}");
}

/// A daemon that was killed has its socket until all of it is gone.
#[test]
fn a_daemon_that_ends_is_waited_for_until_the_next_one_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("socket")).expect("a socket");
    let daemons = std::thread::spawn(move || {
        drop(listener.accept().expect("a client"));
        let (mut next, _) = listener.accept().expect("it comes again");
        read_until(&mut next, "\r\n\r\n");
        let health = r#"{"healthy":true,"troubles":[],"warnings":[],"version":"0.1.0","started":"2026-01-01T00:00:00Z","objects":0,"revision":0,"durable":0}"#;
        let length = health.len();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        next.write_all(format!("{head}{health}").as_bytes()).expect("it reads");
    });
    let told = Command::new(PROGRAM)
        .args(["health", "--wait", "20s", "--socket", "socket", "-o", "json"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("the program");
    assert!(told.status.success(), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stdout).contains("\"healthy\": true"), "{told:?}");
    daemons.join().expect("both were asked");
}

#[test]
fn what_is_no_terminal_is_shown_the_error_alone() {
    for format in ["table", "json"] {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = silent(folder.path());
        let mut child = Command::new(PROGRAM)
            .args(["snapshot", "save", "fw", "first", "--socket", "socket", "-o", format])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let shown = child.stderr.take().expect("it is piped");
        let held = daemon.join().expect("a client came");
        // As long as it takes a terminal to be shown a line.
        std::thread::sleep(std::time::Duration::from_millis(1200));
        drop(held);
        let told = rest(shown, child);
        assert!(told.starts_with("the daemon at socket") && told.lines().count() == 1, "{told:?}");
    }
}
