//! Which crates may use which: `docs/architecture.md` shows the groups, this holds Cargo's graph to them.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The groups, from the bottom up: a crate may use its own group and those before it. Folders that hold them.
const GROUPS: [(&str, &str); 8] = [
    ("formats", "crates/formats/"),
    ("dataplane", "crates/dataplane/"),
    ("sandbox", "crates/sandbox/"),
    ("functions", "functions/"),
    ("testbed", "testbed"),
    ("control", "crates/control/"),
    ("measure", "measure/"),
    ("fuzz", "fuzz/"),
];

/// A crate of the workspace.
struct Member {
    name: String,
    /// Its folder, from the root.
    folder: String,
    /// Crates of the workspace that it is built with; those of its tests are free.
    uses: BTreeSet<String>,
}

fn members() -> Vec<Member> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(Path::new(ROOT).join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let graph: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let root = text(&graph["workspace_root"]);
    let packages = graph["packages"].as_array().expect("packages");
    let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    let member = |package: &Value| {
        let manifest = text(&package["manifest_path"]);
        let folder = manifest.strip_prefix(&root).and_then(|path| path.strip_suffix("/Cargo.toml"));
        let uses = package["dependencies"].as_array().expect("dependencies").iter();
        let uses = uses.filter(|dependency| dependency["kind"].as_str() != Some("dev"));
        let uses = uses.map(|dependency| text(&dependency["name"])).filter(|name| names.contains(name));
        Member {
            name: text(&package["name"]),
            folder: folder.expect("below the root").trim_start_matches('/').to_owned(),
            uses: uses.collect(),
        }
    };
    packages.iter().map(member).collect()
}

/// The place of a crate's group, from the bottom up.
fn group(member: &Member) -> usize {
    let found = GROUPS.iter().position(|(_, folder)| member.folder.starts_with(folder));
    found.unwrap_or_else(|| panic!("{} lies in no group: {}", member.name, member.folder))
}

#[test]
fn dependencies_between_groups_point_down() {
    let members = members();
    assert!(members.len() > 40, "{}", members.len());
    let groups: BTreeMap<&str, usize> =
        members.iter().map(|member| (member.name.as_str(), group(member))).collect();
    let mut wrong = Vec::new();
    for member in &members {
        for used in &member.uses {
            if groups[used.as_str()] > groups[member.name.as_str()] {
                wrong.push(format!(
                    "{} ({}) uses {used}",
                    member.name,
                    GROUPS[groups[member.name.as_str()]].0
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What only one crate may know.
#[test]
fn heavy_dependencies_have_one_owner() {
    let owners =
        [("wasmtime", vec!["guest_wasm"]), ("rusqlite", vec!["store"]), ("ureq", vec!["http_client"])];
    for (dependency, owners) in owners {
        let owned: Vec<String> = manifests()
            .into_iter()
            .filter(|(_, text)| {
                text.lines().any(|line| {
                    line.starts_with(&format!("{dependency}.")) || line.starts_with(&format!("{dependency} "))
                })
            })
            .map(|(name, _)| name)
            .collect();
        assert_eq!(owned, owners, "{dependency}");
    }
}

fn manifests() -> Vec<(String, String)> {
    let read = |member: Member| {
        let path = Path::new(ROOT).join(&member.folder).join("Cargo.toml");
        (member.name, std::fs::read_to_string(path).expect("a manifest"))
    };
    members().into_iter().map(read).collect()
}

/// The document names every crate, in its group's table.
#[test]
fn the_document_shows_every_crate() {
    let document =
        std::fs::read_to_string(Path::new(ROOT).join("docs/architecture.md")).expect("it is there");
    for (group_name, folder) in GROUPS {
        let heading = format!("### `{}`", folder.trim_end_matches('/'));
        let (_, section) =
            document.split_once(&heading).unwrap_or_else(|| panic!("no heading {heading} for {group_name}"));
        let section =
            section.split("\n## ").next().and_then(|text| text.split("\n### ").next()).expect("a section");
        for member in members().iter().filter(|member| member.folder.starts_with(folder)) {
            assert!(
                section.contains(&format!("`{}`", member.name)),
                "{} stands not below {heading}",
                member.name
            );
        }
    }
}
