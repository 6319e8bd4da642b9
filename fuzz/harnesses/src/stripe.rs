//! Any frames at the links of a striped bond, at any times: each is given on once or refused, and none waits
//! for longer or among more than it should.

use stripe::{ADDRESSES, EtherType, HEADER, Header, Late, Receiver, WAIT, WINDOW};
use telemetry::clock::Nanos;

/// What time passes in, in front of each frame: a byte of them.
const UNIT: u64 = 100_000;

/// A byte says how much later a frame comes than the one before; then come those bytes of it that are read.
pub fn run(data: &[u8]) {
    let (mut receiver, mut out) = (Receiver::default(), Vec::new());
    let (mut now, mut taken, mut ended) = (0, 0, 0);
    let given_on = |now: Nanos, out: &mut Vec<Nanos>| {
        assert!(out.iter().all(|since| now.since(*since) <= WAIT), "one waited for too long");
        out.drain(..).count()
    };
    for entry in data.chunks(1 + ADDRESSES + HEADER) {
        let Some((later, frame)) = entry.split_first() else { return };
        now += u64::from(*later) * UNIT;
        let Some((addresses, header)) = Header::take_off(EtherType::default(), frame) else { continue };
        let written = header.put_on(EtherType::default(), &addresses);
        assert_eq!(Header::take_off(EtherType::default(), &written), Some((addresses, header)));
        while let Some(due) = receiver.deadline().filter(|due| due.0 <= now) {
            receiver.expire(due, &mut out);
            ended += given_on(due, &mut out);
        }
        taken += 1;
        match receiver.accept(header, Nanos(now), Nanos(now), &mut out) {
            Ok(()) => ended += given_on(Nanos(now), &mut out),
            Err(Late(_)) => ended += 1,
        }
        assert!(receiver.waiting() <= WINDOW);
        assert_eq!(ended + receiver.waiting(), taken, "each is somewhere");
    }
}
