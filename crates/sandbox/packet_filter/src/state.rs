//! Flows on their way to another instance.
//!
//! An entry's key: the family (4 or 6) in one byte, then the flow's key, words of four bytes; flows in
//! tunnels are of the second family, and keys of that family may lack the two words of tunnels. Its value,
//! four words: ticks until the flow ends, state, and the two sequence numbers. All little-endian.

use crate::flow_table::{Flow, FlowTable, Slot};
use crate::header::{KEY6, is_key6, opening, unmapped};
use crate::rule_set::Rules;
use crate::tcp::{self, BEGUN_OUTSIDE, LASTING, MOST_WINDOW, State, WINDOW_AT};
use crate::tracker::{Terms, Tracker};
use core::net::IpAddr;
use nf_sdk::flow_table::Entry as _;
use nf_sdk::{StateReader, StateWriter};

/// Bytes of the longest key: family and twelve words.
const KEY_MOST: usize = 49;
/// Bytes of the key of an IPv6 flow from an instance that knows no tunnels.
const KEY_BEFORE: usize = 41;
/// Bytes of a value.
const VALUE: usize = 16;

fn put_words(bytes: &mut [u8], words: &[u32]) {
    for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
        four.copy_from_slice(&word.to_le_bytes());
    }
}

fn write<S: Slot<Key = [u32; N]>, const N: usize>(
    table: &FlowTable<S>,
    terms: &Terms,
    family: u8,
    out: &mut StateWriter<'_>,
) -> bool {
    let flows = table.iter().map(|slot| (slot.key(), slot.flow()));
    flows.filter(|(_, flow)| terms.is_live(flow)).all(|(key, flow)| {
        let left = flow.expires.wrapping_sub(terms.now);
        let mut name = [0; KEY_MOST];
        name[0] = family;
        put_words(&mut name[1..], &key);
        let mut value = [0; VALUE];
        put_words(&mut value, &[left, flow.state & LASTING, flow.ends[0], flow.ends[1]]);
        out.entry(name.get(..1 + 4 * N).unwrap_or_default(), &value)
    })
}

/// Writes every live flow; false when the host takes no more.
pub fn export(tracker: &Tracker, out: &mut StateWriter<'_>) -> bool {
    write(&tracker.v4, &tracker.terms, 4, out) && write(&tracker.v6, &tracker.terms, 6, out)
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    let short = N == KEY6 && bytes.len() == KEY_BEFORE - 1;
    if bytes.len() != 4 * N && !short {
        return None;
    }
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    }
    Some(words)
}

/// Flows of one table that are put in together: what their lines wait for then comes from memory at the same
/// time.
struct Coming<K> {
    flows: [(K, u64, Flow); TOGETHER],
    count: usize,
}

/// How many are put in together.
const TOGETHER: usize = 16;

impl<const N: usize> Coming<[u32; N]> {
    fn new() -> Self {
        Coming { flows: [([0; N], 0, Flow::default()); TOGETHER], count: 0 }
    }

    fn is_full(&self) -> bool {
        self.count == TOGETHER
    }

    /// Keeps a flow; `None` when its state is not one of the key's protocol, or the state machine would be
    /// led astray.
    fn keep(&mut self, key: &[u8], flow: Flow, is_tcp: bool) -> Option<()> {
        let key: [u32; N] = words(key)?;
        let protocol = key[if N == KEY6 { 9 } else { N - 1 }] as u8;
        if (protocol == crate::rule::TCP) != is_tcp {
            return None;
        }
        *self.flows.get_mut(self.count)? = (key, 0, flow);
        self.count += 1;
        Some(())
    }

    /// Puts all of them in. A flow for which there is no room is lost, like any new one.
    fn put<S: Slot<Key = [u32; N]>>(&mut self, table: &mut FlowTable<S>) {
        let flows = self.flows.get_mut(..self.count).unwrap_or_default();
        let mut touched = 0;
        for (key, hash, _) in flows.iter_mut() {
            *hash = table.hash(key);
            touched ^= table.touch_home(*hash);
        }
        core::hint::black_box(touched);
        for (_, hash, _) in flows.iter() {
            table.prepare(*hash);
        }
        for (key, hash, flow) in flows {
            if table.find(key, *hash).is_none() {
                table.insert(key, *hash, flow.value());
            }
        }
        self.count = 0;
    }
}

/// Reads the flows that another instance has, and keeps none. False when they are not what [`export`] writes.
pub fn pass_over(entries: &mut StateReader<'_>) -> bool {
    while let Some((key, value)) = entries.next() {
        let family = if key.len() == 17 { 4 } else { 6 };
        let is_known = matches!(key.len(), 17 | KEY_BEFORE | KEY_MOST);
        if value.len() != VALUE || key.first() != Some(&family) || !is_known {
            return false;
        }
    }
    !entries.is_broken()
}

/// Whether the rules accept the packet that opened a flow.
fn is_accepted(rules: &impl Rules, key: &[u8], state: u32) -> Option<bool> {
    let (family, key) = key.split_first()?;
    Some(match family {
        4 => accepts4(rules, &words(key)?, state),
        _ => accepts6(rules, &words(key)?, state),
    })
}

fn ingress(state: u32) -> u32 {
    u32::from(state & BEGUN_OUTSIDE != 0)
}

fn accepts4(rules: &impl Rules, key: &[u32; 4], state: u32) -> bool {
    let [inside, outside, ports, protocol] = *key;
    rules.accepts4(&opening([inside, outside], ports, protocol, ingress(state)))
}

fn accepts6(rules: &impl Rules, key: &[u32; KEY6], state: u32) -> bool {
    let [a, b, c, d, e, f, g, h, ports, protocol, ..] = *key;
    match unmapped(key) {
        Some(ends) => rules.accepts4(&opening(ends, ports, protocol, ingress(state))),
        None => rules.accepts6(&opening([a, b, c, d, e, f, g, h], ports, protocol, ingress(state))),
    }
}

/// Ends the flows whose opening packet the rules do not accept, of those whose outside end `concerns`. It
/// looks at all flows, in one go.
pub fn end_denied(tracker: &mut Tracker, rules: &impl Rules, concerns: impl Fn(IpAddr) -> bool) {
    let four = |word: u32| IpAddr::from(word.to_le_bytes());
    let outside6 = |key: &[u32; KEY6]| match unmapped(key) {
        Some([_, outside]) => four(outside),
        None => {
            let mut octets = [0; 16];
            put_words(&mut octets, &key[4..8]);
            IpAddr::from(octets)
        }
    };
    let Tracker { v4, v6, terms, .. } = tracker;
    let groups = [v4.groups(), v6.groups()];
    let ended = v4.sweep(groups[0], |slot| {
        let key = slot.key();
        concerns(four(key[1])) && !accepts4(rules, &key, slot.flow().state)
    }) + v6.sweep(groups[1], |slot| {
        let key = slot.key();
        concerns(outside6(&key)) && !accepts6(rules, &key, slot.flow().state)
    });
    terms.turnover.expired += ended as u64;
}

/// Takes flows over; those for which there is no room are left out, and those that `rules`, if there are
/// such, deny. False, and the tables are empty, when an entry is not what [`export`] writes.
pub fn import<R: Rules>(tracker: &mut Tracker, rules: Option<&R>, entries: &mut StateReader<'_>) -> bool {
    let mut importer = Importer { rules, v4: Coming::new(), v6: Coming::new() };
    while let Some((key, value)) = entries.next() {
        if importer.take(tracker, key, value).is_none() {
            tracker.clear();
            return false;
        }
    }
    importer.put(tracker);
    if entries.is_broken() {
        tracker.clear();
    }
    !entries.is_broken()
}

struct Importer<'a, R> {
    rules: Option<&'a R>,
    v4: Coming<[u32; 4]>,
    v6: Coming<[u32; KEY6]>,
}

impl<R: Rules> Importer<'_, R> {
    fn take(&mut self, tracker: &mut Tracker, name: &[u8], value: &[u8]) -> Option<()> {
        let (family, key) = name.split_first()?;
        let [left, state, inside, outside] = words(value)?;
        let known = State::of(state)?;
        if state & !LASTING != 0 || state >> WINDOW_AT > MOST_WINDOW {
            return None;
        }
        let longest = tracker.terms.timeouts[known as usize & 15];
        let expires = tracker.terms.now.wrapping_add(left.min(longest));
        let mut flow = Flow { expires, state, ends: [inside, outside] };
        if known.is_tcp() {
            tcp::adopt(&mut flow);
        }
        tcp::mark(&mut flow);
        match family {
            4 => self.v4.keep(key, flow, known.is_tcp())?,
            6 if is_key6(&words(key)?) => self.v6.keep(key, flow, known.is_tcp())?,
            _ => return None,
        }
        if let Some(rules) = self.rules
            && !is_accepted(rules, name, state)?
        {
            // It has been checked, and ends here.
            match family {
                4 => self.v4.count -= 1,
                _ => self.v6.count -= 1,
            }
        }
        if self.v4.is_full() || self.v6.is_full() {
            self.put(tracker);
        }
        Some(())
    }

    fn put(&mut self, tracker: &mut Tracker) {
        self.v4.put(&mut tracker.v4);
        self.v6.put(&mut tracker.v6);
    }
}
