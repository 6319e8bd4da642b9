//! The tenant that does what it can to be noticed, in each way by itself.

use super::super::Daemon;
use super::requests;
use crate::BenchError;
use crate::guests::{module, stock};
use api::{Kind, Upgrade};
use client::{Address, Change, Client, Settings};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Functions that misbehave at a time.
const FUNCTIONS: usize = 4;
/// Threads that ask the daemon for something again and again.
const CLIENTS: usize = 2;

/// Rules of the groups that change.
const CHANGING_RULES: u16 = 1000;

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Calls that never end.
    Looping,
    /// A fault at each packet.
    Restarting,
    /// Timers that are always due.
    TimerStorm,
    /// A start that takes about a second, and a fault at the first packet.
    SlowStart,
    /// Upgrades of functions that never come to the end of exporting their state.
    SlowExport,
    /// Fresh memory touched with every call.
    TouchingPages,
    /// More packets than it can forward.
    Flooding,
    /// Images that were never compiled before, one after another.
    Compiling,
    /// Every packet held.
    HoldingAll,
    /// Checks, dry runs and lists, with bodies as large as may be.
    Requests,
    /// Security groups that change without a pause, and more packets than their guards can pass on.
    Groups,
}

impl Way {
    pub(super) const ALL: [Way; 11] = [
        Way::Looping,
        Way::Restarting,
        Way::TimerStorm,
        Way::SlowStart,
        Way::SlowExport,
        Way::TouchingPages,
        Way::Flooding,
        Way::Compiling,
        Way::HoldingAll,
        Way::Requests,
        Way::Groups,
    ];

    /// Its name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Looping => "looping",
            Way::Restarting => "restarting",
            Way::TimerStorm => "timer-storm",
            Way::SlowStart => "slow-start",
            Way::SlowExport => "slow-export",
            Way::TouchingPages => "touching-pages",
            Way::Flooding => "flooding",
            Way::Compiling => "compiling",
            Way::HoldingAll => "holding-all",
            Way::Requests => "requests",
            Way::Groups => "groups",
        }
    }

    /// The module that its functions are made from; `None`: the stock forwarder.
    fn module(self) -> Option<&'static str> {
        match self {
            Way::Looping => Some("spin"),
            Way::Restarting => Some("trap"),
            Way::TimerStorm => Some("timer_storm"),
            Way::SlowStart => Some("slow_start"),
            Way::SlowExport => Some("slow_export"),
            Way::TouchingPages => Some("touch"),
            Way::HoldingAll => Some("hold"),
            Way::Flooding | Way::Compiling | Way::Requests | Way::Groups => None,
        }
    }

    /// Packets a second for each of its functions; `None`: as many as they take.
    fn rate(self) -> Option<&'static str> {
        (!matches!(self, Way::Flooding | Way::Groups)).then_some("20kpps")
    }
}

/// Images on disk that the daemon is given by path.
pub(super) struct Images {
    folder: PathBuf,
    /// Numbers images that differ.
    next: AtomicU64,
}

impl Images {
    pub(super) fn new(daemon: &Daemon) -> Images {
        Images { folder: daemon.folder().to_owned(), next: AtomicU64::new(0) }
    }

    /// A file with this image and a custom section that makes it differ from all before it.
    fn unlike_others(&self, wasm: &[u8]) -> Result<PathBuf, BenchError> {
        let number = self.next.fetch_add(1, Relaxed);
        let path = self.folder.join(format!("hostile-{number}.wasm"));
        let mut wasm = wasm.to_vec();
        // A section of names with a module name of 8 bytes.
        wasm.extend(b"\x00\x10\x04name\x00\x09\x08");
        wasm.extend(format!("{number:08}").as_bytes());
        std::fs::write(&path, wasm).map_err(BenchError::setup)?;
        Ok(path)
    }
}

/// What was set up of a way; it ends with [`Hostile::end`].
pub(super) struct Hostile<'a> {
    daemon: &'a Daemon,
    way: Way,
    objects: Vec<(Kind, String)>,
    ends: Arc<AtomicBool>,
    /// Requests that were answered.
    asked: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl<'a> Hostile<'a> {
    /// Begins to misbehave.
    pub(super) fn begin(daemon: &'a Daemon, images: &Arc<Images>, way: Way) -> Result<Self, BenchError> {
        let mut hostile = Hostile {
            daemon,
            way,
            objects: Vec::new(),
            ends: Arc::default(),
            asked: Arc::default(),
            clients: Vec::new(),
        };
        if way == Way::Compiling {
            hostile.compile(images)?;
            return Ok(hostile);
        }
        if way == Way::Requests {
            hostile.clients = requests::clients(daemon, &hostile.ends, &hostile.asked)?;
            return Ok(hostile);
        }
        if way == Way::Groups {
            hostile.change_groups()?;
            return Ok(hostile);
        }
        let wasm = way.module().map(|name| module(name).map(|image| image.wasm().to_vec())).transpose()?;
        let path = wasm.as_deref().map(|wasm| images.unlike_others(wasm)).transpose()?;
        let image = path.as_deref().map_or("forwarder".to_owned(), |path| path.display().to_string());
        let name = |part: &str, n: usize| format!("{}_{part}{n}", way.name().replace('-', "_"));
        let mut document = json!({"superfluid": 1, "ports": {}, "functions": {}, "chains": {}});
        for n in 0..FUNCTIONS {
            let [source, function, sink, chain] = ["from", "f", "to", "c"].map(|part| name(part, n));
            let mut port = json!({"type": "generator", "tenant": "blue", "flows": 1024});
            if let Some(rate) = way.rate() {
                port["rate"] = json!(rate);
            }
            document["ports"][&source] = port;
            document["ports"][&sink] = json!({"type": "sink", "tenant": "blue"});
            document["functions"][&function] = json!({"image": image, "tenant": "blue"});
            document["chains"][&chain] = json!([source, function, sink]);
            hostile.objects.extend([
                (Kind::Chain, chain),
                (Kind::Function, function),
                (Kind::Port, source),
                (Kind::Port, sink),
            ]);
        }
        daemon.apply(&document)?;
        if way == Way::SlowExport {
            let wasm = wasm.unwrap_or_default();
            hostile.upgrade(images, &wasm, &name("f", 0))?;
        }
        Ok(hostile)
    }

    /// Asks for upgrades, each to another image than the one before.
    fn upgrade(&mut self, images: &Arc<Images>, wasm: &[u8], function: &str) -> Result<(), BenchError> {
        let paths = [images.unlike_others(wasm)?, images.unlike_others(wasm)?];
        let function = function.to_owned();
        let mut turn = 0;
        self.ask_again_and_again(move |client| {
            turn += 1;
            let image = paths[turn % paths.len()].display().to_string();
            // It is refused, or not: what counts is what it costs others.
            let _ = client.upgrade(&function, &Upgrade { image, config: None }, &Change::default());
        })
    }

    /// Floods devices with groups, and changes the rules of these.
    fn change_groups(&mut self) -> Result<(), BenchError> {
        const GROUP: &str = "changing";
        let rules = |first: u16| {
            let rule =
                |n: u16| json!({"direction": "in", "protocol": "tcp", "ports": (first + n).to_string()});
            let rules: Vec<Value> = (0..CHANGING_RULES).map(rule).collect();
            json!({"tenant": "blue", "rules": rules})
        };
        let mut document = json!({
            "superfluid": 1, "groups": {GROUP: rules(1)}, "ports": {}, "devices": {}, "functions": {},
        });
        for n in 0..FUNCTIONS {
            let [source, function, link, device] =
                ["from", "f", "to", "d"].map(|part| format!("groups_{part}{n}"));
            document["ports"][&source] = json!({"type": "generator", "tenant": "blue", "flows": 1024});
            document["ports"][&link] = json!({"type": "tap", "interface": format!("sf-groups{n}")});
            document["devices"][&device] = json!({
                "mode": "direct", "over": [link], "tenant": "blue", "zone": 7, "groups": [GROUP],
                "addresses": [format!("192.0.2.{}/24", n + 1)],
            });
            document["functions"][&function] =
                json!({"image": "forwarder", "tenant": "blue", "attach": {"left": source, "right": device}});
            self.objects.extend([
                (Kind::Function, function),
                (Kind::Device, device),
                (Kind::Port, source),
                (Kind::Port, link),
            ]);
        }
        self.objects.push((Kind::Group, GROUP.to_owned()));
        self.daemon.apply(&document)?;
        let mut turn = 0;
        self.ask_again_and_again(move |client| {
            turn = 1 - turn;
            let spec = rules(1 + turn * CHANGING_RULES);
            // It is refused, or not: what counts is what it costs others.
            if let Ok(client::Answer::Later(operation)) =
                client.put(Kind::Group, GROUP, &spec, &Change::default())
            {
                let _ = client.wait_for(*operation, std::time::Duration::from_secs(30), |_| {});
            }
        })
    }

    /// Creates functions, each of an image that has to be compiled.
    fn compile(&mut self, images: &Arc<Images>) -> Result<(), BenchError> {
        let wasm = Arc::new(stock("dpi")?.wasm().to_vec());
        for thread in 0..CLIENTS {
            let (images, wasm) = (images.clone(), wasm.clone());
            let name = format!("compiled{thread}");
            self.ask_again_and_again(move |client| {
                let Ok(path) = images.unlike_others(&wasm) else { return };
                let spec = json!({"image": path.display().to_string(), "tenant": "blue"});
                let change = Change::default();
                if let Ok(client::Answer::Later(operation)) =
                    client.put(Kind::Function, &name, &spec, &change)
                {
                    let _ = client.wait_for(*operation, std::time::Duration::from_secs(30), |_| {});
                }
                let _ = std::fs::remove_file(&path);
            })?;
            self.objects.push((Kind::Function, format!("compiled{thread}")));
        }
        Ok(())
    }

    fn ask_again_and_again(
        &mut self,
        mut ask: impl FnMut(&Client) + Send + 'static,
    ) -> Result<(), BenchError> {
        let client = connect(&self.daemon.socket())?;
        let (ends, asked) = (self.ends.clone(), self.asked.clone());
        self.clients.push(std::thread::spawn(move || {
            while !ends.load(Relaxed) {
                ask(&client);
                asked.fetch_add(1, Relaxed);
            }
        }));
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// [`BenchError::Invalid`]: it did not misbehave as it should have.
    pub(super) fn end(mut self) -> Result<(), BenchError> {
        let harmless = self.harmless()?;
        self.ends.store(true, Relaxed);
        for client in self.clients.drain(..) {
            client.join().map_err(|_| BenchError::Setup("a hostile client broke".to_owned()))?;
        }
        for (kind, name) in &self.objects {
            // A function that never came to be does not go either.
            let _ = self.daemon.client.delete(*kind, name, &Change::default());
        }
        match harmless {
            None => Ok(()),
            Some(seen) => {
                Err(BenchError::Invalid(format!("`{}` disturbed nothing: {seen}", self.way.name())))
            }
        }
    }

    /// What was seen of it, if that could not have disturbed others.
    fn harmless(&self) -> Result<Option<String>, BenchError> {
        if matches!(self.way, Way::Compiling | Way::SlowExport | Way::Requests | Way::Groups) {
            let asked = self.asked.load(Relaxed);
            if asked == 0 || self.way != Way::Groups {
                return Ok((asked == 0).then(|| "no request was answered".to_owned()));
            }
        }
        for (_, name) in self.objects.iter().filter(|(kind, _)| *kind == Kind::Function) {
            let status = self.daemon.status(name)?;
            let shown = match self.way {
                Way::Looping | Way::Restarting | Way::SlowStart => status.faults > 0,
                Way::TimerStorm => status.cycles > 0,
                Way::HoldingAll => status.packets > 0 && !status.drops.is_empty(),
                _ => status.packets > 0,
            };
            if !shown {
                return Ok(Some(format!("{name}: {status:?}")));
            }
        }
        Ok(None)
    }
}

/// An administrator's client of the daemon.
pub(super) fn connect(socket: &Path) -> Result<Client, BenchError> {
    Client::new(Settings::new(Address::Unix(socket.to_owned()))).map_err(BenchError::setup)
}

/// What a function that is capped, and whose timer is always due, gets: its cycles so far.
pub(super) fn capped(images: &Images, cap: &str) -> Result<Value, BenchError> {
    let path = images.unlike_others(module("timer_storm")?.wasm())?;
    Ok(json!({"image": path.display().to_string(), "tenant": "green", "cpu": {"cap": cap}}))
}
