//! `superfluid memory`, `superfluid account` and `superfluid health`.

use super::failure::{Done, print};
use super::options::ShowOptions;
use super::tree::tree;
use crate::Outcome;
use crate::output::{Format, one};
use serde_json::{Value, json};

pub(crate) fn memory(options: &ShowOptions) -> Done {
    show(&options.connection.client()?.memory()?, options.shown.output)
}

pub(crate) fn account(options: &ShowOptions) -> Done {
    show(&options.connection.client()?.account()?, options.shown.output)
}

/// Ends with 1 when something is not as it should be.
pub(crate) fn health(options: &ShowOptions) -> Done {
    let health = options.connection.client()?.health()?;
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
