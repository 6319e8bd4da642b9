//! Writes captures in the classic format of libpcap, which every peer reads.

use crate::PeerError;
use crate::error::file;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A capture that is being written.
#[derive(Debug)]
pub struct CaptureWriter {
    path: PathBuf,
    output: BufWriter<File>,
    bytes: u64,
}

impl CaptureWriter {
    /// Begins a capture of Ethernet frames.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn create(path: &Path) -> Result<CaptureWriter, PeerError> {
        let file_ = File::create(path).map_err(file(path))?;
        let mut writer = CaptureWriter { path: path.to_owned(), output: BufWriter::new(file_), bytes: 0 };
        // Magic (microseconds), version 2.4, no time zone, no accuracy, longest frame, Ethernet.
        let mut header = Vec::with_capacity(24);
        header.extend(0xa1b2_c3d4_u32.to_le_bytes());
        header.extend(2u16.to_le_bytes());
        header.extend(4u16.to_le_bytes());
        header.extend([0; 8]);
        header.extend(65_535u32.to_le_bytes());
        header.extend(1u32.to_le_bytes());
        writer.put(&header)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), PeerError> {
        self.output.write_all(bytes).map_err(file(&self.path))
    }

    /// Appends a frame, at a time in microseconds.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn frame(&mut self, micros: u64, frame: &[u8]) -> Result<(), PeerError> {
        let length = (frame.len() as u32).to_le_bytes();
        let mut header = [0; 16];
        header[..4].copy_from_slice(&((micros / 1_000_000) as u32).to_le_bytes());
        header[4..8].copy_from_slice(&((micros % 1_000_000) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&length);
        header[12..].copy_from_slice(&length);
        self.put(&header)?;
        self.bytes += frame.len() as u64;
        self.put(frame)
    }

    /// Ends the capture; bytes of its frames.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn finish(mut self) -> Result<u64, PeerError> {
        self.output.flush().map_err(file(&self.path))?;
        Ok(self.bytes)
    }
}

/// Writes frames without times.
pub(crate) fn write_frames<'a>(
    path: &Path,
    frames: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), PeerError> {
    let mut writer = CaptureWriter::create(path)?;
    for frame in frames {
        writer.frame(0, frame)?;
    }
    writer.finish().map(|_| ())
}

/// The frames of a capture that a [`CaptureWriter`] wrote; what is cut at its end is left out.
///
/// # Errors
/// [`PeerError::File`].
pub fn read_frames(path: &Path) -> Result<Vec<Vec<u8>>, PeerError> {
    let bytes = std::fs::read(path).map_err(file(path))?;
    let mut rest = bytes.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = *header;
        let Some((frame, next)) = behind.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize) else {
            break;
        };
        frames.push(frame.to_vec());
        rest = next;
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let folder = crate::Folder::new().expect("a folder");
        let path = folder.file("x.pcap");
        let mut writer = CaptureWriter::create(&path).expect("a capture");
        writer.frame(3_000_007, b"abc").expect("written");
        assert_eq!(writer.finish().expect("ended"), 3);
        assert_eq!(read_frames(&path).expect("frames"), [b"abc".to_vec()]);
        let bytes = std::fs::read(&path).expect("the capture");
        assert_eq!(bytes[..8], [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(
            bytes[20..],
            [1, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'c']
        );
    }
}
