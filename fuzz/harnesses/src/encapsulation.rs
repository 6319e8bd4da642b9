//! Frames of any bytes, from which any layers are taken off: refused, or what comes off goes back on and
//! comes off as the same again. What is taken off or made at once is what is so field by field.

use encapsulation::{
    Front, Headers, LayerKind, Mismatch, PLAIN, TakenOff, datagram, put_back, take_off, take_plain_off,
};
use packet::checksum::Sum;

fn off(frame: &[u8], layers: &[LayerKind]) -> Result<(TakenOff, Headers, Vec<u8>), Mismatch> {
    let (mut front, mut kept) = (Front::NONE, Headers::NONE);
    let (length, mut own) = (frame.len() as u32, Headers::NONE);
    let taken = take_off(frame, length, layers, &mut front, &mut kept);
    if let ([LayerKind::Vxlan], Some(head)) = (layers, frame.first_chunk())
        && let Some(plain) = take_plain_off(head, length, &mut own)
    {
        assert_eq!((taken, front.removes(), front.bytes()), (Ok(plain), PLAIN, &[][..]));
        assert_eq!(own.bytes(), kept.bytes());
    }
    let taken = taken?;
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
    let made = put_back(&kept, &packet, taken.length, &mut front);
    if let Some((plain, first)) = kept.plain(None).zip(packet.first_chunk())
        && let Some(plain) = plain.front(*first, taken.length, (0, 0))
    {
        assert_eq!((made, front.bytes()), (Ok(()), &plain[..]));
    }
    if made.is_ok() {
        if front.is_incomplete() {
            front.complete(Sum::ZERO.add_bytes(&packet[front.removes()..]));
        }
        let again = changed(&packet, &front);
        let (taken_again, _, packet_again) = off(&again, &layers).expect("it was there");
        assert_eq!((taken_again, packet_again), (taken, packet));
    }
}
