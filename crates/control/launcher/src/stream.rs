//! Lines by a stream, and descriptors with one.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Descriptors that one line may carry: a guest has no more interfaces.
const DESCRIPTORS_MAX: usize = 16;

/// Sends a line, with descriptors if there are any.
pub(crate) fn send(mut stream: &UnixStream, line: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    if descriptors.is_empty() {
        return stream.write_all(line);
    }
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("more descriptors than a line takes"));
    }
    let sent = sendmsg(stream, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)?;
    // They went with its first byte.
    stream.write_all(line.get(sent..).unwrap_or_default())
}

/// Reads a line, and the descriptors that came with its beginning. A line without its end is that of a stream
/// that has ended, or is longer than `most`.
pub(crate) fn receive(mut stream: &UnixStream, most: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut line = vec![0; most.min(4096)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut line)];
    let received = recvmsg(stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    line.truncate(received);
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    let mut byte = [0];
    while line.last().is_some_and(|last| *last != b'\n') && line.len() < most {
        if stream.read(&mut byte)? == 0 {
            break;
        }
        line.push(byte[0]);
    }
    Ok((line, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn descriptors_come_with_their_line_and_one_that_is_too_long_ends() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let files = || -> Vec<OwnedFd> {
            (0..DESCRIPTORS_MAX).map(|_| File::open("/dev/null").expect("a file").into()).collect()
        };
        for length in [1, 4095, 4096, 10_000] {
            let line = [vec![b'x'; length - 1], vec![b'\n']].concat();
            send(&one, &line, &files()).expect("sent");
            let (found, descriptors) = receive(&other, 1 << 20).expect("received");
            assert_eq!((found.len(), descriptors.len()), (length, DESCRIPTORS_MAX));
        }
        let many: Vec<OwnedFd> = files().into_iter().chain(files()).collect();
        send(&one, b"x\n", &many).expect_err("too many");
        send(&one, b"x\n", &[]).expect("sent");
        let (found, descriptors) = receive(&other, 64).expect("received");
        assert_eq!((found, descriptors.len()), (b"x\n".to_vec(), 0));
        send(&one, &[b'x'; 64], &[]).expect("sent");
        assert_eq!(receive(&other, 16).expect("received").0.len(), 16);
        drop(one);
        assert_eq!(receive(&other, 64).expect("received").0.len(), 48);
        assert_eq!(receive(&other, 64).expect("received").0.len(), 0);
    }
}
