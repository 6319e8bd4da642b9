//! What is written is what was counted, in both notations, whatever things are called.

use crate::sample::{CLOCK, HOSTILE, account, function, guest, histogram, hostile_account, text};
use crate::strict::{Parsed, parse};
use engine::InstanceAccount;
use metrics::json::ContainerAccount;
use metrics::{Family, Function, Notation, Type, families};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn read(notation: Notation, text: &str) -> Vec<Parsed> {
    parse(notation, text).unwrap_or_else(|why| panic!("{notation:?}: {why}"))
}

fn family<'a>(parsed: &'a [Parsed], name: &str) -> &'a Parsed {
    parsed.iter().find(|family| family.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The value of the sample that has at least these labels.
fn value(parsed: &[Parsed], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let fits = |sample: &&crate::strict::Sample| {
        labels.iter().all(|(label, value)| sample.label(label) == Some(value))
    };
    let mut found = family(parsed, name).samples.iter().filter(fits);
    let sample = found.next()?;
    assert!(found.next().is_none(), "{name} of {labels:?} is not one sample");
    Some(sample.value.replace("Inf", "inf").parse().expect("a number"))
}

fn known(_: &str) -> Function<'static> {
    let (tenant, image, digest) = ("te\"nant", "reg/istry:1\\", "sha256:00");
    Function { tenant, image, digest, events: Some((3, 1)), ..Function::default() }
}

#[test]
fn every_family_is_there_once_in_order_and_as_it_is_described() {
    let account = hostile_account();
    for notation in Notation::ALL {
        let parsed = read(notation, &text(&account, notation, &known));
        let all: Vec<&Family> = families().collect();
        assert_eq!(parsed.len(), all.len());
        for (parsed, family) in parsed.iter().zip(all) {
            let suffix = if notation == Notation::Prometheus { family.kind.suffix() } else { "" };
            assert_eq!(parsed.name, format!("{}{suffix}", family.name));
            assert_eq!(
                (parsed.help.as_str(), parsed.kind.as_str()),
                (family.help, family.kind.word(notation))
            );
            let unit = family.told_unit().filter(|_| notation == Notation::OpenMetrics);
            assert_eq!(parsed.unit.as_deref(), unit, "{}", family.name);
            for sample in &parsed.samples {
                let mut labels: Vec<&str> = sample.labels.iter().map(|(name, _)| name.as_str()).collect();
                labels.retain(|label| *label != "le");
                assert_eq!(labels, family.labels, "{}", family.name);
                assert!(
                    !family.sparse || family.kind == Type::Histogram || sample.value != "0",
                    "{sample:?}"
                );
            }
            let not_measured = ["superfluid_function_call_seconds", "superfluid_function_waiting_seconds"];
            assert_eq!(parsed.samples.is_empty(), not_measured.contains(&family.name), "{}", family.name);
        }
    }
}

#[test]
fn both_notations_say_the_same() {
    let account = hostile_account();
    let samples = |notation| -> Vec<_> {
        read(notation, &text(&account, notation, &known))
            .into_iter()
            .flat_map(|family| family.samples)
            .collect()
    };
    assert_eq!(samples(Notation::Prometheus), samples(Notation::OpenMetrics));
}

#[test]
fn the_same_account_is_the_same_text() {
    let account = hostile_account();
    for notation in Notation::ALL {
        assert_eq!(text(&account, notation, &known), text(&account, notation, &known));
    }
}

#[test]
fn of_nothing_there_are_the_families_alone() {
    let nothing = engine::Account {
        ports: Vec::new(),
        switches: Vec::new(),
        devices: Vec::new(),
        port_devices: Vec::new(),
        workers: Vec::new(),
        pools: Vec::new(),
        ..account(Vec::new())
    };
    for notation in Notation::ALL {
        let parsed = read(notation, &text(&nothing, notation, &known));
        assert_eq!(parsed.len(), families().count());
        assert_eq!(value(&parsed, "superfluid_balanced", &[]), Some(1.0));
    }
}

/// All that a name may not be twice, with what OpenMetrics keeps for a type.
#[test]
fn names_are_by_convention_and_collide_with_no_other() {
    let mut taken = BTreeSet::new();
    for family in families() {
        let name = family.name;
        assert!(name.starts_with("superfluid_"), "{name}");
        assert!(!family.help.is_empty() && family.help.ends_with('.'), "{name}");
        assert!(
            !["_total", "_info", "_count", "_sum", "_bucket", "_created"]
                .iter()
                .any(|end| name.ends_with(end))
        );
        for (unit, base) in
            [("milliseconds", "seconds"), ("cycles", "seconds"), ("percent", "ratio"), ("kib", "bytes")]
        {
            assert!(!name.contains(unit), "{name}: in {base}");
        }
        if ["seconds", "bytes", "ratio", "hertz"].contains(&family.unit) {
            assert_eq!(family.told_unit(), Some(family.unit), "{name}");
        }
        let kept: &[&str] = match family.kind {
            Type::Counter => &["", "_total", "_created"],
            Type::Gauge => &[""],
            Type::Info => &["", "_info"],
            Type::Histogram => &["", "_bucket", "_count", "_sum", "_created"],
        };
        for suffix in kept {
            assert!(taken.insert(format!("{name}{suffix}")), "{name}{suffix} is there twice");
        }
    }
}

#[test]
fn numbers_are_those_of_the_account() {
    let account = hostile_account();
    let parsed = read(Notation::OpenMetrics, &text(&account, Notation::OpenMetrics, &known));
    let of = |name: &str, labels: &[(&str, &str)]| value(&parsed, name, labels);
    assert_eq!(of("superfluid_received_packets", &[]), Some(9.0));
    assert_eq!(of("superfluid_drops", &[("reason", "queue-full")]), Some(0.0));
    assert_eq!(of("superfluid_start_time_seconds", &[]), Some(1.6e9));
    assert_eq!(family(&parsed, "superfluid_account_time_seconds").samples[0].value, "1700000000.123456789");
    assert_eq!(of("superfluid_pool_free_buffers", &[("pool", "a\nb")]), Some(3.0));
    assert_eq!(of("superfluid_pool_buffers", &[("pool", "a\nb")]), Some(4.0));
    for (n, name) in HOSTILE.iter().enumerate() {
        let port = &[("port", *name)][..];
        assert_eq!(of("superfluid_port_up", port), Some(f64::from(n % 3 != 1)));
        assert_eq!(of("superfluid_port_finished", port), Some(f64::from(n % 3 == 2)));
        assert_eq!(of("superfluid_port_delivered_bytes", port), Some(n as f64 * 5.0));
        assert_eq!(of("superfluid_port_kernel_lost_packets", port), Some(n as f64 * 7.0));
        let kicks = of("superfluid_port_own_counts", &[("port", name), ("counter", "kicks")]);
        assert_eq!(kicks, (n > 0).then_some(n as f64 * 13.0));
        let switch = &[("switch", *name)][..];
        assert_eq!(of("superfluid_switch_stations", switch), Some(n as f64 + 2.0));
        let filtered = &[("switch", *name), ("reason", "no-source")];
        assert_eq!(of("superfluid_switch_filtered_frames", filtered), Some(n as f64));
        let openers = &[("device", *name), ("from", "openers")];
        assert_eq!(of("superfluid_device_packets", openers), Some(n as f64 + 1.0));
        let ports = &[("device", *name), ("from", "ports")];
        assert_eq!(of("superfluid_device_bytes", ports), Some(n as f64 * 60.0));
        assert_eq!(of("superfluid_device_openers", &[("device", *name)]), Some(n as f64 + 2.0));
        let unreceived = &[("device", *name), ("reason", "no-device")];
        assert_eq!(of("superfluid_device_drops", unreceived), Some(n as f64 * 2.0));
        let received = &[("device", *name), ("what", "received")];
        assert_eq!(of("superfluid_device_neighbour_frames", received), Some(9.0));
        let missed = &[("device", *name), ("reason", "missed")];
        assert_eq!(of("superfluid_device_neighbour_drops", missed), Some(0.0));
        assert_eq!(of("superfluid_port_devices_unwanted_packets", port), Some(n as f64 + 5.0));
    }
    let mode =
        |mode| of("superfluid_worker_seconds", &[("worker", "1"), ("mode", mode)]).expect("it is there");
    let cycles = |cycles| CLOCK.span(telemetry::clock::Cycles(cycles)).as_secs_f64();
    assert!((mode("busy") - cycles(1 << 34)).abs() < 1e-6);
    assert!((mode("asleep") - cycles(2 << 32)).abs() < 1e-6);
    assert_eq!(of("superfluid_daemon_requests", &[("status", "404")]), Some(1.0));
    assert_eq!(of("superfluid_daemon_revision", &[]), Some((1u64 << 52) as f64));
    let digest = [("function", "end\\"), ("digest", "sha256:00"), ("image", "reg/istry:1\\")];
    assert_eq!(of("superfluid_function", &digest), Some(1.0));
}

/// A container is found by the names that functions in the sandbox are found by.
#[test]
fn guests_are_functions_with_what_they_have_of_them() {
    let account = hostile_account();
    for notation in Notation::ALL {
        let parsed = read(notation, &text(&account, notation, &known));
        let total = if notation == Notation::Prometheus { "_total" } else { "" };
        for name in HOSTILE {
            let guest = guest(name);
            let labels = [("function", guest.as_str()), ("tenant", "t\"1"), ("image", "web\"\n")];
            let of = |family: &str| value(&parsed, &format!("superfluid_function_{family}"), &labels);
            let counted = |family: &str| of(&format!("{family}{total}"));
            assert_eq!((of("up"), of("queue_packets"), of("worker")), (Some(1.0), Some(2.0), Some(1.0)));
            let info = if notation == Notation::Prometheus {
                "superfluid_function_info"
            } else {
                "superfluid_function"
            };
            let with_digest = [&labels[..], &[("digest", "sha256:11")]].concat();
            assert_eq!(value(&parsed, info, &with_digest), Some(1.0));
            assert_eq!(
                (counted("events"), counted("lost_events"), counted("missed_packets")),
                (Some(9.0), Some(8.0), Some(7.0))
            );
            assert_eq!(
                (counted("packets"), counted("bytes"), counted("calls")),
                (Some(40.0), Some(4000.0), None)
            );
            assert_eq!((counted("faults"), counted("restarts")), (Some(2.0), Some(1.0)));
            assert_eq!((counted("cpu_seconds"), of("cpu_promised_ratio")), (Some(3.0), Some(0.25)));
            assert_eq!(of("memory_bytes"), Some(f64::from(3 << 20)));
            // One reason alone has lost something, and 0 is left out.
            assert_eq!(counted("drops"), Some(6.0));
        }
        let latency = family(&parsed, "superfluid_function_latency_seconds");
        let counts = latency.samples.iter().filter(|sample| sample.name.ends_with("_count"));
        let of_guests = counts.filter(|sample| sample.label("image") == Some("web\"\n"));
        assert!(
            of_guests.clone().count() == HOSTILE.len() && of_guests.into_iter().all(|it| it.value == "40")
        );
    }
}

/// Families of functions that guests have not, and why.
const OF_THE_SANDBOX_ALONE: [(&str, &str); 13] = [
    ("paused", "a guest is not paused: its processes go on whatever the engine does"),
    ("calls", "there are no calls into it"),
    ("overruns", "there are no calls into it"),
    ("suspensions", "there are no calls into it"),
    ("call_seconds", "there are no calls into it"),
    ("waiting_seconds", "it takes packets itself, and does not say when"),
    ("in_flight_packets", "those at its ports are the ports', and would be counted twice"),
    ("throttled_seconds", "the kernel holds its processes back, and keeps no account of having had work"),
    ("own_counts", "its image names none; what its ports count is in `superfluid_port_own_counts`"),
    ("own_drops", "its image names none; what it lets go of itself it does not say"),
    ("generated_packets", "what it sends comes in by its ports"),
    ("consumed_packets", "what it takes goes out by its ports"),
    ("split_packets, copied_packets, merged_packets", "it sends packets, however it made them"),
];

/// No family of functions is forgotten where guests are concerned: they have it, or it stands above.
#[test]
fn guests_have_all_families_of_functions_but_those_with_a_reason() {
    let account = hostile_account();
    let histogram = histogram();
    let of = |name: &str| Function { calls: Some(&histogram), waiting: Some(&histogram), ..known(name) };
    let parsed = read(Notation::OpenMetrics, &text(&account, Notation::OpenMetrics, &of));
    let guests: BTreeSet<String> = HOSTILE.iter().map(|name| guest(name)).collect();
    let has = |family: &Parsed, guest: bool| {
        let names = family.samples.iter().filter_map(|sample| sample.label("function"));
        names.into_iter().any(|name| guests.contains(name) == guest)
    };
    let families = parsed.iter().filter(|family| family.name.starts_with("superfluid_function"));
    let lacking: BTreeSet<&str> = families
        .inspect(|family| assert!(has(family, false), "no function has {}", family.name))
        .filter(|family| !has(family, true))
        .map(|family| family.name.trim_start_matches("superfluid_function_"))
        .collect();
    let known: BTreeSet<&str> =
        OF_THE_SANDBOX_ALONE.iter().flat_map(|(names, _)| names.split(", ")).collect();
    assert_eq!(lacking, known);
}

/// What `/v1/account` and `run --json` have of functions and not of guests, and why.
const NOT_OF_GUESTS: [(&str, &str); 6] = [
    ("calls, overruns, suspensions", "there are no calls into it"),
    ("throttled_cycles", "the kernel holds its processes back, and keeps no account of having had work"),
    ("paused, frozen", "it is neither"),
    ("down", "`state` and `reason` say it, and what is starting"),
    ("in_flight, ledger", "those of its ports"),
    ("counters, report", "its image names none, and it is not asked for one"),
];

/// The other way round.
const OF_GUESTS_ALONE: [(&str, &str); 3] = [
    ("state, reason", "of functions `down`, `paused` and `frozen` say it"),
    ("engine_cycles, processes_cycles", "a function in the sandbox has one part alone: `cycles`"),
    ("memory, memory_limit", "what functions in the sandbox have of memory has an account of its own"),
];

#[test]
fn accounts_have_the_same_of_functions_and_of_guests_but_with_a_reason() {
    let guest = ContainerAccount { name: "ids".to_owned(), ..ContainerAccount::default() };
    let text = metrics::json::account("account", &hostile_account(), &[guest]);
    let account: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let keys = |of: &serde_json::Value| -> BTreeSet<String> {
        of.as_object().expect("an object").keys().cloned().collect()
    };
    let (function, guest) = (keys(&account["functions"]["plain"]), keys(&account["containers"]["ids"]));
    let listed = |list: &[(&str, &str)]| -> BTreeSet<String> {
        list.iter().flat_map(|(names, _)| names.split(", ")).map(str::to_owned).collect()
    };
    assert_eq!(&function - &guest, listed(&NOT_OF_GUESTS));
    assert_eq!(&guest - &function, listed(&OF_GUESTS_ALONE));
}

#[test]
fn a_packet_too_many_is_told() {
    let mut account = account(Vec::new());
    account.in_flight += 1;
    let parsed = read(Notation::Prometheus, &text(&account, Notation::Prometheus, &known));
    assert_eq!(value(&parsed, "superfluid_balanced", &[]), Some(0.0));
}

#[test]
fn histograms_are_told_where_there_are_any() {
    let account = hostile_account();
    let histogram = histogram();
    let of = |name: &str| Function { calls: (name == "a\nb").then_some(&histogram), ..known(name) };
    for notation in Notation::ALL {
        let parsed = read(notation, &text(&account, notation, &of));
        assert!(family(&parsed, "superfluid_function_waiting_seconds").samples.is_empty());
        let calls = family(&parsed, "superfluid_function_call_seconds");
        let found: BTreeMap<&str, &str> = calls
            .samples
            .iter()
            .filter_map(|sample| Some((sample.label("le")?, sample.value.as_str())))
            .collect();
        assert_eq!(found.len(), 25);
        let at_most =
            [("1.28e-07", "2"), ("2.56e-07", "3"), ("0.001048576", "4"), ("1.073741824", "5"), ("+Inf", "7")];
        for (bound, count) in at_most {
            assert_eq!(found.get(bound), Some(&count), "{bound}");
        }
        let sum: u64 = 1 + 128 + 129 + (1 << 20) + (1 << 30) + (1 << 31) + (1 << 50);
        let told = calls.samples.iter().find(|sample| sample.name.ends_with("_sum")).expect("a sum");
        assert_eq!(told.value, (sum as f64 / 1e9).to_string());
        assert!(calls.samples.iter().all(|sample| sample.label("function") == Some("a\nb")));
    }
}

fn name() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        3 => prop::sample::select(vec!['"', '\\', '\n', '\r', '\0', '{', '}', ',', '=', '#', ' ', 'n']),
        1 => any::<char>(),
        1 => prop::char::range('a', 'z'),
    ];
    prop::collection::vec(char, 0..12).prop_map(String::from_iter)
}

type Counted = fn(&InstanceAccount) -> f64;

const COUNTED: [(&str, Counted); 9] = [
    ("packets", |f| f.packets as f64),
    ("bytes", |f| f.bytes as f64),
    ("calls", |f| f.calls as f64),
    ("faults", |f| f.faults as f64),
    ("restarts", |f| f.restarts as f64),
    ("missed_packets", |f| f.missed as f64),
    ("overruns", |f| f.overruns as f64),
    ("suspensions", |f| f.suspensions as f64),
    ("merged_packets", |f| f.ledger.merged as f64),
];

const GAUGES: [(&str, Counted); 8] = [
    ("memory_bytes", |f| f.memory as f64),
    ("queue_packets", |f| f.queue as f64),
    ("in_flight_packets", |f| f.in_flight as f64),
    ("up", |f| f64::from(f.down.is_none())),
    ("paused", |f| f64::from(f.paused)),
    ("worker", |f| f.worker.into()),
    ("cpu_promised_ratio", |f| f.promised),
    ("cpu_seconds_total", |f| CLOCK.span(f.cycles).as_secs_f64()),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn names_come_back_and_numbers_with_them(
        names in prop::collection::btree_map(name(), 0u64..1000, 1..6),
        tenant in name(), image in name(), digest in name(),
    ) {
        let functions: Vec<_> = names.iter().map(|(name, seed)| function(name, *seed)).collect();
        let account = account(functions.clone());
        let of = |_: &str| Function { tenant: &tenant, image: &image, digest: &digest, ..Function::default() };
        for notation in Notation::ALL {
            let parsed = parse(notation, &text(&account, notation, &of)).map_err(TestCaseError::fail)?;
            let counter = if notation == Notation::Prometheus { "_total" } else { "" };
            let info = if notation == Notation::Prometheus { "_info" } else { "" };
            let is_guest = |name: Option<&str>| HOSTILE.iter().any(|of| Some(guest(of).as_str()) == name);
            let told: Vec<_> = family(&parsed, &format!("superfluid_function{info}")).samples.iter()
                .filter(|sample| !is_guest(sample.label("function")))
                .map(|sample| sample.labels.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>()).collect();
            let expected: Vec<_> =
                names.keys().map(|name| vec![name.clone(), tenant.clone(), image.clone(), digest.clone()]).collect();
            prop_assert_eq!(told, expected);
            for function in &functions {
                let labels = [("function", function.name.as_str()), ("tenant", &tenant), ("image", &image)];
                for (name, count) in COUNTED {
                    let told = value(&parsed, &format!("superfluid_function_{name}{counter}"), &labels);
                    prop_assert_eq!(told.unwrap_or(0.0), count(function), "{}", name);
                }
                for (name, number) in GAUGES {
                    let name = if counter.is_empty() { name.trim_end_matches("_total") } else { name };
                    let told = value(&parsed, &format!("superfluid_function_{name}"), &labels).expect("always told");
                    prop_assert!((told - number(function)).abs() < 1e-9 * told.abs().max(1.0), "{}: {}", name, told);
                }
                for (reason, count) in function.ledger.dropped.nonzero() {
                    let with = [&labels[..], &[("reason", reason.name())]].concat();
                    let told = value(&parsed, &format!("superfluid_function_drops{counter}"), &with);
                    prop_assert_eq!(told, Some(count as f64));
                }
                for (own, count) in function.counters.iter().filter(|(_, count)| *count > 0) {
                    let with = [&labels[..], &[("counter", own)]].concat();
                    let told = value(&parsed, &format!("superfluid_function_own_counts{counter}"), &with);
                    prop_assert_eq!(told, Some(*count as f64));
                }
            }
        }
    }
}
