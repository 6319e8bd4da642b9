//! Links in documents lead somewhere: each relative link in a `.md` file of the tree to a file that is there,
//! and with an anchor to a heading of it, or to an `<a id>`. Addresses elsewhere are not asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Documents of the repository, but for what is built and what others wrote.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type().expect("a type").is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                documents(&path, found);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Lines with their numbers, without blocks of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The links of a line, but for those in code: what stands between `](` and `)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, _)| {
        let in_code = line[..at].matches('`').count() % 2 == 1;
        let target = line[at + 2..].split_once(')')?.0;
        (!in_code).then_some(target)
    })
}

/// What can stand behind `#` in a link to a text: the names that GitHub gives headings, and what has an `id`.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut known, mut all) = (BTreeMap::new(), BTreeSet::new());
    for (_, line) in prose(text) {
        let ids =
            line.match_indices("<a id=\"").filter_map(|(at, tag)| line[at + tag.len()..].split('"').next());
        all.extend(ids.map(str::to_owned));
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let Some(heading) = line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level)) else {
            continue;
        };
        // Of a link in a heading its text counts.
        let mut shown = String::new();
        let mut rest = heading.trim();
        while let Some((before, link)) = rest.split_once("](") {
            shown.push_str(before);
            rest = link.split_once(')').map_or("", |(_, after)| after);
        }
        shown.push_str(rest);
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let name: String =
            shown.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = known.entry(name.clone()).or_insert(0_usize);
        all.insert(if *times == 0 { name } else { format!("{name}-{times}") });
        *times += 1;
    }
    all
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole
}

/// Why a link of a document leads nowhere.
fn fault(document: &Path, text: &str, target: &str) -> Option<String> {
    if target.split_once(':').is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_lowercase()))
    {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = match path {
        "" => document.to_owned(),
        path => plain(&document.parent()?.join(path)),
    };
    if !file.exists() {
        return Some("there is no such file".to_owned());
    }
    let anchor = anchor?;
    let of = match path {
        "" => text.to_owned(),
        _ if file.extension().is_none_or(|it| it != "md") => {
            return Some("only documents have headings".to_owned());
        }
        _ => std::fs::read_to_string(&file).ok()?,
    };
    let there = anchors(&of);
    if there.contains(anchor) {
        return None;
    }
    let shared = |name: &String| name.bytes().zip(anchor.bytes()).take_while(|(a, b)| a == b).count();
    let nearest = there.iter().max_by_key(|name| shared(name)).cloned().unwrap_or_default();
    Some(format!("it has no heading of that name; the nearest is #{nearest}"))
}

#[test]
fn links_lead_to_files_and_headings() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root =
        here.ancestors().find(|folder| folder.join("SPECIFICATION.md").exists()).expect("the repository");
    let mut files = Vec::new();
    documents(root, &mut files);
    let (mut faults, mut seen) = (Vec::new(), 0);
    for path in files {
        let text = std::fs::read_to_string(&path).expect("text");
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for (line, target) in prose(&text).flat_map(|(line, text)| links(text).map(move |link| (line, link)))
        {
            seen += 1;
            faults.extend(fault(&path, &text, target).map(|why| format!("{name}:{line}: {target}: {why}")));
        }
    }
    assert!(seen > 500, "{seen} links are not all");
    assert!(faults.is_empty(), "links that lead nowhere:\n{}", faults.join("\n"));
}

#[test]
fn links_and_headings_are_found_as_a_browser_shows_them() {
    let text = "# A `word`, and [another](x.md#y)\n## Twice\n## Twice\n```\n# no heading [a](nowhere)\n```\n\
                <a id=\"own\"></a>**Bold.** [one](#twice-1) and `[none](x)` and [two](../b.md)\n";
    let found: Vec<String> = anchors(text).into_iter().collect();
    assert_eq!(found, ["a-word-and-another", "own", "twice", "twice-1"]);
    let found: Vec<(usize, &str)> =
        prose(text).flat_map(|(line, text)| links(text).map(move |link| (line, link))).collect();
    assert_eq!(found, [(1, "x.md#y"), (7, "#twice-1"), (7, "../b.md")]);
    let folder = tempfile::tempdir().expect("a folder");
    let (inner, document) = (folder.path().join("inner"), folder.path().join("inner/a.md"));
    std::fs::create_dir(&inner).expect("a folder");
    std::fs::write(folder.path().join("b.md"), "# One thing\n").expect("written");
    std::fs::write(inner.join("c.rs"), "").expect("written");
    std::fs::write(&document, text).expect("written");
    for good in ["https://example.org/x#y", "#own", "../b.md", "../b.md#one-thing", "./c.rs", "../inner"] {
        assert_eq!(fault(&document, text, good), None, "{good}");
    }
    for (bad, why) in [
        ("b.md", "no such file"),
        ("#ow", "#own"),
        ("../b.md#one", "#one-thing"),
        ("c.rs#one", "only documents"),
    ] {
        let told = fault(&document, text, bad).unwrap_or_default();
        assert!(told.contains(why), "{bad}: {told}");
    }
}
