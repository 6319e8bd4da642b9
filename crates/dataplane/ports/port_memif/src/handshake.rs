//! How two sides agree: a machine for each role, which reads one message at a time and says what to answer.
//!
//! ```text
//!   slave                                    master
//!     |  <------------------------------ HELLO |   what it takes
//!     |  INIT -------------------------------> |   version, number, secret
//!     |  ADD_REGION (memory file) -----------> |
//!     |  ADD_RING (eventfd), slave to master -> |   each ring of this direction, in order
//!     |  ADD_RING (eventfd), master to slave -> |   likewise; each is answered by ACK, and waits for it
//!     |  CONNECT ----------------------------> |
//!     |  <-------------------------- CONNECTED |
//! ```

use crate::config::{Role, Settings};
use crate::ends::{Receiver, Sender};
use crate::lent::Lender;
use crate::message::{AddRing, ETHERNET, Hello, Init, Message, VERSION, padded, shown};
use crate::offer::{Offer, Told};
use crate::regions::{Buffers, REGION_MAX, Regions};
use crate::ring::Ring;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The name that peers show.
pub(crate) const NAME: &str = "superfluid";

/// What was agreed.
#[derive(Debug, Default)]
pub struct Joined {
    /// To the peer, at least one.
    pub senders: Vec<Sender>,
    /// From the peer, at least one.
    pub receivers: Vec<Receiver>,
    /// For each sender, an eventfd that wakes the peer.
    pub to_peer: Vec<OwnedFd>,
    /// For each receiver, an eventfd by which the peer wakes this side.
    pub from_peer: Vec<OwnedFd>,
}

/// Rings of a peer's, of one direction, with their eventfds.
type Rings = Vec<(Ring, OwnedFd)>;

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
    /// Of a slave whose peer has the pool.
    lender: Option<Lender>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// A master that has said HELLO.
    Greeted,
    /// A master that collects.
    Collecting { regions: Regions, to_master: Rings, to_slave: Rings },
    /// A slave that waits for HELLO.
    New,
    /// A slave that has something left to say, the next one last.
    Telling { rest: Vec<Told>, mine: Option<Box<Joined>> },
    /// Agreed, or given up.
    Over,
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
                let highest = settings.queues.saturating_sub(1) as u16;
                let hello = Hello {
                    name: padded(NAME),
                    min_version: VERSION,
                    max_version: VERSION,
                    max_region: REGION_MAX,
                    max_m2s_ring: highest,
                    max_s2m_ring: highest,
                    max_log2_ring_size: log2(settings.ring),
                };
                (Handshake { settings, lender: None, stage: Stage::Greeted }, Some(Message::Hello(hello)))
            }
            Role::Slave => (Handshake { settings, lender: None, stage: Stage::New }, None),
        }
    }

    /// The same of a slave whose buffers are of a pool.
    #[must_use]
    pub fn lends(self, lender: Lender) -> Handshake {
        Handshake { lender: Some(lender), ..self }
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
            Stage::Collecting { regions, to_master, to_slave } => {
                self.collect(message, descriptors, regions, to_master, to_slave)
            }
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
        let regions = Regions::default();
        self.stage = Stage::Collecting { regions, to_master: Vec::new(), to_slave: Vec::new() };
        Ok(Answer::of(Message::Ack))
    }

    fn collect(
        &mut self,
        message: Message,
        mut descriptors: Vec<OwnedFd>,
        mut regions: Regions,
        mut to_master: Rings,
        mut to_slave: Rings,
    ) -> Result<Answer, String> {
        match (message, descriptors.pop()) {
            (Message::AddRegion { index, size }, Some(file)) => regions.add(index, size, &file)?,
            (Message::AddRing(added), Some(bell)) => {
                let rings = if added.flags & AddRing::S2M != 0 { &mut to_master } else { &mut to_slave };
                let ring = self.place(&regions, &added, rings.len())?;
                if !is_eventfd(&bell) {
                    return Err("ring: found: a descriptor of another kind; allowed: an eventfd".into());
                }
                rings.push((ring, bell));
            }
            (Message::Connect(_), _) => {
                if to_master.is_empty() || to_slave.is_empty() {
                    return Err("found: CONNECT; allowed: after a ring each way".into());
                }
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
        self.stage = Stage::Collecting { regions, to_master, to_slave };
        Ok(Answer::of(Message::Ack))
    }

    /// A ring of the peer's at its place: the next of its direction, which has `there` already.
    fn place(&self, regions: &Regions, added: &AddRing, there: usize) -> Result<Ring, String> {
        let (index, queues) = (added.index, self.settings.queues as usize);
        if there >= queues || usize::from(index) != there {
            let to = if added.flags & AddRing::S2M != 0 { "master" } else { "slave" };
            let allowed = match there < queues {
                true => format!("{there}, the next one"),
                false => format!("{queues} each way, the port's `queues`"),
            };
            return Err(format!("found: ring {index} to the {to}; allowed: {allowed}"));
        }
        if added.private_header_size != 0 {
            return Err(format!("private header: found: {} bytes; allowed: 0", added.private_header_size));
        }
        let memory = regions
            .get(added.region)
            .ok_or_else(|| format!("ring: found: region {}; allowed: one that was added", added.region))?;
        Ring::new(memory, added.offset, added.log2_ring_size, log2(self.settings.ring))
    }

    fn read_hello(&mut self, message: &Message) -> Result<Answer, String> {
        let Message::Hello(hello) = message else { return Err(unexpected(message, "HELLO")) };
        if !(hello.min_version..=hello.max_version).contains(&VERSION) {
            let (from, to) = (hello.min_version, hello.max_version);
            return Err(format!(
                "version: found: {from:#06x} to {to:#06x}; allowed: {VERSION:#06x} among them"
            ));
        }
        let Offer { mut told, mine } = Offer::make(&self.settings, hello, self.lender.as_ref())
            .map_err(|error| format!("memory: {error}"))?;
        told.reverse();
        self.stage = Stage::Telling { rest: told, mine: Some(Box::new(mine)) };
        Ok(Answer::of(Message::Init(Init {
            version: VERSION,
            id: self.settings.id,
            mode: ETHERNET,
            secret: padded(self.settings.secret.as_deref().unwrap_or_default()),
            name: padded(NAME),
        })))
    }

    fn tell(
        &mut self,
        message: &Message,
        mut rest: Vec<Told>,
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
                // DPDK's master makes all counts zero when it connects.
                joined.senders.iter().for_each(Sender::publish);
                joined.receivers.iter_mut().for_each(Receiver::release);
                Ok(Answer { message: None, joined: Some(joined) })
            }
            (other, Some(_)) => Err(unexpected(other, "ACK")),
            (other, None) => Err(unexpected(other, "CONNECTED")),
        }
    }
}

/// A master's ends of the peer's rings.
fn join(regions: &Arc<Regions>, to_master: Rings, to_slave: Rings) -> Result<Joined, String> {
    if to_master.iter().chain(&to_slave).any(|(ring, _)| !ring.has_cookie()) {
        return Err("ring: found: another first word; allowed: 0x3E31F20".into());
    }
    let peers = || Buffers::Peers(regions.clone());
    let mut joined = Joined::default();
    for (ring, bell) in to_master {
        joined.receivers.push(Receiver::new(ring, peers()));
        joined.from_peer.push(bell);
    }
    for (ring, bell) in to_slave {
        joined.senders.push(Sender::new(ring, peers()));
        joined.to_peer.push(bell);
    }
    Ok(joined)
}

/// Binary logarithm of a ring's entries.
pub(crate) fn log2(ring: u32) -> u8 {
    ring.max(1).ilog2() as u8
}

/// Whether a descriptor of the peer's is what it has to be: waiting for a file, or writing to one, could take
/// any time.
fn is_eventfd(descriptor: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}
