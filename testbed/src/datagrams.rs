// UNSAFETY: two options of UDP sockets have no safe wrapper.
#![allow(unsafe_code)]
//! Datagrams that the kernel takes in one call and leaves to interfaces to cut (UDP segmentation offload).

use crate::Namespace;
use crate::traffic::pattern;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Longest time for the next datagram.
const LIMIT: Duration = Duration::from_secs(10);

/// Has the client send 21 datagrams, twenty of `size` bytes and one of half as many, in one call to the
/// server, and compares what arrives, in order. `may_fragment`: whether they go out without "don't
/// fragment".
///
/// # Panics
/// When they do not come, or come changed or in another order.
pub fn segments_of_udp(
    (client, from): (&Namespace, &str),
    (server, to): (&Namespace, &str),
    size: usize,
    may_fragment: bool,
) {
    let end =
        |address: &str, port: u16| SocketAddr::new(address.parse::<IpAddr>().expect("an address"), port);
    let (from, to) = (end(from, 0), end(to, 9));
    let receiver = server.enter(|| UdpSocket::bind(to)).expect("a socket");
    let sender = client.enter(|| UdpSocket::bind(from)).expect("a socket");
    receiver.set_read_timeout(Some(LIMIT)).expect("a valid limit");
    // Address resolution first: what waits for it is cut by the kernel.
    sender.send_to(&[1], to).expect("a datagram");
    let mut received = vec![0; size + 1];
    receiver.recv(&mut received).expect("the datagram");
    if may_fragment {
        let (level, option, never) = match to {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT),
        };
        set(&sender, level, option, never);
    }
    set(&sender, libc::SOL_UDP, libc::UDP_SEGMENT, size as libc::c_int);
    let sent = pattern(20 * size + size / 2);
    sender.send_to(&sent, to).expect("21 datagrams");
    let mut arrived = Vec::<u8>::new();
    while arrived.len() < sent.len() {
        // The receiver verifies the checksums.
        let count = receiver.recv(&mut received).expect("a datagram");
        assert_eq!(count, if arrived.len() < 20 * size { size } else { size / 2 });
        arrived.extend(&received[..count]);
    }
    assert!(arrived == sent, "in their order");
}

fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: libc::c_int) {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the options are integers, which the kernel reads during the call.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}
