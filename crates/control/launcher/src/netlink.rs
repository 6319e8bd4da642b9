//! Messages to the kernel that make interfaces, give them addresses and routes, keep packets from its own
//! protocols, switch them on and remove them (rtnetlink(7), `linux/if_link.h`, `linux/veth.h`,
//! `linux/rtnetlink.h`, `linux/pkt_cls.h`), and whether it did so. A run of `ip` for the same takes three
//! milliseconds.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::io;
use std::net::IpAddr;

/// What is asked for (`RTM_NEWLINK` and so on), and how.
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_DISCIPLINE: u16 = 36;
const NEW_FILTER: u16 = 44;
const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
/// The kind of an answer that says what became of a request.
const ERROR: u16 = 2;
/// Attributes of an interface, of what it is like, and of an address.
const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const NAMESPACE: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Attributes of a route, its table, that an administrator made it, its scope and its kind; and that its
/// router is on the link, whatever the interface's networks are: of a device without a carrier the kernel may
/// not know them yet.
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const MAIN_STATIC_UNICAST: [u8; 4] = [254, 4, 0, 1];
const ON_LINK: u32 = 4;
/// Attributes of a queueing discipline and of a filter, and of a filter that is a program.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const BPF_LENGTH: u16 = 4;
const BPF_PROGRAM: u16 = 5;
const BPF_FLAGS: u16 = 8;
/// What the program returns is what becomes of the packet.
const DIRECT: u32 = 1;
/// `BPF_RET | BPF_K`, and the end of a packet (`TC_ACT_SHOT`).
const RETURN: u16 = 0x06;
const DROP: u32 = 2;
/// The discipline of what comes in by an interface, and where it is.
const INGRESS: u32 = 0xffff_0000;
const AT_INGRESS: u32 = 0xffff_fff1;
const UP: u32 = 1;
/// Bytes of a message's header, and of an interface's.
const HEADER: usize = 16;

/// Asks the kernel about the network namespace in which it was made.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(crate) fn new() -> io::Result<Netlink> {
        // Without a protocol it is `NETLINK_ROUTE`.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Netlink { socket })
    }

    /// Makes a veth pair: `outer`, switched off, here, and `inner` with a link-layer address in another
    /// namespace.
    pub(crate) fn add_veth(
        &self,
        outer: (&str, [u8; 6]),
        inner: (&str, [u8; 6], BorrowedFd<'_>),
    ) -> io::Result<()> {
        self.ask(&veth(outer, inner.0, inner.1, inner.2.as_raw_fd()))
    }

    /// Has all that comes in by an interface end there, so that none of it gets to the kernel's protocols.
    /// Packet sockets see it before that.
    pub(crate) fn end_what_comes(&self, name: &str) -> io::Result<()> {
        let index = name_to_index(self.socket.as_fd(), name)?;
        self.ask(&ingress(index))?;
        self.ask(&dropping(index))
    }

    /// Switches an interface on.
    pub(crate) fn switch_on(&self, name: &str) -> io::Result<()> {
        self.ask(&link(NEW_LINK, 0, name, UP))
    }

    /// Removes an interface.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        self.ask(&link(DELETE_LINK, 0, name, 0))
    }

    /// Gives an interface an address with the length of its network's prefix.
    pub(crate) fn add_address(&self, name: &str, address: IpAddr, length: u8) -> io::Result<()> {
        let index = name_to_index(self.socket.as_fd(), name)?;
        self.ask(&new_address(index, address, length))
    }

    /// Makes a router on an interface's link the way to all that there is no other one to.
    pub(crate) fn add_default_route(&self, name: &str, gateway: IpAddr) -> io::Result<()> {
        let index = name_to_index(self.socket.as_fd(), name)?;
        self.ask(&default_route(index, gateway))
    }

    fn ask(&self, message: &[u8]) -> io::Result<()> {
        send(&self.socket, message, SendFlags::empty())?;
        // The answer repeats the request when it refuses it.
        let mut bytes = [0; 4096];
        let (length, _) = recv(&self.socket, &mut bytes, RecvFlags::empty())?;
        outcome(bytes.get(..length).unwrap_or_default())
    }
}

/// Reads an answer.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let number =
        answer.get(HEADER..HEADER + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, number) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(number)) => Err(io::Error::from_raw_os_error(number.wrapping_neg())),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

fn veth((outer, address): (&str, [u8; 6]), inner: &str, mac: [u8; 6], namespace: i32) -> Vec<u8> {
    let mut peer = interface(0);
    put(&mut peer, NAME, &terminated(inner));
    put(&mut peer, ADDRESS, &mac);
    put(&mut peer, NAMESPACE, &namespace.to_ne_bytes());
    let (mut data, mut info) = (Vec::new(), Vec::new());
    put(&mut data, PEER, &peer);
    put(&mut info, INFO_KIND, b"veth");
    put(&mut info, INFO_DATA, &data);
    let mut message = link(NEW_LINK, CREATE | EXCLUSIVE, outer, 0);
    put(&mut message, ADDRESS, &address);
    put(&mut message, LINK_INFO, &info);
    end(message)
}

/// A message about an interface that is named, with flags that are to be set.
fn link(kind: u16, how: u16, name: &str, set: u32) -> Vec<u8> {
    let mut message = begin(kind, how);
    message.extend(interface(set));
    put(&mut message, NAME, &terminated(name));
    end(message)
}

/// The number of its family, and its bytes.
fn parts(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (AddressFamily::INET.as_raw() as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (AddressFamily::INET6.as_raw() as u8, address.octets().to_vec()),
    }
}

/// A message with `struct rtmsg`, of a route to everything.
fn default_route(index: u32, gateway: IpAddr) -> Vec<u8> {
    let (family, bytes) = parts(gateway);
    let mut message = begin(NEW_ROUTE, CREATE | EXCLUSIVE);
    message.extend([family, 0, 0, 0]);
    message.extend(MAIN_STATIC_UNICAST);
    message.extend(ON_LINK.to_ne_bytes());
    put(&mut message, RTA_GATEWAY, &bytes);
    put(&mut message, RTA_OIF, &index.to_ne_bytes());
    end(message)
}

fn new_address(index: u32, address: IpAddr, length: u8) -> Vec<u8> {
    let (family, bytes) = parts(address);
    let mut message = begin(NEW_ADDRESS, CREATE | EXCLUSIVE);
    message.extend([family, length, 0, 0]);
    message.extend(index.to_ne_bytes());
    put(&mut message, IFA_LOCAL, &bytes);
    put(&mut message, IFA_ADDRESS, &bytes);
    end(message)
}

fn ingress(index: u32) -> Vec<u8> {
    let mut message = traffic(NEW_DISCIPLINE, index, (INGRESS, AT_INGRESS, 0));
    put(&mut message, TCA_KIND, b"ingress\0");
    end(message)
}

/// A filter of packets of all protocols, a program of one instruction.
fn dropping(index: u32) -> Vec<u8> {
    const ALL: u16 = 3;
    let first_of_all = (1 << 16) | u32::from(ALL.to_be());
    let mut message = traffic(NEW_FILTER, index, (0, INGRESS, first_of_all));
    put(&mut message, TCA_KIND, b"bpf\0");
    let (mut options, mut program) = (Vec::new(), Vec::new());
    // `struct sock_filter`
    program.extend(RETURN.to_ne_bytes());
    program.extend([0, 0]);
    program.extend(DROP.to_ne_bytes());
    put(&mut options, BPF_LENGTH, &1_u16.to_ne_bytes());
    put(&mut options, BPF_PROGRAM, &program);
    put(&mut options, BPF_FLAGS, &DIRECT.to_ne_bytes());
    put(&mut message, TCA_OPTIONS, &options);
    end(message)
}

/// A message with `struct tcmsg`, of which the last three are handle, parent and info.
fn traffic(kind: u16, index: u32, last: (u32, u32, u32)) -> Vec<u8> {
    let mut message = begin(kind, CREATE | EXCLUSIVE);
    for word in [0, index, last.0, last.1, last.2] {
        message.extend(word.to_ne_bytes());
    }
    message
}

/// `struct nlmsghdr`; the length is entered at the end.
fn begin(kind: u16, how: u16) -> Vec<u8> {
    let mut message = vec![0; 4];
    message.extend(kind.to_ne_bytes());
    message.extend((REQUEST | ACKNOWLEDGE | how).to_ne_bytes());
    message.resize(HEADER, 0);
    message
}

/// `struct ifinfomsg` with flags that are to be set.
fn interface(set: u32) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend(set.to_ne_bytes());
    bytes.extend(set.to_ne_bytes());
    bytes
}

fn terminated(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Names and addresses are short.
    message.extend(((4 + value.len()) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn end(mut message: Vec<u8>) -> Vec<u8> {
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_none_are_refused() {
        for length in 0..20 {
            assert_eq!(outcome(&vec![2; length]).unwrap_err().kind(), io::ErrorKind::InvalidData, "{length}");
        }
        let answer = |number: i32| {
            let header = [&[0; 4][..], &ERROR.to_ne_bytes(), &[0; 10]].concat();
            outcome(&[&header[..], &number.to_ne_bytes()].concat())
        };
        assert!(answer(0).is_ok());
        assert_eq!(answer(-17).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(answer(i32::MIN).is_err());
    }

    /// The attributes of a message or an attribute, which have to fill it.
    fn attributes(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let length = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
            found.push((u16::from_ne_bytes([bytes[2], bytes[3]]), bytes[4..length].to_vec()));
            bytes = &bytes[length.next_multiple_of(4)..];
        }
        found
    }

    #[test]
    fn messages_are_whole_and_nested_as_the_kernel_reads_them() {
        let mac = [2, 0, 0, 0, 0, 9];
        let message = veth(("sfg-a", [6; 6]), "eth0", mac, 7);
        let all_of_it = u32::try_from(message.len()).unwrap().to_ne_bytes();
        assert_eq!((&message[..4], message[4]), (&all_of_it[..], 16));
        assert_eq!(message[HEADER + 8..HEADER + 16], [0; 8], "switched off");
        let on = link(NEW_LINK, 0, "sfg-a", UP);
        assert_eq!(on[HEADER + 8..HEADER + 16], [UP.to_ne_bytes(), UP.to_ne_bytes()].concat());
        let [(NAME, outer), (ADDRESS, address), (LINK_INFO, info)] = &attributes(&message[2 * HEADER..])[..]
        else {
            panic!()
        };
        assert_eq!((&outer[..], &address[..]), (&b"sfg-a\0"[..], &[6; 6][..]));
        let [(INFO_KIND, kind), (INFO_DATA, data)] = &attributes(info)[..] else { panic!() };
        assert_eq!(kind, b"veth");
        let [(PEER, peer)] = &attributes(data)[..] else { panic!() };
        let expected = [(NAME, b"eth0\0".to_vec()), (ADDRESS, mac.to_vec()), (NAMESPACE, vec![7, 0, 0, 0])];
        assert_eq!(attributes(&peer[HEADER..]), expected);

        let message = dropping(3);
        assert_eq!(message[HEADER..HEADER + 8], [0, 0, 0, 0, 3, 0, 0, 0]);
        let [(TCA_KIND, kind), (TCA_OPTIONS, options)] = &attributes(&message[HEADER + 20..])[..] else {
            panic!()
        };
        assert_eq!(kind, b"bpf\0");
        let [(BPF_LENGTH, length), (BPF_PROGRAM, program), (BPF_FLAGS, flags)] = &attributes(options)[..]
        else {
            panic!()
        };
        assert_eq!(
            (&length[..2], &program[..], &flags[..]),
            (&[1, 0][..], &[6, 0, 0, 0, 2, 0, 0, 0][..], &[1, 0, 0, 0][..])
        );

        let message = new_address(3, [192, 0, 2, 9].into(), 24);
        assert_eq!(message[HEADER..HEADER + 8], [2, 24, 0, 0, 3, 0, 0, 0]);
        let expected = [(IFA_LOCAL, vec![192, 0, 2, 9]), (IFA_ADDRESS, vec![192, 0, 2, 9])];
        assert_eq!(attributes(&message[HEADER + 8..]), expected);

        let message = default_route(3, [192, 0, 2, 1].into());
        assert_eq!(message[HEADER..HEADER + 12], [2, 0, 0, 0, 254, 4, 0, 1, 4, 0, 0, 0]);
        let expected = [(RTA_GATEWAY, vec![192, 0, 2, 1]), (RTA_OIF, vec![3, 0, 0, 0])];
        assert_eq!(attributes(&message[HEADER + 12..]), expected);
    }
}
