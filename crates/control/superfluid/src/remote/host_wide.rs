//! `superfluid memory` and `superfluid health`.

use super::failure::{Done, print};
use super::options::{HealthOptions, ShowOptions};
use super::tree::tree;
use crate::Outcome;
use crate::output::{Format, one};
use crate::progress::Progress;
use client::ClientError;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(crate) fn memory(options: &ShowOptions) -> Done {
    show(&options.connection.client()?.memory()?, options.shown.output)
}

/// Time between two looks at a daemon that is waited for.
const LOOKS: Duration = Duration::from_millis(50);

/// Ends with 1 when something is not as it should be.
pub(crate) fn health(options: &HealthOptions) -> Done {
    let client = options.connection.client()?;
    let until = options.wait.map(|wait| Instant::now() + wait);
    let progress = Progress::begin("waiting for the daemon", options.shown.output);
    let health = loop {
        let health = client.health();
        let well = health.as_ref().is_ok_and(|health| health.healthy);
        // One that ends takes connections still, and ends them.
        let none = |error: &ClientError| error.is_unreachable() || matches!(error, ClientError::Died { .. });
        let starting = health.as_ref().map_or_else(none, |_| true);
        match until {
            Some(until) if !well && starting && Instant::now() < until => std::thread::sleep(LOOKS),
            _ => break health?,
        }
    };
    drop(progress);
    show(&json!(health), options.shown.output)?;
    Ok(if health.healthy { Outcome::Done } else { Outcome::Failed })
}

fn show(value: &Value, format: Format) -> Done {
    print(&match format {
        Format::Table => tree(value, false),
        Format::Wide => tree(value, true),
        Format::Json | Format::Yaml => one(value, format),
    })
}
