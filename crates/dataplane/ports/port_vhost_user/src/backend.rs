//! What a front end's requests lead to: a machine that reads one message at a time, changes the rings that
//! the worker has, and says what to answer.
//!
//! A ring runs when features were agreed, memory is there, its size, its place and its kick are known, and it
//! is enabled. Each request that changes one of these makes the rings anew that it concerns, which go on
//! where they were; a ring that is asked for its base stops.

use crate::config::Settings;
use crate::desk::Desk;
use crate::dirty::DirtyLog;
use crate::features::{self, LOG_ALL, PROTOCOL_FEATURES, PROTOCOL_LOG_SHMFD, PROTOCOL_REPLY_ACK};
use crate::guest_memory::GuestMemory;
use crate::message::{Message, Region, Reply, Request, RingAddresses, RingFile, RingState};
use crate::ring::{Direction, Parts, Queue, SIZE_MAX};
use local_socket::ring;
use rustix::fs::OFlags;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most bytes of a log: for guests' addresses of up to 2 TiB.
const LOG_MAX: u64 = 64 << 20;
/// In a ring's flags: writes to it are noted.
const LOG_RING: u32 = 1;

/// What is known of a ring.
#[derive(Debug, Default)]
struct Ring {
    size: u16,
    addresses: Option<RingAddresses>,
    base: Option<u16>,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    enabled: bool,
}

/// One connection's back end.
#[derive(Debug)]
pub(crate) struct Backend {
    desk: Arc<Desk>,
    most: u64,
    queues: u32,
    offered: u64,
    features: Option<u64>,
    protocol: u64,
    memory: Option<Arc<GuestMemory>>,
    log: Option<Arc<DirtyLog>>,
    rings: Vec<Ring>,
}

fn one(descriptors: Vec<OwnedFd>) -> Result<OwnedFd, String> {
    let count = descriptors.len();
    match <[OwnedFd; 1]>::try_from(descriptors) {
        Ok([one]) => Ok(one),
        Err(_) => Err(format!("found: {count} descriptors; allowed: 1")),
    }
}

impl Backend {
    /// That of a new connection.
    pub fn new(settings: &Settings, desk: &Arc<Desk>) -> Backend {
        let rings = || (0..2 * settings.queues).map(|_| Ring::default()).collect();
        let mut shared = desk.rings();
        shared.queues = (0..2 * settings.queues).map(|_| None).collect();
        shared.sort();
        drop(shared);
        Backend {
            desk: desk.clone(),
            most: settings.memory,
            queues: settings.queues,
            offered: features::offered(settings.offload, settings.queues),
            features: None,
            protocol: 0,
            memory: None,
            log: None,
            rings: rings(),
        }
    }

    /// Reads the peer's next message, with what came along.
    ///
    /// # Errors
    /// What is wrong with it: the connection is over.
    pub fn read(&mut self, message: Message, descriptors: Vec<OwnedFd>) -> Result<Option<Reply>, String> {
        let Message { request, need_reply } = message;
        let (name, number) = request.name();
        let done = self.carry_out(request, descriptors).map_err(|reason| format!("{name}: {reason}"))?;
        let acknowledged = need_reply && self.protocol & PROTOCOL_REPLY_ACK != 0;
        Ok(done.or_else(|| acknowledged.then_some(Reply::Number(number, 0))))
    }

    fn carry_out(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> Result<Option<Reply>, String> {
        let number = request.name().1;
        match request {
            Request::GetFeatures => return Ok(Some(Reply::Number(number, self.offered))),
            Request::GetProtocolFeatures => return Ok(Some(Reply::Number(number, features::PROTOCOL))),
            Request::GetQueueNum => return Ok(Some(Reply::Number(number, self.queues.into()))),
            Request::SetFeatures(bits) => {
                subset(bits, self.offered)?;
                self.features = Some(bits);
                self.renew_all()?;
            }
            Request::SetProtocolFeatures(bits) => {
                subset(bits, features::PROTOCOL)?;
                self.protocol = bits;
            }
            Request::SetOwner | Request::ResetOwner | Request::SetLogFd => {}
            Request::SetMemTable(regions) => self.set_memory(&regions, descriptors)?,
            Request::SetLogBase { size, offset } => {
                if self.protocol & PROTOCOL_LOG_SHMFD == 0 {
                    return Err("found: a log; allowed: none without LOG_SHMFD".into());
                }
                let log =
                    DirtyLog::map(&one(descriptors)?, offset, size, LOG_MAX).map_err(|e| e.to_string())?;
                let before = self.log.replace(Arc::new(log));
                self.renew_all()?;
                drop(before);
                return Ok(Some(Reply::Log));
            }
            Request::SetVringNum(RingState { index, number }) => {
                if !number.is_power_of_two() || !(2..=SIZE_MAX).contains(&number) {
                    return Err(format!(
                        "found: a ring of {number} descriptors; allowed: a power of two from 2 to {SIZE_MAX}"
                    ));
                }
                self.ring(index)?.size = number as u16;
                self.renew(index)?;
            }
            Request::SetVringAddr(addresses) => {
                self.ring(addresses.index)?.addresses = Some(addresses);
                self.renew(addresses.index)?;
            }
            Request::SetVringBase(RingState { index, number }) => {
                let base =
                    u16::try_from(number).map_err(|_| format!("found: {number}; allowed: 0 to 65535"))?;
                self.ring(index)?.base = Some(base);
            }
            Request::GetVringBase(RingState { index, .. }) => {
                let base = self.stop(index)?;
                return Ok(Some(Reply::Base(RingState { index, number: base.into() })));
            }
            Request::SetVringKick(RingFile { index, none }) => {
                if none {
                    return Err("found: no eventfd; allowed: one, since this side sleeps".into());
                }
                let kick = eventfd(one(descriptors)?)?;
                let before = self.ring(index)?.kick.take();
                before.iter().for_each(|kick| self.desk.bells.unwatch(kick));
                // What the guest makes room for is looked at when there is a packet for it.
                if index % 2 == 1 {
                    self.desk.bells.watch(&kick).map_err(|error| error.to_string())?;
                }
                self.ring(index)?.kick = Some(kick);
                self.renew(index)?;
            }
            Request::SetVringCall(RingFile { index, none }) => {
                let call = if none { None } else { Some(eventfd(one(descriptors)?)?) };
                self.ring(index)?.call = call;
                self.renew(index)?;
                // What was used meanwhile has woken no one.
                self.wake(1 << index);
            }
            Request::SetVringErr(RingFile { index, .. }) => {
                self.ring(index)?;
            }
            Request::SetVringEnable(RingState { index, number }) => {
                if number > 1 {
                    return Err(format!("found: {number}; allowed: 0 or 1"));
                }
                self.ring(index)?.enabled = number == 1;
                self.renew(index)?;
            }
        }
        Ok(None)
    }

    fn ring(&mut self, index: u32) -> Result<&mut Ring, String> {
        let count = self.rings.len();
        let ring = self.rings.get_mut(index as usize);
        ring.ok_or_else(|| {
            format!("found: ring {index}; allowed: 0 to {}, with the port's `queues`", count - 1)
        })
    }

    /// Another memory, or the first.
    fn set_memory(&mut self, regions: &[Region], files: Vec<OwnedFd>) -> Result<(), String> {
        // All at once, so that what was there may be the same memory.
        let memory = Arc::new(GuestMemory::map(regions, files, self.most)?);
        let before = self.memory.replace(memory);
        self.renew_all()?;
        drop(before);
        Ok(())
    }

    fn renew_all(&mut self) -> Result<(), String> {
        (0..self.rings.len() as u32).try_for_each(|index| self.renew(index))
    }

    /// Makes a ring's end anew, or stops it, by what is known now.
    fn renew(&mut self, index: u32) -> Result<(), String> {
        let mut shared = self.desk.rings();
        let slot = shared.queues.get_mut(index as usize).ok_or("no such ring")?;
        let before = slot.take();
        let position = before.as_ref().map(Queue::position);
        let made = self.make(index as usize, position);
        let changed = before.is_some() != matches!(&made, Ok(Some(_)));
        if let Some(position) = position {
            self.rings[index as usize].base = Some(position);
        }
        let (made, failed) = match made {
            Ok(made) => (made, None),
            Err(reason) => (None, Some(reason)),
        };
        let runs = made.is_some();
        *slot = made;
        shared.features = self.features.unwrap_or(0);
        if changed {
            shared.sort();
        }
        drop(shared);
        // May be the last that had memory mapped.
        drop(before);
        if changed {
            self.tell();
        }
        if runs {
            // It polls from now on, and its worker may sleep.
            self.desk.bells.nudge();
        }
        failed.map_or(Ok(()), Err)
    }

    /// A ring's end, if all is known of it.
    fn make(&self, index: usize, position: Option<u16>) -> Result<Option<Queue>, String> {
        let ring = &self.rings[index];
        let (Some(features), Some(memory), Some(addresses)) = (self.features, &self.memory, ring.addresses)
        else {
            return Ok(None);
        };
        let enabled = ring.enabled || features & PROTOCOL_FEATURES == 0;
        if !enabled || ring.size == 0 || ring.kick.is_none() {
            return Ok(None);
        }
        let find = |what: &str, user: u64| {
            memory
                .guest_of(user, 1)
                .ok_or_else(|| format!("{what}: found: {user:#x}; allowed: within the memory"))
        };
        let parts = Parts {
            size: ring.size,
            table: find("table of descriptors", addresses.descriptors)?,
            available: find("available ring", addresses.available)?,
            used: find("used ring", addresses.used)?,
        };
        let direction = if index % 2 == 1 { Direction::FromGuest } else { Direction::ToGuest };
        let mut queue = Queue::new(memory, parts, direction, features, position)?;
        queue.has_call = ring.call.is_some();
        if features & LOG_ALL != 0 {
            let used = (addresses.flags & LOG_RING != 0).then_some(addresses.log);
            queue.log_to(self.log.clone(), used);
        }
        Ok(Some(queue))
    }

    /// Stops a ring, and says where it would go on.
    fn stop(&mut self, index: u32) -> Result<u16, String> {
        self.ring(index)?;
        let mut shared = self.desk.rings();
        let before = shared.queues.get_mut(index as usize).and_then(Option::take);
        shared.sort();
        drop(shared);
        let ring = &mut self.rings[index as usize];
        let base = before.as_ref().map(Queue::position).or(ring.base).unwrap_or(0);
        ring.base = Some(base);
        let kick = ring.kick.take();
        kick.iter().for_each(|kick| self.desk.bells.unwatch(kick));
        if before.is_some() {
            self.tell();
        }
        Ok(base)
    }

    /// Says how many rings run.
    fn tell(&self) {
        let shared = self.desk.rings();
        let (up, to, from) = (shared.is_up(), shared.to_guest.len(), shared.from_guest.len());
        drop(shared);
        self.desk.tell(|told| {
            told.up = up;
            told.words = match up {
                true => format!("a front end is connected; rings: {to} to it, {from} from it"),
                false => "a front end is connected; its guest has not started the device".into(),
            };
        });
    }

    /// The worker has put something into rings while the guest slept.
    pub fn wake(&self, sleepers: u32) {
        for (_, ring_of) in self.rings.iter().enumerate().filter(|(index, _)| sleepers >> index & 1 == 1) {
            if let Some(call) = &ring_of.call {
                // Its flags are shared with the peer, who may have changed them.
                let _ = rustix::fs::fcntl_setfl(call, OFlags::NONBLOCK);
                ring(call);
            }
        }
    }
}

impl Drop for Backend {
    /// Takes the rings away from the worker.
    fn drop(&mut self) {
        let mut shared = self.desk.rings();
        let queues = std::mem::take(&mut shared.queues);
        (shared.line, shared.features) = (None, 0);
        shared.sort();
        drop(shared);
        drop(queues);
        self.rings
            .iter()
            .filter_map(|ring| ring.kick.as_ref())
            .for_each(|kick| self.desk.bells.unwatch(kick));
    }
}

fn subset(bits: u64, offered: u64) -> Result<(), String> {
    match bits & !offered {
        0 => Ok(()),
        more => Err(format!("found: bits {more:#x} beside the others; allowed: some of {offered:#x}")),
    }
}

/// A descriptor of the peer's has to be an eventfd: waiting for a file, or writing to one, could take any
/// time.
fn eventfd(descriptor: OwnedFd) -> Result<OwnedFd, String> {
    use std::os::fd::AsRawFd;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let is_one = link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]");
    if is_one { Ok(descriptor) } else { Err("found: another descriptor; allowed: an eventfd".into()) }
}
