//! What is said on generated connections: text as pages have it, and bytes as good as noise.

use crate::frames::Numbers;

/// What each side says, in turns; true for the server.
pub(crate) type Speeches = Vec<(bool, Vec<u8>)>;

/// Words of harmless traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    pub words: &'static [&'static str],
    /// What stands between words here and there, and is what contents of rules begin with.
    pub marks: &'static [&'static str],
}

impl Text {
    /// A word.
    pub fn word(&self, numbers: &mut Numbers) -> &'static str {
        self.words[numbers.below(self.words.len() as u64) as usize]
    }

    /// A page of at least so many bytes.
    pub fn page(&self, length: usize, numbers: &mut Numbers) -> Vec<u8> {
        let mut text = Vec::with_capacity(length + 32);
        while text.len() < length {
            text.extend(self.word(numbers).as_bytes());
            match numbers.below(12) {
                0 => text.extend(b"</p>\r\n<p class=\"text\">"),
                1 => text.extend(self.marks[numbers.below(self.marks.len() as u64) as usize].as_bytes()),
                2 => text.extend(b", "),
                _ => text.push(b' '),
            }
        }
        text
    }
}

/// So many bytes, as compressed or encrypted data have them.
pub(crate) fn binary(length: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(numbers.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
