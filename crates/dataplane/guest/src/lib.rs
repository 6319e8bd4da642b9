//! What runs a network function: the one trait behind which sandboxes, programs and virtual machines look
//! alike.
//!
//! The life of a guest:
//! 1. It is made by its kind's own constructor (`guest_wasm`), with its configuration, and has answered
//!    `sf_init`.
//! 2. [`Guest::process`] shows it a batch; its verdicts come back in the packets' records, already clamped. A
//!    guest that was made preemptible may be switched out in the middle ([`Progress::Suspended`]): the batch
//!    then waits, untouched, until a further [`Guest::process`] has come to the end of the call.
//! 3. The engine carries the verdicts out. What the host has for the guest beside its memory is in its
//!    [`Kept`]: a packet to be held goes into the [`SlotTable`] there, and packets that the function gave up
//!    or made come out of it.
//! 4. [`Guest::timer`] runs when its one deadline has passed.
//! 5. Between two calls [`Guest::save`] takes a copy of all that it is, and [`Guest::freeze`] turns a guest
//!    that will not run for a while into a compact [`Frozen`] one, which is thawed later.
//! 6. After a [`GuestFault`] the guest is finished: [`Guest::surrender`] gives back every buffer, and it is
//!    dropped.
//!
//! Limits: a guest is used by the one worker that owns it. A suspended one may be handed to another worker
//! with its batch: its call goes on there.

mod cold;
mod fault;
mod kept;
mod offer;
mod packets;
mod save;
mod segments;
mod slots;

pub use cold::Cold;
pub use fault::{GuestFault, HandOutFault};
pub use kept::Kept;
pub use offer::Offer;
pub use packets::{UnpackError, pack, unpack};
pub use save::{Frozen, NotFrozen, NotThawed, SaveError};
pub use segments::to_other_version;
pub use slots::{SlotConfig, SlotRefusal, SlotTable};

use nf_abi::Verdict;
use packet_memory::Packet;
use snapshot::Saved;
use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use telemetry::clock::{Moment, Nanos};

/// A line that a function logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// One of the `LOG_` streams of `nf_abi::stream`.
    pub severity: u32,
    /// The text; control characters are replaced.
    pub text: String,
}

impl LogLine {
    /// The severity in one word.
    #[must_use]
    pub fn severity_name(&self) -> &'static str {
        match self.severity {
            nf_abi::stream::LOG_ERROR => "error",
            nf_abi::stream::LOG_WARNING => "warning",
            nf_abi::stream::LOG_INFO => "info",
            _ => "debug",
        }
    }
}

/// What a function found: events since the last collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Each one line of text, JSON if the function keeps its contract; control characters are replaced.
    pub lines: Vec<String>,
    /// Events that found no room.
    pub lost: u64,
}

impl Events {
    /// Was there nothing?
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.lost == 0
    }
}

/// An address that a function asked for: on the link of one of its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ask {
    /// The interface.
    pub interface: u16,
    /// The address.
    pub address: IpAddr,
}

/// What the answers to a batch come to, found out where they are read anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// All packets go out by this interface.
    pub interface: Option<u16>,
    /// Bytes of all packets.
    pub bytes: u64,
    /// The call may have left something beside verdicts: [`Kept::left_over`] tells what.
    pub has_left_over: bool,
}

impl Answers {
    /// Of verdicts that are in the records, of a call that may have left something.
    pub fn of(packets: &[Packet]) -> Answers {
        let verdict = packets.first().map_or(0, |packet| packet.record().verdict);
        let alike = packets.iter().all(|packet| packet.record().verdict == verdict);
        Answers {
            interface: Verdict::decode(verdict).filter(|_| alike).and_then(Verdict::interface),
            bytes: packets.iter().map(|packet| u64::from(packet.length())).sum(),
            has_left_over: true,
        }
    }
}

/// How far a call with packets has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The call is over; the verdicts are in the records.
    Done(Answers),
    /// The call was switched out and goes on with the next [`Guest::process`]. Until then the function has
    /// the batch: its packets must not be read or changed, nor their buffers freed, and the records say
    /// nothing yet.
    Suspended,
}

impl Progress {
    /// Whether the call is over.
    pub fn is_done(self) -> bool {
        matches!(self, Progress::Done(_))
    }
}

/// What a call leaves behind beside verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// When the guest is due next; [`Nanos::MAX`]: never.
    pub due: Nanos,
    /// It gave packets up, or made some.
    pub has_emitted: bool,
}

/// A running function, whatever it runs in.
pub trait Guest: Send {
    /// Shows up to `nf_abi::MAX_BATCH` packets to the function, or goes on with the call that is
    /// [suspended](Guest::suspended), with the batch that it was made with. Verdict, extent and mark come
    /// back in the records. An extent outside the buffer, or one changed by a function that may only read,
    /// turns the verdict into [`BAD_VERDICT`]. All of that holds when the call is [done](Progress::Done).
    ///
    /// # Errors
    /// [`GuestFault`]; the packets' contents are then unknown and the guest is finished.
    /// [`GuestFault::Contract`] when a suspended call is given another number of packets than it has.
    fn process(&mut self, packets: &mut [Packet], now: Moment) -> Result<Progress, GuestFault>;

    /// Whether a call is suspended; only guests that were made preemptible ever are. Until it is done,
    /// calling anything but [`Guest::process`] into the function (`observe`, `timer`, `report`,
    /// `export_state`, `import_state`) is a [`GuestFault::Contract`]; what the host keeps for it can be
    /// looked at and collected as ever. [`Guest::surrender`] and dropping the guest end the call, and only
    /// after that the batch is the caller's again.
    fn suspended(&self) -> bool {
        false
    }

    /// Shows packets that stay their owner's, with the owner's metadata: `ingress` is the interface of the
    /// observed instance. Whatever the function decides is ignored.
    ///
    /// # Errors
    /// [`GuestFault`]; the guest is finished, the packets are as they were (an observer's window is
    /// read-only).
    fn observe(&mut self, packets: &[Packet], now: Moment) -> Result<(), GuestFault>;

    /// What the host keeps for it, which the engine works on between its calls.
    fn kept(&self) -> &Kept;

    /// The same, to be changed.
    fn kept_mut(&mut self) -> &mut Kept;

    /// What the function reads of the devices behind its interfaces from its next [`Guest::timer`] on, as
    /// `nf_abi::stream::DEVICES` has it.
    fn set_devices(&mut self, entries: Arc<[u8]>) {
        self.kept_mut().new_devices = Some(entries);
    }

    /// Has the function take a changed file of its configuration from its next [`Guest::timer`] on, a part in
    /// each. `false`: it takes none now, and the offer is not kept.
    fn offer(&mut self, offer: &Arc<Offer>) -> bool {
        let _ = offer;
        false
    }

    /// Puts what is new of the devices in its place and tells the function; has it go on with a changed file
    /// that was offered; runs the function's timer when its deadline has passed, which is cleared first. Due
    /// when [`Kept::due`] says.
    ///
    /// # Errors
    /// [`GuestFault`].
    fn timer(&mut self, now: Moment) -> Result<(), GuestFault>;

    /// The program stops: has the function give out what it still has to. Whether there is more.
    ///
    /// # Errors
    /// [`GuestFault`].
    fn finish(&mut self, now: Moment) -> Result<bool, GuestFault> {
        let _ = now;
        Ok(false)
    }

    /// Gives back every packet that the guest has, whatever its state. A suspended call is ended, and the
    /// guest with it.
    fn surrender(&mut self, out: &mut Vec<Packet>) {
        self.kept_mut().surrender(out);
    }

    /// The function's own report, one JSON value; `None` when it has none to give.
    ///
    /// # Errors
    /// [`GuestFault`].
    fn report(&mut self, now: Moment) -> Result<Option<String>, GuestFault>;

    /// The function's own state, entries as in `nf_abi::stream::STATE`; `None` when it offers none.
    ///
    /// # Errors
    /// [`GuestFault`].
    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault>;

    /// Hands state of another instance over. `Ok(false)` when the function takes none or refused it.
    ///
    /// # Errors
    /// [`GuestFault`].
    fn import_state(&mut self, state: Vec<u8>) -> Result<bool, GuestFault>;

    /// As [`Guest::export_state`], within a time. Whatever comes of it the guest is as it was before, unless
    /// the fault says otherwise: it may go on.
    ///
    /// # Errors
    /// [`HandOutFault`].
    fn hand_out(&mut self, limit: Nanos) -> Result<Option<Vec<u8>>, HandOutFault> {
        let _ = limit;
        self.export_state().map_err(|fault| HandOutFault { fault, finished: true })
    }

    /// As [`Guest::import_state`], within a time.
    ///
    /// # Errors
    /// [`GuestFault`].
    fn hand_in(&mut self, state: Vec<u8>, limit: Nanos) -> Result<bool, GuestFault> {
        let _ = limit;
        self.import_state(state)
    }

    /// Other bounds, from its next call on: the longest time of a call with packets, and those on the packets
    /// that it keeps.
    fn set_limits(&mut self, max_call: Nanos, slots: SlotConfig) {
        let _ = (max_call, slots);
    }

    /// Bytes of memory that it has for itself.
    fn memory(&mut self) -> usize {
        0
    }

    /// The address in this process at which that memory begins; 0: it does not say, or has it nowhere in one
    /// piece.
    fn memory_place(&mut self) -> usize {
        0
    }

    /// Everything that the function is now, without its help: memory, globals, what the host keeps for it,
    /// and copies of the packets that it holds. It goes on as before.
    ///
    /// # Errors
    /// [`SaveError`]: a call is suspended, packets that it gave up have not been carried out yet, or guests
    /// of its kind cannot be saved.
    fn save(&mut self) -> Result<Saved<'static>, SaveError> {
        Err(SaveError::Unable)
    }

    /// Goes on in the place of another guest, with its memory and all that the host keeps for it, if both are
    /// of one kind and lay out their memory alike. The other one is finished then, but for
    /// [`Guest::take_place_of`] the other way round. `false`: they are not alike, and both are as they were.
    ///
    /// # Errors
    /// [`GuestFault`]: this guest is finished, and the other one as it was.
    fn take_place_of(&mut self, before: &mut dyn Guest) -> Result<bool, GuestFault> {
        let _ = before;
        Ok(false)
    }

    /// What it is, for [`Guest::take_place_of`]; `None`: it gives its place to no other guest.
    fn as_any(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// Whether it is frozen; see [`Cold`].
    fn is_frozen(&self) -> bool {
        false
    }

    /// The guest that is to take this one's place before it runs on; `None`: this one goes on itself.
    ///
    /// # Errors
    /// Why it cannot run at present, in words for the operator. It is as it was.
    fn thaw(&mut self) -> Result<Option<Box<dyn Guest>>, String> {
        Ok(None)
    }

    /// Gives up all that running needs, and keeps what the function is. The packets that it holds stay where
    /// they are.
    ///
    /// # Errors
    /// As [`Guest::save`]; the guest comes back as it was.
    fn freeze(self: Box<Self>) -> Result<Box<dyn Frozen>, NotFrozen>;
}

/// Stands in a record's verdict field when a guest gave back what it may not; no wire form of a verdict
/// equals it.
pub const BAD_VERDICT: u32 = u32::MAX;
