//! `superfluid top`: functions at work, again and again.
//!
//! 1. A thread looks at all functions, [`sample`] by sample, so that the keys work while the daemon is slow.
//! 2. Two samples make [`Row`](sample::Row)s with rates; [`screen`] sorts them and fits them into the window.
//! 3. [`terminal`] reads keys and gives the window back as it was.

mod sample;
mod screen;
mod terminal;

use super::failure::{Done, Failure, print};
use super::options::TopOptions;
use crate::Outcome;
use crate::output::Format;
use client::Client;
use sample::{Sample, rows};
use screen::{Screen, listing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{TryRecvError, sync_channel};
use std::time::Duration;
use terminal::Terminal;

/// How soon a key is answered when nothing else happens.
const TICK: Duration = Duration::from_millis(100);

pub(crate) fn top(options: &TopOptions) -> Done {
    let client = options.connection.client()?;
    let first = Sample::take(&client, options.tenant.as_deref())?;
    match (options.output, Terminal::open()) {
        (None, Some(terminal)) => live(options, client, first, terminal),
        (format, terminal) => {
            drop(terminal);
            std::thread::sleep(options.every);
            let second = Sample::take(&client, options.tenant.as_deref())?;
            let mut rows = rows(&first, &second);
            screen::sort(&mut rows, options.sort, false);
            print(&listing(&rows).shown(format.unwrap_or(Format::Table)))
        }
    }
}

fn live(options: &TopOptions, client: Client, first: Sample, terminal: Terminal) -> Done {
    let ends = Arc::new(AtomicBool::new(false));
    let told = ends.clone();
    ctrlc::set_handler(move || told.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::new(format_args!("signals: {error}"), Outcome::Failed))?;
    let (sender, samples) = sync_channel(1);
    let (every, tenant) = (options.every, options.tenant.clone());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(every);
            let sample = Sample::take(&client, tenant.as_deref());
            let broken = sample.is_err();
            if sender.send(sample).is_err() || broken {
                return;
            }
        }
    });
    let mut screen = Screen::new(options.sort);
    let mut before = first;
    let mut changed = true;
    loop {
        if ends.load(Ordering::Relaxed) {
            return Ok(Outcome::Done);
        }
        match samples.try_recv() {
            Ok(sample) => {
                let sample = sample?;
                screen.rows = rows(&before, &sample);
                screen.looked = true;
                before = sample;
                changed = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(Outcome::Failed),
        }
        let size = terminal.size();
        changed |= screen.fits_anew(size);
        if changed {
            terminal.show(&screen.drawn(size));
            changed = false;
        }
        for key in terminal.keys(TICK) {
            if !screen.key(key, size) {
                return Ok(Outcome::Done);
            }
            changed = true;
        }
    }
}
