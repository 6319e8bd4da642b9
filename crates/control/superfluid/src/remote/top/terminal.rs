//! The window: keys in, lines out, and everything back as it was at the end.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{Write, stdin, stdout};
use std::time::Duration;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A letter, or what is like one.
    Letter(char),
    Up,
    Down,
    PageUp,
    PageDown,
    /// Ctrl-C, or the end of the input.
    End,
}

/// A terminal that gives keys as they are pressed. Dropped, it is as it was.
pub(crate) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// The terminal, if both input and output are one.
    pub(crate) fn open() -> Option<Terminal> {
        if !isatty(stdin()) || !isatty(stdout()) {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Flush, &raw).ok()?;
        let terminal = Terminal { before };
        // Another page than the one with the user's commands, and no cursor.
        terminal.write("\x1b[?1049h\x1b[?25l");
        Some(terminal)
    }

    /// Columns and lines.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    /// Shows these lines, from the first on.
    pub(crate) fn show(&self, lines: &[String]) {
        let mut text = "\x1b[H".to_owned();
        for (n, line) in lines.iter().enumerate() {
            if n > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        self.write(&text);
    }

    /// The keys that are pressed until the first one is, at most for this time.
    pub(crate) fn keys(&self, time: Duration) -> Vec<Key> {
        let input = stdin();
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        let limit = Timespec::try_from(time).ok();
        match poll(&mut ready, limit.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Vec::new(),
            Ok(_) => {}
            Err(_) => return vec![Key::End],
        }
        let mut bytes = [0; 64];
        match rustix::io::read(input, &mut bytes) {
            Ok(0) => vec![Key::End],
            Ok(read) => keys(&bytes[..read]),
            Err(rustix::io::Errno::INTR) => Vec::new(),
            Err(_) => vec![Key::End],
        }
    }

    fn write(&self, text: &str) {
        let mut out = stdout().lock();
        // A terminal that is gone is noticed when its keys are read.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.write("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.before);
    }
}

/// The keys of what a terminal sends (ECMA-48; xterm's sequences for keys).
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let sequences: [(&[u8], Key); 6] = [
        (b"\x1b[A", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOA", Key::Up),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
    ];
    let mut keys = Vec::new();
    while let [byte, rest @ ..] = bytes {
        if let Some((sequence, key)) = sequences.iter().find(|(sequence, _)| bytes.starts_with(sequence)) {
            keys.push(*key);
            bytes = &bytes[sequence.len()..];
            continue;
        }
        bytes = match byte {
            3 => {
                keys.push(Key::End);
                rest
            }
            // A key that means nothing here: it ends with its first letter or `~`.
            0x1b => match rest {
                [b'[' | b'O', rest @ ..] => {
                    let end = rest.iter().position(|byte| (0x40..0x7f).contains(byte));
                    end.map_or(&[][..], |end| &rest[end + 1..])
                }
                rest => rest,
            },
            byte => {
                keys.push(Key::Letter(char::from(*byte).to_ascii_lowercase()));
                rest
            }
        };
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::{Key, keys};

    #[test]
    fn what_a_terminal_sends_are_keys() {
        let pressed = keys(b"q\x1b[A\x1b[5~D\x1b[1;5C\x1bOB\x03\x1b[6~");
        let wanted =
            [Key::Letter('q'), Key::Up, Key::PageUp, Key::Letter('d'), Key::Down, Key::End, Key::PageDown];
        assert_eq!(pressed, wanted);
        assert!(keys(b"\x1b").is_empty() && keys(b"\x1b[1;").is_empty() && keys(b"").is_empty());
    }
}
