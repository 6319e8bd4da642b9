//! Any sequence of changes, beside a model of what they should do.

use crate::Running;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Put { name: u8, image: u8, condition: Condition, dry_run: bool },
    Delete { name: u8, condition: Condition, dry_run: bool },
    Apply { objects: BTreeMap<u8, u8>, prune: bool, dry_run: bool },
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    None,
    Absent,
    Present,
    Right,
    Wrong,
}

fn step() -> impl Strategy<Value = Step> {
    use Condition::*;
    let condition = || prop::sample::select(vec![None, None, Absent, Present, Right, Wrong]);
    let image = || 0..5u8;
    prop_oneof![
        3 => (0..4u8, image(), condition(), any::<bool>())
            .prop_map(|(name, image, condition, dry_run)| Step::Put { name, image, condition, dry_run }),
        1 => (0..4u8, condition(), any::<bool>()).prop_map(|(name, condition, dry_run)| Step::Delete { name, condition, dry_run }),
        1 => (prop::collection::btree_map(0..4u8, image(), 0..4), any::<bool>(), any::<bool>())
            .prop_map(|(objects, prune, dry_run)| Step::Apply { objects, prune, dry_run }),
    ]
}

/// The last one is refused by the host.
fn image(number: u8) -> &'static str {
    ["a", "b", "c", "slow-d", "missing"][usize::from(number)]
}

type Model = BTreeMap<u8, (u8, u64)>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_server_does_what_the_model_does(steps in prop::collection::vec(step(), 1..30)) {
        let server = Running::new();
        let mut client = server.client();
        let mut model = Model::new();
        let mut revision = 0;
        for step in steps {
            let before = (model.clone(), revision);
            let (expected, got, dry) = match &step {
                Step::Put { name, image: wanted, condition, dry_run } => {
                    let there = model.get(name).copied();
                    let expected = if !holds(*condition, there) {
                        412
                    } else if there.is_some_and(|(image, _)| image == *wanted) {
                        200
                    } else if image(*wanted) == "missing" {
                        422
                    } else {
                        revision += 1;
                        model.insert(*name, (*wanted, revision));
                        if there.is_some() || *dry_run { 200 } else { 201 }
                    };
                    let body = json!({"spec": {"image": image(*wanted)}}).to_string();
                    let path = format!("/v1/functions/f{name}?dry_run={dry_run}");
                    let headers = headers(*condition, there);
                    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                    (expected, client.ask("PUT", &path, &headers, &body), *dry_run)
                }
                Step::Delete { name, condition, dry_run } => {
                    let there = model.get(name).copied();
                    let expected = if !holds(*condition, there) {
                        412
                    } else if there.is_none() {
                        404
                    } else {
                        revision += 1;
                        model.remove(name);
                        200
                    };
                    let path = format!("/v1/functions/f{name}?dry_run={dry_run}");
                    let headers = headers(*condition, there);
                    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                    (expected, client.ask("DELETE", &path, &headers, ""), *dry_run)
                }
                Step::Apply { objects, prune, dry_run } => {
                    let differs = |name: &u8, wanted: &u8| model.get(name).is_none_or(|(image, _)| image != wanted);
                    let wrong = objects.iter().any(|(name, wanted)| differs(name, wanted) && image(*wanted) == "missing");
                    let expected = if wrong {
                        422
                    } else {
                        let pruned = *prune && model.keys().any(|name| !objects.contains_key(name));
                        if pruned || objects.iter().any(|(name, wanted)| differs(name, wanted)) {
                            revision += 1;
                        }
                        if *prune {
                            model.retain(|name, _| objects.contains_key(name));
                        }
                        for (name, wanted) in objects {
                            if model.get(name).is_none_or(|(image, _)| image != wanted) {
                                model.insert(*name, (*wanted, revision));
                            }
                        }
                        200
                    };
                    let functions: serde_json::Map<String, Value> = objects
                        .iter()
                        .map(|(name, wanted)| (format!("f{name}"), json!({"image": image(*wanted)})))
                        .collect();
                    let body = json!({"superfluid": 1, "functions": functions}).to_string();
                    let path = format!("/v1/apply?prune={prune}&dry_run={dry_run}");
                    (expected, client.post(&path, &body), *dry_run)
                }
            };
            prop_assert_eq!(got.status, expected, "{:?}: {:?}", step, got);
            if dry {
                (model, revision) = before;
            }
            let list = client.get("/v1/functions").json();
            prop_assert_eq!(list["revision"].as_u64(), Some(revision), "{:?}", step);
            let found: Vec<_> = list["items"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|item| (item["name"].clone(), item["spec"]["image"].clone(), item["version"].clone()))
                .collect();
            let wanted: Vec<_> = model
                .iter()
                .map(|(name, (wanted, version))| (json!(format!("f{name}")), json!(image(*wanted)), json!(version)))
                .collect();
            prop_assert_eq!(found, wanted, "{:?}", step);
            let world = server.fake.world();
            prop_assert_eq!(world.objects.len(), model.len(), "the host has what the store has");
            prop_assert_eq!(server.fake.open.load(std::sync::atomic::Ordering::SeqCst), 0);
        }
    }
}

fn holds(condition: Condition, there: Option<(u8, u64)>) -> bool {
    match condition {
        Condition::None => true,
        Condition::Absent => there.is_none(),
        Condition::Present | Condition::Right => there.is_some(),
        Condition::Wrong => false,
    }
}

fn headers(condition: Condition, there: Option<(u8, u64)>) -> Vec<(&'static str, String)> {
    let version = there.map_or(99_999, |(_, version)| version);
    match condition {
        Condition::None => vec![],
        Condition::Absent => vec![("if-none-match", "*".to_owned())],
        Condition::Present => vec![("if-match", "*".to_owned())],
        Condition::Right => vec![("if-match", format!("\"{version}\""))],
        Condition::Wrong => vec![("if-match", format!("\"{}\"", version + 1000))],
    }
}
