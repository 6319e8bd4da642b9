//! A receiver of a stream in its plainest form: it keeps every segment until its last byte was delivered, and
//! decides for each byte by looking at all of them.

/// Beginning and end of a segment in its stream, in bytes.
type Extent = (u64, u64);

/// Whether of two segments that overlap the later one counts, as endpoints of this name have it.
fn replaces(policy: &str, old: Extent, new: Extent) -> bool {
    match policy {
        "first" => false,
        "last" => true,
        "windows" => new.0 < old.0,
        "linux" => new.0 < old.0 || new.0 == old.0 && new.1 > old.1,
        other => panic!("no endpoint is called `{other}`"),
    }
}

/// A receiver.
pub struct Receiver {
    policy: &'static str,
    /// In the order in which they came.
    segments: Vec<(u64, Vec<u8>)>,
    /// The stream from its first byte on.
    pub delivered: Vec<u8>,
    /// Where bytes have come of which only the receiver knows whether it has taken them.
    pub doubtful: Vec<Extent>,
}

impl Receiver {
    /// One to which nothing has come; `policy` as in `dpi`'s key `overlap`.
    pub fn new(policy: &'static str) -> Receiver {
        Receiver { policy, segments: vec![], delivered: vec![], doubtful: vec![] }
    }

    /// Takes a segment whose first byte is the stream's byte number `at`.
    pub fn take(&mut self, at: u64, data: &[u8]) {
        self.segments.push((at, data.to_vec()));
        while let Some(byte) = self.byte(self.delivered.len() as u64) {
            self.delivered.push(byte);
        }
        // What was delivered is not replaced.
        let next = self.delivered.len() as u64;
        self.segments.retain(|(at, data)| at + data.len() as u64 > next);
    }

    /// The byte of this number, by the segment that counts there.
    fn byte(&self, number: u64) -> Option<u8> {
        let extent = |(at, data): &(u64, Vec<u8>)| (*at, at + data.len() as u64);
        let covers = |segment: &&(u64, Vec<u8>)| (extent(segment).0..extent(segment).1).contains(&number);
        let counts = self
            .segments
            .iter()
            .filter(covers)
            .reduce(|old, new| if replaces(self.policy, extent(old), extent(new)) { new } else { old })?;
        Some(counts.1[(number - counts.0) as usize])
    }

    /// How many bytes have come that wait for others before them, or for the receiver's word.
    pub fn waiting(&self) -> usize {
        let ends = self.segments.iter().map(|(at, data)| at + data.len() as u64);
        let end = ends.chain(self.doubtful.iter().map(|extent| extent.1)).max().unwrap_or(0);
        let is_doubtful =
            |number: &u64| self.doubtful.iter().any(|extent| (extent.0..extent.1).contains(number));
        let has_come = |number: &u64| self.byte(*number).is_some() || is_doubtful(number);
        (self.delivered.len() as u64..end).filter(has_come).count()
    }
}
