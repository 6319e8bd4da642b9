//! The page: what it costs the daemon, how large the history of an hour is, and how soon a browser shows a
//! host of a thousand functions.
//!
//! Five pages are replayed: each is a thread with a session of its own that asks for the history once a
//! second, for the graph at first, and follows the events. A real browser is driven by
//! `page/bench/browser.mjs`, where the repository, Node.js and Chromium are there; else its figures are not
//! measured.

use super::Daemon;
use crate::{BenchError, Measurement, RUNS};
use api::Kind;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const CHAINS: usize = 20;
const LENGTH: usize = 50;
const PAGES: usize = 5;
/// What is measured at a time.
const WINDOW: Duration = Duration::from_secs(3);
/// Until all series have come to be, and a first step of ten seconds is whole.
const WARM_UP: Duration = Duration::from_secs(25);
/// Longest time that an answer, or the browser, is waited for.
const TIME_LIMIT: Duration = Duration::from_secs(30);
const BROWSER_TIME: Duration = Duration::from_secs(300);
/// The page's script for a browser, from the root of the repository.
const BROWSER: &str = "page/bench/browser.mjs";

pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let (mut results, mut notes) = (Vec::new(), Vec::new());
    progress(0.0, "a thousand functions");
    let daemon = start(&[])?;
    daemon.apply(&chains(CHAINS, LENGTH, "1kpps"))?;
    std::thread::sleep(WARM_UP);
    let mut percents = Vec::new();
    for run in 0..RUNS {
        progress(0.1 + 0.3 * run as f64 / RUNS as f64, "five pages");
        let without = beside_share(&daemon)?;
        let pages = Pages::open(&daemon)?;
        let with = beside_share(&daemon)?;
        pages.close()?;
        percents.push(100.0 * (with - without));
    }
    results.push(Measurement::new("daemon-percent", "%", &percents));
    let mut sampling = Vec::new();
    for _ in 0..RUNS {
        let (began, before) = (Instant::now(), daemon.time_of(|name| name == "history")?);
        std::thread::sleep(WINDOW);
        let took = daemon.time_of(|name| name == "history")? - before;
        sampling.push(100.0 * took.as_secs_f64() / began.elapsed().as_secs_f64());
    }
    results.push(Measurement::new("sampling-percent", "%", &sampling));
    let memory = daemon.client.memory().map_err(BenchError::setup)?;
    let bytes = memory["history"]["bytes"].as_f64();
    let bytes = bytes
        .ok_or_else(|| BenchError::Setup("the daemon does not tell what its history takes".to_owned()))?;
    results.push(Measurement::new("history-mib", "MiB", &[bytes / f64::from(1 << 20)]));
    progress(0.4, "the browser");
    let (measured, said) = browser(&daemon)?;
    results.extend(measured);
    notes.extend(said);
    drop(daemon);
    let slowdowns = slowdowns(&mut |fraction| progress(0.6 + 0.4 * fraction, "a chain beside five pages"))?;
    results.push(Measurement::new("chain-slowdown-percent", "%", &slowdowns));
    Ok((results, notes))
}

fn start(before: &[&str]) -> Result<Daemon, BenchError> {
    let more = ["--page".to_owned(), "127.0.0.1:0".to_owned()];
    let arguments = before.iter().map(|argument| (*argument).to_owned()).chain(more).collect();
    Daemon::start_with(|_| Ok((arguments, None)))
}

/// Chains of forwarders between a source and a sink each.
fn chains(number: usize, length: usize, rate: &str) -> Value {
    let (mut ports, mut functions, mut chains) = (json!({}), json!({}), json!({}));
    for chain in 0..number {
        let name = format!("c{chain:02}");
        let mut source = json!({"type": "generator", "flows": 16});
        if !rate.is_empty() {
            source["rate"] = rate.into();
        }
        ports[format!("{name}-in")] = source;
        ports[format!("{name}-out")] = json!({"type": "sink"});
        let mut ends = vec![format!("{name}-in")];
        for number in 0..length {
            let function = format!("{name}-f{number:02}");
            functions[function.as_str()] = json!({"image": "forwarder"});
            ends.push(function);
        }
        ends.push(format!("{name}-out"));
        chains[name] = json!(ends);
    }
    json!({"superfluid": 1, "ports": ports, "functions": functions, "chains": chains})
}

/// The part of a processor that the daemon's threads take, but for workers and those of ports.
fn beside_share(daemon: &Daemon) -> Result<f64, BenchError> {
    let (began, before) = (Instant::now(), daemon.beside_workers()?);
    std::thread::sleep(WINDOW);
    Ok((daemon.beside_workers()? - before).as_secs_f64() / began.elapsed().as_secs_f64())
}

/// Pages that are open.
struct Pages {
    ends: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<Result<(), BenchError>>>,
}

impl Pages {
    fn open(daemon: &Daemon) -> Result<Pages, BenchError> {
        let ends = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        for _ in 0..PAGES {
            let (mut page, ends) = (Page::open(daemon)?, ends.clone());
            threads.push(std::thread::spawn(move || page.live(&ends)));
        }
        Ok(Pages { ends, threads })
    }

    fn close(self) -> Result<(), BenchError> {
        self.ends.store(true, Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| BenchError::Setup("a page's thread broke".to_owned()))??;
        }
        Ok(())
    }
}

/// A page, as far as the daemon sees it.
struct Page {
    address: SocketAddr,
    host: String,
    stream: BufReader<TcpStream>,
    cookie: String,
    secret: String,
}

/// An answer's headers and body.
struct Got {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Result<Value, BenchError> {
        serde_json::from_slice(&self.body).map_err(BenchError::setup)
    }
}

impl Page {
    /// With a session of a link of its own.
    fn open(daemon: &Daemon) -> Result<Page, BenchError> {
        let link = daemon.client.page_link().map_err(BenchError::setup)?.url;
        let wrong = || BenchError::Setup("the daemon's link is none".to_owned());
        let (base, secret) = link.split_once("/#link=").ok_or_else(wrong)?;
        let host = base.strip_prefix("http://").ok_or_else(wrong)?.to_owned();
        let address: SocketAddr = host.parse().map_err(BenchError::setup)?;
        let stream = BufReader::new(connect(address)?);
        let mut page = Page { address, host, stream, cookie: String::new(), secret: String::new() };
        let opened = page.ask("POST", "/session", &json!({"link": secret}).to_string())?;
        let cookie = opened.header("set-cookie").and_then(|set| set.split(';').next()).ok_or_else(wrong)?;
        page.cookie = cookie.to_owned();
        page.secret = opened.json()?["secret"].as_str().ok_or_else(wrong)?.to_owned();
        Ok(page)
    }

    /// Looks at the host once a second, and follows the events after those of the last hour, until it is told
    /// to end.
    fn live(&mut self, ends: &AtomicBool) -> Result<(), BenchError> {
        let mut events = BufReader::new(connect(self.address)?);
        self.send(events.get_mut(), "GET", "/v1/events?follow=true", "")?;
        self.get("/v1/graph")?;
        self.get("/v1/past-events?limit=2000")?;
        let mut layout = None;
        let mut next = Instant::now();
        while !ends.load(Relaxed) {
            let path =
                layout.map_or("/v1/history".to_owned(), |layout| format!("/v1/history?layout={layout}"));
            let told = self.get(&path)?;
            // Found in the text: to read all of it would take the processor that the daemon is to have.
            let text = String::from_utf8_lossy(&told.body);
            let number = text.split_once("\"layout\":").and_then(|(_, rest)| rest.split(',').next());
            layout = number.and_then(|number| number.parse::<u64>().ok());
            next += Duration::from_secs(1);
            while !ends.load(Relaxed) && Instant::now() < next {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.ask("DELETE", "/session", "").map(drop)
    }

    fn get(&mut self, path: &str) -> Result<Got, BenchError> {
        self.ask("GET", path, "")
    }

    fn send(&self, stream: &mut TcpStream, method: &str, path: &str, body: &str) -> Result<(), BenchError> {
        let Page { host, cookie, secret, .. } = self;
        let shown = if secret.is_empty() {
            String::new()
        } else {
            format!("cookie: {cookie}\r\nsuperfluid-session: {secret}\r\n")
        };
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-type: application/json\r\n{shown}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).map_err(BenchError::setup)
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Got, BenchError> {
        let mut stream = self.stream.get_ref().try_clone().map_err(BenchError::setup)?;
        self.send(&mut stream, method, path, body)?;
        let got = read(&mut self.stream)?;
        if got.status >= 300 {
            let told = String::from_utf8_lossy(&got.body).into_owned();
            return Err(BenchError::Invalid(format!("{method} {path}: {} {told}", got.status)));
        }
        Ok(got)
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream, BenchError> {
    let stream = TcpStream::connect(address).map_err(BenchError::setup)?;
    stream.set_read_timeout(Some(TIME_LIMIT)).map_err(BenchError::setup)?;
    stream.set_nodelay(true).map_err(BenchError::setup)?;
    Ok(stream)
}

/// An answer whose length is told.
fn read(stream: &mut BufReader<TcpStream>) -> Result<Got, BenchError> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).map_err(BenchError::setup)?;
        Ok::<_, BenchError>(line.trim_end().to_owned())
    };
    let first = line()?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| BenchError::Setup(format!("no answer: `{first}`")))?;
    let mut headers = Vec::new();
    while let Some((name, value)) = line()?.split_once(':') {
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut got = Got { status, headers, body: Vec::new() };
    let length = got.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    got.body.resize(length, 0);
    stream.read_exact(&mut got.body).map_err(BenchError::setup)?;
    Ok(got)
}

/// What five pages cost a saturated chain of fifty, in pairs: the worker has processor 0, and all else is on
/// the other one.
fn slowdowns(progress: &mut dyn FnMut(f64)) -> Result<Vec<f64>, BenchError> {
    let mut daemon = start(&[])?;
    daemon.apply(&json!({"superfluid": 1, "workers": {"processors": [0]}}))?;
    // Its workers are made when it starts.
    daemon.restart()?;
    daemon.apply(&chains(1, LENGTH, ""))?;
    let threads = daemon.threads()?;
    for (thread, name) in threads.iter().filter(|(_, name)| !name.starts_with("worker")) {
        let pinned =
            Command::new("taskset").args(["--pid", "--cpu-list", "1", thread]).stdout(Stdio::null()).status();
        // A thread of a moment may be gone.
        pinned.map_err(|error| BenchError::Setup(format!("taskset for {name}: {error}")))?;
    }
    std::thread::sleep(Duration::from_secs(2));
    let mut slowdowns = Vec::new();
    for run in 0..RUNS {
        progress(run as f64 / RUNS as f64);
        let alone = delivered(&daemon)?;
        let pages = Pages::open(&daemon)?;
        let beside = delivered(&daemon)?;
        pages.close()?;
        slowdowns.push(100.0 * (1.0 - beside / alone));
    }
    Ok(slowdowns)
}

/// Packets a second that come out of the chain.
fn delivered(daemon: &Daemon) -> Result<f64, BenchError> {
    let count = || {
        let object = daemon.client.object(Kind::Port, "c00-out").map_err(BenchError::setup)?;
        let status = object.status.unwrap_or_default();
        let count = status["packets"]["delivered"].as_f64();
        count.ok_or_else(|| BenchError::Setup("the sink has no count".to_owned()))
    };
    let (began, before) = (Instant::now(), count()?);
    std::thread::sleep(WINDOW);
    let rate = (count()? - before) / began.elapsed().as_secs_f64();
    if rate > 0.0 { Ok(rate) } else { Err(BenchError::Invalid("nothing comes out of the chain".to_owned())) }
}

/// What a browser measures, or why it does not.
fn browser(daemon: &Daemon) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let names =
        [("first-view-ms", "ms"), ("open-chain-ms", "ms"), ("update-ms", "ms"), ("transfer-kib", "KiB")];
    let missing = |why: String| {
        let all = names.iter().map(|(name, unit)| Measurement::missing(name, unit, "not-measured"));
        Ok((all.collect(), vec![why]))
    };
    if !Path::new(BROWSER).is_file() {
        return missing(format!("not-measured: {BROWSER} is not here; run it in the repository"));
    }
    let told = match drive(daemon) {
        Ok(told) => told,
        Err(why) => return missing(format!("not-measured: {why}")),
    };
    let list = |name: &str| -> Vec<f64> {
        told[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let (first, open, update) = (list("first_view_ms"), list("open_chain_ms"), list("update_ms"));
    let (Some(kib), false) =
        (told["transfer_kib"].as_f64(), first.is_empty() || open.is_empty() || update.is_empty())
    else {
        return missing(format!("not-measured: {BROWSER} printed something else: {told}"));
    };
    let late = crate::statistics::percentile(&update, 0.95);
    let results = vec![
        Measurement::new("first-view-ms", "ms", &first),
        Measurement::new("open-chain-ms", "ms", &open),
        Measurement::new("update-ms", "ms", &[late]),
        Measurement::new("transfer-kib", "KiB", &[kib]),
    ];
    Ok((results, Vec::new()))
}

/// Runs the script with an address at which each request is answered with another link.
fn drive(daemon: &Daemon) -> Result<Value, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let mut child = Command::new("node")
        .args([BROWSER, &format!("http://{address}/")])
        .env("CHROMIUM", "/usr/bin/chromium")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("node: {error}"))?;
    let mut printed = child.stdout.take().ok_or("node has no output")?;
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        printed.read_to_string(&mut text).map(|_| text)
    });
    let began = Instant::now();
    let status = loop {
        if let Ok((stream, _)) = listener.accept() {
            let link = daemon.client.page_link().map_err(|error| error.to_string())?.url;
            // A browser that leaves asks again.
            let _ = give(stream, &link);
        } else if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        } else if began.elapsed() > BROWSER_TIME {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{BROWSER} takes longer than {} s", BROWSER_TIME.as_secs()));
        } else {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let text = reading.join().map_err(|_| "a thread broke")?.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("{BROWSER} ended with {status}"));
    }
    serde_json::from_str(text.trim()).map_err(|error| format!("{BROWSER} printed no JSON: {error}"))
}

fn give(stream: TcpStream, link: &str) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let length = link.len();
    write!(
        reader.get_mut(),
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{link}"
    )
}
