//! What later fragments need to know of how the first one was translated.

use nf_sdk::Verdict;

/// How the first fragment was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Source and destination afterwards; of IPv4 one word each, the rest zeros.
    pub addresses: [u32; 8],
    /// Its protocol afterwards.
    pub protocol: u8,
    /// The IP version afterwards is another.
    pub changes_version: bool,
    /// Where it went.
    pub verdict: Verdict,
    /// The Ethernet address that it was sent to, where it was changed.
    pub mac: Option<[u32; 2]>,
}

impl Course {
    /// Source and destination of IPv4.
    pub fn ends_v4(&self) -> [u32; 2] {
        [self.addresses[0], self.addresses[4]]
    }

    /// Source and destination of IPv6.
    pub fn ends_v6(&self) -> [[u32; 4]; 2] {
        let [a, b, c, d, e, f, g, h] = self.addresses;
        [[a, b, c, d], [e, f, g, h]]
    }
}
