//! The archive that the kernel unpacks as its first root: cpio's format `newc`, without compression, which
//! every kernel reads.

use crate::tree::{Entry, Tree};
use std::fs::File;
use std::io::{self, Read, Write};

const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

/// Writes all entries, folders before what is in them; all are root's, and none has a time, so that the same
/// tree is the same archive. Gives its length.
///
/// # Errors
/// A file cannot be read, has become another length meanwhile, or the archive cannot be written.
pub fn write(tree: &Tree, to: &mut dyn Write) -> io::Result<u64> {
    let mut archive = Archive { to, written: 0, number: 0 };
    // The kernel opens it for the first process, before anything is mounted.
    archive.entry("dev", FOLDER | 0o755, 0, (0, 0))?;
    archive.entry("dev/console", CHARACTER | 0o600, 0, (5, 1))?;
    for (name, entry) in tree.entries() {
        match entry {
            Entry::Folder { .. } if name == "dev" => {}
            Entry::Folder { mode } => archive.entry(name, FOLDER | mode, 0, (0, 0))?,
            Entry::Text { bytes, mode } => {
                archive.entry(name, REGULAR | mode, bytes.len() as u64, (0, 0))?;
                archive.bytes(bytes)?;
            }
            Entry::Link { to } => {
                archive.entry(name, LINK | 0o777, to.len() as u64, (0, 0))?;
                archive.bytes(to.as_bytes())?;
            }
            Entry::File { from, mode } => {
                let failed =
                    |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", from.display()));
                let file = local_file::open(from).map_err(failed)?;
                let length = file.metadata().map_err(failed)?.len();
                archive.entry(name, REGULAR | mode, length, (0, 0))?;
                archive.file(file, length).map_err(failed)?;
            }
        }
    }
    archive.entry("TRAILER!!!", 0, 0, (0, 0))?;
    Ok(archive.written)
}

struct Archive<'a> {
    to: &'a mut dyn Write,
    written: u64,
    number: u32,
}

impl Archive<'_> {
    fn entry(&mut self, name: &str, mode: u32, length: u64, device: (u32, u32)) -> io::Result<()> {
        let length = u32::try_from(length)
            .map_err(|_| io::Error::other(format!("{name}: {length} bytes; allowed: less than 4 GiB")))?;
        let named = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        self.number += 1;
        // Inode, mode, owner, group, links, time, length, device, the device that it is, the name's length,
        // and a sum that this format does not have.
        let fields = [self.number, mode, 0, 0, 1, 0, length, 0, 0, device.0, device.1, named, 0];
        let mut head = String::from("070701");
        fields.iter().for_each(|field| head.push_str(&format!("{field:08x}")));
        self.plain(head.as_bytes())?;
        self.plain(name.as_bytes())?;
        self.plain(&[0])?;
        self.pad()
    }

    fn plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    /// To the next multiple of four.
    fn pad(&mut self) -> io::Result<()> {
        let more = self.written.next_multiple_of(4) - self.written;
        self.plain(&[0; 4][..more as usize])
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.plain(bytes)?;
        self.pad()
    }

    fn file(&mut self, file: File, length: u64) -> io::Result<()> {
        let copied = io::copy(&mut file.take(length), &mut self.to)?;
        self.written += copied;
        if copied != length {
            return Err(io::Error::other("it has become shorter while it was read"));
        }
        self.pad()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_archive_is_what_cpio_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, [7; 4097]).expect("written");
        let mut tree = Tree::default();
        tree.file("usr/bin/program", &file, 0o755);
        tree.text("etc/inittab", "::respawn:/x\n", 0o644);
        tree.link("init", "bin/busybox");
        let mut bytes = Vec::new();
        let written = write(&tree, &mut bytes).expect("written");
        assert_eq!((written, written % 4), (bytes.len() as u64, 0));
        let mut again = Vec::new();
        write(&tree, &mut again).expect("written");
        assert_eq!(bytes, again, "the same tree is the same archive");
        // Headers of 110 bytes, as the kernel's documentation has them.
        assert_eq!(&bytes[..14], b"07070100000001");
        let names = names(&bytes);
        let wanted = [
            "dev",
            "dev/console",
            "etc",
            "etc/inittab",
            "init",
            "usr",
            "usr/bin",
            "usr/bin/program",
            "TRAILER!!!",
        ];
        assert_eq!(names, wanted);

        let unpacked = folder.path().join("unpacked");
        std::fs::create_dir(&unpacked).expect("made");
        let mut cpio = match Command::new("cpio")
            .args(["--extract", "--make-directories", "--quiet", "usr/*", "etc/*", "init"])
            .current_dir(&unpacked)
            .stdin(Stdio::piped())
            .spawn()
        {
            Ok(cpio) => cpio,
            Err(_) => return println!("skipped: there is no cpio"),
        };
        cpio.stdin.take().expect("a pipe").write_all(&bytes).expect("written");
        assert!(cpio.wait().expect("it ends").success());
        assert_eq!(std::fs::read(unpacked.join("usr/bin/program")).expect("there"), [7; 4097]);
        assert_eq!(
            std::fs::read_link(unpacked.join("init")).expect("a link"),
            std::path::Path::new("bin/busybox")
        );
    }

    fn names(bytes: &[u8]) -> Vec<String> {
        let (mut at, mut names) = (0usize, Vec::new());
        while at + 110 <= bytes.len() {
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + n * 8..at + 14 + n * 8]).expect("digits");
                usize::from_str_radix(text, 16).expect("a number")
            };
            let (length, named) = (field(6), field(11));
            names.push(String::from_utf8_lossy(&bytes[at + 110..at + 109 + named]).into_owned());
            at = (at + 110 + named).next_multiple_of(4);
            at = (at + length).next_multiple_of(4);
        }
        names
    }

    #[test]
    fn a_file_that_is_gone_is_told_by_its_name() {
        let mut tree = Tree::default();
        tree.file("x", std::path::Path::new("/nowhere/x"), 0o644);
        let error = write(&tree, &mut Vec::new()).expect_err("refused").to_string();
        assert!(error.starts_with("/nowhere/x: "), "{error}");
    }
}
