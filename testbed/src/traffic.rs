//! Traffic that is compared, and accounts that are checked.

use crate::{Account, Namespace, SERVER};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Longest time for the next bytes of a stream.
const LIMIT: Duration = Duration::from_secs(10);

/// Bytes that no two places of a stream share by accident.
pub fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}

/// Sends `length` bytes over TCP from the client to the server, which has the address [`SERVER`], back again,
/// and compares.
///
/// # Panics
/// When they do not come, or come changed.
pub fn echo(client: &Namespace, server: &Namespace, length: usize) {
    let sent = pattern(length);
    let listener = server.enter(|| TcpListener::bind((SERVER, 7000)).expect("a free port"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut all = vec![0; length];
            stream.set_read_timeout(Some(LIMIT)).expect("a valid limit");
            stream.read_exact(&mut all).expect("the stream from the client");
            stream.write_all(&all).expect("the way back");
        });
        let server = format!("{SERVER}:7000").parse().expect("an address");
        let mut stream =
            client.enter(|| TcpStream::connect_timeout(&server, LIMIT / 2)).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a valid limit");
        stream.write_all(&sent).expect("the stream to the server");
        let mut received = vec![0; length];
        stream.read_exact(&mut received).expect("the stream from the server");
        assert!(sent == received, "the bytes changed on their way");
    });
}

/// Has a server answer each connection to a port of [`SERVER`] with what it gets, until the test ends.
///
/// # Panics
/// When the port is taken.
pub fn serve_echo(server: &Namespace, port: u16) {
    let listener = server.enter(|| TcpListener::bind((SERVER, port)).expect("a free port"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut bytes = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// What is true of every relay at its end: each packet is accounted for, no buffer is lost.
///
/// # Panics
/// When that is not so.
pub fn audit(account: &Account) {
    let [lan, wan] = &account.ports;
    let mut ledger = lan.ledger.clone();
    ledger.merge(&wan.ledger);
    ledger.balance(0).unwrap_or_else(|imbalance| panic!("{imbalance}: {account:?}"));
    assert_eq!(account.leaked, 0, "buffers were lost");
}
