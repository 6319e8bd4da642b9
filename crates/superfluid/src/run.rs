//! `superfluid run`: starts a worker, shows it while it works, and gives the final account.

use crate::Outcome;
use crate::check;
use crate::cli::RunOptions;
use crate::event_log::{EventLog, Written};
use crate::hop_capture::{self, Running, Wanted};
use crate::json;
use crate::launch::launch;
use crate::view::{self, View};
use capture::Summary;
use engine::{Account, Event, Remote};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What the main thread waits for.
enum Message {
    Event(Event),
    Interrupted,
    Ended(Box<Account>),
}

pub(crate) fn run(options: &RunOptions) -> Outcome {
    let Some((wiring, catalog)) = check::load(&options.file) else { return Outcome::BadInput };
    let wanted = Wanted {
        hops: options.capture.clone(),
        filter: options.capture_filter.clone(),
        snap_length: options.capture_snap.unwrap_or(0),
        limit: options.capture_limit.unwrap_or(0),
    };
    let (taps, captures) = match hop_capture::begin(&wanted, &wiring, &catalog) {
        Ok(begun) => begun,
        Err(faults) => {
            for fault in &faults {
                eprintln!("{}: {fault}", options.file.display());
            }
            return Outcome::BadInput;
        }
    };
    let (sender, messages) = channel();
    let events = sender.clone();
    // Whoever receives has gone only when the program ends.
    let launched = launch(&wiring, &catalog, taps, move |event| drop(events.send(Message::Event(event))));
    let launched = match launched {
        Ok(launched) => launched,
        Err(error) => {
            eprintln!("{}: {error}", options.file.display());
            return Outcome::BadInput;
        }
    };
    for notice in &launched.notices {
        eprintln!("notice: {notice}");
    }
    let files = wiring.instances.iter().filter_map(|(name, instance)| {
        instance.events.as_ref().map(|path| (name.clone(), catalog.path(path)))
    });
    let event_log = match EventLog::open(&files.collect()) {
        Ok(log) => log,
        Err((function, reason)) => {
            eprintln!("{}: function `{function}`: {reason}", options.file.display());
            return Outcome::BadInput;
        }
    };
    let interrupts = sender.clone();
    if let Err(error) = ctrlc::set_handler(move || drop(interrupts.send(Message::Interrupted))) {
        eprintln!("signals: {error}");
        return Outcome::Failed;
    }
    let remote = launched.worker.remote();
    let worker = launched.worker;
    let spawned = std::thread::Builder::new().name("worker-0".into()).spawn(move || {
        let account = worker.run();
        drop(sender.send(Message::Ended(Box::new(account))));
    });
    if let Err(error) = spawned {
        eprintln!("starting the worker: {error}");
        return Outcome::Failed;
    }
    let (account, written, captured) = watch(options, &remote, &messages, event_log, captures);
    let Some(account) = account else {
        eprintln!("the worker ended without an account");
        return Outcome::Failed;
    };
    if options.json {
        for (function, path, written) in &written {
            println!("{}", json::events_written(function, path, written));
        }
        for (hop, summary) in &captured {
            println!("{}", json::captured(hop, summary));
        }
        println!("{}", json::account("final", &account));
    } else {
        let (events, captures) = (view::events_written(&written), view::captured(&captured));
        print!("{}{events}{captures}", view::final_account(&account));
    }
    match account.balance() {
        Ok(()) => Outcome::Done,
        Err(imbalance) => {
            eprintln!("the account does not balance: {imbalance}; this is a defect, please report it");
            Outcome::Failed
        }
    }
}

/// What is left when the worker has ended: its account, and what became of events and captures.
type Ended = (Option<Account>, Vec<(String, PathBuf, Written)>, Vec<(String, Summary)>);

/// Shows the worker until it has ended.
fn watch(
    options: &RunOptions,
    remote: &Remote,
    messages: &Receiver<Message>,
    mut event_log: EventLog,
    mut captures: Vec<Running>,
) -> Ended {
    let mut view = View::new(options.json);
    view.started(&options.file);
    if let Ok(account) = remote.account(false) {
        view.begin(account);
    }
    let began = Instant::now();
    let mut next = began + options.every;
    let until = options.time.map(|time| began + time);
    let mut stopping = false;
    loop {
        let wake = until.filter(|_| !stopping).map_or(next, |until| until.min(next));
        match messages.recv_timeout(wake.saturating_duration_since(Instant::now())) {
            Ok(Message::Ended(account)) => {
                // What was told before it ended is shown before its account.
                while let Ok(Message::Event(event)) = messages.try_recv() {
                    tell(event, &mut view, &mut event_log);
                }
                return (Some(*account), event_log.finish(), finish(captures));
            }
            Ok(Message::Event(event)) => {
                let finished = event == Event::Finished;
                tell(event, &mut view, &mut event_log);
                if finished && !stopping {
                    stopping = remote.stop().is_ok();
                }
            }
            Ok(Message::Interrupted) => {
                if !stopping {
                    view.say("stopping: what is on its way is delivered first");
                    stopping = remote.stop().is_ok();
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if until.is_some_and(|until| Instant::now() >= until) && !stopping {
                    stopping = remote.stop().is_ok();
                }
                for running in captures.iter_mut().filter(|running| !running.told) {
                    if let Some(why) = running.capture.ended() {
                        running.told = true;
                        view.say(&format!("the capture at {} has ended: {why}", running.hop));
                    }
                }
                if Instant::now() >= next {
                    next += options.every.max(Duration::from_millis(10));
                    if let (false, Ok(account)) = (stopping, remote.account(false)) {
                        view.show(&account);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return (None, event_log.finish(), finish(captures)),
        }
    }
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

/// The worker has ended, and with it whoever recorded.
fn finish(captures: Vec<Running>) -> Vec<(String, Summary)> {
    captures.into_iter().map(|running| (running.hop, running.capture.finish())).collect()
}
