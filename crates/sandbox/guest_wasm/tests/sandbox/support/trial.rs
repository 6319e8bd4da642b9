//! One hostile module, run through everything that the engine does with a guest.

use guest::{Guest, GuestFault, Progress, SlotConfig};
use guest_wasm::{
    Access, InstanceError, InstanceSettings, Program, ProgramFacts, RestoreError, Sandbox, Slice, restore,
    start, watchdog,
};
use nf_abi::Verdict;
use packet_memory::{Packet, PageKind, Pool, PoolConfig};
use snapshot::Saved;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use telemetry::clock::{Cycles, Moment, Nanos};

const BUFFERS: usize = 16;

/// How far a module came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It was refused before it ran.
    Refused,
    /// It ran, and every call was ended.
    Faulted,
    /// At least one call came back.
    Finished,
}

/// Runs the module.
///
/// # Panics
/// When the host is worse off than before: packets lost or changed, answers not clamped.
pub fn trial(sandbox: &Sandbox, wasm: &[u8], access: Access, bytes: &[u8]) -> Reached {
    let facts = ProgramFacts {
        name: "random".to_owned(),
        image: [0; 32],
        layout: [7; 32],
        access,
        memory_limit: 4 << 20,
        interfaces: 2,
        drop_reasons: 1,
        counters: 1,
    };
    let Ok(program) = sandbox.compile(wasm, facts) else { return Reached::Refused };
    let config =
        PoolConfig { buffers: BUFFERS as u32, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    let pool = Arc::new(Pool::new("trial", config).expect("a small pool"));
    let mut packets: Vec<Packet> = Vec::new();
    pool.allocate_batch(8, &mut packets);
    for (n, packet) in packets.iter_mut().enumerate() {
        let start = (n * 131) % bytes.len().max(1);
        let end = bytes.len().min(start + 1500);
        pool.write(packet, &bytes[start..end]).expect("a frame");
    }
    let before: Vec<Vec<u8>> = packets.iter().map(|packet| pool.to_vec(packet)).collect();
    let settings = InstanceSettings {
        config: bytes.iter().copied().take(256).collect(),
        slots: SlotConfig { quota: 4, longest_hold: Nanos(1) },
        max_call: Nanos::from_millis(2),
        max_control_call: Nanos::from_millis(2),
        preemptible: (bytes.len() % 2 == 1).then_some(Slice(Nanos(50_000))),
        resident: bytes.len().is_multiple_of(3).then_some(3 << 20),
        // What is found is found again.
        random: Some([0x5a; nf_abi::RANDOM]),
        ..InstanceSettings::default()
    };
    let reached = match start(&program, &pool, settings.clone()) {
        Err(_) => Reached::Refused,
        Ok(mut guest) => {
            let reached = exercise(&mut *guest, &pool, &mut packets);
            renew(&mut *guest, &program, &pool, settings.clone());
            // One that can be switched out may go in the middle of this call.
            let _ = guest.process(&mut packets, watchdog::clock().moment());
            reached
        }
    };
    if access == Access::Read {
        let after: Vec<Vec<u8>> = packets.iter().map(|packet| pool.to_vec(packet)).collect();
        let kept = before.iter().filter(|bytes| after.contains(bytes)).count();
        assert!(kept >= packets.len().min(before.len()) - 4, "a reader changed packets");
    }
    if let [Some(plain), Some(preemptible)] = [None, Some(Slice(Nanos(50_000)))].map(|preemptible| {
        answers(&program, &pool, &mut packets, bytes, &InstanceSettings { preemptible, ..settings.clone() })
    }) {
        assert_eq!(plain, preemptible, "the two kinds of instances differ in more than in time");
        COMPARED.fetch_add(1, Relaxed);
    }
    pool.free_batch(packets);
    assert_eq!(pool.available(), BUFFERS, "packets were lost");
    sandbox.forget_pool(&pool);
    reached
}

/// How many modules both kinds of instances were compared by.
pub static COMPARED: AtomicUsize = AtomicUsize::new(0);

/// What a new instance makes of a call with these bytes: its answers, or how it faulted, and its memory and
/// globals afterwards. `None`: that may depend on its kind, as its time does, and how much of the stack it
/// takes.
fn answers(
    program: &Arc<Program>,
    pool: &Arc<Pool>,
    packets: &mut [Packet],
    bytes: &[u8],
    settings: &InstanceSettings,
) -> Option<impl PartialEq + std::fmt::Debug + use<>> {
    for packet in packets.iter_mut() {
        assert!(packet.set_extent(0, 0, 2048));
        pool.write(packet, &bytes[..bytes.len().min(1500)]).expect("a frame");
        packet.edit(|record| (record.verdict, record.mark, record.timestamp) = (0, 0, 0));
    }
    let now = || Moment { cycles: Cycles::now(), nanos: Nanos(1_000) };
    let mut guest = start(program, pool, settings.clone()).ok()?;
    let mut outcome = guest.process(packets, now());
    while outcome == Ok(Progress::Suspended) {
        outcome = guest.process(packets, now());
    }
    pool.free_batch(std::mem::take(&mut guest.kept_mut().emitted));
    let fault = match outcome {
        Err(GuestFault::TimedOut { .. }) => return None,
        Err(GuestFault::Trap(reason)) if reason.contains("stack") => return None,
        outcome => outcome.err(),
    };
    let answered: Vec<(u32, u64, u32, u32)> = packets
        .iter()
        .map(|packet| packet.record())
        .map(|record| (record.verdict, record.mark, record.offset, record.length))
        .collect();
    let saved = guest.save().ok()?;
    Some((fault, answered, saved.memory, saved.globals, saved.host.counters))
}

/// Calls everything that there is, several times. Unlike the engine it goes on after a fault, because the
/// first one would mostly be the last that is seen of a random module.
fn exercise(guest: &mut dyn Guest, pool: &Pool, packets: &mut Vec<Packet>) -> Reached {
    let now = || watchdog::clock().moment();
    let mut faults: Vec<Option<GuestFault>> = Vec::new();
    for _ in 0..3 {
        let mut outcome = guest.process(packets, now());
        while outcome == Ok(Progress::Suspended) {
            check_whole(guest, pool, packets.len());
            outcome = guest.process(packets, now());
        }
        let mut left = Vec::new();
        for packet in packets.drain(..) {
            let _ = pool.to_vec(&packet); // It lies in its buffer, whatever was answered.
            match Verdict::decode(packet.record().verdict) {
                Some(Verdict::Hold(slot)) if outcome.is_ok() => {
                    if let Err((packet, _)) = guest.kept_mut().slots.keep(slot, packet, now().nanos) {
                        left.push(packet);
                    }
                }
                _ => left.push(packet),
            }
        }
        *packets = left;
        faults.push(outcome.err());
        check_whole(guest, pool, packets.len());
        faults.push(guest.observe(packets, now()).err());
        check_whole(guest, pool, packets.len());
        faults.push(guest.timer(now()).err());
        check_whole(guest, pool, packets.len());
    }
    faults.push(guest.report(now()).err());
    let exported = guest.export_state();
    let state = exported.as_ref().ok().and_then(Clone::clone).unwrap_or_else(|| vec![7; 100]);
    faults.push(exported.err());
    faults.push(guest.import_state(state).err());
    assert!(guest.kept_mut().take_log().len() <= 64);
    check_whole(guest, pool, packets.len());
    let mut expired = Vec::new();
    guest.kept_mut().slots.expire(Nanos::MAX, usize::MAX, &mut expired);
    packets.append(&mut expired);
    if faults.iter().all(Option::is_some) { Reached::Faulted } else { Reached::Finished }
}

/// What is restored of what was saved is the same.
fn renew(guest: &mut dyn Guest, program: &Arc<Program>, pool: &Arc<Pool>, settings: InstanceSettings) {
    let saved = guest.save().expect("it is between two calls");
    let bytes = saved.encode().expect("what a guest can be is within limits");
    let read = Saved::decode(&bytes).expect("it was just written");
    assert_eq!(read, saved);
    let patient = Nanos::from_millis(1_000);
    let settings = InstanceSettings { max_control_call: patient, ..settings };
    match restore(program, pool, settings, &read) {
        Ok(mut again) => assert_eq!(again.save().expect("it was not called yet"), saved),
        // A start function, which only modules have that are no image, may end differently the second time.
        Err(RestoreError::Instance(InstanceError::Fault { .. })) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Takes what was given up, and counts every packet.
fn check_whole(guest: &mut dyn Guest, pool: &Pool, shown: usize) {
    let emitted = std::mem::take(&mut guest.kept_mut().emitted);
    assert!(emitted.len() + guest.kept().slots.len() <= 8, "beyond the quota");
    for packet in &emitted {
        assert!(Verdict::decode(packet.record().verdict).is_some());
        let _ = pool.to_vec(packet);
    }
    assert_eq!(
        pool.available() + emitted.len() + guest.kept().slots.len() + shown,
        BUFFERS,
        "packets were lost"
    );
    pool.free_batch(emitted);
}
