//! The function at work: batches, verdicts, timers, and the end.

use crate::StartError;
use crate::account::{Account, Lost};
use crate::options::Options;
use crate::output::Output;
use crate::packets::Pool;
use crate::ports::Ports;
use crate::slots::Slots;
use manifest::Manifest;
use nf_sdk::native::{Emitted, Runner};
use nf_sdk::{MAX_BATCH, Nanos, NetworkFunction, PacketRecord, RANDOM, Verdict};
use std::net::IpAddr;
use std::time::SystemTime;
use superfluid_native::Packet;

/// Empty buffers that are kept for packets of the function's own.
const STOCK: usize = 32;
/// How often the function is asked for the rest that it has to give, at the end.
const FINISHING: usize = 1024;

/// A function, its ports, and what it has of their packets.
pub(crate) struct Process<F> {
    manifest: Manifest,
    runner: Runner<F>,
    ports: Ports,
    pool: Pool,
    slots: Slots,
    stock: Vec<Packet>,
    /// What goes to each interface, and what goes back, until it is sent.
    leaving: Vec<Vec<Packet>>,
    returned: Vec<Packet>,
    account: Account,
    output: Output,
    report: Option<Nanos>,
    reported: Nanos,
}

impl<F: NetworkFunction> Process<F> {
    /// Makes the function from its configuration in CBOR.
    pub fn start(
        manifest: Manifest,
        config: &[u8],
        ports: Ports,
        options: &Options,
    ) -> Result<Process<F>, StartError> {
        let runner = Runner::with_random(config, random()?).map_err(StartError::Refused)?;
        let mut process = Process {
            runner,
            pool: Pool::of(&ports, &manifest),
            slots: Slots::new(ports.held() / 2, options.longest_hold),
            stock: Vec::new(),
            leaving: vec![Vec::new(); ports.len()],
            returned: Vec::new(),
            account: Account::new(&manifest),
            output: Output::default(),
            report: options.report,
            reported: now(),
            manifest,
            ports,
        };
        process.refill();
        process.settle(now());
        Ok(process)
    }

    /// Works until a port is closed.
    pub fn run(mut self) {
        loop {
            let mut received = 0;
            for interface in 0..self.ports.len() {
                // As in a sandbox, the function waits where what it sends has no room.
                if !self.is_blocked() {
                    received += self.batch(interface);
                }
            }
            let now = now();
            self.expire(now);
            self.bound();
            self.learn(now);
            self.runner.timer_if_due(now);
            self.settle(now);
            self.refill();
            self.report_if_due(now);
            let next = self.next(now);
            let blocked = |interface: usize| self.leaving.get(interface).is_some_and(|left| !left.is_empty());
            if received == 0 && !self.ports.wait(now, next, blocked) {
                break;
            }
        }
        self.finish();
    }

    /// Shows the function what came by an interface; how many packets that were.
    fn batch(&mut self, interface: usize) -> usize {
        let mut packets = [Packet::default(); MAX_BATCH];
        let count = self.ports.receive(interface, &mut packets);
        if count == 0 {
            return 0;
        }
        let now = now();
        let packets = &packets[..count];
        let mut records: [PacketRecord; MAX_BATCH] = std::array::from_fn(|n| {
            packets
                .get(n)
                .map_or_else(PacketRecord::default, |packet| self.pool.record(packet, interface, now))
        });
        self.account.received += count as u64;
        self.bound();
        self.pool.show(&mut self.runner, &mut records[..count], now);
        for (packet, record) in packets.iter().zip(&records) {
            let mut packet = *packet;
            let verdict = self.pool.take_over(&mut packet, record);
            self.carry_out(packet, verdict, now);
        }
        self.settle(now);
        count
    }

    /// Tells the function of its devices, if they are not what they were.
    fn learn(&mut self, now: Nanos) {
        if self.ports.devices_changed() {
            let devices = self.ports.devices();
            self.runner.set_devices(&devices, now);
            self.settle(now);
            self.bound();
        }
    }

    /// Notes where a packet goes.
    fn carry_out(&mut self, packet: Packet, verdict: Option<Verdict>, now: Nanos) {
        match verdict {
            Some(Verdict::Interface(interface)) => match self.leaving.get_mut(usize::from(interface)) {
                Some(leaving) => return leaving.push(packet),
                None => self.account.drop(Lost::NoRoute),
            },
            Some(Verdict::Hold(slot)) => {
                if self.slots.keep(slot, packet, now) {
                    return;
                }
                self.runner.take_back(slot);
                self.account.drop(Lost::HoldQuota);
            }
            Some(Verdict::Drop(reason)) => self.account.drop_by_function(reason),
            Some(Verdict::Consume) => self.account.consumed += 1,
            Some(Verdict::Service(_)) => self.account.drop(Lost::UnknownService),
            Some(Verdict::None) => self.account.drop(Lost::NoVerdict),
            None => self.account.drop(Lost::BadVerdict),
        }
        self.returned.push(packet);
    }

    /// The function was called: what it told is written, what it gave up is carried out, and all that has to
    /// go goes.
    fn settle(&mut self, now: Nanos) {
        let told = self.runner.take_told();
        self.output.write(&told, now);
        for emitted in told.emitted {
            self.give_up(emitted, now);
        }
        for asks in told.asks.chunk_by(|(one, _), (next, _)| one == next) {
            let addresses: Vec<IpAddr> = asks.iter().map(|(_, address)| *address).collect();
            self.ports.ask(asks[0].0, &addresses);
        }
        for (interface, leaving) in self.leaving.iter_mut().enumerate() {
            let sent = self.ports.send(interface, leaving);
            self.account.sent += sent as u64;
            leaving.drain(..sent);
        }
        if !self.returned.is_empty() {
            self.ports.release(&self.returned);
            self.returned.clear();
        }
    }

    /// Whether anything waits for room to be sent.
    fn is_blocked(&self) -> bool {
        self.leaving.iter().any(|leaving| !leaving.is_empty())
    }

    /// A packet that was held, or is the function's own.
    fn give_up(&mut self, emitted: Emitted, now: Nanos) {
        let Emitted { slot, verdict, extent, mark, bytes } = emitted;
        let found = match bytes {
            None => self.slots.take(slot),
            Some(bytes) => {
                self.account.made += 1;
                let mut buffer = self.stock.pop();
                if !buffer.as_mut().is_some_and(|buffer| self.pool.fill(buffer, &bytes)) {
                    self.account.drop(Lost::NoBuffer);
                    self.returned.extend(buffer);
                    return;
                }
                buffer
            }
        };
        // One that is not there was counted when it went.
        let Some(mut packet) = found else { return };
        packet.mark = mark;
        let holds = extent.is_none_or(|extent| self.pool.set_extent(&mut packet, extent));
        self.carry_out(packet, Some(verdict).filter(|_| holds), now);
    }

    /// Takes back what was held for too long.
    fn expire(&mut self, now: Nanos) {
        while let Some((slot, packet)) = self.slots.expired(now) {
            self.runner.take_back(slot);
            self.account.drop(Lost::HoldExpired);
            self.returned.push(packet);
        }
    }

    /// Asks for empty buffers. They come when the engine has them; where the process may not write there are
    /// none.
    fn refill(&mut self) {
        let mut empty = [Packet::default(); STOCK];
        let missing = STOCK.saturating_sub(self.stock.len());
        if missing > 0 {
            let count = self.ports.allocate(&mut empty[..missing]);
            self.stock.extend(&empty[..count]);
        }
    }

    /// The function makes no more packets than there are buffers for.
    fn bound(&mut self) {
        let longest = self.stock.iter().map(|packet| packet.length).min().unwrap_or(0);
        self.runner.bound_packets(self.stock.len(), longest as usize);
    }

    /// When there is something to do even if no packet comes.
    fn next(&self, now: Nanos) -> Option<Nanos> {
        let report = self.report.map(|span| self.reported.saturating_add(span));
        let timer = self.runner.host().deadline().map(|deadline| deadline.max(now));
        [report, timer, self.slots.next_due()].into_iter().flatten().min()
    }

    fn report_if_due(&mut self, now: Nanos) {
        if let Some(span) = self.report
            && now.since(self.reported) >= span
        {
            self.reported = now;
            self.print_account(now);
        }
    }

    /// A line of JSON on standard output.
    fn print_account(&self, now: Nanos) {
        use std::io::Write;
        let waiting: usize = self.leaving.iter().map(Vec::len).sum();
        let held = self.slots.len() + self.runner.host().own() + waiting;
        let counter = |index| self.runner.host().counter(index);
        let report = self.runner.report(now);
        let line =
            self.account.to_json(&self.manifest, held as u64, counter, self.output.lost, report.as_deref());
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    /// A port is closed: the function gives out what it still has to, and what it held is lost.
    fn finish(&mut self) {
        let now = now();
        for _ in 0..FINISHING {
            self.bound();
            let more = self.runner.finish(now);
            self.settle(now);
            if !more {
                break;
            }
        }
        for _ in self.slots.drain() {
            self.account.drop(Lost::HeldAtStop);
        }
        for _ in self.leaving.iter_mut().flat_map(|leaving| leaving.drain(..)) {
            self.account.drop(Lost::PortFull);
        }
        self.print_account(now);
    }
}

fn now() -> Nanos {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Nanos(since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
}

/// Bytes that nothing else has or can guess.
fn random() -> Result<[u8; RANDOM], StartError> {
    use std::io::Read;
    let path = "/dev/urandom";
    let mut bytes = [0; RANDOM];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source| StartError::File { path: path.to_owned(), source })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_random_bytes_of_its_own() {
        assert_ne!(random().expect("random bytes"), random().expect("random bytes"));
    }
}
