//! Prometheus' own opinion: promtool checks the text, and a Prometheus that scrapes it has the samples that
//! were meant.

use crate::document::DOCUMENT;
use crate::sample::{histogram, hostile_account, text};
use crate::server::{LIMIT, Prometheus, missing, serve};
use crate::strict::parse;
use metrics::{Function, Notation, families};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn sample(notation: Notation) -> String {
    let histogram = histogram();
    let of = |_: &str| Function {
        tenant: "te\"nant",
        image: "reg\\istry:1",
        digest: "sha256:00",
        events: Some((3, 1)),
        calls: Some(&histogram),
        waiting: Some(&histogram),
    };
    text(&hostile_account(), notation, &of)
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| missing("promtool", "prometheus", &error));
    let mut stdin = promtool.stdin.take().expect("piped");
    stdin.write_all(sample(Notation::Prometheus).as_bytes()).expect("it reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("its end");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

fn scraping() -> Prometheus {
    let target = serve(|path| {
        let notation = if path == "/openmetrics" { Notation::OpenMetrics } else { Notation::Prometheus };
        (notation, sample(notation))
    });
    let job = |name: &str| {
        format!(
            "- job_name: {name}\n  metrics_path: /{name}\n  static_configs: [{{targets: ['{target}']}}]\n"
        )
    };
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{}{}",
        job("prometheus"),
        job("openmetrics")
    );
    Prometheus::start(&config, "")
}

/// Waits until both targets have been scraped without an error.
fn scraped(prometheus: &Prometheus) {
    prometheus.wait("/api/v1/targets?state=active", LIMIT, |targets| {
        let active = targets["activeTargets"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(active.iter().all(|target| target["health"] != "down"), "{active:#?}");
        (active.len() == 2 && active.iter().all(|target| target["health"] == "up")).then_some(())
    });
}

type Labels = BTreeMap<String, String>;

/// What Prometheus has of a job, without the labels that it adds itself.
fn stored(prometheus: &Prometheus, job: &str) -> BTreeMap<Labels, f64> {
    let begin = Instant::now();
    loop {
        let query = format!("{{job=\"{job}\",__name__=~\"superfluid_.*\"}}");
        let result = prometheus.query(&query).unwrap_or_default()["result"].take();
        let samples = result.as_array().cloned().unwrap_or_default();
        // A target is up a moment before what it gave can be asked for.
        if samples.is_empty() && begin.elapsed() < LIMIT {
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        let of = |sample: &Value| {
            let mut labels: Labels = serde_json::from_value(sample["metric"].clone()).expect("labels");
            labels.retain(|name, _| name != "job" && name != "instance");
            (labels, sample["value"][1].as_str().expect("a value").parse().expect("a number"))
        };
        return samples.iter().map(of).collect();
    }
}

fn meant(notation: Notation) -> BTreeMap<Labels, f64> {
    let families = parse(notation, &sample(notation)).unwrap_or_else(|why| panic!("{why}"));
    let samples = families.into_iter().flat_map(|family| family.samples);
    let of = |sample: crate::strict::Sample| {
        let mut labels: Labels = sample.labels.into_iter().collect();
        labels.insert("__name__".to_owned(), sample.name);
        (labels, sample.value.parse().expect("a number"))
    };
    samples.map(of).collect()
}

#[test]
fn prometheus_has_what_was_meant() {
    let prometheus = scraping();
    scraped(&prometheus);
    for (job, notation) in [("prometheus", Notation::Prometheus), ("openmetrics", Notation::OpenMetrics)] {
        let (stored, meant) = (stored(&prometheus, job), meant(notation));
        assert!(meant.len() > 500, "{}", meant.len());
        for (labels, value) in &meant {
            assert_eq!(stored.get(labels), Some(value), "{job}: {labels:?}");
        }
        assert_eq!(stored.len(), meant.len(), "{job}");
    }
    let questions: Vec<&str> = DOCUMENT
        .split("```promql\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(one, _)| one)
        .collect();
    assert!(questions.len() > 5, "{questions:?}");
    for question in questions {
        let answer = prometheus.query(question).unwrap_or_else(|| panic!("refused: {question}"));
        // A rate needs two scrapes.
        let answers = answer["result"].as_array().map_or(0, Vec::len);
        assert!(answers > 0 || question.contains("rate("), "nothing answers {question}");
    }
    let about = prometheus.ask("/api/v1/targets/metadata?match_target=%7Bjob%3D%22openmetrics%22%7D");
    let about = about.expect("what is told of the families");
    let about: BTreeMap<&str, &Value> = about
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|told| Some((told["metric"].as_str()?, told)))
        .collect();
    for family in families() {
        let told = about.get(family.name).unwrap_or_else(|| panic!("nothing is told of {}", family.name));
        assert_eq!(told["type"], family.kind.word(Notation::OpenMetrics), "{}", family.name);
        assert_eq!(told["help"], family.help);
        assert_eq!(told["unit"], family.told_unit().unwrap_or_default(), "{}", family.name);
    }
}
