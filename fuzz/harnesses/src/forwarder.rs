//! Any configuration is taken or refused; any frames come out with nothing but their addresses changed.

use forwarder::Forwarder;
use nf_abi::{PacketRecord, Verdict, WINDOW_BASE};

pub fn run(data: &[u8]) {
    let Some((&split, data)) = data.split_first() else { return };
    let (config, mut frames) = data.split_at(usize::from(split).min(data.len()));
    let Ok(mut forwarder) = Forwarder::new(config) else { return };

    // Frames lie side by side, so that a byte too many is a byte of the next.
    let (mut window, mut records) = (Vec::new(), Vec::new());
    while let Some((&length, rest)) = frames.split_first() {
        let (frame, rest) = rest.split_at(usize::from(length).min(rest.len()));
        let buffer = WINDOW_BASE + window.len() as u32;
        let ingress = u16::from(length & 1);
        records.push(PacketRecord { buffer, length: frame.len() as u32, ingress, ..PacketRecord::default() });
        window.extend_from_slice(frame);
        frames = rest;
    }
    let before = window.clone();
    forwarder.process(&mut window, &mut records, 1).expect("all lie in the window");
    for record in &records {
        let start = (record.buffer - WINDOW_BASE) as usize;
        let place = start..start + record.length as usize;
        let (old, new) = (&before[place.clone()], &window[place]);
        match Verdict::decode(record.verdict) {
            Some(Verdict::Drop(0)) => assert!(old.len() < 14 && old == new),
            Some(Verdict::Interface(0 | 1)) => assert!(old.len() >= 14 && old[12..] == new[12..]),
            verdict => panic!("{verdict:?}"),
        }
    }
}
