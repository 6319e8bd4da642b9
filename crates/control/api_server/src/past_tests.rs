use super::*;
use serde_json::{Value, json};

fn put(kind: Kind, name: &str, spec: Option<Value>) -> ObjectChange {
    ObjectChange { kind, name: name.to_owned(), spec, paused: false, snapshot: None }
}

/// With a function of each of two tenants.
fn two_tenants() -> (Arc<Owners>, Past) {
    let function =
        |name: &str, tenant: &str| put(Kind::Function, name, Some(json!({"image": "a", "tenant": tenant})));
    let owners = Arc::new(Owners::new(&[function("fw", "red"), function("nat", "blue")], 1));
    (owners.clone(), Past::new(owners))
}

fn event(at: Instant, name: &str) -> Kept {
    Kept {
        number: 0,
        at,
        time: SystemTime::UNIX_EPOCH,
        kind: Kind::Function,
        name: name.into(),
        what: "fault".into(),
        text: Some("it".into()),
        revision: None,
        for_owner_alone: false,
    }
}

fn told(past: &Past, tenant: Option<&str>) -> Vec<(String, String)> {
    let read = past.read(tenant, HOUR, 100, (Instant::now(), SystemTime::now()));
    read.items.into_iter().map(|event| (event.name, event.what)).collect()
}

fn words(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())).collect()
}

#[test]
fn an_event_stays_the_owners_at_whose_time_it_happened() {
    let (owners, past) = two_tenants();
    let notice = |kind, name: &str, what: &str| past.notice(SystemTime::now(), kind, name, what, "so");
    notice(Kind::Function, "fw", "fault");
    notice(Kind::Workers, "workers", "moved");
    notice(Kind::Function, "fw", "found");
    // The function is given to the other tenant, which has a fault of its own.
    let change = [put(Kind::Function, "fw", Some(json!({"image": "a", "tenant": "blue"})))];
    past.changed(2, &change, &owners.take(2, &change));
    notice(Kind::Function, "fw", "restarted");
    let change = [put(Kind::Function, "nat", None)];
    past.changed(3, &change, &owners.take(3, &change));
    assert_eq!(told(&past, Some("red")), words(&[("fw", "fault"), ("fw", "deleted")]));
    assert_eq!(told(&past, Some("blue")), words(&[("fw", "put"), ("fw", "restarted"), ("nat", "deleted")]));
    let all = [("fw", "fault"), ("workers", "moved"), ("fw", "put"), ("fw", "restarted"), ("nat", "deleted")];
    assert_eq!(told(&past, None), words(&all));
    assert_eq!(told(&past, Some("none")), []);
    let read = past.read(Some("blue"), HOUR, 100, (Instant::now(), SystemTime::now()));
    assert_eq!((read.items[0].revision, &read.items[0].text), (Some(2), &None));
    assert_eq!((read.items[1].revision, read.items[1].text.as_deref()), (None, Some("so")));
}

#[test]
fn a_flood_of_one_owner_pushes_out_none_of_anothers_and_since_tells_what_is_missing() {
    let (_, past) = two_tenants();
    // It began to keep events a moment before.
    let begin = past.rings().began + Duration::from_millis(7);
    let early = 7;
    let red = Some("red".to_owned());
    past.rings().put(Some("blue".to_owned()), event(begin, "nat"));
    for second in 0..10_000 {
        past.rings().put(red.clone(), event(begin + Duration::from_millis(second), "fw"));
    }
    let now = begin + Duration::from_secs(10);
    let present = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
    let read = |tenant, limit| past.read(tenant, HOUR, limit, (now, present));
    assert_eq!(read(Some("blue"), 10).items.len(), 1);
    let all = read(Some("red"), usize::MAX).items;
    assert!((2..=OF_ONE.0).contains(&all.len()), "{}", all.len());
    assert_eq!(all.last().map(|event| event.age_ms), Some(1));
    // Of administrators' events the newest are told, in their order.
    let newest = read(None, 3);
    assert_eq!(newest.items.iter().map(|event| event.age_ms).collect::<Vec<_>>(), [3, 2, 1]);
    // What was pushed out is before `since`, and so is what the limit left out.
    let since = |read: &PastEvents| humantime::parse_rfc3339(&read.since).expect("a time");
    let ago = |read: &PastEvents| present.duration_since(since(read)).expect("past").as_millis();
    assert_eq!(ago(&read(Some("red"), usize::MAX)), u128::from(all[0].age_ms) + 1);
    assert_eq!((ago(&newest), ago(&read(Some("blue"), 10))), (4, 10_000 + early));
}

#[test]
fn all_rings_together_are_bounded_and_the_largest_gives_way() {
    let (_, past) = two_tenants();
    let begin = Instant::now();
    past.rings().put(None, event(begin, "small"));
    let long = "n".repeat(400);
    for tenant in 0..30 {
        for _ in 0..1000 {
            past.rings().put(Some(format!("t{tenant}")), event(begin, &long));
        }
        assert!(past.rings().bytes <= OF_ALL);
    }
    let rings = past.rings();
    assert_eq!(rings.bytes, rings.all().map(|ring| ring.bytes).sum::<usize>());
    assert_eq!(rings.of.len(), 31, "none is without anything");
    assert!(rings.of.values().all(|ring| !ring.events.is_empty()));
}

#[test]
fn what_is_older_than_an_hour_is_gone_and_long_texts_are_cut() {
    let (_, past) = two_tenants();
    let begin = Instant::now();
    past.rings().put(None, event(begin, "old"));
    let later = begin + HOUR + Duration::from_secs(1);
    assert_eq!(past.read(None, HOUR, 9, (later, SystemTime::now())).items, []);
    past.rings().put(None, event(later, "new"));
    assert_eq!(past.rings().of[&None].events.len(), 1);
    let soon = (later + Duration::from_secs(6), SystemTime::now());
    let soon = past.read(None, Duration::from_secs(5), 9, soon);
    assert_eq!(soon.items, []);
    let text = format!("a{}", "ü".repeat(TEXT));
    let kept = cut(&text);
    assert!(kept.len() <= TEXT && kept.starts_with("aüü") && kept.ends_with('…'), "{}", kept.len());
    assert_eq!(&*cut("as it is"), "as it is");
}

#[test]
fn what_happened_to_a_tenant_that_is_deleted_is_not_the_next_ones_of_its_name() {
    let (owners, past) = two_tenants();
    let change = |revision, kind, name: &str, spec| {
        let change = [put(kind, name, spec)];
        past.changed(revision, &change, &owners.take(revision, &change));
    };
    past.notice(SystemTime::now(), Kind::Function, "fw", "fault", "so");
    change(2, Kind::Function, "fw", None);
    change(3, Kind::Tenant, "red", None);
    change(4, Kind::Tenant, "red", Some(json!({})));
    assert_eq!(told(&past, Some("red")), words(&[("red", "put")]));
    // Administrators are told all of it.
    let all = [("fw", "fault"), ("fw", "deleted"), ("red", "deleted"), ("red", "put")];
    assert_eq!(told(&past, None), words(&all));
    // It is bounded with the others, and not kept for longer.
    let later = Instant::now() + HOUR + Duration::from_secs(1);
    past.rings().end("blue", later);
    let rings = past.rings();
    assert!(rings.gone.is_empty());
    assert_eq!(rings.bytes, rings.all().map(|ring| ring.bytes).sum::<usize>());
}
