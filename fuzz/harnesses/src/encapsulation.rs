//! Frames of any bytes, from which any layers are taken off: refused, or what comes off goes back on and
//! comes off as the same again.

use encapsulation::{Front, Headers, LayerKind, Mismatch, TakenOff, datagram, put_back, take_off};
use packet::checksum::Sum;

fn off(frame: &[u8], layers: &[LayerKind]) -> Result<(TakenOff, Headers, Vec<u8>), Mismatch> {
    let (mut front, mut kept) = (Front::NONE, Headers::NONE);
    let taken = take_off(frame, frame.len() as u32, layers, &mut front, &mut kept)?;
    let packet = changed(frame, &front);
    assert!(taken.length as usize <= packet.len());
    assert_eq!(kept.layers().collect::<Vec<_>>(), layers);
    assert!(frame.starts_with(kept.bytes()));
    for at in taken.sums.into_iter().filter(|at| *at > 0) {
        let (_, range) = datagram(frame, at).expect("it was read");
        assert!(range.end <= frame.len());
    }
    Ok((taken, kept, packet[..taken.length as usize].to_vec()))
}

fn changed(packet: &[u8], front: &Front) -> Vec<u8> {
    [front.bytes(), &packet[front.removes()..]].concat()
}

/// The first byte says how many layers, a byte each says which.
pub fn run(data: &[u8]) {
    let Some((count, rest)) = data.split_first() else { return };
    let Some((kinds, frame)) = rest.split_at_checked(usize::from(count % 6)) else { return };
    let layers: Vec<LayerKind> = kinds.iter().map(|kind| LayerKind::ALL[usize::from(kind % 7)]).collect();
    let Ok((taken, kept, packet)) = off(frame, &layers) else { return };
    let mut front = Front::NONE;
    if put_back(&kept, &packet, taken.length, &mut front).is_ok() {
        if front.is_incomplete() {
            front.complete(Sum::ZERO.add_bytes(&packet[front.removes()..]));
        }
        let again = changed(&packet, &front);
        let (taken_again, _, packet_again) = off(&again, &layers).expect("it was there");
        assert_eq!((taken_again, packet_again), (taken, packet));
    }
}
