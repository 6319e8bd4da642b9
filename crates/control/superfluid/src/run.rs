//! `superfluid run`: starts the workers, shows them while they work, and gives the final account.

use crate::Outcome;
use crate::check;
use crate::cli::RunOptions;
use crate::end_signals;
use crate::event_json;
use crate::event_log::{EventLog, Written};
use crate::hop_capture::{self, Hops, Running, Wanted};
use crate::run_guests::{Known, RunGuests};
use crate::view::{self, View};
use capture::Summary;
use controller::{
    Shares, concerns_ports, container_events, end_failed, follow_active, keep_queues, keeper_name,
    port_looks, wanted_containers,
};
use deployment::{Catalog, EventQueue, Host, Turn};
use engine::{Account, Balanced, Balancer, Event, Fleet, InstanceAccount, Reason};
use launcher::Keeper;
use launcher::keeper::{Whose, Why};
use metrics::json::ContainerAccount;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use telemetry::DropReason;
use telemetry::clock::Moment;
use wiring::{Plan, PortIo, Wiring};

/// How often it is asked whether there is nothing left, when ports may come to their end.
const FINISHED_CHECK: Duration = Duration::from_millis(20);

/// Drivers of ports that may have nothing more to give at some time.
const ENDING: [&str; 2] = ["generator", "pcap"];

/// How long the launcher may take to end the containers.
const CONTAINERS_END: Duration = Duration::from_secs(10);

/// What is at work.
struct Working {
    fleet: Arc<Fleet>,
    balancer: Option<Balancer>,
    /// There are ports that may come to their end.
    may_end: bool,
    /// Which function is paused or goes on at which time, the first one last.
    pauses: Vec<Turn>,
    sender: Sender<Message>,
    queue: EventQueue,
}

/// What the main thread waits for.
enum Message {
    Event(Event),
    Interrupted,
    Ended(Option<Box<Account>>),
}

pub(crate) fn run(options: &RunOptions) -> Outcome {
    let Some(loaded) = check::load(&options.file) else { return Outcome::BadInput };
    let mut refused = loaded.refused_by_launcher(&options.launcher);
    refused.extend(loaded.names_taken(&options.launcher, &keeper_name(&options.file)));
    if !refused.is_empty() {
        return check::refuse(&loaded.name, &refused);
    }
    let check::Loaded { wiring, catalog, .. } = loaded;
    let catalog = catalog
        .with_guest_sockets(&options.guest_sockets)
        .with_owner(launcher::owner_of(&keeper_name(&options.file)));
    let wanted = Wanted {
        hops: options.capture.clone(),
        filter: options.capture_filter.clone(),
        snap_length: options.capture_snap.unwrap_or(0),
        limit: options.capture_limit.unwrap_or(0),
    };
    let (hops, captures) = match hop_capture::begin(&wanted, &wiring, &catalog) {
        Ok(begun) => begun,
        Err(faults) => {
            for fault in &faults {
                console::error().line(&format!("{}: {fault}", options.file.display()));
            }
            return Outcome::BadInput;
        }
    };
    let (sender, messages) = channel();
    let (events, queue) = (sender.clone(), EventQueue::default());
    let (waiting, working_queue) = (queue.clone(), queue.clone());
    let tell = move |event| {
        if waiting.admit(&event) {
            // The receiver is gone only when the program ends.
            drop(events.send(Message::Event(event)));
        }
    };
    let host = Arc::new(match set_up(&wiring, &catalog, hops, options.perf_map, tell) {
        Ok(host) => host,
        Err(error) => {
            console::error().line(&format!("{}: {error}", options.file.display()));
            return Outcome::BadInput;
        }
    });
    let files = wiring.instances.iter().filter_map(|(name, instance)| {
        instance.events.as_ref().map(|path| (name.clone(), catalog.path(path)))
    });
    let event_log = match EventLog::open(&files.collect()) {
        Ok(log) => log,
        Err((function, reason)) => {
            console::error().line(&format!("{}: function `{function}`: {reason}", options.file.display()));
            return Outcome::BadInput;
        }
    };
    let interrupts = sender.clone();
    if let Err(error) = end_signals::watch(move || drop(interrupts.send(Message::Interrupted))) {
        console::error().line(&format!("signals: {error}"));
        return Outcome::Failed;
    }
    if let Err(error) = host.start() {
        console::error().line(&format!("starting the workers: {error}"));
        return Outcome::Failed;
    }
    let keeper = match keep_containers(options, &wiring, &host, &catalog, &sender, &working_queue) {
        Ok(keeper) => keeper,
        Err(error) => {
            console::error().line(&format!("containers: {error}"));
            return Outcome::Failed;
        }
    };
    let mut balancer = host.balancer();
    for (name, worker) in wiring.homes() {
        if let (Some(balancer), Some(instance)) = (balancer.as_mut(), host.function(name)) {
            balancer.pin(instance, worker);
        }
    }
    let may_end = wiring.ports.values().any(|port| ENDING.contains(&port.driver.as_str()));
    let (fleet, pauses) = (host.fleet().clone(), host.turns());
    let working = Working { fleet, balancer, pauses, may_end, sender, queue };
    let guests = RunGuests::new(&host, &wiring, keeper.as_ref());
    let Ended { account, since, written, captured, containers, down } =
        watch(options, working, &guests, &messages, event_log, captures);
    let containers =
        account.as_ref().map(|account| guests.at_the_end(account, containers)).unwrap_or_default();
    drop(guests);
    if let Some((keeper, known)) = keeper {
        known.goes_on.store(false, Relaxed);
        keeper.end(CONTAINERS_END);
    }
    let Some(account) = account else {
        console::error().line("the workers ended without an account");
        return Outcome::Failed;
    };
    if options.json {
        for (function, path, written) in &written {
            console::output()
                .line(&printable::json(&event_json::events_written(function, path, written).to_string()));
        }
        for (hop, summary) in &captured {
            console::output().line(&printable::json(&event_json::captured(hop, summary).to_string()));
        }
        console::output().line(&printable::json(&metrics::json::account("final", &account, &containers)));
    } else {
        let (events, captures) = (view::events_written(&written), view::captured(&captured));
        let all = view::final_account(&account, (&containers, since.unwrap_or(account.at)), options.brief);
        console::output().write(format!("{all}{events}{captures}"));
    }
    outcome(&account, down)
}

/// Begins to keep the containers of a wiring, if it has any; the launcher ends them with the run.
fn keep_containers(
    options: &RunOptions,
    wiring: &Wiring,
    host: &Arc<Host>,
    catalog: &Catalog,
    sender: &Sender<Message>,
    queue: &EventQueue,
) -> std::io::Result<Option<(Arc<Keeper>, Known)>> {
    if wiring.containers.is_empty() {
        return Ok(None);
    }
    let (sender, queue) = (sender.clone(), queue.clone());
    let look_at_ports = Arc::new(port_looks(host.fleet().clone())?);
    let look_at_active = look_at_ports.clone();
    let (active_sender, active_queue) = (sender.clone(), queue.clone());
    let taps = catalog.taps().clone();
    // What is there stays as it is: no name becomes another tenant's.
    let tell = move |Whose { name, guest, .. }: Whose<'_>, happened| {
        keep_queues(&taps, guest, &happened);
        if concerns_ports(&happened) {
            look_at_ports();
        }
        for event in
            container_events(name, happened, Why::to_string).into_iter().filter(|event| queue.admit(event))
        {
            // The receiver is gone only when the program ends.
            drop(sender.send(Message::Event(event)));
        }
    };
    // Images in registries are for the daemon, which the catalog has said.
    let wanted = wanted_containers(wiring, catalog, |_, _| None);
    let keeper = Arc::new(Keeper::begin(&options.launcher, &keeper_name(&options.file), wanted, tell)?);
    let guests = catalog.active_guests().clone();
    keeper.tell_of_active(move |active| {
        let event = follow_active(&guests, &active);
        look_at_active();
        if let Some(event) = event.filter(|event| active_queue.admit(event)) {
            drop(active_sender.send(Message::Event(event)));
        }
    })?;
    let weak = Arc::downgrade(&keeper);
    catalog.when_guests_fail(move |failed| {
        if let Some(keeper) = weak.upgrade() {
            end_failed(&keeper, &failed);
        }
    });
    let known = Known { goes_on: Arc::new(AtomicBool::new(true)), ..Known::default() };
    let (mut shares, promised) = (Shares::new(&options.launcher), known.promised.clone());
    look_after("shares", host, &keeper, &known, move |host, keeper| {
        let pause = shares.look(host, keeper);
        promised.lock().unwrap_or_else(PoisonError::into_inner).clone_from(shares.promised());
        pause
    })?;
    let (attaching, processes) = (known.attaching.clone(), catalog.processes().clone());
    look_after("attaching", host, &keeper, &known, move |host, keeper| {
        attaching.look(host, keeper, &processes)
    })?;
    Ok(Some((keeper, known)))
}

/// Looks after containers by a thread of its own, for as long as is said; each look says when the next one is
/// due.
fn look_after(
    name: &str,
    host: &Arc<Host>,
    keeper: &Arc<Keeper>,
    known: &Known,
    mut look: impl FnMut(&Host, &Keeper) -> Duration + Send + 'static,
) -> std::io::Result<()> {
    let (host, keeper, goes_on) = (Arc::downgrade(host), Arc::downgrade(keeper), known.goes_on.clone());
    let looking = std::thread::Builder::new().name(name.into()).spawn(move || {
        while goes_on.load(Relaxed) {
            let (Some(host), Some(keeper)) = (host.upgrade(), keeper.upgrade()) else { return };
            let pause = look(&host, &keeper);
            drop((host, keeper));
            std::thread::sleep(pause);
        }
    });
    looking.map(drop)
}

/// How a run ended: with [`Outcome::Failed`] when a function was down at the end, when one lost every packet
/// that it was given, or when the account does not balance. Each reason is a line on standard error.
fn outcome(account: &Account, guests: Vec<String>) -> Outcome {
    let mut failures: Vec<String> = account.instances.iter().filter_map(failure).chain(guests).collect();
    if let Err(imbalance) = account.balance() {
        failures
            .push(format!("the account does not balance: {imbalance}; this is a defect, please report it"));
    }
    for failure in &failures {
        console::error().line(failure);
    }
    if failures.is_empty() { Outcome::Done } else { Outcome::Failed }
}

/// Why a function did not do its work, if it did not.
fn failure(function: &InstanceAccount) -> Option<String> {
    let InstanceAccount { name, faults, packets, ledger, down, .. } = function;
    // A call that the end of the run cut off is not a fault.
    if let Some(reason) = down.as_ref().filter(|_| *faults > 0) {
        return Some(format!("function {name}: it was down at the end: {reason}"));
    }
    let trapped = ledger.dropped[DropReason::FunctionTrapped];
    let lost = trapped + ledger.dropped[DropReason::FunctionDown];
    (lost > 0 && trapped >= *packets).then(|| {
        format!("function {name}: it lost every packet that it was given: {lost}, in {faults} faults")
    })
}

/// A host that does what a wiring says, the packets of hops shown to recorders; its workers have no threads
/// yet.
///
/// # Errors
/// Why not, in words for the operator; whatever was opened is closed again.
fn set_up(
    wiring: &Wiring,
    catalog: &Catalog,
    hops: Hops,
    perf_map: bool,
    tell: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Host, String> {
    let io = wiring.ports.values().any(|port| port.io == PortIo::Thread);
    let host = Host::new(&wiring.workers, io, tell).map_err(|error| error.to_string())?;
    if perf_map {
        console::error().line(&format!("notice: {}", host.workshop().write_perf_map()?));
    }
    let plan = Plan::between(&host.wiring(), wiring);
    let prepared = host.prepare(plan, HashMap::new(), catalog).map_err(|error| error.to_string())?;
    let done = host.carry_out(prepared).map_err(|error| error.to_string())?;
    if let Some(trouble) = done.troubles.first() {
        return Err(trouble.clone());
    }
    for (hop, recorder) in hops {
        hop.record(&host, catalog, &recorder)?;
    }
    for notice in host.take_notices() {
        console::error().line(&format!("notice: {notice}"));
    }
    Ok(host)
}

/// What is left when the workers have ended.
struct Ended {
    account: Option<Account>,
    /// When it began.
    since: Option<Moment>,
    /// What became of events and captures.
    written: Vec<(String, PathBuf, Written)>,
    captured: Vec<(String, Summary)>,
    /// What the launcher runs, as it was before they ended, and what of it was down: with its ports it may
    /// end, too.
    containers: Vec<ContainerAccount>,
    down: Vec<String>,
}

/// Shows the workers until they have ended.
fn watch(
    options: &RunOptions,
    working: Working,
    guests: &RunGuests,
    messages: &Receiver<Message>,
    mut event_log: EventLog,
    mut captures: Vec<Running>,
) -> Ended {
    let Working { fleet, mut balancer, mut pauses, may_end, sender, queue } = working;
    let mut view = View::new(options.json);
    view.started(&options.file);
    // Programs may add the numbers up; a table stops no worker.
    let account = || if options.json { fleet.account(false) } else { fleet.survey() };
    let mut since = None;
    if let Ok(account) = account() {
        since = Some(account.at);
        let containers = guests.accounts(&account);
        view.begin(account, containers);
    }
    let began = Instant::now();
    let mut next = began + options.every;
    let until = options.time.map(|time| began + time);
    let mut next_look = began;
    let (mut stopping, mut next_check, mut lost) = (false, began, 0);
    let (mut down, mut containers) = (Vec::new(), Vec::new());
    let mut stop = || {
        down = guests.failures();
        containers = fleet.survey().map(|account| guests.accounts(&account)).unwrap_or_default();
        let (fleet, sender) = (fleet.clone(), sender.clone());
        let stopper = std::thread::Builder::new().name("stopping".into());
        // What is on its way may take its time; the view goes on meanwhile.
        stopper.spawn(move || drop(sender.send(Message::Ended(fleet.stop().ok().map(Box::new))))).is_ok()
    };
    loop {
        let mut wake = until.filter(|_| !stopping).map_or(next, |until| until.min(next));
        if let Some(turn) = pauses.last() {
            wake = wake.min(began + Duration::from(turn.at));
        }
        if balancer.is_some() && !stopping {
            wake = wake.min(next_look);
        }
        if may_end && !stopping {
            wake = wake.min(next_check);
        }
        match messages.recv_timeout(wake.saturating_duration_since(Instant::now())) {
            Ok(Message::Ended(account)) => {
                // What was told before they ended is shown before their account.
                while let Ok(Message::Event(event)) = messages.try_recv() {
                    lost += queue.taken(&event);
                    tell(event, &mut view, &mut event_log);
                }
                if lost > 0 {
                    console::error()
                        .line(&format!("{lost} events were lost: they came faster than they were shown"));
                }
                let (account, written) = (account.map(|account| *account), event_log.finish());
                return Ended { account, since, written, captured: finish(captures), containers, down };
            }
            Ok(Message::Event(event)) => {
                lost += queue.taken(&event);
                tell(event, &mut view, &mut event_log);
            }
            Ok(Message::Interrupted) => {
                if !stopping {
                    view.say("stopping: what is on its way is delivered first");
                    stopping = stop();
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if until.is_some_and(|until| Instant::now() >= until) && !stopping {
                    stopping = stop();
                }
                for running in captures.iter_mut().filter(|running| !running.told) {
                    if let Some(why) = running.capture.ended() {
                        running.told = true;
                        view.say(&format!("the capture at {} has ended: {why}", running.hop));
                    }
                }
                while let Some(turn) = pauses.pop_if(|turn| Instant::now() >= began + Duration::from(turn.at))
                {
                    // Workers that have stopped need not be told.
                    let _ =
                        if turn.pauses { fleet.pause(turn.instance) } else { fleet.resume(turn.instance) };
                }
                if let Some(balancer) = balancer.as_mut().filter(|_| !stopping && Instant::now() >= next_look)
                {
                    if let Some(balanced) = balancer.look(&fleet) {
                        view.say(&moved(&balanced));
                    }
                    next_look = Instant::now() + balancer.pause();
                }
                if Instant::now() >= next {
                    next += options.every.max(Duration::from_millis(10));
                    let account = fleet.sweep_switches().and_then(|()| account());
                    if let (false, Ok(account)) = (stopping, account) {
                        let containers = guests.accounts(&account);
                        view.show(account, containers);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let (written, captured) = (event_log.finish(), finish(captures));
                return Ended { account: None, since, written, captured, containers, down };
            }
        }
        if may_end && !stopping && Instant::now() >= next_check {
            next_check = Instant::now() + FINISHED_CHECK;
            if fleet.finished().unwrap_or(false) {
                view.finished();
                stopping = stop();
            }
        }
    }
}

/// What there is to say of a move.
fn moved(balanced: &Balanced) -> String {
    let Balanced { names, to, why, stood_still } = balanced;
    let why = match why {
        Reason::Relief => "the other one is short of time",
        Reason::Cut => "one worker alone cannot do all of its chain",
        Reason::Join => "it fits together with its chain again",
        Reason::Help => "it had time to spare while the other one had none",
    };
    let us = stood_still.0 as f64 / 1e3;
    format!("moved to worker {to} in {us:.0} us, because {why}: {}", names.join(", "))
}

/// Shows an event, or appends what a function found to its file.
fn tell(event: Event, view: &mut View, event_log: &mut EventLog) {
    match event {
        Event::Found { instance, events } => {
            if let Err(events) = event_log.take(&instance, events) {
                view.event(&Event::Found { instance, events });
            }
        }
        event => view.event(&event),
    }
}

/// The workers have ended, and with them the recorders.
fn finish(captures: Vec<Running>) -> Vec<(String, Summary)> {
    captures.into_iter().map(|running| (running.hop, running.capture.finish())).collect()
}
