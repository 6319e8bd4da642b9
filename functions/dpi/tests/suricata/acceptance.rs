//! What Suricata takes and what it refuses: lists that the tests of this function alone go by, too.

use crate::peers::refused;

/// Its keywords, with their other names.
const KEYWORDS: &str = include_str!("keywords.txt");

#[test]
fn rules_are_taken_and_refused_as_the_lists_have_it() {
    let accepted = include_str!("accepted.rules");
    let lines = refused("accepted", accepted);
    assert!(lines.is_empty(), "Suricata refuses the lines {lines:?} of accepted.rules");
    let mistakes = include_str!("mistakes.rules");
    let lines = refused("mistakes", mistakes);
    let is_rule = |(_, rule): &(usize, &str)| !rule.starts_with('#');
    for (place, rule) in mistakes.lines().enumerate().filter(is_rule) {
        assert!(lines.contains(&(place + 1)), "Suricata takes {rule}");
    }
}

/// With a keyword that is on no list, a file is refused that Suricata takes.
#[test]
fn the_list_has_every_keyword() {
    let output =
        std::process::Command::new("suricata").arg("--list-keywords=csv").output().expect("suricata");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<&str> = said.lines().skip(1).filter_map(|line| line.split(';').next()).collect();
    assert!(names.len() > 200, "{said}");
    for name in names {
        assert!(KEYWORDS.lines().any(|known| known == name), "`{name}` is not in keywords.txt");
    }
}
