//! What waits for what.

use super::*;
use rustix::fs::{CWD, FileType};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// The launcher's folders, and one guest that runs.
fn with_guest(folder: &Path) -> Arc<Guests> {
    let settings = Settings {
        state: folder.join("state"),
        run: folder.join("run"),
        sockets: folder.join("sockets"),
        cgroups: folder.join("cgroups"),
        group: "sf".to_owned(),
        ..Settings::default()
    };
    let permits = "superfluid_launcher: 1\nclients: [998]\ntenants: {blue: {uids: 1000000}}\n";
    let permits = Permits::from_text("launcher.yaml", permits).expect("a file");
    let guests = Guests::open(&settings, permits).expect("it opens");
    let start = serde_json::json!({"name": "a", "tenant": "blue", "limits": {"memory": 1}});
    let entry = Entry {
        start: serde_json::from_value(start).expect("a start"),
        state: State::Running { pid: 1 },
        root: None,
        held: None,
        network: None,
        began: None,
        answered: false,
        condemned: None,
        share: None,
        log: Arc::default(),
    };
    guests.table().guests.insert("a".to_owned(), entry);
    guests
}

#[test]
fn a_list_keeps_nothing_waiting_while_it_reads_what_guests_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let guests = with_guest(folder.path());
    let group = folder.path().join("cgroups/sf/a");
    fs::create_dir_all(&group).expect("made");
    // In the place of the kernel's file, which takes its time with many guests.
    let memory = group.join("memory.current");
    rustix::fs::mknodat(CWD, &memory, FileType::Fifo, Mode::from_bits_truncate(0o600), 0).expect("a pipe");
    let listing = {
        let guests = guests.clone();
        std::thread::spawn(move || guests.list(&List::default()))
    };
    let begin = Instant::now();
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut to = loop {
        match fs::OpenOptions::new().write(true).custom_flags(flags).open(&memory) {
            Ok(to) => break to,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "it is not read: {error}"),
        }
        std::thread::yield_now();
    };
    assert!(guests.table.try_lock().is_ok());
    to.write_all(b"4096\n").expect("it is read");
    drop(to);
    let listed = listing.join().expect("no panic");
    assert_eq!((listed.guests.len(), listed.guests[0].memory), (1, Some(4096)));
}
