//! The same load in other shapes: all of one flow, or of full-size packets.

use crate::frames::{Frame, lengthened};
use crate::functions::Load;

/// Bytes of a full-size packet.
const FULL_SIZE: usize = 1500;

/// What a function is shown of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The load as it is: many flows, small packets.
    Many,
    /// As many packets, all of its first one's flow and direction.
    OneFlow,
    /// The same flows in packets of 1,500 B.
    FullSize,
}

impl Shape {
    /// All, with what a result's name has for them.
    pub(crate) const ALL: [(&str, Shape); 3] =
        [("", Shape::Many), ("-one-flow", Shape::OneFlow), ("-1500", Shape::FullSize)];

    /// The load in this shape.
    pub(crate) fn of(self, load: Load) -> Load {
        match self {
            Shape::Many => load,
            Shape::OneFlow => {
                let (frames, ingress) = (vec![load.frames[0]; load.frames.len()], load.ingress[0]);
                Load { ingress: vec![ingress; frames.len()], frames, size: None }
            }
            Shape::FullSize => {
                let frames: Vec<Frame> =
                    load.frames.iter().map(|frame| lengthened(*frame, FULL_SIZE)).collect();
                Load { frames, ingress: load.ingress, size: Some(FULL_SIZE) }
            }
        }
    }
}
