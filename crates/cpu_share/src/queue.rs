//! Those who wait, in order: a binary heap that knows where everybody stands, so that anybody can be taken out or put
//! elsewhere in the logarithm of how many wait.

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
    /// Among equals first come, first served: even who costs nothing keeps nobody else waiting.
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
    pub(crate) fn push(&mut self, places: &mut Places, id: usize, key: i128) {
        let waiting = self.arrive(id as u32, key);
        self.heap.push(waiting);
        self.rise(places, self.heap.len() - 1);
    }

    /// Takes out a number that is in this queue.
    pub(crate) fn remove(&mut self, places: &mut Places, id: usize) {
        let place = places.0[id] as usize;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            let place = self.rise(places, place);
            self.sink(places, place);
        }
    }

    /// Puts a number that is in this queue where another key belongs, behind its equals.
    pub(crate) fn rekey(&mut self, places: &mut Places, id: usize, key: i128) {
        let place = places.0[id] as usize;
        self.heap[place] = self.arrive(id as u32, key);
        let place = self.rise(places, place);
        self.sink(places, place);
    }

    fn arrive(&mut self, id: u32, key: i128) -> Waiting {
        self.arrivals += 1;
        Waiting { key, arrival: self.arrivals, id }
    }

    /// Moves the one at `place` up as far as it belongs. Returns where it ends.
    fn rise(&mut self, places: &mut Places, mut place: usize) -> usize {
        let moving = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if !moving.before(&self.heap[parent]) {
                break;
            }
            self.put(places, place, self.heap[parent]);
            place = parent;
        }
        self.put(places, place, moving);
        place
    }

    /// Moves the one at `place` down as far as it belongs.
    fn sink(&mut self, places: &mut Places, mut place: usize) {
        let moving = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let Some(mut child) = self.heap.get(left).copied() else { break };
            let mut below = left;
            if let Some(right) = self.heap.get(left + 1)
                && right.before(&child)
            {
                (child, below) = (*right, left + 1);
            }
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
