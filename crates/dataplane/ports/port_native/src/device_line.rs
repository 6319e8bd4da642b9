//! The socket by which one process is told of its device and asks for neighbours: the attendant's alone, so
//! that whatever the process does there costs no worker anything.
//!
//! A table is sent as far as there is room, and to its end before the next one is begun; of those that came
//! meanwhile the last one. What the process sends is read in rounds: so many messages, of so many addresses
//! in all, and no more for a while; the rest stays in the socket, which the process finds full. One that does
//! not read, or writes without end, has the socket's room and the rounds of its own port.

use crate::attendant::Desk;
use local_socket::send;
use native_abi::devices::{ASKS_MAX, ASKS_MESSAGE_MAX, DevicesPart, MAX_ASKS, asked};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair, sockopt};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Messages of the process that are read in one round.
const ROUND: usize = 64;
/// From one round to the next.
const REST: Duration = Duration::from_millis(10);
/// Room for what the process has not read yet, in bytes; the kernel takes twice as much.
const ROOM: usize = 64 << 10;

/// The engine's end.
#[derive(Debug)]
pub(crate) struct DeviceLine {
    socket: OwnedFd,
    /// What the process was told last.
    told: Arc<[u8]>,
    /// What it is being told, and how many bytes of that were sent.
    telling: Option<(Arc<[u8]>, usize)>,
    /// The socket was full when it was last written to.
    is_full: bool,
    /// What the process sends is not read until then.
    rests_until: Option<Instant>,
}

impl DeviceLine {
    /// Both ends.
    pub fn pair() -> io::Result<(DeviceLine, OwnedFd)> {
        let (own, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_send_buffer_size(&own, ROOM)?;
        let line = DeviceLine {
            socket: own,
            told: Arc::default(),
            telling: None,
            is_full: false,
            rests_until: None,
        };
        Ok((line, other))
    }

    /// What to wait for, if not for the end of a rest.
    pub fn awaited(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = if self.is_full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        self.rests_until.is_none().then_some((self.socket.as_fd(), flags))
    }

    /// How long it rests from now on.
    pub fn rest(&self) -> Option<Duration> {
        self.rests_until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Tells the process what is known now, as far as there is room; whether anything was sent.
    ///
    /// # Errors
    /// The process has closed its end.
    pub fn tell(&mut self, latest: &Arc<[u8]>) -> io::Result<bool> {
        let mut is_any_sent = false;
        self.is_full = false;
        loop {
            let is_told = Arc::ptr_eq(&self.told, latest) || self.told == *latest;
            if self.telling.is_none() && is_told {
                return Ok(is_any_sent);
            }
            let (table, sent) = self.telling.get_or_insert_with(|| (latest.clone(), 0));
            let part = DevicesPart::of(table, *sent);
            match send(&self.socket, &part.to_bytes(), &[]) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_full = true;
                    return Ok(is_any_sent);
                }
                Err(error) => return Err(error),
            }
            is_any_sent = true;
            if part.left > 0 {
                *sent += part.entries.len();
            } else if let Some((table, _)) = self.telling.take() {
                self.told = table;
            }
        }
    }

    /// The addresses that the process asks for now, at most [`MAX_ASKS`]; what is no message is counted.
    ///
    /// # Errors
    /// The process has closed its end.
    pub fn hear(&mut self, desk: &Desk, now: Instant) -> io::Result<Vec<IpAddr>> {
        let mut addresses = Vec::new();
        if self.rests_until.is_some_and(|until| now < until) {
            return Ok(addresses);
        }
        self.rests_until = None;
        let mut message = [0u8; ASKS_MESSAGE_MAX + 1];
        for _ in 0..ROUND {
            if addresses.len() + ASKS_MAX > MAX_ASKS {
                break;
            }
            let length = match recv(&self.socket, &mut message[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, length)) => length.min(message.len()),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            };
            self.rests_until = Some(now + REST);
            match asked(&message[..length]) {
                Ok(more) => addresses.extend(more),
                Err(_) => _ = desk.message_faults.fetch_add(1, Relaxed),
            }
        }
        desk.asks.fetch_add(addresses.len() as u64, Relaxed);
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use native_abi::devices::{DeviceEntry, asks};

    fn entries(count: usize, tag: u8) -> Arc<[u8]> {
        let address = |n: usize| IpAddr::from([10, tag, (n >> 8) as u8, n as u8]);
        (0..count).flat_map(|n| DeviceEntry::ask(0, address(n)).encode()).collect()
    }

    /// Reads all that is there, as a process does; the tables that are complete.
    fn read(end: &OwnedFd, begun: &mut Vec<u8>) -> Vec<Vec<u8>> {
        let (mut tables, mut message) = (Vec::new(), [0u8; 8192]);
        while let Ok((_, length)) = recv(end, &mut message[..], RecvFlags::DONTWAIT) {
            let part = DevicesPart::from_bytes(&message[..length]).expect("a part");
            begun.extend(part.entries);
            if part.left == 0 {
                tables.push(std::mem::take(begun));
            }
        }
        tables
    }

    #[test]
    fn one_that_does_not_read_is_not_waited_for_and_reads_whole_tables_when_it_does() {
        let (mut line, end) = DeviceLine::pair().expect("a pair");
        let large: Vec<Arc<[u8]>> = (0..200).map(|tag| entries(6_000, tag)).collect();
        // Each is told, as one after another comes, and none waits for the process.
        for table in &large {
            line.tell(table).expect("open");
        }
        assert!(line.is_full && line.awaited().is_some_and(|(_, flags)| flags.contains(PollFlags::OUT)));
        let (mut tables, mut begun) = (Vec::new(), Vec::new());
        while tables.last().map(Vec::as_slice) != large.last().map(AsRef::as_ref) {
            tables.extend(read(&end, &mut begun));
            line.tell(&large[199]).expect("open");
        }
        assert!(begun.is_empty() && !line.is_full);
        // The one that was begun, whole, and the last one; what was between them nothing has waited for.
        let expected = [large[0].to_vec(), large[199].to_vec()];
        assert!(tables == expected, "{} tables", tables.len());
        assert!(!line.tell(&large[199]).expect("open"), "it is told once");
        assert!(!line.tell(&entries(6_000, 199)).expect("open"), "the same again is no news");
    }

    #[test]
    fn what_a_process_sends_is_read_in_rounds_and_what_is_no_message_is_counted() {
        let desk = Desk::new().expect("bells");
        let (mut line, end) = DeviceLine::pair().expect("a pair");
        let (mut now, address) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        let write = |bytes: &[u8]| send(&end, bytes, &[]).is_ok();
        let counted = |desk: &Desk| [&desk.asks, &desk.message_faults].map(|n| n.load(Relaxed));
        assert!(line.hear(&desk, now).expect("open").is_empty() && line.rest().is_none());
        assert!(write(&asks(&[address])));
        assert_eq!(line.hear(&desk, now).expect("open"), [address]);
        // Garbage, too long, half of one, and then nothing until the rest is over.
        assert!(write(b"?") && write(&[5; 4096]) && write(&asks(&[address])[..30]));
        assert!(line.hear(&desk, now).expect("open").is_empty() && line.awaited().is_none());
        assert_eq!(counted(&desk), [1, 0], "it rests");
        now += REST;
        assert!(line.hear(&desk, now).expect("open").is_empty());
        assert_eq!(counted(&desk), [1, 3]);
        // Floods: as many messages as there is room for, of one address or as many as fit.
        let mut heard = 1;
        for (each, most) in [(1, ROUND), (64, MAX_ASKS)] {
            let mut flood = 0;
            while write(&asks(&vec![address; each])) {
                flood += 1;
            }
            assert!(flood * each > 2 * most, "{flood} messages");
            heard += flood * each;
            for _ in 0..(flood * each).div_ceil(most) {
                now += REST;
                let addresses = line.hear(&desk, now).expect("open").len();
                assert!(addresses <= most, "{addresses}");
            }
            // All of it, in so many rounds and no fewer.
            assert_eq!(counted(&desk), [heard as u64, 3]);
        }
        drop(end);
        assert!(line.hear(&desk, now + REST).is_err() && line.tell(&entries(1, 1)).is_err());
    }
}
