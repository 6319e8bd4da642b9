//! Kinds and names as the user writes them: `function fw`, `fn/fw`, `ports`.

use api::Kind;
use yaml_document::spelling;

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Objects of a kind.
    Objects(Kind),
    /// Objects of all kinds.
    All,
    /// Images on the host.
    Images,
    /// Saved functions.
    Snapshots,
    /// Work that takes long.
    Operations,
}

/// What is meant: of which kind, and by which names; all of it without names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meant {
    pub(crate) kind: Listed,
    pub(crate) names: Vec<String>,
}

/// Short forms of kinds, beside singular and plural.
const SHORT: [(&str, Listed); 22] = [
    ("wk", Listed::Objects(Kind::Workers)),
    ("worker", Listed::Objects(Kind::Workers)),
    ("tn", Listed::Objects(Kind::Tenant)),
    ("po", Listed::Objects(Kind::Port)),
    ("sw", Listed::Objects(Kind::Switch)),
    ("gr", Listed::Objects(Kind::Group)),
    ("dev", Listed::Objects(Kind::Device)),
    ("fn", Listed::Objects(Kind::Function)),
    ("ch", Listed::Objects(Kind::Chain)),
    ("wi", Listed::Objects(Kind::Wire)),
    ("ob", Listed::Objects(Kind::Observer)),
    ("svc", Listed::Objects(Kind::Service)),
    ("all", Listed::All),
    ("image", Listed::Images),
    ("images", Listed::Images),
    ("img", Listed::Images),
    ("snapshot", Listed::Snapshots),
    ("snapshots", Listed::Snapshots),
    ("snap", Listed::Snapshots),
    ("operation", Listed::Operations),
    ("operations", Listed::Operations),
    ("op", Listed::Operations),
];

/// Short forms of so many letters are not taken for what was meant.
const SHORTEST_MEANT: usize = 3;

/// Whether a word names a kind.
pub(crate) fn is_one(word: &str) -> bool {
    kind(word).is_ok()
}

/// The kind that a word names.
fn kind(word: &str) -> Result<Listed, String> {
    let lower = word.to_lowercase();
    if let Some(kind) = Kind::from_name(&lower).or_else(|| Kind::from_plural(&lower)) {
        return Ok(Listed::Objects(kind));
    }
    if let Some((_, listed)) = SHORT.iter().find(|(short, _)| *short == lower) {
        return Ok(*listed);
    }
    let full = Kind::ALL.map(Kind::as_str).into_iter().chain(["image", "snapshot", "operation", "all"]);
    // Of the short forms each is near to any other short word, a name such as `fw` say.
    let long = SHORT.map(|(short, _)| short).into_iter().filter(|short| short.len() > SHORTEST_MEANT);
    let all = full.clone().chain(Kind::ALL.map(Kind::plural)).chain(long);
    let meant = spelling::nearest(word, all).map(|near| format!("; did you mean `{near}`?"));
    let (word, allowed) = (spelling::shown(word), spelling::listed(full));
    Err(format!("`{word}` is no kind; allowed: {allowed}{}", meant.unwrap_or_default()))
}

/// What a row of words means: a kind and names, or `KIND/NAME` again and again.
pub(crate) fn meant(words: &[String]) -> Result<Vec<Meant>, String> {
    if words.first().is_some_and(|word| !word.contains('/')) {
        let (first, names) = words.split_first().ok_or("there is no kind")?;
        if let Some(name) = names.iter().find(|name| name.contains('/')) {
            let name = spelling::shown(name);
            return Err(format!("`{name}` comes after a kind; allowed: KIND NAME..., or KIND/NAME..."));
        }
        let kind = kind(first).map_err(|wrong| match names {
            // It is no misspelt kind: it is a name, probably.
            [] if !wrong.ends_with('?') => {
                format!("{wrong}; a name comes after its kind: `function {}`", spelling::shown(first))
            }
            _ => wrong,
        })?;
        if let (Listed::All, Some(name)) = (kind, names.first()) {
            return Err(all_of_one_name(name));
        }
        return Ok(vec![Meant { kind, names: names.to_vec() }]);
    }
    let mut all: Vec<Meant> = Vec::new();
    for word in words {
        let Some((first, name)) = word.split_once('/').filter(|(_, name)| !name.is_empty()) else {
            return Err(format!(
                "`{}` names no object; allowed: KIND NAME..., or KIND/NAME...",
                spelling::shown(word)
            ));
        };
        let kind = kind(first)?;
        if kind == Listed::All {
            return Err(all_of_one_name(name));
        }
        match all.last_mut() {
            Some(last) if last.kind == kind => last.names.push(name.to_owned()),
            _ => all.push(Meant { kind, names: vec![name.to_owned()] }),
        }
    }
    Ok(all)
}

/// Names are of one kind: those of a port and of a function may be the same.
fn all_of_one_name(name: &str) -> String {
    let name = spelling::shown(name);
    format!("`{name}` is named without its kind; allowed: `all` alone, KIND NAME..., or KIND/NAME...")
}

/// The same where only named objects can be meant.
pub(crate) fn objects(words: &[String]) -> Result<Vec<(Kind, String)>, String> {
    let mut objects = Vec::new();
    for Meant { kind, names } in meant(words)? {
        let Listed::Objects(kind) = kind else {
            let allowed = spelling::listed(Kind::ALL.map(Kind::as_str));
            return Err(format!("`{}` is no kind of object; allowed: {allowed}", spelling::shown(&words[0])));
        };
        match (kind, names.is_empty()) {
            // There is but one.
            (Kind::Workers, true) => objects.push((kind, "workers".to_owned())),
            (_, true) => return Err(format!("which {kind}? A name is missing: {kind} NAME")),
            (_, false) => {
                for name in names {
                    let checked = api::check_name(kind, &name).map_err(|error| format!("{kind}: {error}"))?;
                    objects.push((kind, checked.into_owned()));
                }
            }
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CommandLine;
    use clap::CommandFactory;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn every_kind_has_a_singular_a_plural_and_a_short_form() {
        for kind in Kind::ALL {
            let short = SHORT.iter().find(|(_, listed)| *listed == Listed::Objects(kind)).expect("short").0;
            for word in [kind.as_str(), kind.plural(), short, &kind.as_str().to_uppercase()] {
                let meant = meant(&words(&format!("{word} a b"))).expect("known");
                assert_eq!(meant, [Meant { kind: Listed::Objects(kind), names: words("a b") }], "{word}");
            }
        }
        let mut shorts = SHORT.map(|(short, _)| short).to_vec();
        shorts.sort_unstable();
        shorts.dedup();
        assert_eq!(shorts.len(), SHORT.len());
    }

    #[test]
    fn help_names_every_kind() {
        let command = CommandLine::command();
        let get = command.find_subcommand("get").expect("there");
        let help = get.get_after_help().expect("some").to_string();
        for kind in Kind::ALL {
            let short = SHORT.iter().find(|(_, listed)| *listed == Listed::Objects(kind)).expect("short").0;
            assert!(help.contains(&format!(" {kind} ({short})")), "{kind}: {help}");
        }
    }

    #[test]
    fn objects_are_named_in_two_ways() {
        let found = objects(&words("fn/a fn/b port/lan")).expect("known");
        let name = |name: &str| name.to_owned();
        assert_eq!(
            found,
            [(Kind::Function, name("a")), (Kind::Function, name("b")), (Kind::Port, name("lan"))]
        );
        assert_eq!(objects(&words("wire/b~a:1")), Ok(vec![(Kind::Wire, name("a:1~b"))]));
        assert_eq!(objects(&words("workers")), Ok(vec![(Kind::Workers, name("workers"))]));
    }

    #[test]
    fn what_is_misspelt_is_told_with_what_was_meant() {
        let wrong = |text: &str| objects(&words(text)).expect_err("wrong");
        assert!(wrong("fuction fw").ends_with("did you mean `function`?"), "{}", wrong("fuction fw"));
        assert!(wrong("prots x").contains("`prots` is no kind; allowed: workers, tenant, port"));
        assert!(wrong("function a fn/b").contains("`fn/b` comes after a kind"));
        assert!(wrong("fn/a b").contains("`b` names no object"));
        assert!(wrong("fn/").contains("names no object"));
        assert!(wrong("function").contains("which function?"));
        assert!(wrong("image x").contains("no kind of object"));
        for words in ["all fw", "all/fw", "fn/a all/fw"] {
            assert!(
                wrong(words).starts_with("`fw` is named without its kind; allowed: `all` alone"),
                "{words}"
            );
        }
        let alone = wrong("fw");
        assert!(alone.starts_with("`fw` is no kind; allowed: workers, tenant"), "{alone}");
        assert!(alone.ends_with("operation, all; a name comes after its kind: `function fw`"), "{alone}");
        let near = wrong("functon");
        assert!(near.contains("did you mean `function`?"), "{near}");
        assert!(wrong("service x").contains("as a service's number"));
    }
}
