//! Messages on the socket for devices, which comes with the answer to a [`Hello`](crate::Hello) that wants
//! it: what the process is told of the device behind its port, and addresses that it asks for.
//!
//! The engine sends a table of [`DeviceEntry`]s, in as many messages as it takes, whenever it is another one;
//! a table that was begun is sent to its end before the next one is. The process sends entries as
//! [`DeviceEntry::ask`] makes them. The interface of all of them is 0: a port is one interface.

use crate::MessageError;
use nf_abi::DEVICE_ENTRY;
pub use nf_abi::{DeviceEntry, MAX_ASKS, MAX_DEVICE_ENTRIES};
use std::net::IpAddr;

/// Kinds of messages; those on the other socket are 1 to 3.
const DEVICES: u32 = 4;
const ASKS: u32 = 5;

/// Bytes before the entries.
const HEAD: usize = 8;

/// Most entries of a message of the engine's.
pub const ENTRIES_MAX: usize = 128;
/// Most addresses in a message of the process's.
pub const ASKS_MAX: usize = 64;

/// Longest message of the engine's, in bytes.
pub const DEVICES_MESSAGE_MAX: usize = HEAD + ENTRIES_MAX * DEVICE_ENTRY;
/// Longest message of the process's, in bytes.
pub const ASKS_MESSAGE_MAX: usize = HEAD + ASKS_MAX * DEVICE_ENTRY;

/// A part of what the process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicesPart<'a> {
    /// Entries of the table that follow in further messages.
    pub left: u32,
    /// Entries, [`DEVICE_ENTRY`] bytes each.
    pub entries: &'a [u8],
}

impl<'a> DevicesPart<'a> {
    /// The next part of a table, of which so many bytes were sent.
    pub fn of(table: &'a [u8], sent: usize) -> DevicesPart<'a> {
        let rest = table.get(sent..).unwrap_or_default();
        let (entries, left) = rest.split_at(rest.len().min(ENTRIES_MAX * DEVICE_ENTRY));
        DevicesPart { left: (left.len() / DEVICE_ENTRY) as u32, entries }
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&DEVICES.to_le_bytes()[..], &self.left.to_le_bytes(), self.entries].concat()
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`MessageError`]: it is none.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<DevicesPart<'a>, MessageError> {
        let (left, entries) = entries(bytes, DEVICES, ENTRIES_MAX, "8 and up to 128 entries of 32")?;
        if left as usize > MAX_DEVICE_ENTRIES {
            return Err(MessageError::Impossible("the number of entries that follow", left.into()));
        }
        Ok(DevicesPart { left, entries })
    }
}

/// A message that asks for addresses, at most [`ASKS_MAX`] of them; others are left out.
pub fn asks(addresses: &[IpAddr]) -> Vec<u8> {
    let mut bytes = [ASKS.to_le_bytes(), [0; 4]].concat();
    for address in addresses.iter().take(ASKS_MAX) {
        bytes.extend(DeviceEntry::ask(0, *address).encode());
    }
    bytes
}

/// The addresses that a message asks for: one or more.
///
/// # Errors
/// [`MessageError`]: it is none, or one of its entries asks for nothing.
pub fn asked(bytes: &[u8]) -> Result<Vec<IpAddr>, MessageError> {
    let (rest, entries) = entries(bytes, ASKS, ASKS_MAX, "8 and 1 to 64 entries of 32")?;
    if entries.is_empty() || rest != 0 {
        return Err(MessageError::Unknown);
    }
    let (entries, _) = entries.as_chunks::<DEVICE_ENTRY>();
    let address = |entry: &[u8; DEVICE_ENTRY]| match DeviceEntry::decode(entry) {
        Some(DeviceEntry::Neighbour { interface: 0, address, .. }) => Ok(address),
        _ => Err(MessageError::Unknown),
    };
    entries.iter().map(address).collect()
}

/// The number in a message of this kind, and its entries.
fn entries<'a>(
    bytes: &'a [u8],
    kind: u32,
    most: usize,
    allowed: &'static str,
) -> Result<(u32, &'a [u8]), MessageError> {
    let Some((head, entries)) = bytes.split_first_chunk::<HEAD>() else {
        return Err(MessageError::Length(bytes.len(), allowed));
    };
    let [a, b, c, d, left @ ..] = *head;
    if u32::from_le_bytes([a, b, c, d]) != kind {
        return Err(MessageError::Unknown);
    }
    if entries.len() > most * DEVICE_ENTRY || !entries.len().is_multiple_of(DEVICE_ENTRY) {
        return Err(MessageError::Length(bytes.len(), allowed));
    }
    Ok((u32::from_le_bytes(left), entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(entries: usize) -> Vec<u8> {
        let address = |n: usize| DeviceEntry::ask(0, [10, 0, (n >> 8) as u8, n as u8].into());
        (0..entries).flat_map(|n| address(n).encode()).collect()
    }

    #[test]
    fn a_table_is_read_as_it_was_written_in_as_many_messages_as_it_takes() {
        for entries in [0, 1, 128, 129, 300] {
            let table = table(entries);
            let (mut read, mut messages) = (Vec::new(), 0);
            loop {
                let message = DevicesPart::of(&table, read.len()).to_bytes();
                assert!(message.len() <= DEVICES_MESSAGE_MAX);
                let part = DevicesPart::from_bytes(&message).expect("it was just written");
                read.extend(part.entries);
                messages += 1;
                assert_eq!(part.left as usize, entries - read.len() / DEVICE_ENTRY);
                if part.left == 0 {
                    break;
                }
            }
            assert_eq!((read, messages), (table, entries.div_ceil(128).max(1)));
        }
    }

    #[test]
    fn addresses_that_are_asked_for_are_read_as_they_were_written() {
        let addresses: Vec<IpAddr> = (0..70u8)
            .map(|n| if n % 2 == 0 { [10, 0, 0, n].into() } else { [u16::from(n); 8].into() })
            .collect();
        let message = asks(&addresses);
        assert_eq!(message.len(), ASKS_MESSAGE_MAX);
        assert_eq!(asked(&message).as_deref(), Ok(&addresses[..ASKS_MAX]));
        assert!(asked(&asks(&[])).is_err(), "nothing is asked for");
        let one = asks(&addresses[..1]);
        // Kind, rest, kind of entry, interface and family.
        for at in [0, 4, 8, 10, 9] {
            let mut wrong = one.clone();
            wrong[at] = 77;
            assert_eq!(asked(&wrong), Err(MessageError::Unknown), "{at}");
        }
        for length in [0, 7, 9, 39, 41] {
            let wrong: Vec<u8> = one.iter().copied().chain([0; 8]).take(length).collect();
            assert!(matches!(asked(&wrong), Err(MessageError::Length(found, _)) if found == length));
        }
        assert!(
            DevicesPart::from_bytes(&one).is_err() && asked(&DevicesPart::of(&[], 0).to_bytes()).is_err()
        );
        let endless = [&DEVICES.to_le_bytes()[..], &[0xff; 4]].concat();
        assert!(DevicesPart::from_bytes(&endless).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 3u8..7) {
            let bytes = [&[kind, 0, 0, 0], &bytes[..]].concat();
            if let Ok(part) = DevicesPart::from_bytes(&bytes) {
                prop_assert_eq!(part.to_bytes(), bytes.clone());
            }
            if let Ok(addresses) = asked(&bytes) {
                prop_assert_eq!(asked(&asks(&addresses)), Ok(addresses));
            }
        }
    }
}
