//! Two ends of a connection, in one process.

use crate::{
    Attendant, Doorbells, HasBells, Listener, Users, connect, own_uid, peer, receive, ring, send, timespec,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

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

struct Desk(Doorbells);

impl HasBells for Desk {
    fn bells(&self) -> &Doorbells {
        &self.0
    }
}

fn is_readable(bell: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&bell, PollFlags::IN)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).expect("polled") == 1
}

#[test]
fn a_bell_is_told_once_whoever_rings_it() {
    let bells = Doorbells::new().expect("bells");
    assert!(!is_readable(bells.readable()) && !bells.has_unread());
    bells.announce();
    assert!(is_readable(bells.readable()) && bells.has_unread() && is_readable(bells.news()));
    bells.clear();
    assert!(!is_readable(bells.readable()), "what was told once is told again");
    assert!(is_readable(bells.news()), "it has not been taken note of");
    assert!(bells.has_news() && !bells.has_news() && !is_readable(bells.news()));
    // A peer's: nothing is read from it, so that a full one that waits makes nothing wait.
    let peer = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    bells.watch(&peer).expect("watched");
    ring(&peer);
    assert!(is_readable(bells.readable()));
    bells.clear();
    assert!(!is_readable(bells.readable()) && is_readable(&peer));
    bells.unwatch(&peer);
    ring(&peer);
    assert!(!is_readable(bells.readable()), "a bell that was taken out wakes the worker");
}

#[test]
fn queues_whose_peer_sleeps_are_handed_over_once() {
    let bells = Doorbells::new().expect("bells");
    bells.wake_peer(0b01);
    bells.wake_peer(0b100);
    assert!(is_readable(bells.attendant()));
    assert_eq!(bells.take_sleepers(), 0b101);
    assert!(!is_readable(bells.attendant()) && bells.take_sleepers() == 0);
}

#[test]
fn an_attendant_ends_with_its_port_and_one_that_is_held_up_is_left_behind() {
    let start = |held_up: Option<OwnedFd>| {
        let desk = Arc::new(Desk(Doorbells::new().expect("bells")));
        let (of_thread, ended) = (desk.clone(), Arc::new(AtomicBool::new(false)));
        let has_ended = ended.clone();
        let run = move || {
            let stop = of_thread.0.stop();
            poll(&mut [PollFd::new(&stop, PollFlags::IN)], None).expect("polled");
            // What a hostile peer has made to wait.
            if let Some(bell) = held_up {
                rustix::io::read(bell, &mut [0u8; 8]).expect("read");
            }
            has_ended.store(true, Release);
        };
        (Attendant::start("test", desk, run).expect("a thread"), ended)
    };
    let (attendant, ended) = start(None);
    drop(attendant);
    assert!(ended.load(Acquire), "the port was closed before its attendant had ended");
    let bell = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let (attendant, ended) = start(Some(bell.try_clone().expect("another descriptor")));
    drop(attendant);
    assert!(!ended.load(Acquire));
    ring(&bell);
    while !ended.load(Acquire) {
        std::thread::yield_now();
    }
}
