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
const CEILING: usize = 2_874;

/// Most lines that a packet passes at switches and devices beside those.
const DEVICES_CEILING: usize = 2_192;

/// The same of lines by which packets are shown to observers.
const OBSERVERS_CEILING: usize = 160;

/// The same of lines by which a striped bond keeps packets in order.
const STRIPES_CEILING: usize = 220;

/// A function: its name, its text and its lines of code.
struct Function {
    name: String,
    body: String,
    lines: usize,
}

/// The functions of a file but for its tests. One that a trait only declares is none.
fn functions(text: &str) -> Vec<Function> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((before, after)) = line.split_once("fn ") else { continue };
        if before.contains("//") || before.contains('(') && !before.contains("pub(") || line.ends_with(';') {
            continue;
        }
        let name = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let indent = &line[..line.len() - line.trim_start().len()];
        let (end, arguments) = (format!("{indent}}}"), format!("{indent})"));
        let mut function = Function { name, body: after.to_owned() + "\n", lines: 1 };
        let (mut is_over, mut is_declared) = (line.ends_with('}'), false);
        while let Some(line) = lines.next_if(|_| !is_over) {
            is_declared = line.starts_with(&arguments) && line.ends_with(';');
            is_over = line == end || is_declared;
            if is_code(&line) {
                function.lines += 1;
                function.body.push_str(line);
                function.body.push('\n');
            }
        }
        if !is_declared {
            found.push(function);
        }
    }
    found
}

/// Those that a row of a table names.
fn counted(row: &[String]) -> Vec<Function> {
    let [path, names] = row else { panic!("two cells: {row:?}") };
    let names: Vec<&str> = names.split(", ").collect();
    let is_named = |function: &Function| names == ["all"] || names.contains(&function.name.as_str());
    let found: Vec<Function> = functions(&read(path)).into_iter().filter(is_named).collect();
    for name in names.iter().filter(|name| **name != "all") {
        assert!(found.iter().any(|function| function.name == *name), "{path} has no function `{name}`");
    }
    found
}

/// Lines of code of the functions that a row names.
fn lines(row: &[String]) -> usize {
    counted(row).iter().map(|function| function.lines).sum()
}

/// Names of the functions in all sources below a folder.
fn names_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            if name != "target" {
                names_below(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("text");
            let named = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
            found.extend(named.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
        }
    }
}

#[test]
fn the_tests_that_the_threat_model_names_are_there() {
    let document = read("docs/threat-model.md");
    // What is called for a packet has shorter names.
    let is_test = |word: &&str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.matches('_').count() >= 4 && word.chars().all(plain)
    };
    let named: BTreeSet<&str> = document.split('`').skip(1).step_by(2).filter(is_test).collect();
    assert!(named.len() > 50, "{} names are not all of them", named.len());
    let mut there = BTreeSet::new();
    for folder in ["crates", "functions", "measure", "testbed"] {
        names_below(&root().join(folder), &mut there);
    }
    let missing: Vec<&&str> = named.iter().filter(|name| !there.contains(**name)).collect();
    assert!(missing.is_empty(), "no test has these names: {missing:?}");
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
        let found = lines(&row);
        sum += found;
        rows.push_str(&format!("{found:5} {}\n", row[0]));
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
    let sum: usize = table("What devices run per packet").iter().map(|row| lines(row)).sum();
    println!("{sum:5} at devices");
    assert!(sum <= DEVICES_CEILING, "{sum} lines of at most {DEVICES_CEILING} run per packet at devices");
    let stated = format!("at most {},{:03} together", DEVICES_CEILING / 1000, DEVICES_CEILING % 1000);
    assert!(read("docs/threat-model.md").contains(&stated), "docs/threat-model.md does not say `{stated}`");
}

#[test]
fn what_observers_run_per_packet_stays_below_a_ceiling_of_its_own() {
    let sum: usize = table("What observers run per packet").iter().map(|row| lines(row)).sum();
    assert!(
        sum <= OBSERVERS_CEILING,
        "{sum} lines of at most {OBSERVERS_CEILING} run per packet at observers"
    );
    let stated = format!("at most {OBSERVERS_CEILING} together");
    assert!(read("docs/threat-model.md").contains(&stated), "docs/threat-model.md does not say `{stated}`");
}

#[test]
fn what_striped_bonds_run_per_packet_stays_below_a_ceiling_of_its_own() {
    let sum: usize = table("What striped bonds run per packet").iter().map(|row| lines(row)).sum();
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
const NOT_COUNTED: [(&str, &[&str]); 9] = [
    // Taps are there while an operator captures or traces.
    ("engine", &["show_port", "show_instance", "show_copy", "show_taps", "show_lost", "flush_taps"]),
    // What an account consists of, when a reader asked for one.
    ("engine", &["account_of", "account_of_node", "counts_of_relays"]),
    // Handed to threads beside the workers.
    ("engine", &["submit", "set_preemptible", "set_limits"]),
    // A thread that begins, sleeps, or leaves its worker to another one.
    ("engine", &["restart", "sleep_parked", "is_long_idle", "lend"]),
    // Once for a thread; an instance that faulted; memory that the watchdog took away.
    ("guest_wasm", &["install", "trace", "reopen"]),
    // Packets whose headers are not plain, and those still to be cut: the rest of these crates.
    ("packet", &["dissect", "flow_key"]),
    ("virtio_net", &["note", "singly", "finish_checksum", "settle_partial"]),
    // Once a number of a few bytes.
    ("encapsulation", &["refused"]),
    ("port", &["note_split"]),
];

/// Names that the standard library, another crate or a trait object of another kind has too: a call by such a
/// name says nothing.
const SHARED: [&str; 57] = [
    "add",
    "advance",
    "as_ptr",
    "beside",
    "bytes",
    "check",
    "clear",
    "copied",
    "default",
    "drain",
    "drop",
    "eq",
    "ethertype",
    "from",
    "get",
    "header",
    "in_flight",
    "insert",
    "inside",
    "is_empty",
    "is_up",
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
    "mtu",
    "new",
    "next",
    "observe",
    "of",
    "payload",
    "peek",
    "pin",
    "plug",
    "process",
    "put_on",
    "read",
    "remove",
    "replace",
    "set_devices",
    "shown",
    "skip",
    "status",
    "store",
    "take",
    "take_off",
    "timer",
    "to_bits",
    "to_vec",
    "with",
    "word",
];

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

/// The names of all functions of a crate.
fn defined(folder: &str) -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&root().join(folder).join("src"), &mut files);
    let texts = files.iter().map(|file| fs::read_to_string(file).expect("text"));
    texts.flat_map(|text| functions(&text)).map(|function| function.name).collect()
}

/// The names of what is called in a text.
fn called(body: &str) -> impl Iterator<Item = &str> {
    body.match_indices('(').map(|(at, _)| {
        let before = body[..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
        &body[before.len()..at]
    })
}

/// What counted functions call is counted too: within their crate, and of the other crates that have counted
/// functions, but for the rest of `packet`, which the threat model leaves out.
#[test]
fn what_counted_functions_call_is_counted() {
    let mut crates: BTreeMap<String, Vec<Function>> = BTreeMap::new();
    for row in TABLES.into_iter().flat_map(table) {
        let (folder, _) = row[0].split_once("/src/").expect("a file of a crate");
        crates.entry(folder.to_owned()).or_default().extend(counted(&row));
    }
    let name = |folder: &str| folder.rsplit('/').next().unwrap_or_default().to_owned();
    let defined: BTreeMap<String, BTreeSet<String>> =
        crates.keys().map(|folder| (name(folder), defined(folder))).collect();
    let is_excused = |of: &str, called: &str| {
        SHARED.contains(&called) || NOT_COUNTED.iter().any(|(it, names)| *it == of && names.contains(&called))
    };
    let anywhere: BTreeSet<&str> = crates.values().flatten().map(|function| function.name.as_str()).collect();
    let mut missing = BTreeSet::new();
    for (folder, functions) in &crates {
        let own = name(folder);
        for function in functions {
            for called in called(&function.body) {
                let is_counted = functions.iter().any(|other| other.name == called);
                let of_another = |(of, names): (&String, &BTreeSet<String>)| {
                    of != "packet" && names.contains(called) && !is_excused(of, called)
                };
                let is_missing = match defined[&own].contains(called) {
                    true => !is_counted && !is_excused(&own, called),
                    false => !anywhere.contains(called) && defined.iter().any(of_another),
                };
                if is_missing {
                    missing.insert(format!("{own}: {} calls {called}", function.name));
                }
            }
        }
    }
    assert!(missing.is_empty(), "docs/threat-model.md does not count: {missing:#?}");
}
