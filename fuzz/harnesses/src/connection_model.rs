//! Connections as the README of `firewall` has them, in the plainest form: a map of them, sequence numbers as
//! whole numbers that never wrap, times as they are, and one way for every packet.
//!
//! Only packets from inside open anything here, and neither side tells a window scale.

use nf_sdk::native::frames::flags::{ACK, FIN, RST, SYN};
use std::collections::BTreeMap;

/// Bytes that a side may have under way.
const WINDOW: i64 = 1 << 16;

/// Stands for the newest byte of a side that has sent nothing: no number is near it.
const NOTHING: i64 = -1 << 40;

/// The inside, as an index; the outside is 1.
pub const INSIDE: usize = 0;

/// A segment. Numbers count from the side's own beginning.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub side: usize,
    pub flags: u8,
    pub seq: i64,
    /// Behind its last byte, SYN and FIN included.
    pub end: i64,
    pub ack: i64,
}

/// What a packet is.
#[derive(Clone, Copy, Debug)]
pub enum Packet {
    Tcp(Segment),
    Udp {
        side: usize,
    },
    /// An ICMP echo: a request, or a reply. The exchange is named by the side that asks.
    Echo {
        side: usize,
        is_request: bool,
    },
    Other {
        side: usize,
    },
}

/// What may have ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    None,
    /// This side sent a reset within the window; what the other one acknowledged since.
    Reset {
        side: usize,
        told: Option<i64>,
    },
    /// The inside sent a SYN; the number behind it.
    Syn {
        end: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    SynSent,
    SynReceived,
    Established,
    FinWait,
    Closing,
    Reset,
}

#[derive(Clone, Copy, Debug)]
struct Tcp {
    stage: Stage,
    /// Behind the newest byte of each side.
    newest: [i64; 2],
    has_ended: [bool; 2],
    /// The outside sent data before the handshake was complete.
    is_early: bool,
    doubt: Doubt,
}

#[derive(Clone, Copy, Debug)]
enum Flow {
    Tcp(Tcp),
    Udp { is_answered: bool },
    Echo,
    Other { is_answered: bool },
}

/// What becomes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Pass,
    /// It passes, and the connection's time runs on.
    Unrefreshed,
    /// It may begin another connection.
    Again,
    Invalid,
}

impl Flow {
    /// Seconds that it may be idle, by the manifest's defaults.
    fn timeout(&self) -> u64 {
        match self {
            Flow::Tcp(tcp) => match tcp.stage {
                Stage::SynSent | Stage::SynReceived => 60,
                Stage::Established => 124 * 60,
                Stage::FinWait | Stage::Closing => 4 * 60,
                Stage::Reset => 10,
            },
            Flow::Udp { is_answered: false } => 30,
            Flow::Udp { is_answered: true } => 180,
            Flow::Echo => 60,
            Flow::Other { .. } => 600,
        }
    }

    /// What a packet from inside opens.
    fn open(packet: Packet) -> Option<Flow> {
        Some(match packet {
            Packet::Tcp(segment) => {
                if segment.flags != SYN {
                    return None;
                }
                Flow::Tcp(Tcp {
                    stage: Stage::SynSent,
                    newest: [segment.end, NOTHING],
                    has_ended: [false; 2],
                    is_early: false,
                    doubt: Doubt::None,
                })
            }
            Packet::Udp { .. } => Flow::Udp { is_answered: false },
            Packet::Echo { is_request, .. } => return is_request.then_some(Flow::Echo),
            Packet::Other { .. } => Flow::Other { is_answered: false },
        })
    }

    fn step(&mut self, packet: Packet) -> Step {
        match (self, packet) {
            (Flow::Tcp(tcp), Packet::Tcp(segment)) => return tcp.step(segment),
            (Flow::Udp { is_answered }, Packet::Udp { side })
            | (Flow::Other { is_answered }, Packet::Other { side }) => *is_answered |= side != INSIDE,
            (Flow::Echo, Packet::Echo { .. }) => {}
            (flow, packet) => panic!("{packet:?} belongs to no {flow:?}"),
        }
        Step::Pass
    }
}

impl Tcp {
    fn step(&mut self, segment: Segment) -> Step {
        let Segment { side, flags, .. } = segment;
        if ![SYN, SYN | ACK, ACK, FIN | ACK, RST, RST | ACK].contains(&flags) {
            return Step::Invalid;
        }
        if flags & RST != 0 {
            return self.reset(segment);
        }
        if flags & SYN != 0 {
            return self.synchronise(segment);
        }
        match self.stage {
            // The outside has a connection that the inside has forgotten.
            Stage::SynSent if side != INSIDE && flags & FIN == 0 => return Step::Unrefreshed,
            Stage::SynSent => return Step::Invalid,
            Stage::Reset => return Step::Unrefreshed,
            _ => {}
        }
        let unseen = self.newest[1 - side] - segment.ack;
        let completes = self.stage == Stage::SynReceived && side == INSIDE;
        let acknowledges =
            if completes && !self.is_early { unseen == 0 } else { (0..=2 * WINDOW).contains(&unseen) };
        if !acknowledges || (segment.end - self.newest[side]).abs() > WINDOW {
            return Step::Invalid;
        }
        if self.stage == Stage::SynReceived {
            let is_data = side != INSIDE && flags & FIN == 0;
            self.is_early |= side != INSIDE && segment.end != self.newest[side];
            if !is_data {
                self.stage = Stage::Established;
            }
        }
        self.newest[side] = self.newest[side].max(segment.end);
        if flags & FIN != 0 {
            self.has_ended[side] = true;
            self.stage = if self.has_ended == [true; 2] { Stage::Closing } else { Stage::FinWait };
        }
        match &mut self.doubt {
            Doubt::Reset { side: doubted, told } if *doubted != side => *told = Some(segment.ack),
            Doubt::Reset { .. } => self.doubt = Doubt::None,
            Doubt::Syn { .. } | Doubt::None => {}
        }
        Step::Pass
    }

    /// RFC 5961 section 3.
    fn reset(&mut self, Segment { side, flags, seq, ack, .. }: Segment) -> Step {
        let told = match self.doubt {
            Doubt::Reset { side: doubted, told } if doubted == side => told,
            _ => None,
        };
        let answers = self.stage == Stage::SynSent && side != INSIDE;
        let is_near = !answers && (seq - self.newest[side]).abs() <= WINDOW;
        let is_exact = if answers {
            flags & ACK != 0 && ack == self.newest[INSIDE]
        } else {
            seq == self.newest[side] || is_near && told == Some(seq)
        };
        match () {
            () if !is_exact && !is_near => Step::Invalid,
            () if !is_exact => {
                if matches!(self.stage, Stage::Established | Stage::FinWait | Stage::Closing) {
                    self.doubt = Doubt::Reset { side, told };
                }
                Step::Unrefreshed
            }
            () if self.stage == Stage::Reset => Step::Unrefreshed,
            () => {
                (self.stage, self.doubt) = (Stage::Reset, Doubt::None);
                Step::Pass
            }
        }
    }

    /// RFC 5961 section 4.
    fn synchronise(&mut self, Segment { side, flags, end, seq, ack }: Segment) -> Step {
        let answers = flags & ACK != 0;
        match (self.stage, side) {
            (Stage::Closing | Stage::Reset, _) => {
                if answers {
                    Step::Invalid
                } else {
                    Step::Again
                }
            }
            (Stage::SynSent, INSIDE) if answers => Step::Invalid,
            (Stage::SynSent, INSIDE) => {
                self.newest[INSIDE] = end;
                Step::Pass
            }
            (Stage::SynSent, _) => {
                // What came with the SYN may be left unacknowledged.
                if answers && !(0..=0xffff).contains(&(self.newest[INSIDE] - ack)) {
                    return Step::Unrefreshed;
                }
                self.is_early |= end != seq + 1;
                (self.newest[side], self.stage) = (end, Stage::SynReceived);
                Step::Pass
            }
            (Stage::SynReceived, _) => Step::Pass,
            (Stage::Established | Stage::FinWait, INSIDE) => {
                if !answers {
                    self.doubt = Doubt::Syn { end };
                }
                Step::Unrefreshed
            }
            (Stage::Established | Stage::FinWait, _) => match self.doubt {
                Doubt::Syn { end: asked } if answers && ack == asked => {
                    let newest = [asked, end];
                    *self = Tcp {
                        stage: Stage::SynReceived,
                        newest,
                        has_ended: [false; 2],
                        is_early: false,
                        doubt: Doubt::None,
                    };
                    Step::Pass
                }
                _ => Step::Unrefreshed,
            },
        }
    }
}

/// All connections by name, each with the second in which it was seen last.
pub struct Model<K> {
    flows: BTreeMap<K, (Flow, u64)>,
}

impl<K: Ord + Copy> Model<K> {
    /// None.
    pub fn new() -> Model<K> {
        Model { flows: BTreeMap::new() }
    }

    /// Whether the packet passes.
    pub fn take(&mut self, name: K, packet: Packet, now: u64) -> bool {
        if let Some((flow, seen)) = self.flows.get_mut(&name)
            && now - *seen <= flow.timeout()
        {
            match flow.step(packet) {
                Step::Pass => {
                    *seen = now;
                    return true;
                }
                Step::Unrefreshed => return true,
                Step::Invalid => return false,
                Step::Again => {}
            }
        }
        let (Packet::Tcp(Segment { side, .. })
        | Packet::Udp { side }
        | Packet::Echo { side, .. }
        | Packet::Other { side }) = packet;
        match Flow::open(packet).filter(|_| side == INSIDE) {
            Some(flow) => {
                self.flows.insert(name, (flow, now));
                true
            }
            None => false,
        }
    }
}
