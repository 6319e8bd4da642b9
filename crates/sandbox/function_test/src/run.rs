//! One case in a sandbox, as the engine would run it.

use crate::outcome::{Outcome, Seen};
use crate::{Case, Shown};
use guest::{Guest, GuestFault, SlotConfig};
use guest_wasm::{InstanceError, InstanceSettings, Program, Sandbox, WasmGuest};
use nf_abi::{MAX_BATCH, RANDOM, Verdict};
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::clock::{Cycles, Moment, Nanos};

/// When every case begins: 2023-11-14, 22:13:20 UTC.
const BEGIN: u64 = 1_700_000_000_000_000_000;
/// Packets that an instance may keep.
const QUOTA: u32 = 1024;

/// How long all cases may take.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    longest: Duration,
    until: Instant,
}

impl Limit {
    /// From now on.
    pub(crate) fn new(longest: Duration) -> Limit {
        Limit { longest, until: Instant::now() + longest }
    }
}

/// A moment so long after the beginning of a case.
pub(crate) fn moment(at: u64) -> Moment {
    Moment { cycles: Cycles::now(), nanos: Nanos(BEGIN + at) }
}

/// Packet memory for one instance: a batch, and what it may keep.
pub(crate) fn pool(case: &Case) -> Result<Arc<Pool>, String> {
    let longest = case.packets.iter().map(|shown| shown.bytes.len()).max().unwrap_or(0);
    let size = if longest <= 1500 {
        BufferSize::DEFAULT
    } else {
        BufferSize::new(16 << 10).unwrap_or(BufferSize::DEFAULT)
    };
    let config = PoolConfig {
        buffers: 2 * QUOTA,
        buffer_size: size,
        pages: Some(PageKind::Ordinary),
        ..PoolConfig::default()
    };
    Pool::new("trial", config).map(Arc::new).map_err(|error| error.to_string())
}

pub(crate) fn start(case: &Case, program: &Arc<Program>, pool: &Arc<Pool>) -> Result<WasmGuest, String> {
    let settings = InstanceSettings {
        config: case.config.clone(),
        slots: SlotConfig { quota: QUOTA, longest_hold: Nanos::from_millis(60_000) },
        max_call: Nanos::from_millis(1_000),
        max_control_call: Nanos::from_millis(60_000),
        // All comes out the same each time.
        random: Some([0x5a; RANDOM]),
        ..InstanceSettings::default()
    };
    WasmGuest::new(program, pool, settings).map_err(|error| match error {
        InstanceError::Refused { log, .. } if !log.is_empty() => {
            let lines: Vec<_> = log.iter().map(|line| line.text.as_str()).collect();
            format!("case `{}`: it refuses its configuration: {}", case.name, lines.join("; "))
        }
        error => format!("case `{}`: {error}", case.name),
    })
}

/// Shows all packets of a case to a new instance.
///
/// # Errors
/// Why there is no outcome: it does not start, it trapped.
pub(crate) fn run(
    case: &Case,
    program: &Arc<Program>,
    sandbox: &Sandbox,
    limit: Limit,
) -> Result<Outcome, String> {
    let pool = pool(case)?;
    let outcome = run_in(&pool, case, program, limit);
    // The instance is gone, and no other one will use its shell.
    sandbox.forget_pool(&pool);
    outcome
}

fn run_in(pool: &Arc<Pool>, case: &Case, program: &Arc<Program>, limit: Limit) -> Result<Outcome, String> {
    let mut guest = start(case, program, pool)?;
    tell_devices(&mut guest, case)?;
    let mut outcome = Outcome::default();
    let mut packets: Vec<Packet> = Vec::new();
    let shown: Vec<&Shown> =
        case.packets.iter().flat_map(|shown| std::iter::repeat_n(shown, shown.times)).collect();
    for batch in shown.chunk_by(|a, b| a.at == b.at).flat_map(|same| same.chunks(MAX_BATCH)) {
        if Instant::now() >= limit.until {
            let most = limit.longest.as_secs();
            return Err(format!("case `{}`: the test takes longer than {most} s", case.name));
        }
        let done = show(&mut guest, pool, batch, &mut packets, &mut outcome);
        pool.free_batch(packets.drain(..));
        done.map_err(|why| format!("case `{}`: {why}", case.name))?;
    }
    let last = shown.last().map_or(0, |shown| shown.at);
    let told = |fault: GuestFault| format!("case `{}`: {fault}", case.name);
    outcome.counters = guest.kept().counters.clone();
    outcome.deadline = guest.kept().due().map(|deadline| deadline.0);
    outcome.report = guest.report(moment(last)).map_err(told)?;
    outcome.state = guest.export_state().map_err(told)?;
    collect(&mut guest, &mut outcome);
    Ok(outcome)
}

/// Tells an instance what the case says of its devices.
pub(crate) fn tell_devices(guest: &mut WasmGuest, case: &Case) -> Result<(), String> {
    if case.devices.is_empty() {
        return Ok(());
    }
    guest.set_devices(case.devices.iter().flat_map(|entry| entry.encode()).collect());
    guest.timer(moment(0)).map_err(|fault| format!("case `{}`: {fault}", case.name))
}

fn show(
    guest: &mut WasmGuest,
    pool: &Pool,
    batch: &[&Shown],
    packets: &mut Vec<Packet>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let now = moment(batch[0].at);
    if guest.kept().due().is_some_and(|deadline| deadline <= now.nanos) {
        guest.timer(now).map_err(|fault| fault.to_string())?;
        take_emitted(guest, pool, outcome);
    }
    for shown in batch {
        let mut packet = pool.allocate().ok_or("it keeps too many packets")?;
        fill(pool, &mut packet, shown, now)?;
        packets.push(packet);
    }
    guest.process(packets, now).map_err(|fault| fault.to_string())?;
    for packet in packets.drain(..) {
        outcome.packets.push(seen(pool, &packet));
        match Verdict::decode(packet.record().verdict) {
            // A slot that is taken refuses the packet, which is then dropped, as in the engine.
            Some(Verdict::Hold(slot)) => {
                if let Err((packet, _)) = guest.kept_mut().slots.keep(slot, packet, now.nanos) {
                    pool.free(packet);
                }
            }
            _ => pool.free(packet),
        }
    }
    take_emitted(guest, pool, outcome);
    collect(guest, outcome);
    Ok(())
}

/// Makes a packet what the test says it is.
pub(crate) fn fill(pool: &Pool, packet: &mut Packet, shown: &Shown, now: Moment) -> Result<(), String> {
    pool.write(packet, &shown.bytes).map_err(|error| error.to_string())?;
    packet.edit(|record| {
        record.ingress = shown.ingress;
        record.mark = shown.mark;
        record.timestamp = now.nanos.0;
        record.verdict = 0;
    });
    Ok(())
}

fn take_emitted(guest: &mut WasmGuest, pool: &Pool, outcome: &mut Outcome) {
    for packet in std::mem::take(&mut guest.kept_mut().emitted) {
        outcome.emitted.push(seen(pool, &packet));
        pool.free(packet);
    }
}

fn collect(guest: &mut WasmGuest, outcome: &mut Outcome) {
    outcome.log.extend(guest.kept_mut().take_log());
    let mut events = guest.kept_mut().take_events();
    outcome.events.lines.append(&mut events.lines);
    outcome.events.lost += events.lost;
}

fn seen(pool: &Pool, packet: &Packet) -> Seen {
    let record = packet.record();
    Seen { verdict: record.verdict, mark: record.mark, bytes: pool.to_vec(packet) }
}
