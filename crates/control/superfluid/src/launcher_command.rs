//! `superfluid launcher`: the part with the rights to start processes, and asking it.

use crate::Outcome;
use crate::cli::LauncherOptions;
use launcher::{Answer, Launcher, REQUEST_MAX, Request, Settings};
use std::io::Read;

/// Carries the command out.
pub(crate) fn launcher(options: &LauncherOptions) -> Outcome {
    if let Some(request) = &options.ask {
        return ask(options, request);
    }
    let settings = Settings {
        permits: options.permits.clone(),
        socket: options.socket.clone(),
        state: options.state.clone(),
        run: options.run.clone(),
        sockets: options.guest_sockets.clone(),
        group: options.cgroup.clone(),
        ..Settings::default()
    };
    match launcher::serve(&settings) {
        Ok(()) => Outcome::Done,
        Err(error) => failed(&error, Outcome::BadInput),
    }
}

fn failed(error: &dyn std::fmt::Display, outcome: Outcome) -> Outcome {
    console::error().line(&format!("superfluid launcher: {error}"));
    outcome
}

fn ask(options: &LauncherOptions, request: &str) -> Outcome {
    let mut given = String::new();
    if request == "-" {
        let read = std::io::stdin().take(REQUEST_MAX as u64).read_to_string(&mut given);
        if let Err(error) = read {
            return failed(&format_args!("standard input: {error}"), Outcome::BadInput);
        }
    } else {
        given = request.to_owned();
    }
    let request: Request = match serde_json::from_str(&given) {
        Ok(request) => request,
        Err(error) => return failed(&format_args!("the request: {error}"), Outcome::BadInput),
    };
    match Launcher::connect(&options.socket).and_then(|mut launcher| launcher.ask(&request)) {
        Ok(Answer::Done) => Outcome::Done,
        Ok(Answer::Refused(why)) => failed(&why, Outcome::Failed),
        Ok(Answer::Guests(listed)) => shown(serde_json::to_string_pretty(&listed)),
        Ok(Answer::Used(used)) => shown(serde_json::to_string_pretty(&used)),
        // What came with it is closed: a queue is of use to a program that stays.
        Ok(Answer::Queues(names)) => {
            names.iter().for_each(|name| console::output().line(name));
            Outcome::Done
        }
        Err(error) => failed(&error, Outcome::Missing),
    }
}

fn shown(answer: serde_json::Result<String>) -> Outcome {
    match answer {
        Ok(text) => {
            console::output().line(&printable::json_lines(&text));
            Outcome::Done
        }
        Err(error) => failed(&error, Outcome::Failed),
    }
}
