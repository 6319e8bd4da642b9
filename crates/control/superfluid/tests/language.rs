//! The prose of code and documents names components: a component is "it" and does things
//! (`docs/glossary.md`).
//!
//! Five words that speak of a component as of an unknown person are counted. A few lines stay: the user of
//! that name on UNIX systems, and constants. Comments are as wide as code.

use std::path::{Path, PathBuf};

/// Lines with one of the words, in the whole tree.
const LINES_MAX: usize = 40;

/// Spelt in parts, so that this file has none of them.
fn words() -> [String; 5] {
    let [some, no, any, every] = ["some", "no", "any", "every"].map(|first| format!("{first}body"));
    [some, no, any, every, format!("who{}", "ever")]
}

/// Sources and documents of the repository, but for what is built and what others wrote.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type().expect("a type").is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                texts(&path, found);
            }
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Numbers of the lines that have one of the words, whole and in any case.
fn lines_with(words: &[String], text: &str) -> Vec<usize> {
    let is_one = |word: &str| words.iter().any(|other| word.eq_ignore_ascii_case(other));
    let has = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_one);
    (1..).zip(text.lines()).filter(|(_, line)| has(line)).map(|(number, _)| number).collect()
}

#[test]
fn components_are_named() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root =
        here.ancestors().find(|folder| folder.join("SPECIFICATION.md").exists()).expect("the repository");
    let mut files = Vec::new();
    texts(root, &mut files);
    assert!(files.len() > 500, "{} files are not the whole tree", files.len());
    let words = words();
    let mut found: Vec<(usize, String)> = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("text");
        let lines = lines_with(&words, &text);
        if let Some(first) = lines.first() {
            let name = path.strip_prefix(root).unwrap_or(&path).display();
            found.push((lines.len(), format!("{name}: {} lines, the first is {first}", lines.len())));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    let all: usize = found.iter().map(|(lines, _)| lines).sum();
    let worst: Vec<&str> = found.iter().take(10).map(|(_, told)| told.as_str()).collect();
    assert!(
        all <= LINES_MAX,
        "{all} lines have one of {words:?}; allowed: {LINES_MAX}. Name the component instead. The worst files:\n{}",
        worst.join("\n")
    );
}

/// Columns of a comment, as rustfmt.toml has them for code. rustfmt wraps no comments.
const COLUMNS: usize = 110;

/// Numbers of the lines that are comments and wider than code. Rows of tables, what stands in a block of
/// code, and one word alone cannot be wrapped.
fn wide_comments(text: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut is_wide = |line: &str| {
        let Some(said) = line.trim_start().strip_prefix("//") else {
            in_code = false;
            return false;
        };
        let said = said.trim_start_matches(['/', '!']);
        in_code ^= said.trim_start().starts_with("```");
        let wraps = !in_code && !said.starts_with("     ") && !said.trim_start().starts_with('|');
        wraps && line.chars().count() > COLUMNS && said.trim().contains(' ')
    };
    (1..).zip(text.lines()).filter(|(_, line)| is_wide(line)).map(|(number, _)| number).collect()
}

#[test]
fn comments_are_as_wide_as_code() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root =
        here.ancestors().find(|folder| folder.join("SPECIFICATION.md").exists()).expect("the repository");
    let mut files = Vec::new();
    texts(root, &mut files);
    let mut wide = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|it| it == "rs")) {
        let text = std::fs::read_to_string(path).expect("text");
        let name = path.strip_prefix(root).unwrap_or(path).display();
        wide.extend(wide_comments(&text).into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(wide.is_empty(), "comments over {COLUMNS} columns:\n{}", wide.join("\n"));
}

#[test]
fn wide_comments_are_found_but_for_what_cannot_be_wrapped() {
    let long = "word ".repeat(30);
    let text = format!(
        "// {long}\n//! | {long} |\n//! ```text\n//! {long}\n//! ```\n/// {long}\nlet x = 1; // {long}\n"
    );
    assert_eq!(wide_comments(&text), [1, 6]);
}

#[test]
fn words_are_found_whole_and_in_any_case() {
    let words = words();
    let text = format!("one {}\n{}_x\n({})\n", words[1], words[0], words[4].to_uppercase());
    assert_eq!(lines_with(&words, &text), [1, 3]);
}
