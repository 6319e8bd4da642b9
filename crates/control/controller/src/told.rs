//! What the workers tell, and where it goes.
//!
//! 1. [`Told::take`] runs on a worker: it puts what is told into a bounded queue and returns. What finds no
//!    room is lost and counted.
//! 2. A thread takes it out: log lines, findings and faults are kept ([`Logs`], [`Kept`]), and clients that
//!    follow are notified.
//! 3. [`Told::know`] and [`Told::forget`] say which functions there are. They keep the order: what a function
//!    told before it went is not mixed with what a later one of its name tells. While nothing is on its way,
//!    [`Told::know`] is done at once: to wake the thread for it costs a tenth of what creating a function may
//!    take.

use super::controller::lock;
use super::function_health::FunctionHealth;
use super::kept::{Kept, What, Writer};
use super::logs::Logs;
use super::port_health::PortHealth;
use api::Kind;
use api_server::Notices;
use deployment::EventQueue;
use engine::Event;
use local_file::Place;
use port::PortEvent;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Longest time that the end waits for what was told before it.
const LONGEST: Duration = Duration::from_secs(2);

/// See the module's documentation.
pub(super) struct Told {
    pub(super) sink: Arc<Sink>,
    queue: EventQueue,
    sender: Sender<Message>,
    writer: Writer,
    /// The folder of what is kept.
    events: Option<Place>,
}

/// Where it goes.
pub(super) struct Sink {
    /// Messages that were sent and are not handled yet.
    unhandled: AtomicU64,
    pub(super) notices: OnceLock<Notices>,
    pub(super) logs: Mutex<Logs>,
    pub(super) kept: Arc<Mutex<Kept>>,
    pub(super) port_health: Mutex<PortHealth>,
    pub(super) function_health: Mutex<FunctionHealth>,
}

enum Message {
    Event(Event),
    /// Of a function that has to be this tenant's.
    OfTenant {
        function: String,
        tenant: String,
        event: Event,
    },
    Known {
        function: String,
        tenant: String,
    },
    End(Sender<()>),
}

impl Told {
    /// Reads what an earlier daemon kept in the folder of the state, and begins.
    ///
    /// # Errors
    /// The system has no threads for it.
    pub(super) fn begin(state: &Path) -> io::Result<Told> {
        let (told, messages) = Told::open(state)?;
        let (sink, queue) = (told.sink.clone(), told.queue.clone());
        Builder::new().name("told".into()).spawn(move || sink.run(&messages, &queue))?;
        Ok(told)
    }

    /// The same without the thread, and what it is to handle.
    fn open(state: &Path) -> io::Result<(Told, Receiver<Message>)> {
        let (kept, troubles) = Kept::open(&state.join("events"));
        troubles.iter().for_each(|trouble| console::error().line(trouble));
        let events = kept.place().cloned();
        let kept = Arc::new(Mutex::new(kept));
        let writer = Writer::begin(kept.clone())?;
        let (unhandled, notices, logs) = (AtomicU64::new(0), OnceLock::new(), Mutex::default());
        let (port_health, function_health) = (Mutex::default(), Mutex::default());
        let sink = Arc::new(Sink { unhandled, notices, logs, kept, port_health, function_health });
        let (sender, messages) = channel();
        Ok((Told { sink, queue: EventQueue::default(), sender, writer, events }, messages))
    }

    /// Takes what a worker tells, without waiting.
    pub(super) fn take(&self, event: Event) {
        if self.queue.admit(&event) {
            self.send(Message::Event(event));
        }
    }

    /// The same of what another part than a worker tells of a container: by then its name may be that of a
    /// function of another tenant, which is told nothing of it.
    pub(super) fn take_of(&self, function: &str, tenant: &str, event: Event) {
        if self.queue.admit(&event) {
            let (function, tenant) = (function.to_owned(), tenant.to_owned());
            self.send(Message::OfTenant { function, tenant, event });
        }
    }

    /// A function is there, and whose it is; what it tells from now on is kept.
    pub(super) fn know(&self, function: &str, tenant: &str) {
        // What an earlier function of its name told is sent before it goes, so that it is seen here.
        if self.sink.unhandled.load(SeqCst) == 0 && self.sink.try_know(function, tenant) {
            return;
        }
        self.send(Message::Known { function: function.to_owned(), tenant: tenant.to_owned() });
    }

    /// A function is no more: what it told is forgotten, and what of it is still on its way.
    pub(super) fn forget(&self, function: &str) {
        lock(&self.sink.logs).forget(function);
        lock(&self.sink.kept).forget(function);
    }

    /// That the folder of what is kept is not there any more, or another one is: the next start does not find
    /// what functions have found until now.
    pub(super) fn removed(&self) -> Option<String> {
        self.events.as_ref()?.removed()
    }

    /// Handles what was told so far, and writes what is kept.
    pub(super) fn end(&self) {
        let (sender, done) = channel();
        self.send(Message::End(sender));
        // A thread that hangs is not waited for.
        let _ = done.recv_timeout(LONGEST);
        self.writer.end();
    }

    fn send(&self, message: Message) {
        self.sink.unhandled.fetch_add(1, SeqCst);
        // The receiver is gone at the end only.
        let _ = self.sender.send(message);
    }
}

impl Sink {
    fn run(&self, messages: &Receiver<Message>, queue: &EventQueue) {
        while let Ok(message) = messages.recv() {
            let ends = match message {
                Message::Event(event) => {
                    let lost = queue.taken(&event);
                    self.handle(event, lost);
                    None
                }
                Message::OfTenant { function, tenant, event } => {
                    let lost = queue.taken(&event);
                    let is_its = lock(&self.kept).tenant_of(&function) == Some(tenant.as_str());
                    if is_its {
                        self.handle(event, lost);
                    }
                    None
                }
                Message::Known { function, tenant } => {
                    lock(&self.logs).know(&function, &tenant);
                    lock(&self.kept).know(&function, &tenant);
                    None
                }
                Message::End(done) => Some(done),
            };
            self.unhandled.fetch_sub(1, SeqCst);
            if let Some(done) = ends {
                // Its receiver may have given up.
                let _ = done.send(());
                return;
            }
        }
    }

    /// Notes a function without waiting; false if another thread has what is kept in use.
    fn try_know(&self, function: &str, tenant: &str) -> bool {
        let (Ok(mut logs), Ok(mut kept)) = (self.logs.try_lock(), self.kept.try_lock()) else { return false };
        logs.know(function, tenant);
        kept.know(function, tenant);
        true
    }

    /// Hands one thing on; so many events of its function were lost before it.
    fn handle(&self, event: Event, lost: u64) {
        let tell = |kind, name: &str, what, text: &str| {
            if let Some(notices) = self.notices.get() {
                notices.tell(kind, name, what, text);
            }
        };
        if lost > 0
            && let Event::Log { instance, .. } | Event::Found { instance, .. } = &event
        {
            lock(&self.kept).found(instance, &[], lost);
        }
        let kept = |function: &str, what, text: &str| lock(&self.kept).happened(function, what, text);
        let logged = |function: &str| {
            if let Some(notices) = self.notices.get() {
                notices.logged(function);
            }
        };
        match event {
            Event::Fault { instance, reason, retry_after } => {
                let ms = retry_after.0 / 1_000_000;
                let text = format!("{reason}; started again in {ms} ms");
                kept(&instance, What::Fault, &text);
                tell(Kind::Function, &instance, "fault", &text);
                logged(&instance);
            }
            Event::Restarted { instance } => {
                kept(&instance, What::Restarted, "it runs again");
                tell(Kind::Function, &instance, "restarted", "it runs again");
                logged(&instance);
            }
            Event::Log { instance, line } => {
                lock(&self.logs).add(&instance, line);
                logged(&instance);
            }
            Event::Found { instance, events } => {
                lock(&self.kept).found(&instance, &events.lines, events.lost);
                for line in &events.lines {
                    tell(Kind::Function, &instance, "found", line);
                }
                if events.lost > 0 {
                    let text = format!("{} more found no room", events.lost);
                    tell(Kind::Function, &instance, "found", &text);
                }
                logged(&instance);
            }
            Event::Port { port, event } => match event {
                PortEvent::WentDown(text) => {
                    lock(&self.port_health).went(&port, Some(&text), Instant::now());
                    tell(Kind::Port, &port, "down", &text);
                }
                PortEvent::CameUp(text) => {
                    lock(&self.port_health).went(&port, None, Instant::now());
                    tell(Kind::Port, &port, "up", &text);
                }
                PortEvent::Notice(text) => tell(Kind::Port, &port, "notice", &text),
            },
            // The host has answered it.
            Event::Asked { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(function: &str, text: &str) -> Event {
        let line = guest::LogLine { severity: nf_abi::stream::LOG_INFO, text: text.to_owned() };
        Event::Log { instance: function.to_owned(), line }
    }

    #[test]
    fn a_function_is_known_at_once_unless_something_is_on_its_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let (told, messages) = Told::open(folder.path()).expect("threads");
        let texts = |name: &str| -> Vec<String> {
            lock(&told.sink.logs).after(name, 0, 9).into_iter().map(|line| line.text).collect()
        };
        told.know("f", "red");
        lock(&told.sink.logs).add("f", guest::LogLine { severity: 0, text: "known".to_owned() });
        assert_eq!(texts("f"), ["known"], "no thread runs that it could wait for");
        // Another tenant's function comes to have the name before what the first one told is handled.
        told.take(log("f", "of red"));
        told.forget("f");
        told.know("f", "blue");
        told.take(log("f", "of blue"));
        let (done, _ended) = channel();
        told.send(Message::End(done));
        told.sink.run(&messages, &told.queue);
        assert_eq!(texts("f"), ["of blue"]);
        // Of a container that red had and that ends late.
        told.take_of("f", "red", log("f", "late"));
        told.take_of("f", "blue", log("f", "in time"));
        let (done, _ended) = channel();
        told.send(Message::End(done));
        told.sink.run(&messages, &told.queue);
        assert_eq!(texts("f"), ["of blue", "in time"]);
        told.know("g", "red");
        lock(&told.sink.logs).add("g", guest::LogLine { severity: 0, text: "known".to_owned() });
        assert_eq!(texts("g"), ["known"], "all is handled again");
    }
}
