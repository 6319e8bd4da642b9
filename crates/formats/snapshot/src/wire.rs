//! Integers, strings and records, one after the other.

use crate::error::DecodeError;
use nf_abi::PacketRecord;

/// Appends to a section.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A number of things; [`crate::limits`] keep all of them below 2^32.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Bytes with their number before them.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// In the order of [`PacketRecord`]'s fields, 64 bytes.
    pub(crate) fn record(&mut self, record: &PacketRecord) {
        let PacketRecord { verdict, offset, length, buffer, mark, timestamp, .. } = *record;
        let PacketRecord { flow_hash, tunnel_key, nsh_path, service_id, vlan, ingress, .. } = *record;
        let PacketRecord {
            flow_class, hop_budget, tunnel_type, offload_flags, gso_type, device_port, ..
        } = *record;
        let PacketRecord { gso_size, csum_start, csum_offset, reserved2, .. } = *record;
        [verdict, offset, length, buffer].into_iter().for_each(|value| self.u32(value));
        [mark, timestamp].into_iter().for_each(|value| self.u64(value));
        [flow_hash, tunnel_key, nsh_path].into_iter().for_each(|value| self.u32(value));
        [service_id, vlan, ingress].into_iter().for_each(|value| self.u16(value));
        [flow_class, hop_budget, tunnel_type, offload_flags, gso_type, device_port]
            .into_iter()
            .for_each(|value| self.u8(value));
        [gso_size, csum_start, csum_offset, reserved2].into_iter().for_each(|value| self.u16(value));
    }
}

/// Reads a section to its end.
pub(crate) struct Reader<'a> {
    section: &'static str,
    whole: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(section: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader { section, whole: bytes.len(), rest: bytes }
    }

    pub(crate) fn fault(&self, reason: impl Into<String>) -> DecodeError {
        let offset = self.whole - self.rest.len();
        DecodeError::Malformed { section: self.section, offset, reason: reason.into() }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.fault(format!("{count} bytes should follow, {} do", self.rest.len())));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.fault(format!("{N} bytes should follow, {} do", self.rest.len())));
        };
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, DecodeError> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn digest(&mut self) -> Result<[u8; 32], DecodeError> {
        self.array()
    }

    /// How many things of at least `least` bytes each follow: no more than there are bytes for, so that a
    /// caller that makes room for them is not led to make too much.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        let most = self.rest.len() / least;
        if count > most {
            return Err(self.fault(format!("{count} entries should follow, there is room for {most}")));
        }
        Ok(count)
    }

    /// Bytes with their number before them.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.u32()? as usize;
        self.take(count)
    }

    pub(crate) fn text(&mut self) -> Result<String, DecodeError> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|error| self.fault(format!("the text before is {error}")))
    }

    pub(crate) fn record(&mut self) -> Result<PacketRecord, DecodeError> {
        Ok(PacketRecord {
            verdict: self.u32()?,
            offset: self.u32()?,
            length: self.u32()?,
            buffer: self.u32()?,
            mark: self.u64()?,
            timestamp: self.u64()?,
            flow_hash: self.u32()?,
            tunnel_key: self.u32()?,
            nsh_path: self.u32()?,
            service_id: self.u16()?,
            vlan: self.u16()?,
            ingress: self.u16()?,
            flow_class: self.u8()?,
            hop_budget: self.u8()?,
            tunnel_type: self.u8()?,
            offload_flags: self.u8()?,
            gso_type: self.u8()?,
            device_port: self.u8()?,
            gso_size: self.u16()?,
            csum_start: self.u16()?,
            csum_offset: self.u16()?,
            reserved2: self.u16()?,
        })
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(self.fault(format!("the section should end here, {left} bytes follow"))),
        }
    }
}
