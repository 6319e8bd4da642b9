//! Messages out of a stream of bytes, with the descriptors that come along. Nothing here waits.

use crate::message::{DESCRIPTORS_MAX, HEADER, Header, Message};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long the rest of a message may take.
pub(crate) const REST: Duration = Duration::from_secs(3);

/// The message that is being read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    bytes: Vec<u8>,
    header: Option<Header>,
    descriptors: Vec<OwnedFd>,
    begun: Option<Instant>,
}

/// What reading came to.
#[derive(Debug)]
pub(crate) enum Read {
    /// Nothing more for now.
    Nothing,
    /// A message, with its descriptors.
    Message(Message, Vec<OwnedFd>),
    /// The peer has closed its end, or the connection broke.
    Closed,
    /// What came is no message.
    Wrong(String),
}

impl Reader {
    /// Reads on.
    pub fn read(&mut self, socket: &OwnedFd) -> Read {
        loop {
            let end = HEADER + self.header.map_or(0, |header| header.payload());
            while self.bytes.len() < end {
                let from = self.bytes.len();
                self.bytes.resize(end, 0);
                let received = self.receive(socket, from);
                self.bytes.truncate(from + received.as_ref().map_or(0, |count| count.unwrap_or(0)));
                match received {
                    Ok(Some(0)) | Err(_) => return Read::Closed,
                    Ok(None) => return Read::Nothing,
                    Ok(Some(_)) => self.begun = self.begun.or_else(|| Some(Instant::now())),
                }
                if self.descriptors.len() > DESCRIPTORS_MAX {
                    return Read::Wrong(format!(
                        "found: more than {DESCRIPTORS_MAX} descriptors with a message"
                    ));
                }
            }
            let Some(header) = self.header else {
                match self.bytes.first_chunk().map(Header::from_bytes) {
                    Some(Ok(header)) => self.header = Some(header),
                    Some(Err(error)) => return Read::Wrong(error.to_string()),
                    None => return Read::Nothing,
                }
                continue;
            };
            let message = Message::from_payload(header, &self.bytes[HEADER..]);
            let descriptors = std::mem::take(self).descriptors;
            return match message {
                Ok(message) => Read::Message(message, descriptors),
                Err(error) => Read::Wrong(error.to_string()),
            };
        }
    }

    /// When the message that has begun has to be there.
    pub fn until(&self) -> Option<Instant> {
        self.begun.map(|begun| begun + REST)
    }

    fn receive(&mut self, socket: &OwnedFd, from: usize) -> io::Result<Option<usize>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let into = &mut [IoSliceMut::new(&mut self.bytes[from..])];
        let received = match recvmsg(socket, into, &mut control, flags) {
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                self.descriptors.extend(some);
            }
        }
        Ok(Some(received))
    }
}

/// Sends an answer whole. Never waits.
///
/// # Errors
/// The other side has closed, or does not read.
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut SendAncillaryBuffer::default(), flags)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::Error::other("it does not read its answers")) }
}
