//! Frames that wait to be sent: bounded in number and in rate.

use crate::rate::Bucket;
use crate::settings::Limits;
use std::collections::VecDeque;
use telemetry::clock::Nanos;

/// Frames that wait at most; further ones are lost.
const WAITING: usize = 1024;

/// One in so many of the frames that may be sent at once is for the device's own: its addresses, DHCP,
/// routers and groups.
const KEPT: u32 = 4;

/// What is to be sent, and what may be.
#[derive(Debug)]
pub(crate) struct Outbox {
    frames: VecDeque<Vec<u8>>,
    sent: Bucket,
    answers: Bucket,
    /// Tokens of `sent` that asks of functions leave to the device.
    kept: u32,
    /// Frames that were put in.
    pub(crate) put: u64,
    /// Answers that the rate did not allow.
    pub(crate) limited: u64,
    /// Frames that found [`WAITING`] others.
    pub(crate) lost: u64,
}

impl Outbox {
    pub(crate) fn new(limits: &Limits) -> Outbox {
        Outbox {
            frames: VecDeque::new(),
            sent: Bucket::new(limits.sent),
            answers: Bucket::new(limits.answers),
            kept: limits.sent.burst / KEPT,
            put: 0,
            limited: 0,
            lost: 0,
        }
    }

    /// Other limits from now on.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.sent = Bucket::new(limits.sent);
        self.answers = Bucket::new(limits.answers);
        self.kept = limits.sent.burst / KEPT;
    }

    /// When a frame of the device's own accord may be sent.
    pub(crate) fn ready(&self) -> Nanos {
        self.sent.ready()
    }

    /// Whether a frame of the device's own accord may be sent now; if so, it has to be put in.
    pub(crate) fn may_send(&mut self, now: Nanos) -> bool {
        self.sent.take(now)
    }

    /// When a frame may be sent that a function asked for.
    pub(crate) fn ready_to_ask(&self) -> Nanos {
        self.sent.ready_beyond(self.kept)
    }

    /// Whether a frame that a function asked for may be sent now; if so, it has to be put in.
    pub(crate) fn may_ask(&mut self, now: Nanos) -> bool {
        self.ready_to_ask() <= now && self.may_send(now)
    }

    /// Whether an answer may be sent now; if so, it has to be put in.
    pub(crate) fn may_answer(&mut self, now: Nanos) -> bool {
        let may = self.answers.take(now);
        self.limited += u64::from(!may);
        may
    }

    /// Puts a frame in that [`Outbox::may_send`] or [`Outbox::may_answer`] allowed.
    pub(crate) fn put(&mut self, frame: Option<Vec<u8>>) {
        match frame {
            Some(frame) if self.frames.len() < WAITING => {
                self.put += 1;
                self.frames.push_back(frame);
            }
            _ => self.lost += 1,
        }
    }

    /// Takes over what another one had, its counts too.
    pub(crate) fn inherit(&mut self, other: Outbox) {
        self.put += other.put;
        self.limited += other.limited;
        self.lost += other.lost;
        self.frames = other.frames;
    }

    /// The next frame.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        self.frames.pop_front()
    }
}
