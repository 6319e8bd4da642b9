//! Users and groups by name.

use std::fs;

/// The number of a user (`/etc/passwd`) or group (`/etc/group`) that is given by name or number.
pub(crate) fn resolve(file: &str, name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| number(&fs::read_to_string(file).ok()?, name))
}

/// Finds a name in a table of the form `name:password:number:...`.
pub(crate) fn number(table: &str, name: &str) -> Option<u32> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}
