//! Names in messages: what was found, what is allowed, what was probably meant.

/// Longest text that a message repeats, in characters.
const MAX_SHOWN: usize = 64;

/// Most names that a message lists.
const MAX_LISTED: usize = 32;

/// Most names that are compared with a misspelt one.
const MAX_COMPARED: usize = 4096;

/// A user's text as a message may repeat it: on one line, and not longer than a line.
pub fn shown(text: &str) -> String {
    printable::harmless(text, MAX_SHOWN)
}

/// The name that `found` is probably a misspelling of: at most a third of its characters are changed, left
/// out, added or swapped with their neighbour. Letters' case counts for nothing.
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = found.chars().count();
    if length == 0 || length > MAX_SHOWN {
        return None;
    }
    let bound = (length / 3).max(1);
    let found = found.to_lowercase();
    let near = |name: &'a str| {
        let candidate = name.chars().count();
        // Two letters of which one is wrong are no misspelling.
        if candidate.abs_diff(length) > bound {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&found, &name.to_lowercase());
        (distance <= bound && distance < candidate.min(length)).then_some((distance, name))
    };
    // Of two that are as near, the one that begins as it: `kpps` for `kps`, and not `pps`.
    let begins = |name: &str| name.chars().next().map(|c| c.to_ascii_lowercase()) == found.chars().next();
    let near = names.into_iter().take(MAX_COMPARED).filter_map(near);
    near.min_by_key(|(distance, name)| (*distance, !begins(name))).map(|(_, name)| name)
}

/// Names for a message: `a, b, c`.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut out = String::new();
    for name in names.by_ref().take(MAX_LISTED) {
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(&shown(name));
    }
    match names.count() {
        0 if out.is_empty() => "none".to_owned(),
        0 => out,
        more => format!("{out} and {more} more"),
    }
}

/// The end of a message about a wrong name: `; allowed: a, b; did you mean `a`?`
pub fn choices<'a>(found: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let allowed = listed(names.clone());
    match nearest(found, names) {
        Some(name) => format!("; allowed: {allowed}; did you mean `{}`?", shown(name)),
        None => format!("; allowed: {allowed}"),
    }
}
