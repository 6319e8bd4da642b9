//! A book against a launcher that is played here, with a time of its own.

use super::book::{Action, Book};
use super::{Happened, Phase, Queues, Wanted, Why};
use crate::request::{Ended, Failure, Guest, Kill, Limits, Listed, Request, Start, State};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(100);

fn start(name: &str, tenant: &str) -> Start {
    Start {
        name: name.into(),
        tenant: tenant.into(),
        guest: crate::GuestKind::Container,
        sockets_of: None,
        image: "/srv/images/a".into(),
        digest: None,
        command: Vec::new(),
        interfaces: Vec::new(),
        mounts: BTreeMap::new(),
        limits: Limits { memory: 32 << 20, weight: 100, cap: None, processes: 16, files: 64 },
        beside: None,
        kvm: crate::KvmUse::No,
        probe: None,
        mark: None,
    }
}

fn wanted(starts: &[Start]) -> BTreeMap<String, Wanted> {
    let wanted = |start: &Start| Wanted { start: start.clone(), first_delay: FIRST, longest_delay: LONGEST };
    starts.iter().map(|start| (start.name.clone(), wanted(start))).collect()
}

/// A launcher that does what it is asked, and the keeper's book.
struct Play {
    book: Book,
    version: u64,
    guests: BTreeMap<String, Guest>,
    now: Instant,
    /// What was asked, in words.
    asked: Vec<String>,
    happened: Vec<(String, Happened)>,
    /// How often interfaces were said to have come.
    attached: usize,
}

impl Play {
    fn new(starts: &[Start]) -> Play {
        let (now, guests) = (Instant::now(), BTreeMap::new());
        let mut book = Book::new("here");
        book.want(wanted(starts), now);
        Play { book, version: 0, guests, now, asked: Vec::new(), happened: Vec::new(), attached: 0 }
    }

    fn want(&mut self, starts: &[Start]) {
        self.book.want(wanted(starts), self.now);
    }

    fn list(&mut self) {
        self.version += 1;
        let listed = Listed { version: self.version, guests: self.guests.values().cloned().collect() };
        let happened = self.book.take(listed, self.now);
        let (attached, others): (Vec<_>, Vec<_>) =
            happened.into_iter().partition(|(_, it)| *it == Happened::Attached(Queues::default()));
        self.attached += attached.len();
        self.happened.extend(others);
    }

    fn end(&mut self, name: &str, ended: Ended) {
        self.guests.get_mut(name).expect("it is there").state = State::Ended(ended);
        self.list();
    }

    fn carry_out(&mut self, action: &Action) {
        let name = action.name.clone();
        match &action.request {
            Request::Start(start) => {
                let state = State::Running { pid: 7 };
                let (tenant, mark) = (start.tenant.clone(), start.mark.clone());
                let guest = Guest {
                    name: name.clone(),
                    tenant,
                    state,
                    mark,
                    memory: Some(5),
                    killed_for_memory: 0,
                    cpu_us: Some(6),
                    began: Some(self.version),
                    ready: true,
                    log: Vec::new(),
                    log_lost: 0,
                };
                let before = self.guests.insert(name.clone(), guest);
                assert!(
                    before.is_none_or(|guest| matches!(guest.state, State::Ended(_))),
                    "{name} runs already"
                );
                self.asked.push(format!("start {name}"));
            }
            Request::Stop(stop) => {
                assert!(self.guests.remove(&stop.name).is_some(), "{name} is not there");
                self.asked.push(format!("stop {name}"));
            }
            Request::Kill(kill) => {
                self.asked.push(format!("kill {} by {}", kill.name, kill.pid));
                // Which one of those that stand by each other has the process, the launcher knows.
                let runs = |guest: &&mut Guest| guest.state == State::Running { pid: kill.pid };
                let of = |guest: &&mut Guest| super::first_of(&guest.name) == kill.name;
                if let Some(guest) = self.guests.values_mut().filter(of).find(runs) {
                    guest.state = State::Ended(Ended::Failed(kill.failure));
                }
            }
            Request::Limit(limit) => self.asked.push(format!("limit {name} to {}", limit.limits.memory)),
            Request::List(_) | Request::Share(_) | Request::Queues(_) | Request::Check(_) => {
                panic!("nothing that changes anything")
            }
        }
        self.book.done(action);
    }

    /// Does all that is due, and says what was asked.
    fn turn(&mut self) -> Vec<String> {
        while let Some(action) = self.book.due(self.now, &[]) {
            self.carry_out(&action);
            self.list();
        }
        std::mem::take(&mut self.asked)
    }

    fn pass(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.turn()
    }

    fn down(&self, name: &str) -> Option<String> {
        match self.book.condition(name).expect("it is wanted").phase {
            Phase::Runs => None,
            Phase::Starting(why) => Some(format!("starting: {why}")),
            Phase::Down(why) => Some(why.to_string()),
        }
    }
}

#[test]
fn what_is_wanted_is_started_when_it_is_known_what_there_is() {
    let mut play = Play::new(&[start("a", "red"), start("b", "red")]);
    assert!(play.turn().is_empty());
    assert_eq!(play.down("a").as_deref(), Some("starting: the launcher has not answered yet"));
    play.list();
    assert_eq!(play.turn(), ["start a", "start b"]);
    assert_eq!((play.down("a"), play.turn(), play.happened.len()), (None, vec![], 0));
    let condition = play.book.condition("a").expect("it is there");
    assert_eq!((condition.memory, condition.cpu_us, condition.faults), (5, 6, 0));
    play.want(&[start("b", "red")]);
    assert_eq!(play.turn(), ["stop a"]);
}

#[test]
fn one_is_starting_until_it_runs_and_down_when_it_has_ended() {
    let mut play = Play::new(&[start("a", "red")]);
    let begin = play.now;
    play.now += FIRST;
    play.list();
    let of = |play: &Play| {
        let condition = play.book.condition("a").expect("it is wanted");
        (condition.phase, condition.since)
    };
    let starting = |text: &str| Phase::Starting(Why::own(text));
    assert_eq!(of(&play), (starting("it waits to be started"), Some(begin)));
    let action = play.book.due(play.now, &[]).expect("due");
    play.carry_out(&action);
    play.guests.get_mut("a").expect("it is there").state = State::Starting;
    let asked = play.now;
    play.now += FIRST;
    play.list();
    assert_eq!(of(&play), (starting("it is being started"), Some(asked)));
    play.guests.get_mut("a").expect("it is there").state = State::Running { pid: 7 };
    play.list();
    let runs = play.now;
    play.now += LONGEST;
    play.list();
    assert_eq!(of(&play), (Phase::Runs, Some(runs)));
    play.end("a", Ended::Signal(9));
    let ended = play.now;
    assert_eq!(of(&play), (Phase::Down(Why::own("signal 9 ended it")), Some(ended)));
    play.now += FIRST;
    assert!(play.book.due(play.now, &[]).is_some());
    play.guests.get_mut("a").expect("it is there").state = State::Starting;
    play.list();
    let before = Why::own("signal 9 ended it").behind("it is being started; before, ");
    assert_eq!(of(&play), (Phase::Starting(before), Some(play.now)));
    play.book.lost("it is gone");
    assert_eq!(of(&play), (Phase::Down(Why::launcher("it is gone")), None));
}

#[test]
fn interfaces_that_come_are_told_once_for_each_start() {
    let mut wired = start("a", "red");
    wired.interfaces = vec![crate::Interface {
        name: "eth0".into(),
        kind: crate::InterfaceKind::Veth,
        outer: "sfg-a".into(),
        addresses: Vec::new(),
        gateways: Vec::new(),
        mtu: None,
        mac: None,
    }];
    let mut play = Play::new(&[wired, start("b", "red")]);
    play.list();
    play.turn();
    for _ in 0..3 {
        play.end("a", Ended::Status(0));
        play.pass(LONGEST);
    }
    let running = play.guests["a"].state.clone();
    play.guests.get_mut("a").expect("it is there").state = State::Ended(Ended::Status(0));
    play.list();
    for state in [State::Starting, State::Attached, State::Attached, running] {
        play.guests.get_mut("a").expect("it is there").state = state;
        play.list();
        play.list();
    }
    assert_eq!(play.attached, 5, "once for each of five starts");
}

#[test]
fn one_that_ends_is_started_again_after_delays_that_grow_and_begin_anew() {
    let mut play = Play::new(&[start("a", "red")]);
    play.list();
    play.turn();
    let mut delays = Vec::new();
    for _ in 0..6 {
        play.end("a", Ended::Status(3));
        let Some((_, Happened::Ended { reason, again, .. })) = play.happened.pop() else {
            panic!("not told")
        };
        assert_eq!(reason, Why::own("it ended with status 3"));
        assert_eq!(play.down("a").as_deref(), Some("it ended with status 3"));
        assert!(play.turn().is_empty(), "before its time");
        assert_eq!(play.book.next(play.now), Some(again));
        delays.push(again.as_millis());
        assert_eq!(play.pass(again), ["start a"]);
        assert_eq!(play.happened.pop(), Some(("a".to_owned(), Happened::Restarted)));
    }
    assert_eq!(delays, [10, 20, 40, 80, 100, 100]);
    let condition = play.book.condition("a").expect("it is there");
    assert_eq!((condition.faults, condition.restarts), (6, 6));
    play.pass(LONGEST);
    play.end("a", Ended::Signal(9));
    assert_eq!(play.book.next(play.now), Some(FIRST), "it had run for long");
}

#[test]
fn a_refusal_is_tried_again_and_told_once() {
    let mut play = Play::new(&[start("a", "red")]);
    play.list();
    for first in [true, false, false] {
        let action = play.book.due(play.now, &[]).expect("due");
        let told = play.book.refused(&action, Why::refused("image: lies elsewhere"), play.now);
        assert_eq!(told.is_some(), first);
        assert_eq!(play.down("a").as_deref(), Some("image: lies elsewhere"));
        assert_eq!(play.book.due(play.now, &[]), None, "before its time");
        play.now += LONGEST;
    }
}

#[test]
fn another_start_is_another_container_and_other_limits_are_not() {
    let mut play = Play::new(&[start("a", "red")]);
    play.list();
    play.turn();
    let mut more = start("a", "red");
    more.limits.memory = 64 << 20;
    play.want(std::slice::from_ref(&more));
    assert_eq!(play.turn(), ["limit a to 67108864"]);
    more.command = vec!["/bin/b".into()];
    play.want(&[more]);
    assert_eq!(play.turn(), ["stop a", "start a"]);
    assert_eq!(play.happened, [], "nothing of it is a fault");
    assert!(play.book.restart("a", play.now) && !play.book.restart("b", play.now));
    assert_eq!(play.turn(), ["stop a", "start a"]);
    assert_eq!(play.book.condition("a").map(|it| it.faults), Some(0));
}

#[test]
fn the_next_keeper_goes_on_with_what_it_finds_and_leaves_others_alone() {
    let mut play = Play::new(&[start("a", "red"), start("b", "red")]);
    play.list();
    play.turn();
    for (name, mark) in [("c", Some("elsewhere 0123456789abcdef")), ("d", None), ("e", Some("here"))] {
        let guest = Guest { name: name.into(), mark: mark.map(str::to_owned), ..play.guests["a"].clone() };
        play.guests.insert(name.into(), guest);
    }
    play.book = Book::new("here");
    play.want(&[start("a", "red"), start("c", "red"), start("d", "red")]);
    play.list();
    // What it has asked for limits, the next one does not know.
    assert_eq!(play.turn(), ["stop b", "limit a to 33554432"]);
    assert_eq!(play.down("a"), None);
    for name in ["c", "d"] {
        let told = play.down(name).expect("another's");
        assert!(told.contains("another client has started") && told.contains("allowed:"), "{told}");
    }
}

#[test]
fn tenants_wait_for_their_own_only_and_a_launcher_that_is_gone_is_asked_nothing() {
    let mut play = Play::new(&[start("a", "red"), start("b", "red"), start("c", "blue")]);
    play.list();
    let first = play.book.due(play.now, &[]).expect("due");
    assert_eq!((&*first.name, &*first.tenant), ("a", "red"));
    assert_eq!(play.book.due(play.now, &["red".into()]).map(|it| it.name).as_deref(), Some("c"));
    assert_eq!(play.book.due(play.now, &["red".into(), "blue".into()]), None);
    let told = play.book.lost("it is gone");
    assert_eq!(told.len(), 3);
    assert_eq!(told[0], ("a".to_owned(), Happened::Noticed(Why::launcher("it is gone"))));
    assert_eq!(play.book.lost("it is gone"), [], "it is known");
    assert_eq!((play.book.due(play.now, &[]), play.down("a").as_deref()), (None, Some("it is gone")));
    // The one after it counts its versions anew.
    play.version = 0;
    play.list();
    assert_eq!(play.turn().len(), 3);
}

#[test]
fn whatever_happens_what_is_wanted_runs_in_the_end() {
    for seed in 1..200_u64 {
        let mut state = seed;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let names = ["a", "b", "c", "d"];
        let tenants = ["red", "blue"];
        let mut play = Play::new(&[]);
        let mut last = Vec::new();
        for _ in 0..40 {
            match random(6) {
                0 => {
                    last = Vec::new();
                    for name in names {
                        if random(2) == 0 {
                            continue;
                        }
                        let mut start = start(name, tenants[random(2) as usize]);
                        start.limits.weight = 1 + random(2) as u32;
                        start.command = vec![random(2).to_string()];
                        last.push(start);
                    }
                    play.want(&last);
                }
                1 => {
                    let running: Vec<String> = play.guests.keys().cloned().collect();
                    if let Some(name) = running.get(random(4) as usize) {
                        play.guests.get_mut(name).expect("it is there").state = State::Ended(Ended::Unknown);
                    }
                }
                2 => play.list(),
                3 => drop(play.book.lost("gone")),
                4 => {
                    if let Some(action) = play.book.due(play.now, &[]) {
                        if random(3) == 0 {
                            play.book.refused(&action, Why::refused("no"), play.now);
                        } else if random(3) == 0 {
                            play.book.put_off(&action, "gone", play.now + FIRST);
                        } else {
                            play.carry_out(&action);
                        }
                        play.list();
                    }
                }
                _ => play.now += Duration::from_millis(random(50)),
            }
        }
        for _ in 0..20 {
            play.list();
            play.pass(LONGEST);
        }
        let running = play.guests.values().filter(|it| matches!(it.state, State::Running { .. }));
        let running: Vec<&str> = running.map(|guest| guest.name.as_str()).collect();
        let wanted: Vec<&str> = last.iter().map(|start| start.name.as_str()).collect();
        assert_eq!(running, wanted, "seed {seed}");
        assert!(wanted.iter().all(|name| play.down(name).is_none()), "seed {seed}");
    }
}

#[test]
fn a_tenant_has_so_many_starts_whatever_asks_for_them_and_another_one_does_not_wait() {
    let mut play = Play::new(&[start("a", "red"), start("b", "blue")]);
    play.list();
    play.turn();
    let mut starts = 0;
    // It is asked for anew all the time, for a little less than ten seconds.
    for _ in 0..9_900 {
        assert!(play.book.restart("a", play.now));
        starts += play.pass(Duration::from_millis(1)).iter().filter(|asked| *asked == "start a").count();
    }
    assert!((45..=53).contains(&starts), "{starts}");
    let next = play.book.next(play.now).expect("it waits");
    assert!(next <= Duration::from_millis(500), "{next:?}");
    assert!(play.down("a").is_some());
    play.end("b", Ended::Status(0));
    assert_eq!(play.pass(FIRST), ["start b"]);
    assert_eq!(play.pass(next.saturating_sub(FIRST)), ["start a"], "and when its time has come, it");
}

#[test]
fn those_that_end_again_and_again_leave_others_of_their_tenant_their_turns() {
    let starts = ["a", "b", "z"].map(|name| start(name, "red"));
    let mut play = Play::new(&starts[..2]);
    play.list();
    play.turn();
    let end_all = |play: &mut Play| {
        let runs = |guest: &&Guest| matches!(guest.state, State::Running { .. });
        let names: Vec<String> = play.guests.values().filter(runs).map(|guest| guest.name.clone()).collect();
        names.iter().for_each(|name| play.end(name, Ended::Status(1)));
    };
    for _ in 0..40 {
        end_all(&mut play);
        play.pass(LONGEST);
    }
    play.want(&starts);
    let mut asked = Vec::new();
    for _ in 0..4 {
        end_all(&mut play);
        asked.extend(play.pass(Duration::from_millis(500)));
    }
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(asked.contains(&"start z".to_owned()), "{asked:?}");
}

#[test]
fn guests_that_stand_by_are_one_with_the_first() {
    let by = super::stands_by("a", 1);
    let other = start("ab", "red");
    let mut play = Play::new(&[start("a", "red"), start(&by, "red"), other]);
    play.list();
    assert_eq!(play.pass(FIRST), ["start a", "start a.1", "start ab"]);
    let of = |play: &Play| play.book.condition("a").expect("it is wanted");
    assert_eq!((of(&play).memory, of(&play).phase), (10, Phase::Runs));
    assert_eq!((of(&play).processes, of(&play).since), (vec![7, 7], Some(play.now)));
    play.end("a", Ended::Signal(9));
    assert_eq!(of(&play).phase, Phase::Runs, "the other one runs");
    assert_eq!(of(&play).processes, [7]);
    assert_eq!(of(&play).faults, 1);
    play.end(&by, Ended::Signal(9));
    assert_eq!(of(&play).phase, Phase::Down(Why::own("signal 9 ended it")));
    assert_eq!((of(&play).faults, of(&play).processes), (2, vec![]));
    assert!(play.book.condition("ab").is_some_and(|it| it.phase == Phase::Runs));
    assert_eq!(play.pass(FIRST), ["start a", "start a.1"]);
    assert!(play.book.restart("a", play.now));
    assert_eq!(play.pass(FIRST)[..2], ["stop a", "stop a.1"]);
}

#[test]
fn one_that_failed_is_killed_and_started_again_as_after_a_death() {
    let mut play = Play::new(&[start("a", "red"), start("b", "red")]);
    play.list();
    play.turn();
    let hangs = Failure::Silent(2_100);
    let mut delays = Vec::new();
    // It fails again as soon as it has been started, and two ports of it say so.
    for _ in 0..6 {
        assert!(play.book.fail("a", 7, hangs) && play.book.fail("a", 7, hangs));
        assert_eq!(play.turn(), ["kill a by 7"]);
        let told = std::mem::take(&mut play.happened);
        let [.., (name, Happened::Ended { reason, again, .. })] = &told[..] else { panic!("{told:?}") };
        assert_eq!((&**name, reason), ("a", &Why::own("heartbeat missed: no sign of life for 2100 ms")));
        assert_eq!(play.down("a"), Some(reason.to_string()));
        delays.push(again.as_millis());
        // What was asked for twice, or too late, ends nothing else.
        assert!(play.book.fail("a", 7, hangs));
        assert_eq!(play.turn(), ["kill a by 7"]);
        assert_eq!((play.happened.len(), play.down("b")), (0, None));
        assert_eq!(play.pass(again.saturating_sub(Duration::from_millis(1))), [""; 0]);
        assert_eq!(play.pass(Duration::from_millis(1)), ["start a"]);
    }
    assert_eq!(delays, [10, 20, 40, 80, 100, 100], "as `restart` says");
    let condition = play.book.condition("a").expect("it is wanted");
    assert_eq!((condition.phase, condition.faults, condition.restarts), (Phase::Runs, 6, 6));
    // A tenant that is busy is asked for nothing else, one that is not wanted any more for nothing at all.
    assert!(play.book.fail("a", 7, Failure::CutOff));
    assert_eq!(play.book.due(play.now, &["red".into()]), None);
    play.want(&[start("b", "red")]);
    assert_eq!(play.turn(), ["stop a"]);
    assert!(!play.book.fail("a", 7, hangs));
    assert!(play.turn().is_empty());
}

#[test]
fn one_that_never_attaches_has_not_run_for_long_however_long_it_ran() {
    let by = super::stands_by("a", 1);
    let mut play = Play::new(&[start("a", "red"), start(&by, "red")]);
    play.list();
    play.turn();
    play.guests.get_mut(&by).expect("it runs").state = State::Running { pid: 8 };
    play.list();
    let running: Vec<(String, u32)> = play.book.processes().into_iter().collect();
    assert_eq!(running, [("a".to_owned(), 7), (by.clone(), 8)]);
    let kill =
        || Kill { name: "a".to_owned(), pid: 8, unless: vec![vec![7]], failure: Failure::Unattached(60_000) };
    let mut delays = Vec::new();
    for _ in 0..5 {
        play.now += 10 * LONGEST;
        assert!(play.book.kill(&by, kill()));
        assert_eq!(play.turn(), ["kill a by 8"]);
        let Some((name, Happened::Ended { reason, again, .. })) = play.happened.pop() else {
            panic!("not told")
        };
        let told = Why::own("it has not attached at all of its sockets within 60000 ms");
        assert_eq!((&*name, reason), (&*by, told));
        delays.push(again.as_millis());
        assert_eq!(play.pass(again), ["start a.1"]);
        play.guests.get_mut(&by).expect("it runs").state = State::Running { pid: 8 };
        play.list();
        play.happened.clear();
    }
    assert_eq!(delays, [10, 20, 40, 80, 100], "as `restart` says of those that end at once");
    assert_eq!(play.down("a"), None, "the other one runs");
    assert!(!play.book.kill("b", kill()), "it is not wanted");
}

#[test]
fn a_launcher_that_is_gone_is_asked_again_when_it_is_said_again() {
    let by = super::stands_by("a", 1);
    let mut play = Play::new(&[start("a", "red"), start(&by, "red")]);
    play.list();
    play.turn();
    play.guests.get_mut(&by).expect("it runs").state = State::Running { pid: 8 };
    play.list();
    assert!(play.book.fail("a", 8, Failure::CutOff));
    let action = play.book.due(play.now, &[]).expect("due");
    play.book.put_off(&action, "gone", play.now + LONGEST);
    assert!(play.turn().is_empty() && play.down("a").is_none());
    assert!(play.book.fail("a", 8, Failure::CutOff));
    assert_eq!(play.turn(), ["kill a by 8"]);
    let told = play.happened.iter().map(|(name, _)| &**name).collect::<Vec<_>>();
    assert_eq!((told, play.down("a")), (vec![&*by], None), "the other one runs");
}

#[test]
fn memory_that_is_short_is_told_once_and_what_it_ends_each_time() {
    let mut play = Play::new(&[start("a", "red")]);
    play.list();
    play.turn();
    let mut has = |mib: u64, killed| {
        let guest = play.guests.get_mut("a").expect("it runs");
        (guest.memory, guest.killed_for_memory) = (Some(mib << 20), killed);
        play.list();
        let told = std::mem::take(&mut play.happened).into_iter();
        let text = |happened| match happened {
            Happened::Noticed(why) => why.to_string(),
            other => format!("{other:?}"),
        };
        told.map(|(_, happened)| text(happened)).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(has(28, 0), "");
    assert_eq!(has(29, 0), "its memory is close to its limit: 29 of 32 MiB");
    assert_eq!(has(32, 0), "");
    assert_eq!(has(26, 0), "", "80 percent and more are still close");
    assert_eq!(has(31, 0), "");
    assert_eq!(has(10, 0), "");
    assert!(has(31, 0).contains("31 of 32 MiB"), "there was room between");
    assert!(has(31, 2).contains("the kernel ended 2 of its processes"));
    assert_eq!(has(31, 2), "");
    assert!(has(31, 3).contains("the kernel ended 1 of its processes"));
    play.end("a", Ended::Memory);
    let (_, Happened::Ended { reason, .. }) = &play.happened[0] else { panic!("{:?}", play.happened) };
    assert_eq!(reason, &Why::own("it needed more memory than its limit, and the kernel ended it"));
    // What the next one is told of is its own.
    play.happened.clear();
    assert_eq!(play.pass(LONGEST), ["start a"]);
    let guest = play.guests.get_mut("a").expect("it runs");
    guest.memory = Some(30 << 20);
    play.list();
    assert!(
        play.happened
            .iter()
            .any(|(_, it)| matches!(it, Happened::Noticed(why) if why.to_string().contains("30 of 32")))
    );
}
