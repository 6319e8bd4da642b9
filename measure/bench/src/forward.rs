//! What native functions that are measured do with packets, but for what each of them changes.

use superfluid_native::{Attachment, Interest, Packet, Woken, poll, wait};

/// Packets that are taken at once.
pub(crate) const BURST: usize = 64;

/// Passes packets on until a port is closed. Where there is no room for them it waits, and the engine before
/// it.
pub(crate) fn forward(
    input: &mut Attachment,
    output: &mut Attachment,
    mut change: impl FnMut(&Attachment, &mut Packet),
) {
    let mut packets = [Packet::default(); BURST];
    loop {
        let count = input.receive(&mut packets);
        packets[..count].iter_mut().for_each(|packet| change(input, packet));
        let mut sent = output.send(&packets[..count]);
        while sent < count {
            let mut room = [
                Interest { attachment: &mut *input, receive: false, send: false },
                Interest { attachment: &mut *output, receive: false, send: true },
            ];
            if let Woken::Closed(_) = poll(&mut room, None) {
                return;
            }
            sent += output.send(&packets[sent..count]);
        }
        if count == 0
            && let Woken::Closed(_) = wait(&mut [&mut *input, &mut *output], None)
        {
            return;
        }
    }
}
