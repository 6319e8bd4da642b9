//! Waiting entities or tenants, in order: a binary heap that knows the place of each number, so that any of
//! them can be taken out or put elsewhere in the logarithm of how many wait.

/// Where each number stands in whatever queue it is in; a number is in one queue at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Vec<u32>);

impl Places {
    /// Makes room for one number more.
    pub(crate) fn grow(&mut self) {
        self.0.push(0);
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    key: i128,
    /// Among equals first come, first served: so one whose turns cost nothing keeps no other waiting.
    arrival: u64,
    id: u32,
}

impl Waiting {
    #[inline]
    fn before(&self, other: &Waiting) -> bool {
        (self.key, self.arrival) < (other.key, other.arrival)
    }
}

/// Numbers in the order of their keys, smallest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    heap: Vec<Waiting>,
    arrivals: u64,
}

impl Queue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The smallest key, and whose it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<(i128, usize)> {
        self.heap.first().map(|waiting| (waiting.key, waiting.id as usize))
    }

    /// Takes in a number that is in no queue.
    #[inline]
    pub(crate) fn push(&mut self, places: &mut Places, id: usize, key: i128) {
        let moving = self.arrive(id as u32, key);
        self.heap.push(moving);
        self.rise(places, self.heap.len() - 1, moving);
    }

    /// Takes out a number that is in this queue.
    #[inline]
    pub(crate) fn remove(&mut self, places: &mut Places, id: usize) {
        let place = places.0[id] as usize;
        if let Some(last) = self.heap.pop()
            && place < self.heap.len()
        {
            self.replace(places, place, last);
        }
    }

    /// Puts a number that is in this queue where another key belongs, behind its equals.
    #[inline]
    pub(crate) fn rekey(&mut self, places: &mut Places, id: usize, key: i128) {
        let moving = self.arrive(id as u32, key);
        self.replace(places, places.0[id] as usize, moving);
    }

    #[inline]
    fn arrive(&mut self, id: u32, key: i128) -> Waiting {
        self.arrivals += 1;
        Waiting { key, arrival: self.arrivals, id }
    }

    /// Puts one where it belongs, instead of the one at `place`.
    #[inline]
    fn replace(&mut self, places: &mut Places, place: usize, moving: Waiting) {
        if place > 0 && moving.before(&self.heap[(place - 1) / 2]) {
            self.rise(places, place, moving);
        } else {
            self.sink(places, place, moving);
        }
    }

    /// Puts one at `place`, or up from there as far as it belongs.
    #[inline]
    fn rise(&mut self, places: &mut Places, mut place: usize, moving: Waiting) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !moving.before(&self.heap[parent]) {
                break;
            }
            self.put(places, place, self.heap[parent]);
            place = parent;
        }
        self.put(places, place, moving);
    }

    /// Puts one at `place`, or down from there as far as it belongs.
    #[inline]
    fn sink(&mut self, places: &mut Places, mut place: usize, moving: Waiting) {
        loop {
            let mut below = 2 * place + 1;
            let Some(left) = self.heap.get(below) else { break };
            if self.heap.get(below + 1).is_some_and(|right| right.before(left)) {
                below += 1;
            }
            let child = self.heap[below];
            if !child.before(&moving) {
                break;
            }
            self.put(places, place, child);
            place = below;
        }
        self.put(places, place, moving);
    }

    #[inline]
    fn put(&mut self, places: &mut Places, place: usize, waiting: Waiting) {
        self.heap[place] = waiting;
        places.0[waiting.id as usize] = place as u32;
    }
}
