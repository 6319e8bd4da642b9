//! What differs between two specs, by the way down to it.

use serde_json::Value;

/// Most differences that are told of one object.
const MOST: usize = 200;

/// Lines that say what is new (`+`), gone (`-`) and another (`~`).
pub(crate) fn compare(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    walk("", before, after, &mut lines);
    if lines.len() > MOST {
        let more = lines.len() - MOST;
        lines.truncate(MOST);
        lines.push(format!("  and {more} more differences"));
    }
    lines
}

fn walk(at: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Value::Object(old), Value::Object(new)) => {
            let way = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
            for (key, before) in old {
                match new.get(key) {
                    Some(after) => walk(&way(key), before, after, lines),
                    None => lines.push(format!("- {}: {before}", way(key))),
                }
            }
            for (key, after) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                lines.push(format!("+ {}: {after}", way(key)));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for n in 0..old.len().max(new.len()) {
                let way = format!("{at}[{n}]");
                match (old.get(n), new.get(n)) {
                    (Some(before), Some(after)) => walk(&way, before, after, lines),
                    (Some(before), None) => lines.push(format!("- {way}: {before}")),
                    (None, Some(after)) => lines.push(format!("+ {way}: {after}")),
                    (None, None) => {}
                }
            }
        }
        (before, after) => {
            let at = if at.is_empty() { "all" } else { at };
            lines.push(format!("~ {at}: {before} -> {after}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_told_and_nothing_else() {
        let before = json!({"image": "a", "config": {"rules": [{"action": "drop"}, 2], "x": 1}, "worker": 0});
        let after = json!({"image": "a", "config": {"rules": [{"action": "accept"}], "y": [1]}, "cpu": {"weight": 3}});
        assert_eq!(
            compare(&before, &after),
            [
                "~ config.rules[0].action: \"drop\" -> \"accept\"",
                "- config.rules[1]: 2",
                "- config.x: 1",
                "+ config.y: [1]",
                "- worker: 0",
                "+ cpu: {\"weight\":3}",
            ]
        );
        assert!(compare(&before, &before).is_empty());
        assert_eq!(compare(&json!("a"), &json!(["a"])), ["~ all: \"a\" -> [\"a\"]"]);
        let many = compare(&json!({}), &Value::Array(vec![]));
        assert_eq!(many, ["~ all: {} -> []"]);
        let many = compare(&json!([]), &json!(vec![1; MOST + 5]));
        assert_eq!((many.len(), many[MOST].as_str()), (MOST + 1, "  and 5 more differences"));
    }
}
