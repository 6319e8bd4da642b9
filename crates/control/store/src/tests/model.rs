//! The store against a map: any sequence of commits, pages and restarts.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{contents, folder};
use crate::{Change, CommitError, Happened, Precondition, Revision, Store, Write};

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(u8, u8, Condition, Option<Vec<u8>>)>),
    Page { from: u8, limit: usize },
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    Any,
    Absent,
    Present,
    Right,
    Wrong,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let condition = prop_oneof![
        4 => Just(Condition::Any),
        1 => Just(Condition::Absent),
        1 => Just(Condition::Present),
        2 => Just(Condition::Right),
        1 => Just(Condition::Wrong),
    ];
    let value = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..60),
        1 => prop::collection::vec(any::<u8>(), 1_500..6_000),
    ];
    let change = (0u8..2, 0u8..6, condition, prop::option::weighted(0.7, value));
    let step = prop_oneof![
        8 => prop::collection::vec(change, 1..4).prop_map(Step::Commit),
        2 => (0u8..7, 0usize..5).prop_map(|(from, limit)| Step::Page { from, limit }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..30)
}

type Model = BTreeMap<(String, String), (Revision, Vec<u8>)>;

/// What a commit should come to: the changes that happen, or the error.
fn expect(model: &Model, changes: &[Change]) -> Result<Vec<(String, String, Happened)>, CommitError> {
    let key = |change: &Change| (change.kind.to_string(), change.name.to_string());
    for (at, change) in changes.iter().enumerate() {
        let (kind, name) = key(change);
        if changes[..at].iter().any(|other| key(other) == key(change)) {
            return Err(CommitError::Twice { kind, name });
        }
    }
    let mut happened = Vec::new();
    for change in changes {
        let (kind, name) = key(change);
        let found = model.get(&key(change)).map(|(version, _)| *version);
        let right = match change.precondition {
            Precondition::Any => true,
            Precondition::Absent => found.is_none(),
            Precondition::Present => found.is_some(),
            Precondition::Version(version) => found == Some(version),
        };
        if !right {
            return Err(CommitError::Conflict { kind, name, expected: change.precondition, found });
        }
        match (&change.write, found) {
            (Write::Put(_), _) => happened.push((kind, name, Happened::Put)),
            (Write::Delete, Some(_)) => happened.push((kind, name, Happened::Deleted)),
            (Write::Delete, None) => {}
        }
    }
    Ok(happened)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn behaves_like_a_map(steps in steps()) {
        let folder = folder();
        let mut store = Store::open(folder.path()).unwrap();
        let mut model = Model::new();
        let mut last = Revision(0);
        for step in steps {
            match step {
                Step::Commit(changes) => {
                    let changes: Vec<Change> = changes
                        .into_iter()
                        .map(|(kind, name, condition, value)| {
                            let (kind, name) = (format!("kind{kind}"), format!("name{name}"));
                            let version = model.get(&(kind.clone(), name.clone())).map_or(Revision(0), |(at, _)| *at);
                            let precondition = match condition {
                                Condition::Any => Precondition::Any,
                                Condition::Absent => Precondition::Absent,
                                Condition::Present => Precondition::Present,
                                Condition::Right => Precondition::Version(version),
                                Condition::Wrong => Precondition::Version(Revision(version.0 + 1)),
                            };
                            let change = match value {
                                Some(value) => Change::put(kind, name, value),
                                None => Change::delete(kind, name),
                            };
                            change.only_if(precondition)
                        })
                        .collect();
                    let expected = expect(&model, &changes);
                    let revision = store.commit(&changes);
                    prop_assert_eq!(revision.as_ref().err(), expected.as_ref().err());
                    let (Ok(revision), Ok(happened)) = (revision, expected) else { continue };
                    if happened.is_empty() {
                        prop_assert_eq!(revision, store.revision());
                        continue;
                    }
                    prop_assert!(revision > last, "{} follows {}", revision, last);
                    let told = store.changes_after(Revision(revision.0 - 1), 100).unwrap();
                    let told: Vec<_> =
                        told.iter().map(|told| (told.kind.to_string(), told.name.to_string(), told.happened)).collect();
                    prop_assert_eq!(told, happened);
                    last = revision;
                    for change in changes {
                        let key = (change.kind.to_string(), change.name.to_string());
                        match change.write {
                            Write::Put(value) => model.insert(key, (revision, value.to_vec())),
                            Write::Delete => model.remove(&key),
                        };
                    }
                }
                Step::Page { from, limit } => {
                    let from = format!("name{from}");
                    let page = store.list("kind0", &from, limit);
                    let mut expected =
                        model.keys().filter(|(kind, name)| kind == "kind0" && *name >= from).map(|(_, name)| &**name);
                    let found: Vec<_> = page.objects.iter().map(|object| &*object.name).collect();
                    prop_assert_eq!(found, expected.by_ref().take(limit).collect::<Vec<_>>());
                    prop_assert_eq!(page.next.as_deref(), expected.next());
                }
                Step::Restart => {
                    let before = store.revision();
                    drop(store);
                    store = Store::open(folder.path()).unwrap();
                    // It was closed in order, so that no revision needs to be left out.
                    prop_assert_eq!(store.revision(), before);
                }
            }
            prop_assert_eq!(&contents(&store), &model);
        }
    }
}
