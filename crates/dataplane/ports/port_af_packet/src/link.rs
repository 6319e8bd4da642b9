//! A link to an interface: its sockets with their rings, and the way of packets into the kernel.

use crate::inquiry::{check_kind, longest_frame, system};
use crate::intake::HEADER;
use crate::receive_ring::ReceiveRing;
use crate::send_ring::{Completed, ROOM, SendRing};
use crate::slots::{BLOCK, Slots};
use crate::socket::Socket;
use crate::system::{bind, set_buffer};
use crate::{OpenError, Settings, slots};
use kernel_interface::socket::{open_socket, set};
use kernel_interface::{Inquiry, Presence, present};
use nf_abi::offload;
use packet_memory::{Packet, Pool};
use port::PortCounters;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use telemetry::DropReason;
use virtio_net::finish_checksum;

/// What is asked for when the settings say nothing of the transmit buffer.
const TRANSMIT_BUFFER: u64 = 4 << 20;
/// Least bytes that may wait of frames that are longer than a slot: 60 of 64 KiB.
const LONG_FRAMES: u64 = 4 << 20;

/// After so many packets in a row that the kernel had no room for, the rest is left untried.
const FULL_LIMIT: u32 = 3;

/// An interface that packets are received from and sent to.
pub(crate) struct Link {
    /// Receives, and sends by message.
    pub socket: Socket,
    /// Where the socket receives.
    pub ring: ReceiveRing,
    /// Sends what fits into its slots. None if the kernel gives no virtio-net headers, without which it would
    /// gain nothing.
    sender: Option<SendRing>,
    /// Whether the kernel is told of unfinished checksums. Otherwise they are finished here.
    offload: bool,
    /// Longest packet that may go by the ring, in which the kernel does not look at the interface's MTU.
    longest: usize,
}

/// Why packets were left.
#[derive(Debug)]
pub(crate) enum Left {
    /// The kernel has no room.
    Full,
    /// The interface is not there or switched off.
    Down(io::Error),
}

/// How far an attempt to send came.
struct Attempt {
    taken: usize,
    error: Option<io::Error>,
}

/// Sockets of a link to be: of the network namespace of the thread that opened them, without rings.
pub(crate) struct Sockets {
    receive: OwnedFd,
    /// None where the kernel has no virtio-net headers, and none are asked for.
    send: Option<OwnedFd>,
}

impl Sockets {
    /// For an interface that is there: a socket that is closed again costs a grace period too.
    pub fn open(inquiry: &Inquiry, settings: &Settings) -> Result<Sockets, OpenError> {
        number(inquiry, &settings.interface)?;
        Sockets::early(settings)
    }

    /// For one that is to come.
    pub fn early(settings: &Settings) -> Result<Sockets, OpenError> {
        let receive = packet_socket(settings, settings.offload)?;
        let send = match packet_socket(settings, true) {
            Err(OpenError::NoVnetHeader { .. }) if !settings.offload => None,
            send => Some(send?),
        };
        Ok(Sockets { receive, send })
    }
}

/// Sockets with rings, bound to nothing yet: nothing comes in by them.
pub(crate) struct Rings {
    receive: OwnedFd,
    ring: ReceiveRing,
    sender: Option<SendRing>,
}

impl Rings {
    /// The kernel takes its time for them ([`kernel_interface::beside`]).
    pub fn new(sockets: Sockets, settings: &Settings) -> Result<Rings, OpenError> {
        let Sockets { receive: fd, send } = sockets;
        let name = settings.interface.as_str();
        let send = send.map(|fd| SendRing::new(fd, settings.offload));
        let sender = send.transpose().map_err(no_ring(name, crate::send_ring::BLOCKS))?;
        // Kernels before 4.20 do not know it; then the frames' own packet type tells.
        let _ = set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        // Frames that are longer than a slot are put into the socket's queue as well, which takes memory only
        // for those that wait there.
        set(&fd, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1_i32)
            .and_then(|()| {
                set_buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, settings.ring.max(LONG_FRAMES))
            })
            .map_err(system(name, "setting the receive buffer"))?;
        let blocks = (settings.ring / BLOCK as u64).clamp(2, (1 << 30) / BLOCK as u64) as usize;
        let slots = set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &slots::request(blocks))
            .and_then(|()| Slots::map(fd.as_fd(), blocks))
            .map_err(no_ring(name, blocks))?;
        Ok(Rings { receive: fd, ring: ReceiveRing::new(slots), sender })
    }
}

impl Link {
    /// Sets up and binds, if the interface can be a port.
    pub fn open(sockets: Sockets, inquiry: &Inquiry, settings: &Settings) -> Result<Link, OpenError> {
        check_kind(inquiry, settings)?;
        Link::bind(Rings::new(sockets, settings)?, inquiry, settings)
    }

    /// Binds sockets that have their rings: what comes in from then on is received.
    pub fn bind(rings: Rings, inquiry: &Inquiry, settings: &Settings) -> Result<Link, OpenError> {
        let Rings { receive: fd, ring, sender } = rings;
        let name = settings.interface.as_str();
        let index = number(inquiry, name)?;
        check_kind(inquiry, settings)?;
        if let Some(sender) = &sender {
            sender.bind(index).map_err(system(name, "binding a socket that sends to it"))?;
        }
        bind(&fd, index, libc::ETH_P_ALL).map_err(system(name, "binding to it"))?;
        if settings.promiscuous {
            let membership = libc::packet_mreq {
                mr_ifindex: index,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
                .map_err(system(name, "making it promiscuous"))?;
        }
        let longest = longest_frame(inquiry, name);
        let offload = settings.offload;
        Ok(Link { socket: Socket::new(fd, offload), ring, sender, offload, longest })
    }

    /// The interface's, if it is known.
    pub fn mtu(&self) -> Option<u32> {
        u32::try_from(self.longest.checked_sub(HEADER)?).ok()
    }

    /// Notes what may be sent now; an MTU can change.
    pub fn set_longest(&mut self, longest: usize) {
        self.longest = longest;
    }

    /// Sends packets in order, as far as the kernel takes or refuses them; says how many those are, and why
    /// there are others.
    pub fn transmit(
        &mut self,
        pool: &Pool,
        packets: &mut [Packet],
        counters: &mut PortCounters,
    ) -> (usize, Option<Left>) {
        if !self.offload {
            // Nothing behind this port will.
            packets.iter_mut().for_each(|packet| finish_checksum(pool, packet));
        }
        let (mut next, mut full) = (0, 0);
        while next < packets.len() {
            let attempt = self.attempt(pool, &packets[next..], counters);
            next += attempt.taken;
            full = if attempt.taken > 0 { 0 } else { full };
            let Some(error) = attempt.error else { continue };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The kernel took this one and had no room for it further down; the next may find some.
                Some(libc::ENOBUFS | libc::ENOMEM) => {
                    counters.ledger.dropped[DropReason::PortFull] += 1;
                    next += 1;
                    full += 1;
                }
                Some(libc::EAGAIN) => full = FULL_LIMIT,
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => return (next, Some(Left::Down(error))),
                _ => {
                    counters.ledger.dropped[DropReason::PortRefused] += 1;
                    next += 1;
                }
            }
            if full >= FULL_LIMIT {
                return (next, Some(Left::Full));
            }
        }
        (next, None)
    }

    /// Sends the first packets by the ring, up to one that does not fit, or else by message.
    fn attempt(&mut self, pool: &Pool, packets: &[Packet], counters: &mut PortCounters) -> Attempt {
        if let Some(sender) = &mut self.sender {
            let limit = self.longest.min(ROOM);
            let put =
                packets.iter().take_while(|packet| fits(packet, limit) && sender.put(pool, packet)).count();
            if put > 0 {
                let submitted = sender.submit();
                count(sender.complete(), counters);
                let taken = submitted.taken;
                // An error is the first's that was not taken. Having taken some the kernel may keep it for
                // the next call.
                let error = match submitted.error {
                    Some(error) if taken < put => Some(error),
                    None if taken == 0 => Some(io::Error::from_raw_os_error(libc::EAGAIN)),
                    _ => None,
                };
                return Attempt { taken, error };
            }
        }
        match self.socket.send(pool, packets) {
            Ok(sent) => {
                let taken = sent.clamp(1, packets.len());
                let bytes = packets[..taken].iter().map(|packet| u64::from(packet.length())).sum();
                count(Completed { packets: taken as u64, bytes }, counters);
                Attempt { taken, error: None }
            }
            Err(error) => Attempt { taken: 0, error: Some(error) },
        }
    }

    /// Counts packets that the kernel is done with.
    #[inline]
    pub fn complete(&mut self, counters: &mut PortCounters) {
        if let Some(sender) = &mut self.sender
            && sender.held() > 0
        {
            count(sender.complete(), counters);
        }
    }

    /// Packets that the kernel has and has not completed, as far as is known.
    pub fn held(&self) -> u64 {
        self.sender.as_ref().map_or(0, |sender| sender.held() as u64)
    }

    /// Counts what the sockets lost and what their rings still hold, and closes them.
    pub fn leave(&mut self, counters: &mut PortCounters) {
        counters.kernel_lost += self.socket.lost();
        // Once round at most: the kernel may be filling slots as quickly as we count them.
        let mut held = 0;
        while held < self.ring.count() as u64 && self.ring.current().is_some() {
            self.ring.release();
            held += 1;
        }
        counters.ledger.received += held;
        if let Some(sender) = &mut self.sender {
            let (completed, lost) = sender.finish();
            count(completed, counters);
            held += lost;
        }
        counters.ledger.dropped[DropReason::HeldAtStop] += held;
    }
}

/// Whether a packet may go by the ring: everything else is for the kernel to cut, or to judge.
#[inline]
fn fits(packet: &Packet, limit: usize) -> bool {
    let length = packet.length() as usize;
    length <= limit && length >= HEADER && packet.record().gso_type == offload::GSO_NONE
}

fn count(completed: Completed, counters: &mut PortCounters) {
    counters.ledger.delivered += completed.packets;
    counters.delivered_bytes += completed.bytes;
}

/// The interface's number.
fn number(inquiry: &Inquiry, name: &str) -> Result<i32, OpenError> {
    match inquiry.presence(name).map_err(system(name, "asking for its number"))? {
        Presence::Present { index, .. } => Ok(index),
        Presence::Absent => Err(OpenError::NoInterface { interface: name.to_owned(), present: present() }),
    }
}

/// A packet socket that is not bound yet, with what sending depends on; `vnet`: with virtio-net headers.
fn packet_socket(settings: &Settings, vnet: bool) -> Result<OwnedFd, OpenError> {
    let name = settings.interface.as_str();
    let fd = open_socket(libc::AF_PACKET, libc::SOCK_RAW).map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::NoPermission { interface: name.to_owned() },
        _ => OpenError::System { interface: name.to_owned(), operation: "opening a packet socket", source },
    })?;
    let version = libc::tpacket_versions::TPACKET_V2 as c_int;
    set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
        .map_err(system(name, "asking for rings of version 2"))?;
    if vnet {
        set(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)
            .map_err(|source| OpenError::NoVnetHeader { interface: name.to_owned(), source })?;
    }
    if settings.qdisc_bypass {
        set(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
            .map_err(system(name, "passing its queueing discipline by"))?;
    }
    let bytes = settings.transmit_buffer.unwrap_or(TRANSMIT_BUFFER);
    set_buffer(&fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
        .map_err(system(name, "setting the transmit buffer"))?;
    Ok(fd)
}

fn no_ring(name: &str, blocks: usize) -> impl FnOnce(io::Error) -> OpenError {
    let (interface, bytes) = (name.to_owned(), blocks * BLOCK);
    move |source| OpenError::Ring { interface, bytes, source }
}
