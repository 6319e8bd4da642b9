//! What is wrong with a snapshot.

/// What a snapshot says cannot be, whether it is to be written or was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// More than [`crate::limits`] allow.
    #[error("{found} {what}; allowed: at most {allowed}")]
    TooMany {
        /// What there is too much of, with its unit.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much there may be.
        allowed: u64,
    },
    /// The memory's size is none that a memory can have.
    #[error("a memory of {size} bytes; allowed: a multiple of 65536 up to its limit of {limit}")]
    MemorySize {
        /// Bytes.
        size: u64,
        /// Most bytes it may grow to.
        limit: u64,
    },
    /// The saved pages are not in order, twice there, empty, or beyond the memory's end.
    #[error(
        "page {number} is saved; allowed here: a page from {first} to {last} that has bytes other than zero"
    )]
    Page {
        /// The page's number.
        number: u32,
        /// The first number that may stand there.
        first: u64,
        /// The last page of the memory; before `first` when no page may follow.
        last: i64,
    },
    /// The saved bytes are not as many as the pages say.
    #[error("{found} bytes of memory; the pages that are named have {needed}")]
    MemoryBytes {
        /// Bytes that are there.
        found: u64,
        /// Bytes that the pages have.
        needed: u64,
    },
    /// The records of a batch would not lie in the memory.
    #[error(
        "records at {address:#x}; allowed: a multiple of 64 with 4096 bytes inside the {size} bytes of memory"
    )]
    Batch {
        /// Their address.
        address: u32,
        /// Bytes of memory.
        size: u64,
    },
    /// Names that have to be in order, each once, are not.
    #[error("{what} `{name}` comes after `{before}`; allowed: each once, in order of their names")]
    Order {
        /// What is named.
        what: &'static str,
        /// The name.
        name: String,
        /// The one before.
        before: String,
    },
    /// Two packets are held in one slot.
    #[error("two packets in slot {slot}; allowed: one")]
    Slot {
        /// The slot.
        slot: u16,
    },
    /// A packet's record says another length than it has bytes.
    #[error("packet {index} has {found} bytes, its record says {length}; allowed: both the same")]
    PacketLength {
        /// Which packet.
        index: usize,
        /// Bytes that it has.
        found: usize,
        /// What its record says.
        length: u32,
    },
    /// A packet's record says what only a host that holds the packet knows.
    #[error("packet {index}: `{field}` is {found:#x}; allowed in a snapshot: 0")]
    PacketField {
        /// Which packet.
        index: usize,
        /// The field.
        field: &'static str,
        /// What it is.
        found: u32,
    },
}

/// Why bytes are no snapshot that this version reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They begin with something else.
    #[error("not a snapshot of a function: it begins with {found}; allowed: 89 53 46 4e 0d 0a 1a 0a")]
    Magic {
        /// The first bytes in hexadecimal, or that there are none.
        found: String,
    },
    /// Another major version wrote it.
    #[error(
        "snapshot of format version {major}.{minor}; this program reads version {allowed}: restore it with the version \
         of Superfluid that saved it, or save it again"
    )]
    Version {
        /// Its major version.
        major: u16,
        /// Its minor version.
        minor: u16,
        /// The major version that is read here.
        allowed: u16,
    },
    /// It ends too early, or something follows it.
    #[error("the snapshot has {found} bytes, {needed} were written: it was cut off or added to")]
    Length {
        /// Bytes that there are.
        found: u64,
        /// Bytes that there should be.
        needed: u64,
    },
    /// Bytes are not what was written.
    #[error("{place} of the snapshot is damaged: its checksum is {found:016x}, {written:016x} was written")]
    Damaged {
        /// Where.
        place: String,
        /// The checksum of what is there.
        found: u64,
        /// The checksum of what was written.
        written: u64,
    },
    /// A section that cannot be done without is none that this version knows.
    #[error(
        "the snapshot needs section {kind} (flags {flags:#x}), which format version {version} does not have: a newer \
         version of Superfluid saved it"
    )]
    Unknown {
        /// Number of its kind.
        kind: u16,
        /// Its flags.
        flags: u16,
        /// The version that is read here.
        version: String,
    },
    /// A section is missing.
    #[error("the snapshot has no section `{section}`")]
    Missing {
        /// Its name.
        section: &'static str,
    },
    /// A section is there twice.
    #[error("the snapshot has section {kind} twice; allowed: once")]
    Twice {
        /// Number of its kind.
        kind: u16,
    },
    /// A section is not built as it should be.
    #[error("section `{section}`, byte {offset}: {reason}")]
    Malformed {
        /// Its name.
        section: &'static str,
        /// Where in the section.
        offset: usize,
        /// What was found and what is allowed.
        reason: String,
    },
    /// What it says cannot be.
    #[error(transparent)]
    Content(#[from] ContentError),
}
