//! The alerts and the dashboard of `packaging`: a Prometheus that scrapes an ill host fires each alert and
//! has an answer to each question of the dashboard.

use crate::sample::{CLOCK, account, function};
use crate::server::{LIMIT, Prometheus, missing, question, serve};
use engine::{Account, InstanceAccount};
use metrics::{Container, Daemon, Function, Host, Memory, Notation, TenantMemory};
use port::PortStatus;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use telemetry::clock::{Cycles, Nanos};
use telemetry::{DropCounters, DropReason, Latencies, Ledger};

const RULES: &str = include_str!("../../../../../packaging/prometheus/superfluid.rules.yml");
const DASHBOARD: &str = include_str!("../../../../../packaging/grafana/superfluid.json");
const DOCUMENT: &str = include_str!("../../../../../docs/alerts.md");

/// Names of the alerts, and their severities.
fn alerts() -> BTreeMap<&'static str, &'static str> {
    let after = |text: &'static str, mark: &str| text.split_once(mark).map(|(_, rest)| rest);
    let rules = RULES.split("- alert: ").skip(1);
    rules
        .map(|rule| {
            let (name, rest) = rule.split_once('\n').expect("a rule has lines");
            let severity = after(rest, "severity: ").and_then(|rest| rest.split_once('}')).expect(name);
            (name, severity.0)
        })
        .collect()
}

#[test]
fn promtool_has_each_alert_fire_when_it_is_to() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules.test.yml");
    let said = Command::new("promtool").args(["test", "rules", tests]).output();
    let said = said.unwrap_or_else(|error| missing("promtool", "prometheus", &error));
    assert!(
        said.status.success(),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
}

#[test]
fn the_document_tells_each_alert() {
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeMap<&str, &str> = rows
        .filter_map(|row| {
            let (name, rest) = row.split_once("` | ")?;
            Some((name, rest.split_once(" |")?.0))
        })
        .collect();
    assert_eq!(told, alerts());
}

/// A host that is well until it is told to be ill.
struct Patient {
    ill: AtomicBool,
    since: OnceLock<Instant>,
    scrapes: AtomicU64,
}

impl Patient {
    fn new() -> Patient {
        Patient { ill: AtomicBool::new(false), since: OnceLock::new(), scrapes: AtomicU64::new(0) }
    }

    /// What its daemon answers. Losses and faults happen once, before the first scrape of its illness, and
    /// never again.
    fn text(&self) -> String {
        let scrapes = self.scrapes.fetch_add(1, Relaxed);
        let ill = self.ill.load(Relaxed);
        let ill_for = if ill { self.since.get_or_init(Instant::now).elapsed() } else { Duration::ZERO };
        let account = state(ill, ill_for, scrapes);
        let tenant = TenantMemory { name: "default", promised: 1 << 20, reserve: 0, limit: Some(1 << 30) };
        let function =
            Function { tenant: "default", image: "firewall", digest: "sha256:00", ..Function::default() };
        let container = Container {
            name: "web".to_owned(),
            tenant: "default".to_owned(),
            up: !ill,
            starting: false,
            faults: ill.into(),
            restarts: 0,
            used: Nanos(0),
            engine: Nanos(0),
            promised: 0.5,
            memory: 0,
            image: "./web".to_owned(),
            digest: String::new(),
            events: (u64::from(ill), 0),
            worker: None,
            packets: 0,
            bytes: 0,
            queue: 0,
            dropped: DropCounters::default(),
            missed: 0,
            latencies: Latencies::default(),
        };
        // One that boots is no alarm: it is counted as a fault when its time is over.
        let slow =
            Container { name: "slow".to_owned(), up: false, starting: true, faults: 0, ..container.clone() };
        let mut text = String::new();
        Host {
            account: &account,
            clock: *CLOCK,
            busy: &[Cycles(scrapes << 20)],
            version: "1.0.0",
            started: Nanos(1_600_000_000_000_000_000 + if ill { scrapes * 1_000_000_000 } else { 0 }),
            functions: &[function, function],
            containers: &[container, slow],
            memory: Memory { tenants: &[tenant], promised: if ill { 95 } else { 10 }, limit: Some(100) },
            background: &[],
            stations: &[],
        }
        .write(Notation::Prometheus, &mut text);
        Daemon {
            requests: &BTreeMap::from([(200, scrapes)]),
            page_refusals: [0; 3],
            refused_connections: 0,
            lost_audit_lines: 0,
            spans: [0; 3],
            connections: 1,
            operations: 0,
            page_sessions: 0,
            revision: 1,
        }
        .write(Notation::Prometheus, &mut text);
        text
    }
}

/// A port, two functions and a pool, with what makes their alerts fire.
fn state(ill: bool, ill_for: Duration, scrapes: u64) -> Account {
    let lost = |reason: DropReason| {
        let mut ledger = Ledger::default();
        ledger.dropped[reason] = if ill { 50_000 } else { 0 };
        ledger
    };
    let took = |part: f64| {
        CLOCK.cycles(Nanos(u64::try_from(ill_for.mul_f64(part).as_nanos()).expect("less than centuries")))
    };
    let mut latencies = Latencies::default();
    latencies.record(300, scrapes);
    let gate = InstanceAccount {
        ledger: lost(DropReason::QueueFull),
        packets: 1_000 * scrapes,
        faults: ill.into(),
        promised: 0.5,
        cycles: took(0.1),
        throttled: took(0.5),
        queue: if ill { 100 } else { 0 },
        paused: false,
        down: None,
        latencies: latencies.clone(),
        ..function("gate", 0)
    };
    let down = ill.then(|| "it trapped".to_owned());
    let fallen = InstanceAccount { down, ..function("fallen", 0) };
    let mut account = account(vec![gate, fallen]);
    account.ports.truncate(1);
    let port = &mut account.ports[0];
    port.status = if ill { PortStatus::Down("its interface is gone".to_owned()) } else { PortStatus::Up };
    port.counters.ledger = lost(DropReason::NoBuffer);
    port.counters.ledger.received = 1_000 * scrapes;
    port.counters.received_bytes = 64_000 * scrapes;
    port.counters.kernel_lost = if ill { 1_000 * scrapes } else { 0 };
    port.latencies = latencies;
    account.pools = vec![("default".to_owned(), if ill { 1 } else { 90 }, 100)];
    account.ledger = lost(DropReason::QueueFull);
    account.ledger.received = 1_000_000 + 1_000 * scrapes;
    account.ledger.delivered = account.ledger.received - account.ledger.dropped.total();
    account.in_flight = ill.into();
    account
}

/// The rules, with two seconds for each minute, so that nothing takes as long as it is meant to.
fn hurried() -> String {
    let mut rules = RULES.to_owned();
    for minutes in [1, 5, 10, 15] {
        for (before, after) in [("[", "]"), ("offset ", ""), ("for: ", "")] {
            let of = |time: String| format!("{before}{time}{after}");
            rules = rules.replace(&of(format!("{minutes}m")), &of(format!("{}s", minutes * 2)));
        }
    }
    assert!(!rules.contains("m]"), "a time is left as it was: {rules}");
    rules
}

/// Serves a host that is well, one that becomes ill when it is told to, and one that never answers.
struct Hosts {
    well: SocketAddr,
    ill: SocketAddr,
    patient: Arc<Patient>,
    away: TcpListener,
}

impl Hosts {
    fn serve() -> Hosts {
        let (healthy, patient) = (Patient::new(), Arc::new(Patient::new()));
        let told = Arc::clone(&patient);
        Hosts {
            well: serve(move |_| (Notation::Prometheus, healthy.text())),
            ill: serve(move |_| (Notation::Prometheus, told.text())),
            patient,
            away: TcpListener::bind("127.0.0.1:0").expect("a port"),
        }
    }

    fn config(&self) -> String {
        let away = self.away.local_addr().expect("bound");
        let targets = [self.well, self.ill, away].map(|target| format!("'{target}'")).join(", ");
        format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}\n\
             rule_files: [rules.yml]\n\
             scrape_configs: [{{job_name: superfluid, static_configs: [{{targets: [{targets}]}}]}}]\n"
        )
    }
}

/// Alerts that fire at the moment: name, instance and severity.
fn firing(answer: &Value) -> BTreeSet<(String, String, String)> {
    let alerts = answer["alerts"].as_array().map_or(&[][..], Vec::as_slice);
    let label = |alert: &Value, name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
    let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
    firing
        .map(|alert| (label(alert, "alertname"), label(alert, "instance"), label(alert, "severity")))
        .collect()
}

#[test]
fn prometheus_fires_each_alert_and_answers_the_dashboard() {
    let hosts = Hosts::serve();
    let prometheus = Prometheus::start(&hosts.config(), &hurried());
    let (well, ill) = (hosts.well.to_string(), hosts.ill.to_string());
    // It has watched both for as long as the rules look back.
    let watched = question("count(up offset 10s == 1) == 2");
    prometheus
        .wait(&watched, LIMIT, |answer| answer["result"].as_array().filter(|all| !all.is_empty()).map(drop));
    let before = prometheus.ask("/api/v1/alerts").map(|answer| firing(&answer)).expect("an answer");
    assert!(before.iter().all(|(name, ..)| name == "SuperfluidAway"), "{before:?}");

    hosts.patient.ill.store(true, Relaxed);
    let expected = alerts();
    let mut fired = BTreeSet::new();
    prometheus.wait("/api/v1/alerts", 4 * LIMIT, |answer| {
        fired.extend(firing(answer));
        let missing: Vec<_> =
            expected.keys().filter(|name| !fired.iter().any(|(fired, ..)| fired == *name)).collect();
        missing.is_empty().then_some(())
    });
    for (name, instance, severity) in &fired {
        assert_eq!(expected.get(name.as_str()), Some(&severity.as_str()), "{name}");
        assert!(*instance == ill || name == "SuperfluidAway", "{name} of {instance}, which is well: {well}");
    }

    let board: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let mut asked = 0;
    for panel in board["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().map_or(&[][..], Vec::as_slice) {
            answers(&prometheus, target);
            asked += 1;
        }
    }
    for variable in board["templating"]["list"].as_array().expect("variables").iter().skip(1) {
        let query = variable["query"]["query"].as_str().expect("a query");
        let (series, label) = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')')?.rsplit_once(", "))
            .expect(query);
        let target = serde_json::json!({"expr": series, "legendFormat": format!("{{{{{label}}}}}")});
        answers(&prometheus, &target);
    }
    assert!(asked > 25, "{asked}");
}

/// Holds that a question had an answer since the test began, with the labels of its legend.
fn answers(prometheus: &Prometheus, target: &Value) {
    let expr = target["expr"].as_str().expect("a question");
    let now = expr.replace("$__rate_interval", "10s").replace("$instance", ".*").replace("$tenant", ".*");
    assert!(!now.contains('$'), "a variable is not known: {now}");
    let answer = prometheus.query(&format!("last_over_time(({now})[5m:1s])"));
    let answer = answer.unwrap_or_else(|| panic!("refused: {now}"));
    let series = answer["result"].as_array().filter(|series| !series.is_empty());
    let series = series.unwrap_or_else(|| panic!("nothing answers {now}"));
    let legend = target["legendFormat"].as_str().expect("a legend");
    for label in legend.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")) {
        let all = series.iter().all(|series| series["metric"][label.0].is_string());
        assert!(all, "{now} has no label {}", label.0);
    }
}

#[test]
fn the_dashboards_panels_stand_beside_each_other() {
    let board: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().expect(title));
        assert!(x + w <= 24 && w > 0 && h > 0, "{title}");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{title} lies over another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{title}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
    }
}
