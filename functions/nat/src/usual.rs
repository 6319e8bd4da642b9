//! The usual packet: untagged, IPv4 without options, whole, TCP or UDP, of a session that it changes nothing
//! of but the time. Others of that form that come from inside begin a session most often.

use crate::binding::Hashes;
use crate::metrics::{Passed, Tally};
use crate::session::{InsideEnds, at, flag};
use crate::slow::{Slow, is_local, mac_at};
use crate::translator::{Sought, Translator};
use alloc::boxed::Box;
use nf_sdk::usual::{End, LENGTH, Replacement, at as place, ends, is_partial, onward, read, rewrite};
use nf_sdk::wire::{Address, Port, TCP, UDP};
use nf_sdk::{Batch, Host, MAX_BATCH, Packet, Packets};

/// Where the IPv4 header of a common packet begins.
const NETWORK: usize = 14;

/// What is known of a packet before its session is looked at.
#[derive(Default)]
pub struct Ahead {
    /// Local address, remote address, ports, kind; a kind of 0 for a packet that is not common.
    key: [u32; 4],
    hash: u64,
    ingress: u32,
    /// Its TCP flags change nothing.
    is_usual: bool,
    /// It probably begins a session from inside.
    is_new: bool,
    /// What is known if it does; elsewhere, so that what every packet needs keeps to one line.
    new: Box<New>,
}

/// What is known of a session that probably begins.
#[derive(Default)]
struct New {
    /// Of its inside end.
    hashes: Hashes,
    /// The place in the pool of its outside address.
    place: u32,
    /// Its inside end's mapping, if that has one.
    mapping: u32,
    /// The outside end of that mapping; else where the search for a port begins.
    outside: Option<(Address, Port)>,
    begin: u16,
}

impl Ahead {
    /// The ends of a common packet from inside.
    #[inline(always)]
    fn ends(&self) -> InsideEnds {
        let [inside, remote, ports, kind] = self.key;
        InsideEnds { inside, remote, ports, kind, ..InsideEnds::default() }
    }
}

/// What is kept of the packets of a batch.
pub struct Window {
    /// Each is reached by an address of its own: the fields of one are then at fixed distances from it, which
    /// the sandbox's loads and stores include.
    ahead: [Box<Ahead>; MAX_BATCH],
    /// Sessions that the packets probably belong to.
    numbers: [u32; MAX_BATCH],
}

impl Default for Window {
    fn default() -> Window {
        Window { ahead: core::array::from_fn(|_| Box::default()), numbers: [0; MAX_BATCH] }
    }
}

/// The key of a common packet, and whether its TCP flags change nothing.
#[inline(always)]
fn key(packet: &[u8], ingress: u32) -> Option<([u32; 4], bool)> {
    let (bytes, is_tcp) = read(packet)?;
    let protocol = if is_tcp { TCP } else { UDP };
    let changing = if is_tcp { flag::SYN | flag::FIN | flag::RST } else { 0 };
    // Packets from outside have their ends the other way round, and so do halves that are rotated.
    let (source, destination, ports) = ends(bytes)?;
    let ends = (u64::from(source) | u64::from(destination) << 32).rotate_left(32 * (ingress & 1));
    let ports = ports.rotate_left(16 * (ingress & 1));
    let key = [ends as u32, (ends >> 32) as u32, ports, u32::from(protocol)];
    Some((key, bytes[place::FLAGS] & changing == 0))
}

/// Reads all packets, then finds out where their sessions probably are and has those fetched into the cache.
#[inline(always)]
pub fn look_up(translator: &Translator, batch: &mut Batch<'_>, window: &mut Window) -> u32 {
    let sessions = &translator.sessions;
    let count = batch.len();
    let mut touched = 0;
    for (packet, ahead) in batch.packets().zip(&mut window.ahead) {
        let ahead = &mut **ahead;
        ahead.ingress = u32::from(packet.ingress() & 1);
        match key(packet.bytes(), ahead.ingress) {
            Some((key, is_usual)) => {
                ahead.is_usual = is_usual;
                let [local, remote, ports, kind] = key;
                ahead.hash = sessions.hash(local, remote, ports, kind);
                ahead.key = key;
            }
            None => (ahead.key[3], ahead.is_usual) = (0, false),
        }
    }
    // Loops of their own, and short: the processor then has all of the batch's reads on their way at a time.
    for ahead in window.ahead.iter().take(count) {
        touched ^= sessions.touch_index(ahead.hash, ahead.ingress);
    }
    for (ahead, number) in window.ahead.iter().zip(&mut window.numbers).take(count) {
        *number = sessions.probable(ahead.hash, ahead.ingress);
    }
    for eight in window.numbers.chunks_exact(8).take(count.div_ceil(8)) {
        touched = eight.iter().fold(touched, |touched, number| touched ^ sessions.touch(*number));
    }
    let mut is_any_new = false;
    for (ahead, number) in window.ahead.iter_mut().zip(&window.numbers).take(count) {
        let [local, _, ports, kind] = ahead.key;
        let words = &sessions.get(*number).0;
        let differs = words[at::INSIDE] ^ local | words[at::INSIDE_PORTS] ^ ports;
        ahead.is_new = ahead.ingress == 0 && kind != 0 && differs != 0;
        is_any_new |= ahead.is_new;
    }
    if is_any_new { touched ^ look_up_new(translator, window, count) } else { touched }
}

/// The same for what a session that begins is noted in: its host, its mapping by both ends, its port, and the
/// session by its outside ends. Which port that is can be foreseen as long as no other packet takes it first.
#[inline(never)]
fn look_up_new(translator: &Translator, window: &mut Window, count: usize) -> u32 {
    let Translator { sessions, bindings, .. } = translator;
    let mut touched = 0;
    for ahead in window.ahead.iter_mut().take(count).filter(|ahead| ahead.is_new) {
        ahead.new.hashes = bindings.hashes(&ahead.ends());
        touched ^= bindings.touch_index(&ahead.new.hashes);
    }
    for ahead in window.ahead.iter_mut().take(count).filter(|ahead| ahead.is_new) {
        let new = &mut *ahead.new;
        (new.place, new.mapping) = bindings.probable(&new.hashes);
    }
    for ahead in window.ahead.iter_mut().take(count).filter(|ahead| ahead.is_new) {
        let ([_, _, ports, kind], ends, new) = (ahead.key, ahead.ends(), &mut *ahead.new);
        new.outside = bindings.probable_end(&ends, new.mapping);
        touched ^= bindings.touch_port(new.place, kind as u8, (ports as u16).swap_bytes());
    }
    let is_without = |ahead: &&mut Box<Ahead>| ahead.is_new && ahead.new.outside.is_none();
    for ahead in window.ahead.iter_mut().take(count).filter(is_without) {
        let ([_, _, _, kind], ends, new) = (ahead.key, ahead.ends(), &mut *ahead.new);
        new.begin = bindings.search_begins(&ends, &mut new.hashes, new.place);
        touched ^= bindings.touch_port(new.place, kind as u8, new.begin);
    }
    for ahead in window.ahead.iter().take(count).filter(|ahead| ahead.is_new) {
        let ([_, remote, ports, kind], new) = (ahead.key, &*ahead.new);
        let (address, port) = new.outside.unwrap_or_else(|| {
            let port = bindings.probable_port(&ahead.ends(), new.place, new.begin);
            (bindings.ports.address(new.place), port)
        });
        touched ^= bindings.touch_outside(address, kind as u8, port);
        let ports = ports & 0xffff_0000 | u32::from(port);
        touched ^= sessions.touch_index(sessions.hash(address, remote, ports, kind), 1);
    }
    touched
}

/// Translates the usual packets of the batch, and shows every other one to `other`, in order.
#[inline(always)]
pub fn translate(
    translator: &mut Translator,
    packets: Packets<'_>,
    window: &Window,
    tally: &mut Tally,
    mut other: impl FnMut(&mut Translator, &mut Packet<'_>, &Ahead, &mut Tally),
) {
    let mut counts = [0, 0];
    for ((mut packet, ahead), number) in packets.zip(&window.ahead).zip(&window.numbers) {
        let ahead = &**ahead;
        let line = match ahead.is_usual {
            false => None,
            true => translator.sessions.usual(*number, ahead.key, ahead.ingress),
        };
        let Some(line) = line else {
            other(translator, &mut packet, ahead, tally);
            continue;
        };
        let words = &line.0;
        let gain = words[at::GAIN];
        let (end, gain, address, port) = if ahead.ingress == 0 {
            (End::Source, gain, words[at::OUTSIDE], words[at::OUTSIDE_PORTS] as u16)
        } else {
            (End::Destination, !gain, words[at::INSIDE], words[at::INSIDE_PORTS] as u16)
        };
        let new =
            Replacement { address, port: Some(port), network: gain as u16, transport: (gain >> 16) as u16 };
        let partial = is_partial(&packet);
        if let Some(bytes) = packet.bytes_mut().first_chunk_mut::<LENGTH>() {
            rewrite(bytes, end, new, ahead.key[3] == u32::from(TCP), partial);
        }
        packet.verdict_encoded(onward(ahead.ingress));
        counts[ahead.ingress as usize & 1] += 1;
    }
    tally.add(counts[0], counts[1]);
}

/// A packet that is not usual. One function for all of them: the loop of the usual ones then keeps little
/// for it.
#[inline(never)]
pub fn unusual(
    translator: &mut Translator,
    slow: &mut Slow,
    packet: &mut Packet<'_>,
    ahead: &Ahead,
    tally: &mut Tally,
    host: &mut Host,
) {
    if !begin(translator, slow, packet, ahead, tally, host) {
        slow.packet(translator, packet, tally, host);
    }
}

/// Translates a common packet from inside that begins a session, or changes one. False, and nothing is done,
/// with every other packet, and with what is not translated or would be translated twice.
fn begin(
    translator: &mut Translator,
    slow: &mut Slow,
    packet: &mut Packet<'_>,
    ahead: &Ahead,
    tally: &mut Tally,
    host: &mut Host,
) -> bool {
    let ends = ahead.ends();
    let is_other = ahead.ingress != 0
        || ends.kind == 0
        || is_local(ends.inside, ends.remote)
        || translator.is_outside(ends.remote)
        || !translator.is_inside(ends.inside);
    let (false, Some(bytes)) = (is_other, packet.bytes().first_chunk::<LENGTH>()) else { return false };
    let is_tcp = ends.kind == u32::from(TCP);
    let (flags, mac) = (if is_tcp { bytes[place::FLAGS] } else { 0 }, mac_at(bytes, 6));
    let inside = if ahead.is_new { ahead.new.hashes } else { translator.bindings.hashes(&ends) };
    let sought = Sought { session: ahead.hash, inside, is_hairpin: false };
    match translator.outward_by(&ends, &sought, flags, true, mac) {
        Ok(number) => {
            let words = &translator.sessions.get(number).0;
            let gain = words[at::GAIN];
            let new = Replacement {
                address: words[at::OUTSIDE],
                port: Some(words[at::OUTSIDE_PORTS] as u16),
                network: gain as u16,
                transport: (gain >> 16) as u16,
            };
            let partial = is_partial(packet);
            if let Some(bytes) = packet.bytes_mut().first_chunk_mut::<LENGTH>() {
                rewrite(bytes, End::Source, new, is_tcp, partial);
            }
            packet.verdict_encoded(onward(0));
            tally.passed(Passed::Outward);
        }
        Err(reason) => {
            slow.refuse(translator, packet.bytes(), (NETWORK, place::PORTS), reason, host);
            tally.dropped(reason);
            packet.verdict(reason.verdict());
        }
    }
    true
}
