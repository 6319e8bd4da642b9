//! A host that runs nothing: it keeps what it is told, refuses what a real one would refuse, and counts what
//! was prepared.
//!
//! Images with a meaning: `missing` is invalid, `worded` too, in words of other faults, `elsewhere` is not
//! here, `huge` finds no room, `slow-…` must be compiled first, which takes 50 ms and is done once;
//! `slow-broken` then fails. Into `anew-…`, and when `fw` turns from `firewall` into `monitor`, nothing is
//! handed over. `kept-…` begins and goes on when [`Fake::let_go`] says so: as a start in `prepare`, with
//! `kept-compiling-…` as work, with `kept-fetching-…` as what a registry is asked, with `kept-handing-…` as a
//! hand-over, with `kept-pausing-…` when it is paused. What begins with `/` is a file, which is the host's.
//! `tag-…` is pinned to what [`World::tags`] says, which takes 50 ms; `tag-silent` is not to be had, and
//! `lost` is never there.

use api::{
    Capture, DeviceNeighbours, Fault, FaultKind, FunctionEvent, FunctionEventKind, FunctionMemory,
    FunctionReport, FunctionState, FunctionStatus, Graph, GraphNode, HistoryLine, HistoryMinute,
    HistoryMoment, HistoryObjects, HistorySpan, Image, Kind, Latency, LogLine, Name, Neighbour,
    NeighbourProtocol, NeighbourState, NodeKind, ObjectName, RotatedKey, Snapshot, Trace, TraceEnd,
    TraceLine,
};
use api_server::{
    Asker, Control, Exposition, HistoryAsked, ImageResolution, Images, NoHistory, Notices, ObjectChange,
    Outlet, Prepared, Refusal, ResolvedImages, Work,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use store::Store;

#[derive(Default)]
pub struct World {
    pub objects: BTreeMap<ObjectName, (Value, bool)>,
    pub snapshots: BTreeMap<Name, Snapshot>,
    pub key: u64,
    pub compiled: BTreeSet<String>,
    pub logs: Vec<LogLine>,
    pub restarts: BTreeMap<String, u64>,
    /// What tags mean now, and how often they were asked for.
    pub tags: BTreeMap<String, u64>,
    pub asked: u64,
    /// How often the log of each function was looked at.
    pub looks: BTreeMap<String, u64>,
}

/// What has begun, and what may go on.
#[derive(Default)]
pub struct Gates {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    begun: BTreeSet<String>,
    may_go: BTreeSet<String>,
    all_may_go: bool,
}

impl Gates {
    fn pass(&self, name: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.begun.insert(name.to_owned());
        self.changed.notify_all();
        while !state.all_may_go && !state.may_go.contains(name) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What is done aside for a tenant.
type Aside = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct Fake {
    /// The tenant whose jobs wait, and those that do.
    held: Mutex<Option<(String, Vec<Aside>)>>,
    /// Whole documents that were checked.
    pub checked: AtomicI64,
    pub gates: Arc<Gates>,
    world: Arc<Mutex<World>>,
    /// Prepared and neither carried out nor dropped.
    pub open: Arc<AtomicI64>,
    pub notices: OnceLock<Notices>,
}

impl Fake {
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something that is kept has begun.
    #[allow(dead_code, reason = "not all who use the fake keep something")]
    pub fn has_begun(&self, image: &str) {
        let mut state = self.gates.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.begun.contains(image) {
            state = self.gates.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets what is kept go on.
    #[allow(dead_code, reason = "not all who use the fake keep something")]
    pub fn let_go(&self, image: &str) {
        self.gates.state.lock().unwrap_or_else(PoisonError::into_inner).may_go.insert(image.to_owned());
        self.gates.changed.notify_all();
    }

    /// From now on the turn of a tenant's requests does not come.
    #[allow(dead_code, reason = "not all who use the fake keep something")]
    pub fn hold_requests_of(&self, tenant: &str) {
        *self.held() = Some((tenant.to_owned(), Vec::new()));
    }

    /// How many wait for it.
    #[allow(dead_code, reason = "not all who use the fake keep something")]
    pub fn requests_held(&self) -> usize {
        self.held().as_ref().map_or(0, |(_, jobs)| jobs.len())
    }

    /// It comes, for all of them.
    #[allow(dead_code, reason = "not all who use the fake keep something")]
    pub fn let_requests_go(&self) {
        let held = self.held().take();
        held.into_iter().flat_map(|(_, jobs)| jobs).for_each(|job| job());
    }

    /// It comes, for the first of them.
    #[allow(dead_code, reason = "not all who use the fake keep something")]
    pub fn let_one_go(&self) {
        let first = self.held().as_mut().filter(|(_, jobs)| !jobs.is_empty()).map(|(_, jobs)| jobs.remove(0));
        first.expect("one waits")();
    }

    fn held(&self) -> MutexGuard<'_, Option<(String, Vec<Aside>)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all go on: a test that failed waits for nothing.
    #[allow(dead_code, reason = "not all who use the fake keep something")]
    pub fn let_all_go(&self) {
        self.gates.state.lock().unwrap_or_else(PoisonError::into_inner).all_may_go = true;
        self.let_requests_go();
        self.gates.changed.notify_all();
    }

    fn check(&self, change: &ObjectChange, all: &[ObjectChange]) -> Result<(), Refusal> {
        let Some(spec) = &change.spec else {
            let end = |value: &Value| {
                value.as_str().is_some_and(|text| text.split(':').next() == Some(&change.name))
            };
            let world = self.world();
            let other = world.objects.iter().find(|(id, (spec, _))| {
                let goes = |change: &ObjectChange| {
                    change.kind == id.kind && change.name == id.name && change.spec.is_none()
                };
                let attached = || spec.get("attach")?.as_object()?.values().any(end).then_some(());
                let needs = match id.kind {
                    Kind::Chain => spec.as_array().is_some_and(|ends| ends.iter().any(end)),
                    Kind::Function => attached().is_some(),
                    _ => false,
                };
                needs && !all.iter().any(goes)
            });
            return match other {
                Some((other, _)) if matches!(change.kind, Kind::Port | Kind::Function | Kind::Switch) => {
                    let message = format!("{other} needs it; delete that first");
                    let at = format!("{}.{}", change.kind.plural(), change.name);
                    Err(Refusal::Conflict(vec![Fault::new(at, message)]))
                }
                _ => Ok(()),
            };
        };
        let image = spec.get("image").and_then(Value::as_str).unwrap_or_default();
        match image {
            "missing" => Err(Refusal::Invalid(vec![
                Fault::new(
                    format!("functions.{}.image", change.name),
                    "found `missing`; allowed: `firewall`",
                ),
                Fault::new(format!("functions.{}.config", change.name), "not known without its image"),
            ])),
            // The words of other kinds of faults are those of a value here, and what they mean the kind says.
            "worded" => Err(Refusal::Invalid(vec![Fault::of_request(
                format!("functions.{}.image", change.name),
                "unknown key `image`: it is not on this host and is fetched when it is applied",
            )])),
            "elsewhere" => Err(Refusal::Invalid(vec![Fault {
                kind: FaultKind::ImageElsewhere,
                ..Fault::of_request(format!("functions.{}.image", change.name), "not here")
            }])),
            "huge" => Err(Refusal::NoRoom("found 1 TiB of memory wanted; there are 8 GiB".into())),
            kept if kept.starts_with("kept-compiling-") && !self.world().compiled.contains(kept) => {
                let (world, gates, image) = (self.world.clone(), self.gates.clone(), kept.to_owned());
                Err(Refusal::Work(Work {
                    what: format!("compiling {kept}"),
                    run: Box::new(move || {
                        gates.pass(&image);
                        world.lock().unwrap_or_else(PoisonError::into_inner).compiled.insert(image);
                        Ok(())
                    }),
                }))
            }
            kept if kept.starts_with("kept-starting-") => {
                self.gates.pass(kept);
                Ok(())
            }
            slow if slow.starts_with("slow-") && !self.world().compiled.contains(slow) => {
                let (world, image) = (self.world.clone(), slow.to_owned());
                Err(Refusal::Work(Work {
                    what: format!("compiling {slow}"),
                    run: Box::new(move || {
                        std::thread::sleep(Duration::from_millis(50));
                        if image == "slow-broken" {
                            return Err(Refusal::Invalid(vec![Fault::new("image", "it is no module")]));
                        }
                        world.lock().unwrap_or_else(PoisonError::into_inner).compiled.insert(image);
                        Ok(())
                    }),
                }))
            }
            _ => Ok(()),
        }
    }
}

struct Ready {
    changes: Vec<ObjectChange>,
    world: Arc<Mutex<World>>,
    gates: Arc<Gates>,
    open: Arc<AtomicI64>,
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.open.fetch_sub(1, SeqCst);
    }
}

impl Prepared for Ready {
    fn fits(&mut self) -> Result<bool, Refusal> {
        Ok(true)
    }

    fn restarted(&self) -> Vec<String> {
        let world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let image = |spec: &Value| spec.get("image").and_then(Value::as_str).map(str::to_owned);
        let anew = |change: &&ObjectChange| {
            let before = world.objects.get(&ObjectName::new(change.kind, change.name.clone()));
            let after = change.spec.as_ref().and_then(image);
            let before = before.and_then(|(spec, _)| image(spec));
            let other = change.name == "fw"
                && before.as_deref() == Some("firewall")
                && after.as_deref() == Some("monitor");
            let hands_nothing = after.as_deref().is_some_and(|image| image.starts_with("anew-"));
            change.kind == Kind::Function && before.is_some() && before != after && (hands_nothing || other)
        };
        self.changes
            .iter()
            .filter(|change| change.spec.is_some())
            .filter(anew)
            .map(|change| change.name.clone())
            .collect()
    }

    fn hand_over(&mut self, _: bool) -> Result<(), Refusal> {
        let images = self.changes.iter().filter_map(|change| change.spec.as_ref()?.get("image")?.as_str());
        images.filter(|image| image.starts_with("kept-handing-")).for_each(|image| self.gates.pass(image));
        Ok(())
    }

    fn carry_out(self: Box<Self>) {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        for change in &self.changes {
            let id = ObjectName::new(change.kind, change.name.clone());
            match &change.spec {
                Some(spec) => world.objects.insert(id, (spec.clone(), change.paused)),
                None => world.objects.remove(&id),
            };
        }
    }
}

/// Bytes of a snapshot.
const SAVED: u64 = 65_536;

impl Control for Fake {
    fn resolve_images(
        &self,
        functions: &[(&str, &Value)],
        resolve: bool,
        _: &Asker,
    ) -> Result<ResolvedImages, Refusal> {
        let image = |spec: &Value| spec["image"].as_str().unwrap_or_default().to_owned();
        let mut resolved: Images = vec![None; functions.len()];
        let mut wanted = Vec::new();
        for (at, (name, spec)) in functions.iter().enumerate() {
            let tag = image(spec);
            if tag.starts_with("kept-fetching-") {
                let gates = self.gates.clone();
                let run = move || {
                    gates.pass(&tag);
                    Ok(vec![Some("firewall".to_owned())])
                };
                return Ok(ResolvedImages::After(ImageResolution {
                    what: "fetching".to_owned(),
                    run: Box::new(run),
                }));
            }
            if !tag.starts_with("tag-") || tag.contains('@') {
                continue;
            }
            let there =
                self.world().objects.get(&ObjectName::new(Kind::Function, (*name).to_owned())).cloned();
            match there.map(|(spec, _)| image(&spec)).filter(|there| there.starts_with(&format!("{tag}@"))) {
                Some(there) if !resolve => resolved[at] = Some(there),
                _ => wanted.push((at, (*name).to_owned(), tag)),
            }
        }
        if wanted.is_empty() {
            return Ok(ResolvedImages::Now(resolved));
        }
        let world = self.world.clone();
        let run = move || {
            std::thread::sleep(Duration::from_millis(50));
            let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
            world.asked += 1;
            for (at, name, tag) in wanted {
                if tag == "tag-silent" {
                    let at = format!("functions.{name}.image");
                    return Err(Refusal::Registry(vec![Fault::new(at, "the registry does not answer")]));
                }
                resolved[at] = Some(format!("{tag}@{}", world.tags.get(&tag).copied().unwrap_or(0)));
            }
            Ok(resolved)
        };
        Ok(ResolvedImages::After(ImageResolution { what: "fetching".to_owned(), run: Box::new(run) }))
    }

    fn confined(&self, _: &str, spec: &Value, now: Option<&Value>) -> Vec<Fault> {
        let image = spec.get("image");
        let is_file = image.and_then(Value::as_str).is_some_and(|image| image.starts_with('/'));
        if is_file && !now.is_some_and(|known| known.get("image") == image) {
            return vec![Fault::new("image", "found a file; allowed: an image of this program")];
        }
        Vec::new()
    }

    fn lacks(&self, object: &ObjectName) -> bool {
        object.name == "lost"
    }

    fn begin(&self, objects: Vec<ObjectChange>, notices: Notices) -> Vec<(ObjectName, Fault)> {
        assert!(self.notices.set(notices).is_ok(), "begins once");
        let mut faults = Vec::new();
        for change in objects {
            let id = ObjectName::new(change.kind, change.name.clone());
            if matches!(Fake::check(self, &change, &[]), Err(Refusal::Invalid(_))) {
                faults.push((id, Fault::new("", "cannot be started")));
            } else if let Some(spec) = change.spec {
                self.world().objects.insert(id, (spec, change.paused));
            }
        }
        faults
    }

    fn aside(&self, tenant: &str, job: Aside) -> Result<(), Refusal> {
        match &mut *self.held() {
            Some((held, jobs)) if held == tenant => jobs.push(job),
            _ => drop(std::thread::spawn(job)),
        }
        Ok(())
    }

    fn check(&self, changes: &[ObjectChange], _: &Asker) -> Result<Vec<Fault>, Refusal> {
        self.checked.fetch_add(1, SeqCst);
        changes.iter().try_for_each(|change| Fake::check(self, change, changes))?;
        Ok(vec![Fault::of_request("functions", "nothing is wired")])
    }

    fn prepare(&self, changes: &[ObjectChange]) -> Result<Box<dyn Prepared>, Refusal> {
        for change in changes {
            Fake::check(self, change, changes)?;
            assert!(change.snapshot.as_ref().is_none_or(|name| self.world().snapshots.contains_key(name)));
        }
        self.open.fetch_add(1, SeqCst);
        Ok(Box::new(Ready {
            changes: changes.to_vec(),
            world: self.world.clone(),
            gates: self.gates.clone(),
            open: self.open.clone(),
        }))
    }

    fn pause(&self, function: &str) -> Result<(), Refusal> {
        self.set_paused(function, true)
    }

    fn resume(&self, function: &str) -> Result<(), Refusal> {
        self.set_paused(function, false)
    }

    fn restart(&self, function: &str) -> Result<(), Refusal> {
        *self.world().restarts.entry(function.to_owned()).or_default() += 1;
        Ok(())
    }

    fn status(&self, kind: Kind, name: &str, _: Option<&str>) -> Option<Value> {
        let world = self.world();
        let (_, paused) = world.objects.get(&ObjectName::new(kind, name))?;
        if kind != Kind::Function {
            return None;
        }
        let state = if *paused { FunctionState::Paused } else { FunctionState::Running };
        serde_json::to_value(FunctionStatus {
            state,
            reason: None,
            since: None,
            worker: Some(0),
            image: format!("sha256:{}", "0".repeat(64)),
            packets: 1,
            bytes: 60,
            calls: 1,
            cycles: 1000,
            promised_share: 0.5,
            got_share: 0.25,
            processor: None,
            standby: None,
            queue: 0,
            drops: BTreeMap::from([("denied".to_owned(), 1)]),
            latency: Some(Latency { mean_ns: 900, p50_ns: 1024, p99_ns: 4096 }),
            memory: FunctionMemory::default(),
            faults: 0,
            restarts: world.restarts.get(name).copied().unwrap_or(0),
        })
        .ok()
    }

    fn logs(&self, function: &str, after: u64, limit: usize) -> Vec<LogLine> {
        let mut world = self.world();
        *world.looks.entry(function.to_owned()).or_default() += 1;
        world.logs.iter().filter(|line| line.number > after).take(limit).cloned().collect()
    }

    fn function_events(&self, _: &str, after: u64, limit: usize) -> Vec<FunctionEvent> {
        let alert = |line: LogLine| FunctionEvent {
            number: line.number,
            time: line.time,
            what: FunctionEventKind::Alert,
            text: None,
            alert: Some(line.text.into()),
            lost: None,
        };
        self.logs("", after, limit).into_iter().map(alert).collect()
    }

    fn report(&self, function: &str) -> Result<FunctionReport, Refusal> {
        let time = "2026-01-02T03:04:05.000006Z".to_owned();
        Ok(FunctionReport { time, current: true, report: json!({"of": function}) })
    }

    /// 300 neighbours, from 10.0.0.0 on.
    fn neighbours(&self, _: &str, _: Option<&str>, after: Option<IpAddr>, limit: usize) -> DeviceNeighbours {
        let all = (0..300u32).map(|n| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + n)));
        let behind: Vec<_> = all.filter(|address| after.is_none_or(|after| *address > after)).collect();
        let items = behind.iter().take(limit).map(|address| Neighbour {
            interface: None,
            address: address.to_string(),
            mac: None,
            state: NeighbourState::Incomplete,
            since: "2026-01-02T03:04:05.000006Z".to_owned(),
            port: None,
            protocol: NeighbourProtocol::Arp,
        });
        let items: Vec<Neighbour> = items.collect();
        let next = items.last().filter(|_| behind.len() > limit).map(|last| last.address.clone());
        DeviceNeighbours { stations: Vec::new(), items, next }
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.world().snapshots.values().cloned().collect()
    }

    fn snapshot(&self, name: &Name) -> Option<Snapshot> {
        self.world().snapshots.get(name).cloned()
    }

    fn save(&self, function: &str, name: &Name, most: u64) -> Result<Snapshot, Refusal> {
        if SAVED > most {
            return Err(Refusal::TooMuch(format!("found {SAVED} bytes; allowed: at most {most}")));
        }
        let mut world = self.world();
        let (spec, _) = world
            .objects
            .get(&ObjectName::new(Kind::Function, function))
            .cloned()
            .ok_or_else(|| Refusal::NotFound(format!("there is no function/{function}")))?;
        let tenant = spec.get("tenant").and_then(Value::as_str).unwrap_or("default");
        let snapshot = Snapshot {
            name: name.clone(),
            function: Name::new(function).expect("a name"),
            tenant: Some(Name::new(tenant).expect("a name")),
            imported: false,
            image: format!("sha256:{}", "0".repeat(64)),
            saved: "2026-01-02T03:04:05.000006Z".into(),
            bytes: SAVED,
            spec,
        };
        world.snapshots.insert(name.clone(), snapshot.clone());
        Ok(snapshot)
    }

    fn adopt_snapshot(&self, name: &Name, tenant: &Name) -> Result<Snapshot, Refusal> {
        let mut world = self.world();
        let saved = world.snapshots.get_mut(name).ok_or_else(|| Refusal::NotFound(name.to_string()))?;
        (saved.imported, saved.tenant) = (false, Some(tenant.clone()));
        Ok(saved.clone())
    }

    fn rotate_snapshot_key(&self) -> Result<RotatedKey, Refusal> {
        let mut world = self.world();
        world.key += 1;
        let imported = world.snapshots.values().filter(|saved| saved.imported).count() as u64;
        let sealed = world.snapshots.len() as u64 - imported;
        Ok(RotatedKey { key: format!("{:016x}", world.key), sealed, imported })
    }

    fn delete_snapshot(&self, name: &Name) -> Result<bool, Refusal> {
        Ok(self.world().snapshots.remove(name).is_some())
    }

    fn images(&self) -> Vec<Image> {
        let digest = format!("sha256:{}", "0".repeat(64));
        let reference = "firewall".to_owned();
        vec![Image {
            reference,
            pinned: None,
            functions: 1,
            digest,
            bytes: 2048,
            compiled: true,
            version: None,
            summary: Some("Filters.".into()),
        }]
    }

    fn account(&self, tenant: Option<&str>) -> Option<String> {
        let account = match tenant {
            None => json!({"packets": {"received": 0}, "balanced": true}),
            Some(_) => json!({"functions": self.functions_of(tenant)}),
        };
        Some(account.to_string())
    }

    fn memory(&self, tenant: Option<&str>) -> Value {
        match tenant {
            None => json!({"functions": {}, "pools": {}}),
            Some(_) => json!({"functions": self.functions_of(tenant)}),
        }
    }

    fn graph(&self, tenant: Option<&str>) -> Option<Graph> {
        let node = |name: &String| GraphNode {
            name: name.clone(),
            kind: NodeKind::Function,
            tenant: Some(tenant.unwrap_or(api::DEFAULT_TENANT).to_owned()),
            state: None,
            worker: None,
            packets: Some(1),
            bytes: None,
            drops: 0,
        };
        let functions = self.functions_of(tenant);
        Some(Graph { nodes: functions.iter().map(node).collect(), ..Graph::default() })
    }

    /// One step, and of each function what it counts always.
    fn history(&self, asked: &HistoryAsked, tenant: Option<&str>) -> Result<Arc<[u8]>, NoHistory> {
        let functions = self.functions_of(tenant);
        let started = "2026-01-02T03:04:05Z".to_owned();
        let values = |number: usize| BTreeMap::from([("packets".to_owned(), vec![1; number])]);
        let text = match asked {
            HistoryAsked::Moment { at: Some(1..), .. } => return Err(NoHistory::Gone { first: 0, last: 0 }),
            HistoryAsked::Moment { layout, .. } => {
                let names = (*layout != Some(7)).then(|| functions.clone());
                let tenants =
                    names.as_ref().map(|names| names.iter().map(|_| tenant.map(str::to_owned)).collect());
                let objects = HistoryObjects { names, tenants, values: values(functions.len()) };
                let objects = BTreeMap::from([("function".to_owned(), objects)]);
                serde_json::to_vec(&HistoryMoment {
                    started,
                    seconds: 1,
                    layout: 7,
                    objects,
                    ..Default::default()
                })
            }
            HistoryAsked::Line { kind, name, .. } => {
                if kind != "function" || !functions.contains(name) {
                    return Err(NoHistory::NotFound);
                }
                let span = |seconds| HistorySpan { from: 0, seconds, values: values(1) };
                let (coarse, fine, minute) = (span(10), span(1), Some(HistoryMinute::default()));
                let of = format!("{kind}/{name}");
                serde_json::to_vec(&HistoryLine { started, of, coarse, fine, minute, ..Default::default() })
            }
        };
        Ok(text.expect("JSON").into())
    }

    fn trace(&self, wanted: &Trace, tenant: Option<&str>, outlet: Outlet) -> Result<(), Refusal> {
        let count = wanted.count.unwrap_or(api::TRACED);
        if !(1..=api::TRACED_MAX).contains(&count) {
            let allowed = format!("found {count}; allowed: 1 to {}", api::TRACED_MAX);
            return Err(Refusal::Invalid(vec![Fault::new("count", allowed)]));
        }
        self.there(wanted.at.as_deref(), tenant)?;
        // Says that it is alive as often as was wanted.
        std::thread::spawn(move || {
            let line = |line| format!("{}\n", serde_json::to_string(&line).expect("JSON")).into_bytes();
            let alive = (0..count).all(|_| {
                std::thread::sleep(Duration::from_millis(1));
                outlet.write(line(TraceLine::Alive))
            });
            let _ = alive && outlet.write(line(TraceLine::Ended(TraceEnd::default())));
        });
        Ok(())
    }

    fn capture(&self, wanted: &Capture, tenant: Option<&str>, outlet: Outlet) -> Result<(), Refusal> {
        if wanted.count == Some(0) || wanted.snap.is_some_and(|snap| snap < 14) {
            return Err(Refusal::Invalid(vec![Fault::new("count", "found too little")]));
        }
        self.there(Some(&wanted.at), tenant)?;
        // Writes until the client stops reading, at most 100 times.
        self.open.fetch_add(1, SeqCst);
        let open = self.open.clone();
        std::thread::spawn(move || {
            let mut left = 100;
            while left > 0 && outlet.write(vec![0; 100]) {
                std::thread::sleep(Duration::from_millis(1));
                left -= 1;
            }
            open.fetch_sub(1, SeqCst);
        });
        Ok(())
    }

    fn back_up(&self, store: &Store, outlet: Outlet) -> Result<(), Refusal> {
        let revision = store.revision().0;
        std::thread::spawn(move || {
            let _ = outlet.write(format!("as of revision {revision}").into_bytes());
        });
        Ok(())
    }

    fn metrics(&self, exposition: Exposition, tenant: Option<&str>, to: &mut String) {
        let family = match exposition {
            Exposition::Prometheus => "superfluid_function_packets_total",
            Exposition::OpenMetrics => "superfluid_function_packets",
        };
        to.push_str(&format!("# TYPE {family} counter\n"));
        for function in self.functions_of(tenant) {
            to.push_str(&format!("superfluid_function_packets_total{{function=\"{function}\"}} 1\n"));
        }
    }
}

impl Fake {
    fn functions_of(&self, tenant: Option<&str>) -> Vec<String> {
        let world = self.world();
        let functions = world.objects.iter().filter(|(id, _)| id.kind == Kind::Function);
        let of = |spec: &Value| spec.get("tenant").and_then(Value::as_str).unwrap_or("default").to_owned();
        let mine = functions.filter(|(_, (spec, _))| tenant.is_none_or(|tenant| of(spec) == tenant));
        mine.map(|(id, _)| id.name.clone()).collect()
    }

    fn set_paused(&self, function: &str, paused: bool) -> Result<(), Refusal> {
        let image = |(spec, _): &(Value, bool)| spec["image"].as_str().unwrap_or_default().to_owned();
        let image = self.world().objects.get(&ObjectName::new(Kind::Function, function)).map(image);
        if let Some(kept) = image.filter(|image| image.starts_with("kept-pausing-")) {
            self.gates.pass(&kept);
        }
        match self.world().objects.get_mut(&ObjectName::new(Kind::Function, function)) {
            Some(there) => there.1 = paused,
            None => return Err(Refusal::NotFound(format!("there is no function/{function}"))),
        }
        if let Some(notices) = self.notices.get() {
            let what = if paused { "paused" } else { "resumed" };
            notices.tell(Kind::Function, function, what, "by request");
        }
        Ok(())
    }

    fn there(&self, at: Option<&str>, tenant: Option<&str>) -> Result<(), Refusal> {
        let of = |spec: &Value| tenant.is_none_or(|tenant| spec["tenant"] == tenant);
        let known = |at: &str| self.world().objects.iter().any(|(id, (spec, _))| id.name == at && of(spec));
        match at {
            Some(at) if !known(at) => Err(Refusal::Invalid(vec![Fault::new(
                "at",
                format!("found `{at}`; allowed: a port or function"),
            )])),
            _ => Ok(()),
        }
    }

    /// All functions say something.
    #[allow(dead_code, reason = "not all users of the fake let it speak")]
    pub fn say(&self, text: &str) {
        let mut world = self.world();
        let number = world.logs.len() as u64 + 1;
        let time = "2026-01-02T03:04:05.000006Z".to_owned();
        world.logs.push(LogLine { number, time, severity: "notice".into(), text: text.into() });
        drop(world);
        self.functions_of(None).iter().for_each(|function| self.wake(function));
    }

    /// Those that follow a function are told that it said something.
    #[allow(dead_code, reason = "not all users of the fake let it speak")]
    pub fn wake(&self, function: &str) {
        if let Some(notices) = self.notices.get() {
            notices.logged(function);
        }
    }
}
