//! Whatever is saved, forged, restored, upgraded, started anew, frozen and removed, in any order: every
//! packet is on both sides of the account at every moment, and every buffer is back at the end.

use super::*;
use nf_abi::PacketRecord;
use proptest::prelude::*;
use snapshot::{PacketState, Saved, SavedPacket, Tally};

/// What an attacker has made of a snapshot before it is restored.
#[derive(Clone, Copy, Debug)]
struct Forged {
    /// What it says that the function has generated.
    generated: u64,
    /// All counters and losses that it has.
    counts: u64,
    /// Packets more that it holds, and more that wait for it.
    held: u16,
    waiting: u16,
    /// When those that are held are due.
    due: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Turn(u8),
    Save(usize),
    /// By a name of two, from a snapshot, as it is or forged.
    Restore {
        name: usize,
        from: usize,
        paused: bool,
        forged: Option<Forged>,
    },
    /// Another configuration takes over, and the one before perhaps again.
    Upgrade {
        name: usize,
        back: bool,
    },
    Restart(usize),
    Pause(usize, bool),
    Freeze,
    Remove(usize),
    /// The process is gone with nothing taken back, and begins anew with what was written down.
    Kill,
}

const NAMES: [&str; 2] = ["f", "twin"];

fn forged() -> impl Strategy<Value = Forged> {
    let count =
        || prop_oneof![Just(0), Just(1), Just(1 << 63), Just(u64::MAX - 1), Just(u64::MAX), any::<u64>()];
    (count(), count(), 0_u16..4, 0_u16..4, count())
        .prop_map(|(generated, counts, held, waiting, due)| Forged { generated, counts, held, waiting, due })
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (1_u8..6).prop_map(Step::Turn),
        2 => name().prop_map(Step::Save),
        4 => (name(), 0_usize..8, any::<bool>(), prop::option::of(forged()))
            .prop_map(|(name, from, paused, forged)| Step::Restore { name, from, paused, forged }),
        2 => (name(), any::<bool>()).prop_map(|(name, back)| Step::Upgrade { name, back }),
        1 => name().prop_map(Step::Restart),
        1 => (name(), any::<bool>()).prop_map(|(name, paused)| Step::Pause(name, paused)),
        1 => Just(Step::Freeze),
        1 => name().prop_map(Step::Remove),
        1 => Just(Step::Kill),
    ]
}

fn forge(saved: &Saved<'static>, forged: Forged) -> Saved<'static> {
    let mut saved = saved.clone();
    saved.host.generated = forged.generated;
    saved.host.lines_lost = forged.counts;
    saved.host.events_lost = forged.counts;
    saved.host.counters.fill(forged.counts);
    saved.tallies = vec![Tally { name: "packets".into(), value: forged.counts }];
    let packet = |place| {
        let record = PacketRecord { length: 60, offset: 128, ingress: 1, ..PacketRecord::default() };
        SavedPacket::new(place, &record, vec![7; 60])
    };
    saved.packets =
        (0..forged.held).map(|slot| packet(PacketState::Held { slot, due: forged.due })).collect();
    saved.packets.extend((0..forged.waiting).map(|_| packet(PacketState::Queued)));
    saved
}

/// One that nothing leads to takes packets that are restored alone.
fn spec(name: usize, accept: bool) -> Value {
    let mut spec = filter(accept);
    if name == 0 {
        spec["attach"] = json!({"inside": "source", "outside": "out"});
    }
    spec
}

fn filter(accept: bool) -> Value {
    let action = if accept { "accept" } else { "drop" };
    json!({"image": "firewall", "config": {"default_action": action, "max_flows": 1024}, "max_call": "10s"})
}

/// The host after a kill: of what ran only what is wanted is known, from the store.
fn begun_anew(killed: Rig, names: &[usize]) -> Rig {
    // Nothing is asked of it any more: its functions hand nothing over, and no account is closed.
    drop(killed);
    let mut rig = Rig::new(1);
    let mut changes = chain();
    changes.truncate(3);
    changes.extend(names.iter().map(|name| function(NAMES[*name], spec(*name, true))));
    rig.apply(&changes);
    rig.host.start().expect("threads");
    rig
}

/// A snapshot as the folder has it for the next process.
fn written_and_read(saved: &Saved<'static>) -> Saved<'static> {
    let encoded = saved.encode().expect("it was saved");
    Saved::decode(&encoded).expect("it is whole").into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn what_is_restored_is_on_both_sides_of_the_account(steps in prop::collection::vec(step(), 1..30)) {
        let mut rig = Rig::new(1);
        let mut changes = chain();
        changes[3] = function("f", spec(0, true));
        rig.apply(&changes);
        rig.host.start().expect("threads");
        let mut snapshots = vec![rig.host.save("f").expect("it can be saved")];
        for step in steps {
            let there = |name: usize| rig.host.function(NAMES[name]).is_some();
            match step {
                Step::Turn(times) => std::thread::sleep(Duration::from_micros(200) * u32::from(times)),
                Step::Save(name) => {
                    if let Ok(saved) = rig.host.save(NAMES[name]) {
                        snapshots.push(saved);
                    }
                }
                Step::Restore { name, from, paused, forged } => {
                    let saved = &snapshots[from % snapshots.len()];
                    let saved = forged.map_or_else(|| saved.clone(), |forged| forge(saved, forged));
                    // It goes on with the configuration that it was saved with.
                    let accept = saved.identity.config == snapshots[0].identity.config;
                    let change = function(NAMES[name], spec(name, accept));
                    let beginning = Beginning { paused, saved: Some(saved) };
                    rig.apply_with(&[change], [(NAMES[name].to_owned(), beginning)].into());
                }
                Step::Upgrade { name, back } if there(name) => {
                    let before = rig.host.instance(NAMES[name]).expect("it is there");
                    let plan = |accept| rig.check(&[function(NAMES[name], spec(name, accept))]);
                    let other = [true, false].into_iter().find_map(|accept| {
                        plan(accept).ok()?.add_instances.get(NAMES[name]).cloned()
                    });
                    if let Some(other) = other
                        && let Ok(taken) = rig.host.take_over(NAMES[name], &other, &rig.catalog)
                    {
                        rig.account();
                        std::thread::sleep(Duration::from_micros(200));
                        if back {
                            rig.host.roll_back(taken).expect("it takes over again");
                            prop_assert_eq!(rig.host.instance(NAMES[name]), Some(before));
                        }
                    }
                }
                Step::Restart(name) if there(name) => {
                    rig.host.restart(NAMES[name], &rig.catalog).expect("it starts");
                }
                Step::Pause(name, paused) => {
                    rig.host.set_paused(NAMES[name], paused).expect("it has not stopped");
                }
                Step::Freeze => drop(rig.host.freeze_paused(Duration::ZERO, NAMES.len())),
                Step::Remove(name) if there(name) => drop(rig.apply(&[delete(Kind::Function, NAMES[name])])),
                Step::Kill => {
                    let names: Vec<usize> = (0..NAMES.len()).filter(|name| there(*name)).collect();
                    rig = begun_anew(rig, &names);
                    snapshots = snapshots.iter().map(written_and_read).collect();
                }
                Step::Upgrade { .. } | Step::Restart(_) | Step::Remove(_) => {}
            }
            // Looked at twice: what is taken in one look is not taken again.
            rig.account();
            let account = rig.account();
            prop_assert!(account.ledger.generated < 1 << 32, "no more than there was: {:?}", account.ledger);
        }
        for name in NAMES {
            if rig.host.function(name).is_some() {
                rig.apply(&[delete(Kind::Function, name)]);
            }
        }
        let account = rig.account();
        for instance in &account.instances {
            prop_assert_eq!(instance.in_flight, 0);
        }
        rig.host.stop().expect("it had not stopped").balance().expect("balanced");
    }
}
