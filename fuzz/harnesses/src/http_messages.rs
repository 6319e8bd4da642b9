//! A dialogue in HTTP/1 tells the same messages however it is cut into segments, and what was held for it is
//! given back.

use dpi::message::asked::Queue;
use dpi::message::half::{Half, Reading};
use dpi::message::{Limits, Message, Share};
use dpi::rules::Direction;

const MEMORY: usize = 1 << 20;
/// Few bytes of a body are looked at, so that short ones reach the limit.
const LIMITS: Limits = Limits { body: 64, bodies: [true; 2], wanted: 0, reads: true };

/// A message as it is told: by the server, its head, its body, whether it was not told before, and where it
/// begins.
type Told = (bool, Vec<u8>, Option<Vec<u8>>, bool, u64);

/// What is told of what both say, in pieces of so many bytes.
fn told(dialogue: [&[u8]; 2], piece: usize) -> Vec<Told> {
    let (mut all, mut share, mut asked) = (Vec::new(), Share::new(MEMORY), Queue::default());
    for (direction, said) in [Direction::ToServer, Direction::ToClient].into_iter().zip(dialogue) {
        let mut half = Half::default();
        let mut sink = |message: &Message<'_>, _: &mut Vec<u32>| {
            let is_servers = message.direction == Direction::ToClient;
            let body = message.body.map(<[u8]>::to_vec);
            all.push((is_servers, message.head.to_vec(), body, message.begins, message.start));
        };
        let mut reading =
            Reading { direction, limits: &LIMITS, share: &mut share, asked: &mut asked, sink: &mut sink };
        for (number, data) in said.chunks(piece).enumerate() {
            half.feed(data, (number * piece) as u64, &mut reading);
        }
        half.end(true, &mut reading);
        half.stop(reading.share);
        assert_eq!(half.held(), 0);
    }
    assert_eq!(share.left(), MEMORY);
    all
}

pub fn run(data: &[u8]) {
    let &[piece, share, ref data @ ..] = data else { return };
    let dialogue = data.split_at(data.len() * usize::from(share) / 255);
    let dialogue = [dialogue.0, dialogue.1];
    assert_eq!(told(dialogue, 1 + usize::from(piece)), told(dialogue, usize::MAX));
}
