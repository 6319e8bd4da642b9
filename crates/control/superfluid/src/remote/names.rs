//! Names that there are, for completion by a shell.

use super::failure::{Done, Failure, print};
use super::kinds::{Listed, meant};
use super::options::NamesOptions;
use crate::Outcome;

pub(crate) fn names(options: &NamesOptions) -> Done {
    let all =
        meant(std::slice::from_ref(&options.kind)).map_err(|wrong| Failure::new(wrong, Outcome::BadInput))?;
    let client = options.connection.client()?;
    let mut names: Vec<String> = Vec::new();
    for one in &all {
        match one.kind {
            Listed::Objects(kind) => {
                names.extend(client.all(kind, None)?.into_iter().map(|object| object.name.to_string()))
            }
            Listed::Snapshots => {
                names.extend(client.snapshots()?.into_iter().map(|snapshot| snapshot.name.to_string()))
            }
            // Digests and numbers are not typed.
            Listed::All | Listed::Images | Listed::Operations => {}
        }
    }
    print(&names.iter().map(|name| format!("{name}\n")).collect::<String>())
}
