//! Prometheus' own opinion: promtool checks the text, and a Prometheus that scrapes it has the samples that
//! were meant.

use crate::document::DOCUMENT;
use crate::sample::{histogram, hostile_account, text};
use crate::strict::parse;
use metrics::{Function, Notation, families};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

fn missing(program: &str, package: &str, error: &std::io::Error) -> ! {
    panic!("{program} cannot be run ({error}); install the package `{package}`, or run scripts/setup test")
}

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

/// Answers `/prometheus` and `/openmetrics`, one request a connection, until the test's process ends.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        // A scraper that goes away is not this test's concern; one that misses something is.
        listener.incoming().flatten().for_each(|stream| {
            let _ = answer(stream);
        });
    });
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let notation =
        if request.contains(" /openmetrics ") { Notation::OpenMetrics } else { Notation::Prometheus };
    let (text, kind) = (sample(notation), notation.content_type());
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", text.len())?;
    write!(stream, "Connection: close\r\n\r\n{text}")
}

/// One that runs until it is dropped, or this test ends in whatever way.
struct Prometheus {
    process: Child,
    address: String,
    _folder: TempDir,
}

impl Prometheus {
    fn scraping(target: SocketAddr) -> Prometheus {
        let folder = tempfile::tempdir().expect("a folder");
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
        let path = folder.path().join("prometheus.yml");
        std::fs::write(&path, config).expect("written");
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "prometheus", "--web.listen-address=127.0.0.1:0"])
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| missing("setpriv", "util-linux", &error));
        let log = process.stderr.take().expect("piped");
        let (sender, receiver) = mpsc::channel();
        // Reads to the end, so that Prometheus never waits for its log.
        thread::spawn(move || {
            let mut all = String::new();
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once("msg=\"Listening on\" address=") {
                    let _ = sender.send(Ok(address.to_owned()));
                }
                all.push_str(&line);
                all.push('\n');
            }
            let _ = sender.send(Err(all));
        });
        let address = match receiver.recv_timeout(LIMIT) {
            Ok(Ok(address)) => address,
            said => {
                let _ = process.kill();
                let _ = process.wait();
                panic!(
                    "prometheus does not listen; install the package `prometheus`, or run scripts/setup test: {said:?}"
                )
            }
        };
        Prometheus { process, address, _folder: folder }
    }

    /// `data` of what it answers; `None` while it is not ready.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        head.contains(" 200 ").then(|| serde_json::from_str::<Value>(body).expect("JSON")["data"].take())
    }

    fn query(&self, query: &str) -> Option<Value> {
        let spelled: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        self.ask(&format!("/api/v1/query?query={spelled}"))
    }

    /// Waits until both targets have been scraped without an error.
    fn scraped(&self) {
        let begin = Instant::now();
        loop {
            let targets = self.ask("/api/v1/targets?state=active").unwrap_or_default();
            let active: Vec<Value> = targets["activeTargets"].as_array().cloned().unwrap_or_default();
            if active.len() == 2 && active.iter().all(|target| target["health"] == "up") {
                return;
            }
            let wrong = active.iter().any(|target| target["health"] == "down");
            assert!(!wrong && begin.elapsed() < LIMIT, "{active:#?}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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
    let prometheus = Prometheus::scraping(serve());
    prometheus.scraped();
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
