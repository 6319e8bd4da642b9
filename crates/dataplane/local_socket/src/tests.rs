//! Two ends of a connection, in one process.

use crate::{Listener, Users, connect, own_uid, peer, receive, send};
use std::io::{Read, Seek};
use std::os::fd::AsFd;

fn path(folder: &tempfile::TempDir) -> String {
    folder.path().join("a.sock").to_str().expect("text").to_owned()
}

#[test]
fn messages_keep_their_boundaries_and_carry_descriptors() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = Listener::bind(&path(&folder), Users::own()).expect("bound");
    let here = connect(&path(&folder)).expect("connected");
    let there = listener.accept().expect("it waits");
    let found = peer(&there).expect("known");
    assert_eq!((found.pid, found.uid), (std::process::id(), own_uid()));
    let mut message = [0; 16];
    assert!(receive(&there, &mut message).expect("open").is_none(), "nothing was sent");
    let mut file = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut file, b"kept").expect("written");
    send(&here, b"one", &[file.as_fd()]).expect("sent");
    send(&here, b"two!", &[]).expect("sent");
    let (length, mut descriptors) = receive(&there, &mut message).expect("open").expect("a message");
    assert_eq!((&message[..length], descriptors.len()), (&b"one"[..], 1));
    let (mut same, mut text) = (std::fs::File::from(descriptors.remove(0)), String::new());
    same.rewind().expect("a file");
    same.read_to_string(&mut text).expect("readable");
    assert_eq!(text, "kept");
    let (length, descriptors) = receive(&there, &mut message).expect("open").expect("a message");
    assert_eq!((&message[..length], descriptors.len()), (&b"two!"[..], 0));
    drop(here);
    assert_eq!(receive(&there, &mut message).expect("ended").expect("the end").0, 0);
}

#[test]
fn a_listener_removes_its_own_file_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = Listener::bind(&path(&folder), Users::own()).expect("bound");
    assert!(listener.is_in_place());
    std::fs::remove_file(path(&folder)).expect("removed");
    assert!(!listener.is_in_place());
    std::fs::write(path(&folder), "another's").expect("written");
    drop(listener);
    assert!(std::path::Path::new(&path(&folder)).exists());
    let refused = Listener::bind(&path(&folder), Users::own()).expect_err("no socket");
    assert!(refused.contains("found a file that is no socket"), "{refused}");
    std::fs::remove_file(path(&folder)).expect("removed");
    assert!(connect(&path(&folder)).is_err(), "nothing listens");
}
