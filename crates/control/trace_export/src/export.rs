//! The thread that sends spans.

use crate::encode::request;
use crate::{Settings, Span};
use http_client::{Agent, Failure, Limits, RootCerts, TlsConfig};
use serde_json::Value as Json;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Groups of spans that wait to be sent.
pub const WAITING: usize = 1024;
/// Bytes of a collector's answer that are read.
pub const ANSWER: u64 = 64 << 10;
/// Spans of one request, about.
const AT_ONCE: usize = 512;
/// How often a request is made, and how long after it failed.
const ATTEMPTS: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::ZERO];

/// What became of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The collector took them.
    pub sent: u64,
    /// There was no room for them, or no collector.
    pub lost: u64,
    /// The collector would not have them.
    pub refused: u64,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    ending: AtomicBool,
}

/// Where spans are handed in.
pub struct Exporter {
    groups: Option<SyncSender<Vec<Span>>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    grace: Duration,
}

impl Exporter {
    /// Begins to send. `tell` is told, on the thread that sends, when that begins to fail, and when it
    /// succeeds again.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn begin(settings: Settings, tell: impl Fn(&str) + Send + 'static) -> io::Result<Exporter> {
        let (groups, waiting) = sync_channel(WAITING);
        let shared = Arc::<Shared>::default();
        let (theirs, grace) = (shared.clone(), settings.grace);
        let secure = settings.url.starts_with("https:");
        let tls = if secure { tls() } else { TlsConfig::builder().build() };
        let limits = Limits { connect: settings.timeout, idle: settings.timeout };
        let agent = http_client::agent(limits, tls, false);
        let thread = std::thread::Builder::new().name("spans".into());
        let thread = thread
            .spawn(move || Sender { settings, agent, shared: theirs, failing: false }.work(&waiting, tell))?;
        Ok(Exporter { groups: Some(groups), shared, thread: Some(thread), grace })
    }

    /// Hands spans in. Returns at once; when there is no room they are lost, and counted.
    pub fn hand_in(&self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        if self.groups.as_ref().is_none_or(|groups| groups.try_send(spans).is_err()) {
            self.shared.lost.fetch_add(count, Relaxed);
        }
    }

    /// What became of spans so far.
    pub fn counts(&self) -> Counts {
        let Shared { sent, lost, refused, .. } = &*self.shared;
        Counts { sent: sent.load(Relaxed), lost: lost.load(Relaxed), refused: refused.load(Relaxed) }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.shared.ending.store(true, Relaxed);
        self.groups = None;
        let Some(thread) = self.thread.take() else { return };
        let end = Instant::now() + self.grace;
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that is still at it ends with the program.
    }
}

fn tls() -> TlsConfig {
    let roots = http_client::system_roots();
    TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots))).build()
}

struct Sender {
    settings: Settings,
    agent: Agent,
    shared: Arc<Shared>,
    failing: bool,
}

impl Sender {
    fn work(mut self, waiting: &Receiver<Vec<Span>>, tell: impl Fn(&str)) {
        while let Ok(mut spans) = waiting.recv() {
            let end = Instant::now() + self.settings.gather;
            while spans.len() < AT_ONCE {
                match waiting.recv_timeout(end.saturating_duration_since(Instant::now())) {
                    Ok(more) => spans.extend(more),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
            }
            let count = spans.len() as u64;
            let failure = match self.send(&spans) {
                Ok(refused) => {
                    let refused = refused.min(count);
                    self.shared.refused.fetch_add(refused, Relaxed);
                    self.shared.sent.fetch_add(count - refused, Relaxed);
                    None
                }
                Err(why) => {
                    self.shared.lost.fetch_add(count, Relaxed);
                    Some(why)
                }
            };
            match &failure {
                Some(why) if !self.failing => tell(&format!("spans are lost: {}: {why}", self.settings.url)),
                None if self.failing => tell(&format!("spans are taken again: {}", self.settings.url)),
                _ => {}
            }
            self.failing = failure.is_some();
        }
    }

    /// Sends spans; how many of them the collector refused.
    fn send(&self, spans: &[Span]) -> Result<u64, String> {
        let body = request(&self.settings.service, &self.settings.version, spans).to_string();
        let mut failure = String::new();
        for pause in ATTEMPTS {
            match self.post(&body, spans.len() as u64) {
                Ok(refused) => return Ok(refused),
                Err((why, again)) => {
                    failure = why;
                    if !again || self.shared.ending.load(Relaxed) {
                        break;
                    }
                }
            }
            std::thread::sleep(pause);
        }
        Err(failure)
    }

    /// One attempt; an error with whether it may be made again.
    fn post(&self, body: &str, count: u64) -> Result<u64, (String, bool)> {
        let request = self.agent.post(&self.settings.url).content_type("application/json");
        let mut request = request.config().timeout_global(Some(self.settings.timeout)).build();
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(|error| (Failure::from(error).to_string(), true))?;
        match response.status().as_u16() {
            200..=299 => {
                let answer =
                    response.body_mut().with_config().limit(ANSWER).read_to_string().unwrap_or_default();
                let answer: Json = serde_json::from_str(&answer).unwrap_or_default();
                let refused = &answer["partialSuccess"]["rejectedSpans"];
                // Numbers of 64 bits are text in this form; some write numbers.
                let text = refused.as_str().and_then(|text| text.parse().ok());
                Ok(refused.as_u64().or(text).unwrap_or(0).min(count))
            }
            // OTLP: these may be tried again, and no others.
            status @ (429 | 502 | 503 | 504) => Err((format!("it answers {status}"), true)),
            status => Err((format!("it answers {status}"), false)),
        }
    }
}
