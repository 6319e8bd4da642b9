//! `superfluid new`: the folder of a function that builds, runs in a chain and has a test.

use crate::Outcome;
use crate::cli::{NewOptions, SourceLanguage};
use manifest::FunctionName;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

const HEADER: &str = include_str!("../../../../include/superfluid.h");
const TEST_HEADER: &str = include_str!("../../../../include/superfluid_test.h");

/// Names that YAML or Rust reads as something else.
const TAKEN: &[&str] = &[
    "null", "true", "false", "yes", "no", "on", "off", "y", "n", "as", "async", "await", "break", "const",
    "continue", "crate", "dyn", "else", "enum", "extern", "fn", "for", "if", "impl", "in", "let", "loop",
    "match", "mod", "move", "mut", "pub", "ref", "return", "self", "static", "struct", "super", "trait",
    "type", "unsafe", "use", "where", "while", "gen", "test", "core", "std", "alloc", "nf-sdk", "nf-abi",
];

pub(crate) fn new(options: &NewOptions) -> Outcome {
    let Some(name) = FunctionName::new(&options.name).filter(|name| !TAKEN.contains(&name.as_str())) else {
        eprintln!(
            "new: `{}` is no name for a function; allowed: a lower-case letter, then lower-case letters, digits and \
             `-`, at most 32 in all, and no word of YAML or Rust",
            options.name.escape_debug()
        );
        return Outcome::BadInput;
    };
    let folder = options.path.clone().unwrap_or_else(|| PathBuf::from(name.as_str()));
    match create(&folder, name.as_str(), options.lang) {
        Ok(()) => {
            println!("{}: the function `{name}`, in {}", folder.display(), options.lang.shown());
            println!("\n  cd {}", folder.display());
            println!("  {:<44} # its tests", test_command(options.lang));
            println!(
                "  {:<44} # the image, tested and cut",
                format!("superfluid image build . --output {name}.wasm")
            );
            println!("  {:<44} # the image in a chain", "superfluid run example.yaml");
            Outcome::Done
        }
        Err(error) => {
            eprintln!("new: {error}");
            Outcome::BadInput
        }
    }
}

fn test_command(language: SourceLanguage) -> &'static str {
    match language {
        SourceLanguage::Rust => "cargo test",
        SourceLanguage::C => "make test",
    }
}

/// Makes the folder: whole, or not at all.
fn create(folder: &Path, name: &str, language: SourceLanguage) -> Result<(), String> {
    if folder.symlink_metadata().is_ok() {
        return Err(format!(
            "{} is there already; allowed: the path of a folder that is not",
            folder.display()
        ));
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = parent.join(format!(".{name}.{}.tmp", std::process::id()));
    let made =
        files(name, language).into_iter().try_for_each(|(path, text)| write(&unfinished.join(path), &text));
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

/// Every file of the folder.
fn files(name: &str, language: SourceLanguage) -> Vec<(String, String)> {
    let filled = |template: &str, replacements: &[(&str, &str)]| {
        let text = replacements.iter().fold(template.to_owned(), |text, (from, to)| text.replace(from, to));
        // The name's box in the README is drawn for ten characters.
        text.replace("│   NAME   │", &format!("│{name:^10}│"))
            .replace("┤   NAME   ├", &format!("┤{name:^10}├"))
            .replace("CRATE", &name.replace('-', "_"))
            .replace("NAME", name)
            .replace("VERSION", env!("CARGO_PKG_VERSION"))
    };
    let (source, tests) = match language {
        SourceLanguage::Rust => ("src/lib.rs", "tests/behaviour.rs"),
        SourceLanguage::C => ("src/function.c", "tests/behaviour.c"),
    };
    let test = format!("{:<47} # its tests", test_command(language));
    let readme = [("SOURCE", source), ("TESTS", tests), ("TEST", test.as_str())];
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
            ("sdk/nf_sdk/Cargo.toml", filled(include_str!("../templates/rust/sdk-nf_sdk.toml"), &[])),
            ("sdk/nf_abi/Cargo.toml", filled(include_str!("../templates/rust/sdk-nf_abi.toml"), &[])),
            ("sdk/packet/Cargo.toml", filled(include_str!("../templates/rust/sdk-packet.toml"), &[])),
        ]),
        SourceLanguage::C => files.extend([
            ("Makefile", filled(include_str!("../templates/c/Makefile"), &[])),
            (source, filled(include_str!("../templates/c/src/function.c"), &[])),
            (tests, filled(include_str!("../templates/c/tests/behaviour.c"), &[])),
            ("sdk/superfluid.h", HEADER.to_owned()),
            ("sdk/superfluid_test.h", TEST_HEADER.to_owned()),
        ]),
    }
    let mut files: Vec<_> = files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
    if language == SourceLanguage::Rust {
        files.extend(SDK.iter().map(|(path, text)| (format!("sdk/{path}"), (*text).to_owned())));
    }
    files
}
