//! `superfluid run`: starts a worker, shows it while it works, and gives the final account.

use crate::Outcome;
use crate::check;
use crate::cli::RunOptions;
use crate::json;
use crate::launch::launch;
use crate::view::{self, View};
use engine::{Account, Event, Remote};
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
    let account = watch(options, &remote, &messages);
    let Some(account) = account else {
        eprintln!("the worker ended without an account");
        return Outcome::Failed;
    };
    if options.json {
        println!("{}", json::account("final", &account));
    } else {
        print!("{}", view::final_account(&account));
    }
    match account.balance() {
        Ok(()) => Outcome::Done,
        Err(imbalance) => {
            eprintln!("the account does not balance: {imbalance}; this is a defect, please report it");
            Outcome::Failed
        }
    }
}

/// Shows the worker until it has ended.
fn watch(options: &RunOptions, remote: &Remote, messages: &Receiver<Message>) -> Option<Account> {
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
                    view.event(&event);
                }
                return Some(*account);
            }
            Ok(Message::Event(event)) => {
                let finished = event == Event::Finished;
                view.event(&event);
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
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}
