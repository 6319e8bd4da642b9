//! `superfluid run`: starts a worker, shows it while it works, and gives the final account.

use crate::Outcome;
use crate::check;
use crate::cli::RunOptions;
use crate::event_log::{EventLog, Written};
use crate::json;
use crate::launch::launch;
use crate::view::{self, View};
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
    let (sender, messages) = channel();
    let events = sender.clone();
    // Whoever receives has gone only when the program ends.
    let launched = launch(&wiring, &catalog, move |event| drop(events.send(Message::Event(event))));
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
    let (account, written) = watch(options, &remote, &messages, event_log);
    let Some(account) = account else {
        eprintln!("the worker ended without an account");
        return Outcome::Failed;
    };
    if options.json {
        for (function, path, written) in &written {
            println!("{}", json::events_written(function, path, written));
        }
        println!("{}", json::account("final", &account));
    } else {
        print!("{}{}", view::final_account(&account), view::events_written(&written));
    }
    match account.balance() {
        Ok(()) => Outcome::Done,
        Err(imbalance) => {
            eprintln!("the account does not balance: {imbalance}; this is a defect, please report it");
            Outcome::Failed
        }
    }
}

/// Shows the worker until it has ended; its account, and what became of events.
fn watch(
    options: &RunOptions,
    remote: &Remote,
    messages: &Receiver<Message>,
    mut event_log: EventLog,
) -> (Option<Account>, Vec<(String, PathBuf, Written)>) {
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
                return (Some(*account), event_log.finish());
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
                if Instant::now() >= next {
                    next += options.every.max(Duration::from_millis(10));
                    if let (false, Ok(account)) = (stopping, remote.account(false)) {
                        view.show(&account);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return (None, event_log.finish()),
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
