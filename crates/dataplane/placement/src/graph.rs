//! What a placement has to know of a wiring.

/// An instance or a port, by its place in [`Graph::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part(pub u32);

impl Part {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A network function that runs.
    Instance,
    /// A port. It is with the function that it is wired to, unless it is pinned.
    Port,
}

/// What is known of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartFacts {
    /// What it is.
    pub kind: Kind,
    /// The worker that it stays on.
    pub pinned: Option<usize>,
    /// The worker that it is on already. One that is there no more counts as none.
    pub at: Option<usize>,
}

impl PartFacts {
    /// A part that may be anywhere and is nowhere yet.
    pub fn new(kind: Kind) -> PartFacts {
        PartFacts { kind, pinned: None, at: None }
    }
}

/// Parts, and what holds them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Everything that is on a worker. What threads of its own serve is none of it.
    pub parts: Vec<PartFacts>,
    /// Wires whose ends are better off on one worker, in either direction. What meets in a switch is not
    /// wired: its lookups are done in the sender's context.
    pub wires: Vec<(Part, Part)>,
    /// Pairs that must stay on one worker: observers and observed.
    pub together: Vec<(Part, Part)>,
}

impl Graph {
    pub(crate) fn facts(&self, part: Part) -> Option<&PartFacts> {
        self.parts.get(part.index())
    }
}
