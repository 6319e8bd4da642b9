//! A changed file of routes, taken while packets pass.
//!
//! 1. *Read*: lines that went and came are read, some in each call, and their next hops noted. What is no
//!    route ends it here.
//! 2. *Merge*: another list of all routes is made of the one that is there and these, part by part, of IPv4
//!    and of IPv6. A route that goes and is not there ends it.
//! 3. *Sets*: the sets of next hops of all prefixes of IPv4 that this concerns are made, and the /16 found in
//!    which something changes. Too many ends it.
//! 4. *Trie*: where something of IPv6 changes, its table is made anew beside the one that is there, some
//!    nodes in each call.
//! 5. *Blocks*: the lists of IPv4 change places, and one /16 after the other is made anew. A packet goes by
//!    the table as it is between two calls. With the last one, the tables of IPv6 change places.
//!
//! Until the fifth step nothing has changed but for next hops that nothing leads to. Where there is no
//! memory for a /16, the lists change places again, and all that were made anew are made again.
//!
//! Limits: one that ends is no loss: another instance is made then, which reads the whole file. So it is when
//! the flat table's limit is crossed, or there is no memory for two tables of IPv6.

use crate::Routing;
use crate::flat::{BLOCKS, Flat};
use crate::hops::Hops;
use crate::routes_file;
use crate::settings::Resolver;
use crate::table::{FLAT_FROM, Four, Known, Route4, Route6, parts4, parts6, prefixes, route4};
use crate::trie::{Builder, Prefix, Trie, nodes_behind};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::swap;
use core::net::{IpAddr, Ipv4Addr};
use nf_sdk::{Change, Difference, Host};

/// The key of the file.
const KEY: &str = "routes_file";
/// What one call does: lines, routes that are merged, prefixes and /16.
const LINES: usize = 512;
const ROUTES: usize = 16 << 10;
const SETS: usize = 512;
const BLOCKS_AT_ONCE: usize = 64;
/// Routes after which no further /16 is begun in a call; routes and nodes, after which no further prefix of
/// IPv6 is added in one.
const ENOUGH: usize = 4096;

/// It cannot be taken: the router is as it was.
#[derive(Debug)]
struct Ended;

#[derive(Clone, Copy, Debug)]
enum Step {
    Read,
    /// From this route of the list on.
    Merge(usize),
    /// The same of IPv6.
    Merge6(usize),
    /// From this prefix of those that change on.
    Sets(usize),
    /// From this route of IPv6 on.
    Trie(usize),
    /// From this /16 on.
    Blocks(usize),
}

/// A change that is being taken. See the module's documentation.
#[derive(Debug)]
pub struct Taking {
    difference: Difference,
    step: Step,
    /// How often more than before each route is there; below zero: less.
    four: BTreeMap<Route4, i32>,
    six: BTreeMap<Route6, i32>,
    /// The lists as they are to be; from the last step on, as they were.
    other: Known,
    /// Prefixes of IPv4 that change, as routes to the next hop 0.
    touched: Vec<Route4>,
    /// A bit for each /16.
    dirty: Box<[u64]>,
    /// The table of IPv6 as it is to be, as far as it is made; how many nodes it will have, and how many
    /// prefixes it has.
    builder6: Option<Builder<16>>,
    nodes6: usize,
    prefixes6: usize,
    trie6: Option<Trie>,
    /// By how much the number of prefixes of IPv4 changes.
    more: isize,
    /// What was made anew is being made as it was.
    goes_back: bool,
}

impl Taking {
    /// Begins with what the host offers; `None`: that is not for here.
    pub fn begin(host: &mut Host) -> Option<Taking> {
        let difference = Difference::begin(host).filter(|difference| difference.key() == KEY)?;
        Some(Taking {
            difference,
            step: Step::Read,
            four: BTreeMap::new(),
            six: BTreeMap::new(),
            other: Known::default(),
            touched: Vec::new(),
            dirty: vec![0; BLOCKS / 64].into_boxed_slice(),
            builder6: None,
            nodes6: 0,
            prefixes6: 0,
            trie6: None,
            more: 0,
            goes_back: false,
        })
    }

    /// Does a part of it.
    pub fn go_on(
        &mut self,
        host: &mut Host,
        resolver: &Resolver<'_>,
        main: &mut Routing,
        known: &mut Known,
    ) -> Change {
        let done = match self.step {
            Step::Read => self.read(host, resolver, &mut main.hops, known),
            Step::Merge(from) => self.merge(from, known),
            Step::Merge6(from) => self.merge6(from, known),
            Step::Sets(from) => self.sets(from, main, known),
            Step::Trie(from) => self.trie(from, main, known),
            Step::Blocks(from) => return self.blocks(from, main, known),
        };
        match done {
            Ok(()) => Change::More,
            Err(Ended) => Change::Refused,
        }
    }

    fn read(
        &mut self,
        host: &mut Host,
        resolver: &Resolver<'_>,
        hops: &mut Hops,
        known: &Known,
    ) -> Result<(), Ended> {
        for _ in 0..LINES {
            let Some((has_come, line)) = self.difference.next(host) else {
                if self.difference.is_broken() {
                    return Err(Ended);
                }
                self.step = Step::Merge(0);
                let room = known.four.len() + come(&self.four);
                self.other.four.try_reserve_exact(room).map_err(|_| Ended)?;
                if self.six.is_empty() {
                    return Ok(());
                }
                let room = known.six.len() + come(&self.six);
                return self.other.six.try_reserve_exact(room).map_err(|_| Ended);
            };
            let Some((address, length, hop)) = routes_file::route(line, resolver).map_err(|_| Ended)? else {
                continue;
            };
            let hop = hops.add(hop).map_err(|_| Ended)?;
            let one = if has_come { 1 } else { -1 };
            match address {
                IpAddr::V4(address) => *self.four.entry(route4(address, length, hop)).or_default() += one,
                IpAddr::V6(address) => *self.six.entry((address.to_bits(), length, hop)).or_default() += one,
            }
        }
        Ok(())
    }

    fn merge(&mut self, from: usize, known: &Known) -> Result<(), Ended> {
        let next = merge(&known.four, from, &mut self.four, &mut self.other.four, |route| {
            let prefix = route & !0xffff;
            if self.touched.last() != Some(&prefix) {
                self.touched.push(prefix);
            }
        })?;
        self.step = match next {
            Some(next) => Step::Merge(next),
            None if self.six.is_empty() => Step::Sets(0),
            None => Step::Merge6(0),
        };
        Ok(())
    }

    fn merge6(&mut self, from: usize, known: &Known) -> Result<(), Ended> {
        let merged = self.other.six.len();
        let next = merge(&known.six, from, &mut self.six, &mut self.other.six, |_| ())?;
        let mut before = merged.checked_sub(1).map_or(([0; 16], 0), |last| prefix6(self.other.six[last]));
        for route in self.other.six.iter().skip(merged) {
            let prefix = prefix6(*route);
            self.nodes6 += nodes_behind((&before.0, before.1), (&prefix.0, prefix.1));
            before = prefix;
        }
        let Some(next) = next else {
            let mut builder = Builder::new().map_err(|_| Ended)?;
            builder.reserve(self.nodes6, self.other.six.len()).map_err(|_| Ended)?;
            self.builder6 = Some(builder);
            self.step = Step::Sets(0);
            return Ok(());
        };
        self.step = Step::Merge6(next);
        Ok(())
    }

    fn sets(&mut self, from: usize, main: &mut Routing, known: &mut Known) -> Result<(), Ended> {
        let end = (from + SETS).min(self.touched.len());
        for at in from..end {
            let prefix = self.touched[at];
            let set = set_of(&self.other.four, prefix, &mut main.hops)?;
            let was_there = group(&known.four, prefix).next().is_some();
            self.more += set.is_some() as isize - was_there as isize;
            self.mark(prefix);
        }
        self.step = Step::Sets(end);
        if end < self.touched.len() {
            return Ok(());
        }
        if self.builder6.is_none() {
            return self.turn(main, known);
        }
        self.step = Step::Trie(0);
        Ok(())
    }

    fn trie(&mut self, from: usize, main: &mut Routing, known: &mut Known) -> Result<(), Ended> {
        let Some(mut builder) = self.builder6.take() else { return Err(Ended) };
        let (mut at, nodes, mut group) = (from, builder.nodes(), Vec::new());
        while at - from + builder.nodes() - nodes < ENOUGH {
            let rest = self.other.six.get(at..).unwrap_or_default();
            let Some(first) = rest.first() else {
                self.trie6 = Some(builder.finish().map_err(|_| Ended)?);
                return self.turn(main, known);
            };
            let (address, length) = prefix6(*first);
            let same = rest.iter().take_while(|route| (route.0, route.1) == (first.0, first.1));
            group.clear();
            group.extend(same.map(|route| route.2));
            at += group.len();
            group.dedup();
            let value = main.hops.set(&group).map_err(|_| Ended)?;
            builder.add(&Prefix { address, length, value }).map_err(|_| Ended)?;
            self.prefixes6 += 1;
        }
        self.builder6 = Some(builder);
        self.step = Step::Trie(at);
        Ok(())
    }

    /// Notes the /16 that a prefix is in, or those that are in it.
    fn mark(&mut self, prefix: Route4) {
        let (address, length, _) = parts4(prefix);
        let first = usize::from(address[0]) << 8 | usize::from(address[1]);
        let count = 1 << 16u8.saturating_sub(length);
        for block in first..(first + count).min(BLOCKS) {
            self.dirty[block / 64] |= 1 << (block % 64);
        }
    }

    /// The lists change places. Small tables are made anew as a whole.
    fn turn(&mut self, main: &mut Routing, known: &mut Known) -> Result<(), Ended> {
        let count = main.table.routes[0].saturating_add_signed(self.more);
        self.step = Step::Blocks(0);
        if let Four::Trie(trie) = &mut main.table.four {
            if count >= FLAT_FROM {
                return Err(Ended);
            }
            let four = prefixes(&mut main.hops, &self.other.four, parts4).map_err(|_| Ended)?;
            *trie = Trie::build(&four).map_err(|_| Ended)?;
        }
        swap(&mut known.four, &mut self.other.four);
        Ok(())
    }

    fn blocks(&mut self, from: usize, main: &mut Routing, known: &mut Known) -> Change {
        let Routing { table, hops } = main;
        let Four::Flat(flat) = &mut table.four else { return self.end(main, known) };
        let (mut block, mut done, mut routes) = (from, 0, 0);
        while done < BLOCKS_AT_ONCE && routes < ENOUGH {
            let Some(next) = self.next_dirty(block) else { return self.end(main, known) };
            match rebuild(flat, hops, &known.four, next) {
                Ok(count) => routes += count,
                // What was there had room before: what is left of it in this /16 leads where it led.
                Err(Ended) if self.goes_back => {}
                Err(Ended) => {
                    self.goes_back = true;
                    swap(&mut known.four, &mut self.other.four);
                    self.other = Known::default();
                    self.step = Step::Blocks(0);
                    return Change::More;
                }
            }
            (block, done) = (next + 1, done + 1);
        }
        self.step = Step::Blocks(block);
        Change::More
    }

    /// The first /16 from this one on that is to be made anew.
    fn next_dirty(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.dirty.get(word)? & !0 << (from % 64);
        while bits == 0 {
            word += 1;
            bits = *self.dirty.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn end(&mut self, main: &mut Routing, known: &mut Known) -> Change {
        if self.goes_back {
            return Change::Refused;
        }
        let [four, six] = &mut main.table.routes;
        *four = four.saturating_add_signed(self.more);
        if let Some(trie) = self.trie6.take() {
            (main.table.six, *six) = (trie, self.prefixes6);
            swap(&mut known.six, &mut self.other.six);
        }
        Change::Taken
    }
}

/// How many routes of what changes come.
fn come<T>(changes: &BTreeMap<T, i32>) -> usize {
    changes.values().filter_map(|more| usize::try_from(*more).ok()).sum()
}

/// A route's prefix.
fn prefix6(route: Route6) -> ([u8; 16], u8) {
    let (address, length, _) = parts6(route);
    (address, length)
}

/// Puts a part of a sorted list, `from` this place on, and what changes about it behind what is there of
/// another list: [`ROUTES`] of both; from where to go on, `None` when all is done. `touched` is told of each
/// route that goes or comes, in order.
fn merge<T: Copy + Ord>(
    list: &[T],
    from: usize,
    changes: &mut BTreeMap<T, i32>,
    out: &mut Vec<T>,
    mut touched: impl FnMut(T),
) -> Result<Option<usize>, Ended> {
    let mut put = |out: &mut Vec<T>, route: T, more: i32| {
        touched(route);
        // Below zero: one that goes more often than it is there.
        let more = usize::try_from(more).map_err(|_| Ended)?;
        out.try_reserve(more).map_err(|_| Ended)?;
        out.extend(core::iter::repeat_n(route, more));
        Ok(())
    };
    let mut at = from;
    for _ in 0..ROUTES {
        match (list.get(at), changes.first_entry()) {
            (None, None) => return Ok(None),
            (Some(route), Some(mut same)) if same.key() == route && *same.get() < 0 => {
                *same.get_mut() += 1;
                if *same.get() == 0 {
                    same.remove();
                }
                put(out, *route, 0)?;
                at += 1;
            }
            (route, Some(change)) if route.is_none_or(|route| change.key() <= route) => {
                let (key, more) = change.remove_entry();
                put(out, key, more)?;
            }
            (Some(route), _) => {
                out.try_reserve(1).map_err(|_| Ended)?;
                out.push(*route);
                at += 1;
            }
            (None, Some(_)) => return Err(Ended),
        }
    }
    Ok(Some(at))
}

/// The next hops of a prefix, in order.
fn group(list: &[Route4], prefix: Route4) -> impl Iterator<Item = u16> {
    let first = list.partition_point(|route| *route < prefix);
    let rest = list.get(first..).unwrap_or_default();
    rest.iter().take_while(move |route| **route & !0xffff == prefix).map(|route| *route as u16)
}

/// The set of next hops of a prefix, if it is there.
fn set_of(list: &[Route4], prefix: Route4, hops: &mut Hops) -> Result<Option<u16>, Ended> {
    let mut hops_of: Vec<u16> = group(list, prefix).collect();
    hops_of.dedup();
    match hops_of.is_empty() {
        true => Ok(None),
        false => hops.set(&hops_of).map(Some).map_err(|_| Ended),
    }
}

/// Makes a /16 of a table anew; of how many routes.
fn rebuild(flat: &mut Flat, hops: &mut Hops, four: &[Route4], block: usize) -> Result<usize, Ended> {
    let number = u16::try_from(block).map_err(|_| Ended)?;
    let address = u32::from(number) << 16;
    let mut inherited = 0;
    for length in (0..16).rev() {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        let prefix = route4(Ipv4Addr::from_bits(address & mask), length, 0);
        if let Some(set) = set_of(four, prefix, hops)? {
            inherited = set;
            break;
        }
    }
    let first = four.partition_point(|route| *route < route4(Ipv4Addr::from_bits(address), 16, 0));
    let rest = four.get(first..).unwrap_or_default();
    let inside =
        rest.get(..rest.partition_point(|route| route >> 48 == u64::from(number))).unwrap_or_default();
    let made: Vec<Prefix<4>> = prefixes(hops, inside, parts4).map_err(|_| Ended)?;
    flat.rebuild(number, inherited, &made).map_err(|_| Ended)?;
    Ok(inside.len())
}
