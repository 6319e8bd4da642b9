//! Which files can be in an archive: those that a daemon keeps, and no others.

/// Longest name of a snapshot, as the interface has it.
const SNAPSHOT_MAX: usize = 128;
/// Longest name of an owner of pinned images, as their folder has it.
const OWNER_MAX: usize = 32;

/// Whether a path, from the daemon's state on, names a file that belongs into a backup. None that it names
/// leads out of the state.
#[must_use]
pub fn is_part(path: &str) -> bool {
    let word = |text: &str, most: usize| {
        (1..=most).contains(&text.len())
            && !text.starts_with(['.', '-'])
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    let hex =
        |text: &str| text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["snapshot-keys.json"] => true,
        ["store", "store.db" | "durable"] | ["images", "oci-layout" | "index.json"] => true,
        ["images", "pins", owner] => word(owner, OWNER_MAX),
        ["images", "blobs", "sha256", digits] => hex(digits),
        ["snapshots", file] => file.strip_suffix(".snapshot").is_some_and(|name| word(name, SNAPSHOT_MAX)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_keeps_is_part_and_nothing_else() {
        let digits = "0123456789abcdef".repeat(4);
        let longest = format!("snapshots/{}.snapshot", "n".repeat(128));
        for name in [
            "store/store.db",
            "store/durable",
            "images/oci-layout",
            "images/index.json",
            "images/pins/daemon",
            &format!("images/blobs/sha256/{digits}"),
            "snapshots/mon.day-1_.snapshot",
            "snapshot-keys.json",
            &longest,
        ] {
            assert!(is_part(name), "{name}");
        }
        for name in [
            "",
            "store",
            "/store/store.db",
            "store/store.db-wal",
            "store/lock",
            "store//store.db",
            "store/../store/store.db",
            "./store/store.db",
            "audit.jsonl",
            "snapshot-keys.part",
            "snapshots/snapshot-keys.json",
            "images/lock",
            "images/pins/..",
            "images/pins/.hidden",
            "images/pins/a b",
            "images/blobs/sha256/..",
            &format!("images/blobs/sha256/{}", digits.to_uppercase()),
            &format!("images/blobs/sha256/{digits}0"),
            "snapshots/.snapshot",
            "snapshots/-a.snapshot",
            "snapshots/a.part",
            "snapshots/a/b.snapshot",
            "snapshots/a\n.snapshot",
            &longest.replace("n.", "nn."),
        ] {
            assert!(!is_part(name), "{name}");
        }
    }
}
