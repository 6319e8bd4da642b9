//! How two sides agree: a machine for each role, which reads one message at a time and says what to answer.
//!
//! ```text
//!   slave                                    master
//!     |  <------------------------------ HELLO |   what it takes
//!     |  INIT -------------------------------> |   version, number, secret
//!     |  ADD_REGION (memory file) -----------> |
//!     |  ADD_RING (eventfd), slave to master -> |
//!     |  ADD_RING (eventfd), master to slave -> |   each is answered by ACK, and waits for it
//!     |  CONNECT ----------------------------> |
//!     |  <-------------------------- CONNECTED |
//! ```

use crate::config::{Role, Settings};
use crate::ends::{Receiver, Sender};
use crate::message::{AddRing, ETHERNET, Hello, Init, Message, VERSION, padded, shown};
use crate::regions::{Buffers, REGION_MAX, Regions};
use crate::ring::Ring;
use native_ring::SharedMemory;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The name that peers show.
const NAME: &str = "superfluid";
/// Lines of the processor, on which rings and buffers begin.
const LINE: usize = 64;

/// What was agreed.
#[derive(Debug)]
pub struct Joined {
    /// To the peer.
    pub sender: Sender,
    /// From the peer.
    pub receiver: Receiver,
    /// An eventfd that wakes the peer.
    pub to_peer: OwnedFd,
    /// An eventfd by which the peer wakes this side.
    pub from_peer: OwnedFd,
}

/// What a message leads to.
#[derive(Debug, Default)]
pub struct Answer {
    /// To be sent, with descriptors if there are any.
    pub message: Option<(Message, Vec<OwnedFd>)>,
    /// Both sides agree.
    pub joined: Option<Box<Joined>>,
}

impl Answer {
    fn of(message: Message) -> Answer {
        Answer { message: Some((message, Vec::new())), joined: None }
    }

    fn with(message: Message, descriptor: OwnedFd) -> Answer {
        Answer { message: Some((message, vec![descriptor])), joined: None }
    }
}

/// One side of a handshake.
#[derive(Debug)]
pub struct Handshake {
    settings: Settings,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// A master that has said HELLO.
    Greeted,
    /// A master that collects.
    Collecting { regions: Regions, rings: [Option<(Ring, OwnedFd)>; 2] },
    /// A slave that waits for HELLO.
    New,
    /// A slave that has something left to say, the next one last.
    Telling { rest: Vec<(Message, Option<OwnedFd>)>, mine: Option<Box<Joined>> },
    /// Agreed, or given up.
    Over,
}

/// Where a ring stands among two.
fn direction(to_master: bool) -> usize {
    usize::from(!to_master)
}

fn unexpected(message: &Message, allowed: &str) -> String {
    let found = match message {
        Message::Ack => "ACK",
        Message::Hello(_) => "HELLO",
        Message::Init(_) => "INIT",
        Message::AddRegion { .. } => "ADD_REGION",
        Message::AddRing(_) => "ADD_RING",
        Message::Connect(_) => "CONNECT",
        Message::Connected(_) => "CONNECTED",
        Message::Disconnect { .. } => "DISCONNECT",
    };
    format!("found: {found}; allowed: {allowed}")
}

impl Handshake {
    /// Begins one; a master's first message with it.
    pub fn new(settings: &Settings) -> (Handshake, Option<Message>) {
        let settings = settings.clone();
        match settings.role {
            Role::Master => {
                let hello = Hello {
                    name: padded(NAME),
                    min_version: VERSION,
                    max_version: VERSION,
                    max_region: REGION_MAX,
                    max_m2s_ring: 0,
                    max_s2m_ring: 0,
                    max_log2_ring_size: log2(settings.ring),
                };
                (Handshake { settings, stage: Stage::Greeted }, Some(Message::Hello(hello)))
            }
            Role::Slave => (Handshake { settings, stage: Stage::New }, None),
        }
    }

    /// Reads the peer's next message, with what came along.
    ///
    /// # Errors
    /// Why there is no agreement, for the operator and the peer. The handshake is over.
    pub fn read(&mut self, message: Message, descriptors: Vec<OwnedFd>) -> Result<Answer, String> {
        if let Message::Disconnect { code, reason } = &message {
            self.stage = Stage::Over;
            return Err(format!("the peer has disconnected: {} ({code})", shown(reason)));
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Greeted => self.read_init(&message),
            Stage::Collecting { regions, rings } => self.collect(message, descriptors, regions, rings),
            Stage::New => self.read_hello(&message),
            Stage::Telling { rest, mine } => self.tell(&message, rest, mine),
            Stage::Over => Err("the handshake is over".into()),
        }
    }

    fn read_init(&mut self, message: &Message) -> Result<Answer, String> {
        let Message::Init(init) = message else { return Err(unexpected(message, "INIT")) };
        if init.version != VERSION {
            return Err(format!("version: found: {:#06x}; allowed: {VERSION:#06x}", init.version));
        }
        if init.id != self.settings.id {
            return Err(format!("id: found: {}; allowed: {}", init.id, self.settings.id));
        }
        if init.mode != ETHERNET {
            return Err(format!("mode: found: {}; allowed: {ETHERNET}, Ethernet", init.mode));
        }
        if self.settings.secret.as_ref().is_some_and(|secret| padded(secret) != init.secret) {
            return Err("secret: found: another; allowed: the port's".into());
        }
        self.stage = Stage::Collecting { regions: Regions::default(), rings: [None, None] };
        Ok(Answer::of(Message::Ack))
    }

    fn collect(
        &mut self,
        message: Message,
        mut descriptors: Vec<OwnedFd>,
        mut regions: Regions,
        mut rings: [Option<(Ring, OwnedFd)>; 2],
    ) -> Result<Answer, String> {
        match (message, descriptors.pop()) {
            (Message::AddRegion { index, size }, Some(file)) => regions.add(index, size, &file)?,
            (Message::AddRing(added), Some(bell)) => {
                let to_master = added.flags & AddRing::S2M != 0;
                let place = rings.get_mut(direction(to_master)).filter(|ring| ring.is_none());
                let (Some(place), 0) = (place, added.index) else {
                    return Err(format!(
                        "found: another ring, of index {}; allowed: one each way, of index 0",
                        added.index
                    ));
                };
                if added.private_header_size != 0 {
                    return Err(format!(
                        "private header: found: {} bytes; allowed: 0",
                        added.private_header_size
                    ));
                }
                let memory = regions.get(added.region).ok_or_else(|| {
                    format!("ring: found: region {}; allowed: one that was added", added.region)
                })?;
                let ring = Ring::new(memory, added.offset, added.log2_ring_size, log2(self.settings.ring))?;
                if !is_eventfd(&bell) {
                    return Err("ring: found: a descriptor of another kind; allowed: an eventfd".into());
                }
                *place = Some((ring, bell));
            }
            (Message::Connect(_), _) => {
                let [Some(to_master), Some(to_slave)] = rings else {
                    return Err("found: CONNECT; allowed: after a ring each way".into());
                };
                let joined = join(&Arc::new(regions), to_master, to_slave)?;
                return Ok(Answer {
                    message: Some((Message::Connected(padded(NAME)), Vec::new())),
                    joined: Some(Box::new(joined)),
                });
            }
            (message @ (Message::AddRegion { .. } | Message::AddRing(_)), None) => {
                return Err(unexpected(&message, "with a descriptor"));
            }
            (other, _) => return Err(unexpected(&other, "ADD_REGION, ADD_RING or CONNECT")),
        }
        self.stage = Stage::Collecting { regions, rings };
        Ok(Answer::of(Message::Ack))
    }

    fn read_hello(&mut self, message: &Message) -> Result<Answer, String> {
        let Message::Hello(hello) = message else { return Err(unexpected(message, "HELLO")) };
        if !(hello.min_version..=hello.max_version).contains(&VERSION) {
            let (from, to) = (hello.min_version, hello.max_version);
            return Err(format!(
                "version: found: {from:#06x} to {to:#06x}; allowed: {VERSION:#06x} among them"
            ));
        }
        let (rest, mine) = self.make(hello.max_log2_ring_size).map_err(|error| format!("memory: {error}"))?;
        self.stage = Stage::Telling { rest, mine: Some(Box::new(mine)) };
        Ok(Answer::of(Message::Init(Init {
            version: VERSION,
            id: self.settings.id,
            mode: ETHERNET,
            secret: padded(self.settings.secret.as_deref().unwrap_or_default()),
            name: padded(NAME),
        })))
    }

    /// Makes a slave's memory, and what is to be told of it, the first last.
    #[allow(clippy::type_complexity, reason = "what is told, and what is kept")]
    fn make(&self, most: u8) -> std::io::Result<(Vec<(Message, Option<OwnedFd>)>, Joined)> {
        let (log2_size, each) = (log2(self.settings.ring).min(most), self.settings.buffer);
        let entries = 1usize << log2_size;
        let second = Ring::bytes(log2_size).next_multiple_of(LINE);
        let first = [second * 2, second * 2 + entries * each as usize];
        let bytes = first[1] + entries * each as usize;
        let (memory, file) = SharedMemory::create("superfluid-memif", bytes)?;
        let memory = Arc::new(memory);
        let mut rest = vec![(Message::Connect(padded(NAME)), None)];
        let mut made = Vec::new();
        // The one from slave to master is told, and kept, last.
        for (flags, offset) in [(0, second), (AddRing::S2M, 0)] {
            let ring =
                Ring::new(&memory, offset as u32, log2_size, log2_size).map_err(std::io::Error::other)?;
            ring.initialise();
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let told = AddRing {
                flags,
                index: 0,
                region: 0,
                offset: offset as u32,
                log2_ring_size: log2_size,
                private_header_size: 0,
            };
            rest.push((Message::AddRing(told), Some(bell.try_clone()?)));
            let first = first[usize::from(flags == 0)];
            made.push((ring, bell, Buffers::Own { memory: memory.clone(), first, each }));
        }
        rest.push((Message::AddRegion { index: 0, size: bytes as u64 }, Some(file)));
        let (Some((out, to_peer, filled)), Some((back, from_peer, emptied))) = (made.pop(), made.pop())
        else {
            return Err(std::io::Error::other("two rings were made"));
        };
        let (sender, receiver) = (Sender::new(out, filled), Receiver::new(back, emptied));
        Ok((rest, Joined { sender, receiver, to_peer, from_peer }))
    }

    fn tell(
        &mut self,
        message: &Message,
        mut rest: Vec<(Message, Option<OwnedFd>)>,
        mine: Option<Box<Joined>>,
    ) -> Result<Answer, String> {
        match (message, rest.pop()) {
            (Message::Ack, Some((next, descriptor))) => {
                self.stage = Stage::Telling { rest, mine };
                Ok(match descriptor {
                    Some(descriptor) => Answer::with(next, descriptor),
                    None => Answer::of(next),
                })
            }
            (Message::Connected(_), None) => {
                let mut joined = mine.ok_or("the handshake is over")?;
                // DPDK's master makes both counts zero when it connects.
                joined.sender.publish();
                joined.receiver.release();
                Ok(Answer { message: None, joined: Some(joined) })
            }
            (other, Some(_)) => Err(unexpected(other, "ACK")),
            (other, None) => Err(unexpected(other, "CONNECTED")),
        }
    }
}

/// A master's ends of the peer's rings.
fn join(
    regions: &Arc<Regions>,
    to_master: (Ring, OwnedFd),
    to_slave: (Ring, OwnedFd),
) -> Result<Joined, String> {
    for ring in [&to_master.0, &to_slave.0] {
        if !ring.has_cookie() {
            return Err("ring: found: another first word; allowed: 0x3E31F20".into());
        }
    }
    let peers = || Buffers::Peers(regions.clone());
    Ok(Joined {
        receiver: Receiver::new(to_master.0, peers()),
        from_peer: to_master.1,
        sender: Sender::new(to_slave.0, peers()),
        to_peer: to_slave.1,
    })
}

fn log2(ring: u32) -> u8 {
    ring.max(1).ilog2() as u8
}

/// Whether a descriptor of the peer's is what it has to be: waiting for a file, or writing to one, could take any time.
fn is_eventfd(descriptor: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}
