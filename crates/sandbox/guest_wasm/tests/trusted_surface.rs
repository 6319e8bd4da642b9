//! What is trusted stays small and is written down: the host calls and the lines that run per packet, as
//! `docs/threat-model.md` lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of the table under a heading of the threat model, cell by cell, without backticks.
fn table(heading: &str) -> Vec<Vec<String>> {
    let document = read("docs/threat-model.md");
    let section = document.split("\n## ").find(|section| section.starts_with(heading)).expect(heading);
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect())
        .collect()
}

fn is_code(line: &&str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// Most lines that a packet, a batch or a turn passes. It is lowered when they become fewer; the aim is
/// 2,000.
const CEILING: usize = 3_300;

/// Most lines that a packet passes at devices beside those.
const DEVICES_CEILING: usize = 1_960;

/// The same of lines by which packets are shown to observers.
const OBSERVERS_CEILING: usize = 160;

/// The same of lines by which a striped bond keeps packets in order.
const STRIPES_CEILING: usize = 220;

/// Lines of code of every function of that name in a file, or of `all` functions of it.
fn lines(path: &str, function: &str) -> usize {
    let text = read(path);
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut count = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((before, after)) = line.split_once("fn ") else { continue };
        let word = ["pub ", "pub(crate) ", "pub(super) ", "const ", "unsafe ", "extern \"C\" "];
        let before = word.iter().fold(before.to_owned(), |text, word| text.replace(word, ""));
        let named = after.strip_prefix(function).is_some_and(|rest| rest.starts_with(['(', '<']));
        // A method that a trait only declares has no lines.
        if !before.trim().is_empty() || function != "all" && !named || line.ends_with(';') {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        count += 1;
        if !line.ends_with('}') {
            let end = format!("{indent}}}");
            count += lines.by_ref().take_while(|line| *line != end).filter(is_code).count() + 1;
        }
    }
    assert!(count > 0, "{path} has no function `{function}`");
    count
}

#[test]
fn the_threat_model_names_every_host_call() {
    let named: Vec<String> = table("The host calls").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(named.len(), 6, "six calls are promised");

    // What the contract has, and what the sandbox offers, are those six.
    let contract = read("crates/formats/nf_abi/src/lib.rs");
    let imports = contract.split("pub mod imports {").nth(1).and_then(|rest| rest.split("\n}").next());
    let constants: Vec<(&str, &str)> = imports
        .expect("the module of imports")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const ")?.split_once(": &str = \""))
        .map(|(name, value)| (name, value.trim_end_matches("\";")))
        .collect();
    assert_eq!(constants.iter().map(|(_, value)| *value).collect::<Vec<_>>(), named);
    let offered = read("crates/sandbox/guest_wasm/src/host_calls.rs");
    assert_eq!(offered.matches("func_wrap").count(), 6);
    for (constant, _) in constants {
        assert!(offered.contains(&format!("imports::{constant}")), "{constant} is not offered");
    }
    let elsewhere: usize = fs::read_dir(root().join("crates/sandbox/guest_wasm/src"))
        .expect("the crate's files")
        .map(|entry| fs::read_to_string(entry.expect("a file").path()).expect("text"))
        .map(|text| text.matches("func_wrap").count() + text.matches("func_new").count())
        .sum();
    assert_eq!(elsewhere, 6, "host functions are defined in one file");
}

#[test]
fn the_lines_that_run_per_packet_stay_below_their_ceiling() {
    let (mut sum, mut rows) = (0, String::new());
    for row in table("What runs per packet") {
        let [path, functions] = row.as_slice() else { panic!("two cells: {row:?}") };
        let found: usize = functions.split(", ").map(|function| lines(path, function)).sum();
        sum += found;
        rows.push_str(&format!("{found:5} {path}\n"));
    }
    println!("{rows}{sum:5} together");
    assert!(sum <= CEILING, "{sum} lines of at most {CEILING} run per packet:\n{rows}");
    assert!(sum * 20 > CEILING * 19, "{sum} lines run per packet: the ceiling of {CEILING} can be lowered");
    let document = read("docs/threat-model.md");
    let stated = format!("at most {},{:03} lines", CEILING / 1000, CEILING % 1000);
    assert!(document.contains(&stated), "docs/threat-model.md does not say `{stated}`");
}

#[test]
fn what_devices_run_per_packet_stays_below_a_ceiling_of_its_own() {
    let count = |row: Vec<String>| row[1].split(", ").map(|name| lines(&row[0], name)).sum::<usize>();
    let sum: usize = table("What devices run per packet").into_iter().map(count).sum();
    println!("{sum:5} at devices");
    assert!(sum <= DEVICES_CEILING, "{sum} lines of at most {DEVICES_CEILING} run per packet at devices");
    let stated = format!("at most {},{:03} together", DEVICES_CEILING / 1000, DEVICES_CEILING % 1000);
    assert!(read("docs/threat-model.md").contains(&stated), "docs/threat-model.md does not say `{stated}`");
}

#[test]
fn what_observers_run_per_packet_stays_below_a_ceiling_of_its_own() {
    let count = |row: Vec<String>| row[1].split(", ").map(|name| lines(&row[0], name)).sum::<usize>();
    let sum: usize = table("What observers run per packet").into_iter().map(count).sum();
    assert!(
        sum <= OBSERVERS_CEILING,
        "{sum} lines of at most {OBSERVERS_CEILING} run per packet at observers"
    );
    let stated = format!("at most {OBSERVERS_CEILING} together");
    assert!(read("docs/threat-model.md").contains(&stated), "docs/threat-model.md does not say `{stated}`");
}

#[test]
fn what_striped_bonds_run_per_packet_stays_below_a_ceiling_of_its_own() {
    let count = |row: Vec<String>| row[1].split(", ").map(|name| lines(&row[0], name)).sum::<usize>();
    let sum: usize = table("What striped bonds run per packet").into_iter().map(count).sum();
    println!("{sum:5} at striped bonds");
    assert!(
        sum <= STRIPES_CEILING,
        "{sum} lines of at most {STRIPES_CEILING} run per packet at striped bonds"
    );
    let stated = format!("at most {STRIPES_CEILING} together");
    let document = read("docs/threat-model.md");
    let section =
        document.split("\n## ").find(|section| section.starts_with("What striped bonds run per packet"));
    assert!(
        section.is_some_and(|section| section.contains(&stated)),
        "docs/threat-model.md does not say `{stated}`"
    );
}

/// The tables of lines.
const TABLES: [&str; 4] = [
    "What runs per packet",
    "What devices run per packet",
    "What observers run per packet",
    "What striped bonds run per packet",
];

/// Functions of a crate that are not counted although counted ones call them, and why.
const NOT_COUNTED: [(&str, &[&str]); 15] = [
    // Taps are there while an operator captures or traces.
    ("engine", &["show_port", "show_instance", "show_copy", "show_taps", "show_lost", "flush_taps"]),
    // What an account consists of, when a reader asked for one.
    ("engine", &["account_of", "account_of_node", "counts_of_relays"]),
    // Handed to threads beside the workers.
    ("engine", &["work", "submit", "set_preemptible", "set_limits"]),
    // A thread that begins, sleeps, or leaves its worker to another one.
    ("engine", &["restart", "sleep_parked", "is_long_idle", "lend"]),
    // A worker in no fleet, for tests and benches.
    ("engine", &["sleep_unparked"]),
    // Once for a thread; an instance that faulted; memory that the watchdog took away.
    ("guest_wasm", &["install", "trace", "reopen"]),
    // What a function is told when its devices or a file of its configuration have changed; whether they have
    // is looked at with each timer.
    ("guest_wasm", &["tell"]),
    // What devices are told of the state of links.
    ("engine", &["note_link"]),
    // Packets whose headers are not plain, and those still to be cut: the rest of these crates.
    ("packet", &["dissect", "flow_key"]),
    ("virtio_net", &["note", "singly"]),
    // Once a number of a few bytes.
    ("packet", &["array_at"]),
    ("virtual_switch", &["entries"]),
    ("virtual_device", &["mode", "sent"]),
    ("encapsulation", &["refused"]),
    ("port", &["note_split"]),
];

/// Names that the standard library, another crate or a trait object of another kind has too: a call by such a
/// name says nothing.
const SHARED: [&str; 57] = [
    "add",
    "advance",
    "as_ptr",
    "bytes",
    "check",
    "clear",
    "copied",
    "counters",
    "deadline",
    "default",
    "drain",
    "drop",
    "from",
    "get",
    "header",
    "in_flight",
    "insert",
    "is_empty",
    "iter",
    "iter_mut",
    "kept",
    "kept_mut",
    "leave",
    "len",
    "length",
    "load",
    "lock",
    "map",
    "new",
    "next",
    "observe",
    "of",
    "plug",
    "pop",
    "process",
    "push",
    "put_on",
    "read",
    "remove",
    "replace",
    "slots",
    "store",
    "surrender",
    "take",
    "to_bits",
    "with",
    "wake",
    "take_emitted",
    "take_events",
    "take_generated",
    "take_log",
    "timer",
    "word",
    "peek",
    "take_off",
    "shown",
    "set_devices",
];

/// A function's name and its text.
fn bodies(text: &str) -> Vec<(String, String)> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((before, after)) = line.split_once("fn ") else { continue };
        if before.contains("//") || before.contains('(') && !before.contains("pub(") || line.ends_with(';') {
            continue;
        }
        let name = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let mut body = after.to_owned();
        if !line.ends_with('}') {
            for line in lines.by_ref().take_while(|line| *line != end).filter(is_code) {
                body.push_str(line);
                body.push('\n');
            }
        }
        found.push((name, body));
    }
    found
}

/// The files of a folder and those below it, but for tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name {
            _ if name.contains("tests") || name == "native" || name == "interleavings" => {}
            _ if path.is_dir() => sources(&path, found),
            _ if name.ends_with(".rs") => found.push(path),
            _ => {}
        }
    }
}

/// What counted functions call within their crate is counted too.
#[test]
fn what_counted_functions_call_is_counted() {
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in TABLES.into_iter().flat_map(table) {
        let (folder, _) = row[0].split_once("/src/").expect("a file of a crate");
        let names: Vec<&str> = row[1].split(", ").collect();
        let here = bodies(&read(&row[0])).into_iter();
        let here = here.filter(|(name, _)| names == ["all"] || names.contains(&name.as_str()));
        crates.entry(folder.to_owned()).or_default().extend(here);
    }
    let mut missing = Vec::new();
    for (folder, counted) in crates {
        let name = folder.rsplit('/').next().unwrap_or_default();
        let is_excused = |called: &str| {
            SHARED.contains(&called)
                || NOT_COUNTED.iter().any(|(of, names)| *of == name && names.contains(&called))
        };
        let mut files = Vec::new();
        sources(&root().join(&folder).join("src"), &mut files);
        let texts = files.iter().map(|file| fs::read_to_string(file).expect("text"));
        let defined: BTreeSet<String> = texts.flat_map(|text| bodies(&text)).map(|(name, _)| name).collect();
        for (caller, body) in &counted {
            for (at, _) in body.match_indices('(') {
                let before = body[..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
                let called = &body[before.len()..at];
                let is_counted = counted.iter().any(|(name, _)| name == called);
                if defined.contains(called) && !is_counted && !is_excused(called) {
                    missing.push(format!("{name}: {caller} calls {called}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "docs/threat-model.md does not count: {missing:#?}");
}
