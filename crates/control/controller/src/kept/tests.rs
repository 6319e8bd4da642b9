//! Rings, tenants and files together.

use super::*;
use std::sync::{Arc, Mutex};

fn alerts(count: usize, bytes: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n:0bytes$}")).collect()
}

fn write(kept: &mut Kept) {
    for writing in kept.to_write() {
        let bytes = match writing.anew {
            true => {
                file::replace(&writing.path, &writing.lines).expect("written");
                writing.lines.len() as u64
            }
            false => file::append(&writing.path, &writing.lines).expect("written"),
        };
        kept.written(&writing, bytes);
    }
}

fn texts(kept: &Kept, function: &str) -> Vec<String> {
    kept.after(function, 0, usize::MAX).iter().map(|entry| entry.text.to_string()).collect()
}

#[test]
fn events_outlive_a_restart_and_numbers_are_not_given_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut kept, troubles) = Kept::open(folder.path());
    assert_eq!(troubles, [""; 0]);
    kept.know("ids", "red");
    kept.know("fw", "blue");
    kept.found("ids", &["{}".to_owned()], 2);
    kept.happened("fw", What::Fault, "it trapped");
    kept.found("unknown", &["{}".to_owned()], 0);
    write(&mut kept);
    assert_eq!(kept.to_write().len(), 0, "all is written");
    // Never written: the daemon is killed.
    kept.found("ids", &["[]".to_owned()], 0);
    let given = kept.after("ids", 0, 9).last().expect("events").number;

    let (mut again, troubles) = Kept::open(folder.path());
    assert_eq!(troubles, [""; 0]);
    again.know("ids", "red");
    again.know("fw", "blue");
    assert_eq!(
        (texts(&again, "ids"), texts(&again, "fw")),
        (vec!["2".into(), "{}".into()], vec!["it trapped".into()])
    );
    again.found("ids", &["new".to_owned()], 0);
    assert!(again.after("ids", 0, 9).last().expect("events").number > given);
    assert_eq!(again.after("unknown", 0, 9), []);
}

#[test]
fn a_function_of_another_tenant_sees_nothing_of_the_one_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut kept, _) = Kept::open(folder.path());
    kept.know("ids", "red");
    kept.found("ids", &["secret".to_owned()], 0);
    write(&mut kept);
    kept.know("ids", "blue");
    assert_eq!(texts(&kept, "ids"), [""; 0]);
    kept.found("ids", &["blue's".to_owned()], 0);
    write(&mut kept);
    let (mut again, _) = Kept::open(folder.path());
    again.know("ids", "blue");
    assert_eq!(texts(&again, "ids"), ["blue's"]);
    // Deleted, and made again by the first one.
    again.forget("ids");
    again.know("ids", "red");
    write(&mut again);
    let (mut third, _) = Kept::open(folder.path());
    third.know("ids", "red");
    assert_eq!(texts(&third, "ids"), [""; 0]);
}

#[test]
fn what_is_no_longer_wanted_goes_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut kept, _) = Kept::open(folder.path());
    kept.know("a", "red");
    kept.know("b", "red");
    kept.found("a", &["x".to_owned()], 0);
    kept.found("b", &["y".to_owned()], 0);
    write(&mut kept);
    let (mut again, _) = Kept::open(folder.path());
    again.retain(&BTreeSet::from(["a"]));
    write(&mut again);
    let (third, _) = Kept::open(folder.path());
    assert_eq!((texts(&third, "a"), texts(&third, "b")), (vec!["x".to_owned()], Vec::new()));
}

#[test]
fn a_tenant_is_bounded_and_takes_nothing_from_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut kept, _) = Kept::open(folder.path());
    kept.know("quiet", "blue");
    kept.found("quiet", &["x".to_owned()], 0);
    kept.know("small", "red");
    kept.found("small", &["y".to_owned()], 0);
    for n in 0..100 {
        let name = format!("f{n}");
        kept.know(&name, "red");
        kept.found(&name, &alerts(200, 1000), 0);
        assert!(kept.tenants["red"].bytes <= OF_TENANT);
    }
    let sum: usize = kept.functions.values().filter(|known| known.tenant == "red").map(Function::bytes).sum();
    assert_eq!(sum, kept.tenants["red"].bytes);
    assert_eq!((texts(&kept, "quiet"), texts(&kept, "small")), (vec!["x".to_owned()], vec!["y".to_owned()]));
    assert!(!texts(&kept, "f99").is_empty());
}

#[test]
fn a_function_without_events_takes_little() {
    let mut kept = Kept::default();
    kept.know("f", "red");
    assert!(kept.functions["f"].ring.is_none() && size_of::<Function>() <= 48);
    assert_eq!((kept.counts("f"), kept.report("f"), texts(&kept, "f")), ((0, 0), None, Vec::new()));
    kept.found("f", &["x".to_owned()], 0);
    assert_eq!((kept.counts("f"), texts(&kept, "f")), ((1, 0), vec!["x".to_owned()]));
}

#[test]
fn a_file_stays_bounded_however_much_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut kept, _) = Kept::open(folder.path());
    kept.know("ids", "red");
    let flood = alerts(1000, 200);
    let mut largest = 0;
    for _ in 0..50 {
        kept.found("ids", &flood, 0);
        write(&mut kept);
        largest = largest.max(std::fs::metadata(folder.path().join("red.jsonl")).expect("there").len());
    }
    assert!(largest < 3 << 20, "{largest} bytes for a ring of 256 KiB");
    let (again, _) = Kept::open(folder.path());
    assert_eq!(texts(&again, "ids"), texts(&kept, "ids"));
}

#[test]
fn a_disk_that_takes_nothing_holds_nothing_up_and_is_tried_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let events = folder.path().join("events");
    let (kept, _) = Kept::open(&events);
    let kept = Arc::new(Mutex::new(kept));
    // A file system that is gone.
    std::fs::remove_dir(&events).expect("removed");
    let writer = Writer::begin(kept.clone()).expect("a thread");
    kept.lock().expect("no panic").know("ids", "red");
    kept.lock().expect("no panic").found("ids", &["x".to_owned()], 0);
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(kept.lock().expect("no panic").to_write().len(), 1, "it is still to be written");
    std::fs::create_dir(&events).expect("there again");
    writer.end();
    assert_eq!(kept.lock().expect("no panic").to_write().len(), 0);
    let (again, _) = Kept::open(&events);
    assert_eq!(texts(&again, "ids"), ["x"]);
}

#[test]
fn damaged_numbers_are_told_and_cost_no_event_before_or_behind_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("red.jsonl");
    let event = |number: u64| {
        let text = format!("{{\"n\":{number}}}");
        let line = Line::Event { function: "ids".into(), number, time: 1, what: What::Alert, text };
        let mut bytes = Vec::new();
        line.write(&mut bytes);
        bytes
    };
    let reserved = |reserved| {
        let mut bytes = Vec::new();
        Line::Reserved { function: "ids".into(), reserved }.write(&mut bytes);
        bytes
    };
    let lost =
        Line::Event { function: "ids".into(), number: 4, time: u64::MAX, what: What::Lost, text: "x".into() };
    let mut text = Vec::new();
    lost.write(&mut text);
    for (damage, told, shown) in [
        (event(u64::MAX), 1, 3),
        (event(1 << 50), 1, 3),
        (event(0), 1, 3),
        (reserved(u64::MAX), 1, 3),
        (b"{\"function\":\"ids\",\"number\":18446744073709551616}\n".to_vec(), 1, 3),
        (text, 0, 4),
    ] {
        let whole = [event(2), event(3), damage, event(5)].concat();
        std::fs::write(&path, whole).expect("written");
        let (mut kept, troubles) = Kept::open(folder.path());
        kept.know("ids", "red");
        let lines = format!("{}: {told} lines cannot be read", path.display());
        assert_eq!(troubles, if told == 0 { vec![] } else { vec![lines] });
        assert_eq!(texts(&kept, "ids").len(), shown);
        // Numbers go on, also over the next start.
        for count in shown + 1..shown + 4 {
            kept.found("ids", &["{}".to_owned()], 0);
            write(&mut kept);
            let numbers: Vec<u64> = kept.after("ids", 0, 99).iter().map(|entry| entry.number).collect();
            assert!(numbers.is_sorted() && numbers.len() == count, "{numbers:?}");
            kept = Kept::open(folder.path()).0;
            kept.know("ids", "red");
            assert_eq!(texts(&kept, "ids").len(), count);
        }
    }
}
