//! `superfluid new`: the folder of a function that builds, runs in a chain and has a test, and, where that is
//! asked for, builds as a native process, too.

use crate::Outcome;
use crate::cli::{NewOptions, SourceLanguage};
use crate::manual::print;
use manifest::FunctionName;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/sdk.rs"));
include!(concat!(env!("OUT_DIR"), "/native.rs"));

const HEADER: &str = include_str!("../../../../include/superfluid.h");
const TEST_HEADER: &str = include_str!("../../../../include/superfluid_test.h");
const NATIVE_HEADER: &str = include_str!("../../../../include/superfluid_native.h");
const NATIVE_FUNCTION_HEADER: &str = include_str!("../../../../include/superfluid_native_function.h");

/// Names that YAML or Rust reads as something else.
const TAKEN: &[&str] = &[
    "null", "true", "false", "yes", "no", "on", "off", "y", "n", "as", "async", "await", "break", "const",
    "continue", "crate", "dyn", "else", "enum", "extern", "fn", "for", "if", "impl", "in", "let", "loop",
    "match", "mod", "move", "mut", "pub", "ref", "return", "self", "static", "struct", "super", "trait",
    "type", "unsafe", "use", "where", "while", "gen", "test", "core", "std", "alloc",
];

pub(crate) fn new(options: &NewOptions) -> Outcome {
    let default = if options.native { SourceLanguage::C } else { SourceLanguage::Rust };
    let language = options.lang.unwrap_or(default);
    let is_taken = |name: &str| is_taken(name, options.native && language == SourceLanguage::Rust);
    let Some(name) = FunctionName::new(&options.name).filter(|name| !is_taken(name.as_str())) else {
        console::error().line(&format!(
            "new: `{}` is no name for a function; allowed: a lower-case letter, then lower-case letters, digits and \
             `-`, at most 32 in all, no word of YAML or Rust, and no crate of the SDK",
            options.name.escape_debug()
        ));
        return Outcome::BadInput;
    };
    let folder = options.path.clone().unwrap_or_else(|| PathBuf::from(name.as_str()));
    match create(&folder, name.as_str(), language, options.native) {
        Ok(()) => {
            let told = ["its tests", "the image, tested and cut", "the image in a chain"];
            let mut steps = steps(name.as_str(), language, told).to_vec();
            if options.native {
                steps.push(step(name.as_str(), build_native(language), "the native process"));
            }
            let steps: String = steps.iter().map(|step| format!("  {step}\n")).collect();
            let text = format!(
                "{folder}: the function `{name}`, in {}\n\n  cd {folder}\n{steps}",
                language.shown(),
                folder = folder.display(),
            );
            print(text.as_bytes())
        }
        Err(error) => {
            console::error().line(&format!("new: {error}"));
            Outcome::BadInput
        }
    }
}

/// Whether YAML or Rust reads the name as something else, or a crate has it of which the function is made,
/// or its process.
fn is_taken(name: &str, as_process: bool) -> bool {
    let is_name = |other: &str| other.replace('_', "-") == name;
    let of_process = || NATIVE_LOCKED.iter().map(|entry| name_in(entry)).any(is_name);
    TAKEN.contains(&name) || LOCKED.iter().any(|(of_sdk, _)| is_name(of_sdk)) || (as_process && of_process())
}

/// Sources that are in this program, as they are in this version: paths below their folder, and what is
/// there.
fn sources((packed, length): (&[u8], usize)) -> Result<Vec<(String, String)>, String> {
    let list = miniz_oxide::inflate::decompress_to_vec_with_limit(packed, length)
        .map_err(|error| format!("the SDK in this program: {error}"))?;
    serde_json::from_slice(&list).map_err(|error| format!("the SDK in this program: {error}"))
}

/// The lock file of a function that needs nothing but the SDK, as cargo writes it.
fn lock_file(name: &str) -> String {
    let own = entry(name, &["nf_sdk"]);
    let entries = LOCKED.iter().map(|(_, entry)| *entry).chain([own.as_str()]);
    locked(entries.collect())
}

/// The lock file of its process.
fn native_lock_file(name: &str) -> String {
    let (function, process) =
        (entry(name, &["nf_sdk"]), entry(&format!("{name}-process"), &[name, "nf_native"]));
    let entries = NATIVE_LOCKED.iter().copied().chain([function.as_str(), process.as_str()]);
    locked(entries.collect())
}

/// The entry of a package of the function's folder.
fn entry(name: &str, needs: &[&str]) -> String {
    let mut needs = needs.to_vec();
    needs.sort_unstable();
    let needs: String = needs.iter().map(|other| format!(" \"{other}\",\n")).collect();
    format!("[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\ndependencies = [\n{needs}]\n")
}

/// Whose entry it is.
fn name_in(entry: &str) -> &str {
    entry.split('"').nth(1).unwrap_or_default()
}

/// A lock file of these entries. Those of one name are in the order that they had.
fn locked(mut entries: Vec<&str>) -> String {
    entries.sort_by_key(|entry| name_in(entry));
    format!(
        "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\nversion = 4\n\n{}",
        entries.join("\n")
    )
}

/// What is done with the folder, each with what that is, below each other however long the name is.
fn steps(name: &str, language: SourceLanguage, told: [&str; 3]) -> [String; 3] {
    let test = match language {
        SourceLanguage::Rust => "cargo test",
        SourceLanguage::C => "make test",
    };
    let commands = [test, &build_command(name), "superfluid run example.yaml"];
    std::array::from_fn(|number| step(name, commands[number], told[number]))
}

/// What builds the native process.
fn build_native(language: SourceLanguage) -> &'static str {
    match language {
        SourceLanguage::Rust => "cargo build --release --manifest-path native/Cargo.toml",
        SourceLanguage::C => "make native",
    }
}

fn build_command(name: &str) -> String {
    format!("superfluid image build . --output {name}.wasm")
}

/// A command and what it does; the longest one builds the image.
fn step(name: &str, command: &str, told: &str) -> String {
    format!("{command:<width$}  # {told}", width = build_command(name).len())
}

/// Makes the folder: whole, or not at all.
fn create(folder: &Path, name: &str, language: SourceLanguage, native: bool) -> Result<(), String> {
    if folder.symlink_metadata().is_ok() {
        return Err(format!(
            "{} is there already; allowed: the path of a folder that is not",
            folder.display()
        ));
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = parent.join(format!(".{name}.{}.tmp", std::process::id()));
    let files = files(name, language, native)?;
    let made = files.into_iter().try_for_each(|(path, text)| write(&unfinished.join(path), &text));
    let made = made.and_then(|()| {
        // Another process may have made one meanwhile: a rename would only take the place of an empty folder.
        std::fs::rename(&unfinished, folder).map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory => {
                format!("{} is there already", folder.display())
            }
            _ => format!("{}: {error}", folder.display()),
        })
    });
    if made.is_err() {
        // Whatever there is of it; the first error is the one to tell.
        let _ = std::fs::remove_dir_all(&unfinished);
    }
    made
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Where the author of a function finds what it may use.
fn sdk_of(language: SourceLanguage) -> &'static str {
    match language {
        SourceLanguage::Rust => {
            "`nf_sdk::headers::dissect(packet.bytes())` takes a packet's headers apart: addresses, protocol and ports are its `flow_key()`. There are checksums,\n\
             tables of flows, timers, logs and events, too: `cargo doc --package nf_sdk --package packet --no-deps --open` shows all of it."
        }
        SourceLanguage::C => {
            "`sdk/superfluid.h` has all that it may use: `sf_data(record)` is the frame, `sf_load16be(sf_data(record) + 12)` its EtherType; configuration, counters, timers, logs and\n\
             events, too."
        }
    }
}

/// Every file of the folder.
fn files(name: &str, language: SourceLanguage, native: bool) -> Result<Vec<(String, String)>, String> {
    let filled = |template: &str, replacements: &[(&str, &str)]| {
        let text = replacements.iter().fold(template.to_owned(), |text, (from, to)| text.replace(from, to));
        // The name's box in the README.
        let width = 10.max(name.len() + 2);
        text.replace("─LINE─", &"─".repeat(width))
            .replace(" NAMED ", &format!("{name:^width$}"))
            .replace("CRATE", &name.replace('-', "_"))
            .replace("NAME", name)
    };
    let (source, tests) = match language {
        SourceLanguage::Rust => ("src/lib.rs", "tests/behaviour.rs"),
        SourceLanguage::C => ("src/function.c", "tests/behaviour.c"),
    };
    let told = ["its tests", "builds the image, tests it and cuts it", "runs it in a chain"];
    let steps = steps(name, language, told).join("\n");
    let readme = [("SOURCE", source), ("TESTS", tests), ("STEPS", steps.as_str()), ("SDK", sdk_of(language))];
    let mut files = vec![
        (
            "function.yaml",
            filled(include_str!("../templates/function.yaml"), &[("LANGUAGE", language.shown())]),
        ),
        ("example.yaml", filled(include_str!("../templates/example.yaml"), &[])),
        ("README.md", filled(include_str!("../templates/README.md"), &readme)),
        ("tests/image.yaml", include_str!("../templates/image.yaml").to_owned()),
        (".gitignore", "/target\n/build\n*.wasm\n*.pcapng\n".to_owned()),
    ];
    match language {
        SourceLanguage::Rust => files.extend([
            ("Cargo.toml", filled(include_str!("../templates/rust/Cargo.toml"), &[])),
            (source, filled(include_str!("../templates/rust/src/lib.rs"), &[])),
            (tests, filled(include_str!("../templates/rust/tests/behaviour.rs"), &[])),
            ("Cargo.lock", lock_file(name)),
        ]),
        SourceLanguage::C => files.extend([
            ("Makefile", filled(include_str!("../templates/c/Makefile"), &[])),
            (source, filled(include_str!("../templates/c/src/function.c"), &[])),
            (tests, filled(include_str!("../templates/c/tests/behaviour.c"), &[])),
            ("sdk/superfluid.h", HEADER.to_owned()),
            ("sdk/superfluid_test.h", TEST_HEADER.to_owned()),
        ]),
    }
    if native {
        let starts = match language {
            SourceLanguage::Rust => {
                "native/target/release/NAME --config native/settings.yaml /tmp/NAME-left.sock /tmp/NAME-right.sock"
            }
            SourceLanguage::C => "build/NAME --set longest=500 /tmp/NAME-left.sock /tmp/NAME-right.sock",
        };
        let commands = [("BUILDS", build_native(language)), ("STARTS", starts)];
        files.push(("native.yaml", filled(include_str!("../templates/native/native.yaml"), &commands)));
        let further = match language {
            SourceLanguage::Rust => {
                files.extend([
                    ("native/Cargo.toml", filled(include_str!("../templates/native_rust/Cargo.toml"), &[])),
                    ("native/Cargo.lock", native_lock_file(name)),
                    ("native/src/main.rs", filled(include_str!("../templates/native_rust/main.rs"), &[])),
                    (
                        "native/settings.yaml",
                        include_str!("../templates/native_rust/settings.yaml").to_owned(),
                    ),
                ]);
                let readme = filled(include_str!("../templates/native_rust/README.md"), &commands);
                vec![("README.md", readme), (".gitignore", "/native/target\n".to_owned())]
            }
            SourceLanguage::C => {
                files.extend([
                    ("sdk/superfluid_native.h", NATIVE_HEADER.to_owned()),
                    ("sdk/superfluid_native_function.h", NATIVE_FUNCTION_HEADER.to_owned()),
                ]);
                vec![
                    ("Makefile", filled(include_str!("../templates/native/Makefile"), &[])),
                    ("README.md", filled(include_str!("../templates/native/README.md"), &commands)),
                ]
            }
        };
        for (path, more) in further {
            // It stands behind what every function has there.
            files.iter_mut().filter(|(it, _)| *it == path).for_each(|(_, text)| text.push_str(&more));
        }
    }
    let mut files: Vec<_> = files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
    if language == SourceLanguage::Rust {
        files.extend(sources(SDK)?.into_iter().map(|(path, text)| (format!("sdk/{path}"), text)));
        if native {
            let carrier = sources(NATIVE)?.into_iter();
            files.extend(carrier.map(|(path, text)| (format!("native/sdk/{path}"), text)));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_each_other_stands_so_whatever_the_name() {
        for name in ["a", "hello", "a-name-of-thirty-two-characters-"] {
            for language in [SourceLanguage::Rust, SourceLanguage::C] {
                let files = files(name, language, false).expect("it is made");
                let (_, readme) = files.iter().find(|(path, _)| path == "README.md").expect("it is there");
                // Each of the lines with one of these marks has it at the same place.
                for (marks, lines) in [(&["  # "][..], 3), (&["┐", "├", "┘"], 3)] {
                    let place = |line: &str| {
                        let mark = marks.iter().find(|mark| line.contains(**mark))?;
                        Some(line.split(mark).next()?.chars().count())
                    };
                    let places: Vec<usize> = readme.lines().filter_map(place).collect();
                    assert!(places.len() == lines && places.iter().all(|it| *it == places[0]), "{readme}");
                }
                assert!(
                    !["NAME", "LINE", "STEPS", "SDK\n"].iter().any(|left| readme.contains(left)),
                    "{readme}"
                );
            }
        }
    }
}
