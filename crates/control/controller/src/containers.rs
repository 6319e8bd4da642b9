//! Functions that are containers: what of a wiring the launcher is asked for, and what it says of them.

use super::container_account::{self, ContainerSources};
use super::container_readings;
use super::controller::{Controller, lock};
use super::memory::ContainerMemory;
use super::port_looks::port_looks;
use super::shares::Shares;
use super::shelf::artifact;
use super::standing::{Standing, standing_by};
use super::status::{latency, share_of};
use ::metrics::json::ContainerAccount;
use api::{ContainerProcessor, Fault, FunctionMemory, FunctionStatus};
use api_server::Refusal;
use deployment::{ActiveGuests, Catalog, Failed, Failure, Handed};
use engine::{Account, Event};
use guest::LogLine;
use launcher::keeper::{Active, Happened, Keeper, Wanted, Whose, Why, stands_by};
use launcher::{GuestKind, Interface, InterfaceKind, Limits, Probe, Start};
use registry::Digest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, UNIX_EPOCH};
use telemetry::clock::Nanos;
use wiring::{
    Container, ContainerKind, ContainerProbe, KvmUse, ProbeAsks, Wiring, WorkerPlan, container_port,
    standby_link,
};

/// Bytes of a keeper's name.
const NAME_MAX: usize = 400;

/// What a wiring wants to run. Paths are meant from the catalog's folder; `layout` says where a tenant's
/// image of a registry is, and its digest.
pub fn wanted_containers(
    wiring: &Wiring,
    catalog: &Catalog,
    layout: impl Fn(&str, &str) -> Option<(Digest, PathBuf)>,
) -> BTreeMap<String, Wanted> {
    wiring
        .containers
        .iter()
        .flat_map(|(name, container)| {
            let mut first = wanted(name, container, catalog, &layout);
            let worker = container.worker.and_then(|worker| wiring.workers.list.get(worker));
            first.start.beside = worker.map(processors_of);
            let by = |number: u32| {
                let mut beside = first.clone();
                beside.start.name = stands_by(name, number);
                beside.start.sockets_of = Some(name.clone());
                for link in beside.start.interfaces.iter_mut().filter(|it| !it.outer.is_empty()) {
                    link.outer = standby_link(&link.outer, u8::try_from(number).unwrap_or(u8::MAX));
                }
                beside
            };
            let others: Vec<Wanted> = (1..=container.standby).map(by).collect();
            std::iter::once(first).chain(others)
        })
        .map(|wanted| (wanted.start.name.clone(), wanted))
        .collect()
}

fn wanted(
    name: &str,
    container: &Container,
    catalog: &Catalog,
    layout: impl Fn(&str, &str) -> Option<(Digest, PathBuf)>,
) -> Wanted {
    let whole = |path: &String| {
        let path = catalog.path(path);
        // Without a present folder it stays as it is, and the launcher says what is wrong with it.
        absolute(&path).unwrap_or(path).display().to_string()
    };
    let interfaces = container.interfaces.iter().map(|it| match it.kind.is_socket() {
        // Which folder it is in follows from the guest's name.
        true => Interface::new(&it.inside, InterfaceKind::Socket),
        false => Interface {
            outer: it.outer.clone(),
            addresses: it.addresses.clone(),
            gateways: it.gateways.clone(),
            mtu: it.mtu,
            mac: it.mac.map(|mac| schema::Value::Mac(mac).to_string()),
            ..Interface::new(&it.inside, link_kind(it.kind))
        },
    });
    let guest = match container.kind {
        ContainerKind::Container => GuestKind::Container,
        ContainerKind::Program | ContainerKind::Vm => GuestKind::Program,
    };
    let (digest, image) = match layout(&container.tenant, &container.image) {
        Some((digest, path)) => {
            let path = absolute(&path).unwrap_or(path);
            (Some(digest.to_string()), path.display().to_string())
        }
        None if container.image.is_empty() => (None, String::new()),
        None => (None, whole(&container.image)),
    };
    Wanted {
        start: Start {
            name: name.to_owned(),
            tenant: container.tenant.clone(),
            guest,
            sockets_of: None,
            image,
            digest: container.digest.clone().or(digest),
            command: container.command.clone(),
            interfaces: interfaces.collect(),
            mounts: container.mounts.iter().map(|(inside, path)| (inside.clone(), whole(path))).collect(),
            limits: Limits {
                memory: container.memory,
                weight: container.weight,
                cap: container.cap,
                processes: container.processes,
                files: container.files,
            },
            beside: None,
            kvm: match container.kvm {
                KvmUse::No => launcher::KvmUse::No,
                KvmUse::IfPossible => launcher::KvmUse::IfPossible,
                KvmUse::Required => launcher::KvmUse::Required,
            },
            probe: container.probe.as_ref().map(probe),
            mark: None,
        },
        first_delay: Duration::from(container.restart.first),
        longest_delay: Duration::from(container.restart.longest),
    }
}

/// The processors of a worker; none where it may run on all.
fn processors_of(worker: &WorkerPlan) -> Vec<u32> {
    let processors = worker.processors.iter().flatten();
    processors.filter_map(|processor| u32::try_from(*processor).ok()).collect()
}

/// What the launcher makes for a kind that is an interface of the kernel's.
fn link_kind(kind: wiring::InterfaceKind) -> InterfaceKind {
    match kind {
        wiring::InterfaceKind::Tap => InterfaceKind::Tap,
        _ => InterfaceKind::Veth,
    }
}

fn probe(probe: &ContainerProbe) -> Probe {
    let milliseconds = |span: Nanos| u32::try_from(span.0 / 1_000_000).unwrap_or(u32::MAX);
    let (exec, tcp) = match &probe.asks {
        ProbeAsks::Exec(program) => (program.clone(), None),
        ProbeAsks::Tcp(port) => (Vec::new(), Some(*port)),
    };
    Probe {
        exec,
        tcp,
        every_ms: milliseconds(probe.every),
        within_ms: milliseconds(probe.within),
        failures: probe.failures,
        start_ms: milliseconds(probe.start),
    }
}

/// The name of the keeper of what is kept in a folder or said by a file: the next one has the same.
pub fn keeper_name(of: &Path) -> String {
    let whole = std::fs::canonicalize(of).unwrap_or_else(|_| of.to_owned());
    let text: String = whole.display().to_string().chars().filter(|c| !c.is_control()).collect();
    let from = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= NAME_MAX);
    text[from.unwrap_or(0)..].to_owned()
}

/// What the shares of a container's two parts are noted as. No function has such names.
pub(super) fn parts(name: &str) -> [String; 2] {
    ["engine", "processes"].map(|part| format!("{name} {part}"))
}

/// What has happened to a container, as what happens to functions is told, in words for its readers.
pub fn container_events(name: &str, happened: Happened, words: fn(&Why) -> String) -> Vec<Event> {
    let log = |severity, text: &str| Event::Log {
        instance: name.to_owned(),
        line: LogLine { severity, text: text.replace(char::is_control, " ") },
    };
    let instance = name.to_owned();
    match happened {
        Happened::Ended { reason, again, log: lines } => {
            let (reason, retry_after) =
                (words(&reason), Nanos(u64::try_from(again.as_nanos()).unwrap_or(u64::MAX)));
            let lines = lines.iter().map(|line| log(nf_abi::stream::LOG_INFO, line));
            lines.chain([Event::Fault { instance, reason, retry_after }]).collect()
        }
        Happened::Restarted => vec![Event::Restarted { instance }],
        Happened::Attached(_) => Vec::new(),
        Happened::Noticed(why) => vec![log(nf_abi::stream::LOG_WARNING, &words(&why))],
    }
}

/// The whole of what tenants read in other words, for the daemon's log; a trouble of all of them once.
fn log_withheld(name: &str, happened: &Happened, last: &Mutex<String>) {
    let (Happened::Ended { reason: why, .. } | Happened::Noticed(why)) = happened else { return };
    let text = why.to_string().replace(char::is_control, " ");
    if why.is_withheld() && *lock(last) != text {
        console::error().line(&format!("function {name}: {text}"));
        *lock(last) = text;
    }
}

/// Has the one killed that a process is of which its port has found to hang, or cut off. It does not wait.
pub fn end_failed(keeper: &Keeper, failed: &Failed) {
    let failure = match failed.failure {
        Failure::Silent(span) => {
            launcher::Failure::Silent(u32::try_from(span.as_millis()).unwrap_or(u32::MAX))
        }
        Failure::CutOff => launcher::Failure::CutOff,
    };
    keeper.failed(&failed.guest, failed.pid, failure);
}

/// Whether interfaces of a container have come or gone.
pub fn concerns_ports(happened: &Happened) -> bool {
    matches!(happened, Happened::Attached(_) | Happened::Ended { .. })
}

/// Has the queues of a guest's TAP devices where ports find them, while it runs.
pub fn keep_queues(taps: &Handed, guest: &str, happened: &Happened) {
    match happened {
        // Without descriptors its ports stay down.
        Happened::Attached(queues) => taps.keep(guest, queues.descriptors().unwrap_or_default()),
        Happened::Ended { .. } => taps.retain(|other| other != guest),
        Happened::Restarted | Happened::Noticed(_) => {}
    }
}

/// Has a function's ports go to the guest that has become active; what is to be told of it, if another one
/// was.
pub fn follow_active(guests: &ActiveGuests, active: &Active) -> Option<Event> {
    guests.of(&active.function).say(active.number, active.standing_by);
    let guest = match active.number {
        0 => active.function.clone(),
        number => stands_by(&active.function, number.into()),
    };
    active.has_taken_over.then(|| Event::Log {
        instance: active.function.clone(),
        line: LogLine {
            severity: nf_abi::stream::LOG_WARNING,
            text: format!("guest {guest} has taken over"),
        },
    })
}

/// The digest of the image of one, if it is said or the image is pinned to it.
pub(super) fn container_digest(container: &Container) -> Option<String> {
    container.digest.clone().or_else(|| Some(artifact(&container.image)?.digest()?.to_string()))
}

impl Controller {
    /// Begins to keep the containers of what runs.
    ///
    /// # Errors
    /// The system has no threads for it.
    pub(super) fn keep_containers(self: &Arc<Self>) -> std::io::Result<()> {
        let told = self.told.clone();
        let look_at_ports = Arc::new(port_looks(self.host.fleet().clone())?);
        let look_at_active = look_at_ports.clone();
        let taps = self.catalog.taps().clone();
        let (host, last) = (Arc::downgrade(self), Mutex::default());
        let tell = move |whose: Whose<'_>, happened| {
            let Some(this) = host.upgrade() else { return };
            // A name that is another tenant's by now gets nothing of what had it.
            if this.host.container(whose.name).is_some_and(|container| container.tenant == whose.tenant) {
                keep_queues(&taps, whose.guest, &happened);
            }
            if concerns_ports(&happened) {
                look_at_ports();
            }
            log_withheld(whose.name, &happened, &last);
            // Events and lines of the log are the tenant's to read; the function's state has the whole.
            let events = container_events(whose.name, happened, Why::for_tenant).into_iter();
            events.for_each(|event| told.take_of(whose.name, whose.tenant, event));
        };
        let wanted = self.wanted_containers();
        let keeper = Arc::new(Keeper::begin(&self.launcher, &keeper_name(&self.state), wanted, tell)?);
        let (host, guests, told) =
            (Arc::downgrade(self), self.catalog.active_guests().clone(), self.told.clone());
        keeper.tell_of_active(move |active| {
            let event = follow_active(&guests, &active);
            look_at_active();
            let container = host.upgrade().and_then(|this| this.host.container(&active.function));
            if let (Some(event), Some(container)) = (event, container) {
                told.take_of(&active.function, &container.tenant, event);
            }
        })?;
        // The keeper alone: the last of all else does not end on a port's thread.
        let weak = Arc::downgrade(&keeper);
        self.catalog.when_guests_fail(move |failed| {
            if let Some(keeper) = weak.upgrade() {
                end_failed(&keeper, &failed);
            }
        });
        // It is called once.
        let _ = self.containers.set(keeper);
        Ok(())
    }

    /// Divides processors among containers and workers, by a thread of its own.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(super) fn divide_processors(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let (this, ends) = (Arc::downgrade(self), self.ends.clone());
        let mut shares = Shares::new(&self.launcher);
        std::thread::Builder::new().name("shares".into()).spawn(move || {
            while !ends.load(Relaxed) {
                let Some(this) = this.upgrade() else { return };
                let keeper = this.containers.get();
                let pause = keeper.map(|keeper| shares.look(&this.host, keeper));
                lock(&this.promised).clone_from(shares.promised());
                drop(this);
                std::thread::sleep(pause.unwrap_or(Duration::from_secs(1)));
            }
        })
    }

    /// Has those ended that do not attach in time, by a thread of its own.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(super) fn see_to_attaching(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let (this, ends) = (Arc::downgrade(self), self.ends.clone());
        let processes = self.catalog.processes().clone();
        std::thread::Builder::new().name("attaching".into()).spawn(move || {
            while !ends.load(Relaxed) {
                let Some(this) = this.upgrade() else { return };
                let keeper = this.containers.get();
                let pause = keeper.map(|keeper| this.attaching.look(&this.host, keeper, &processes));
                drop(this);
                std::thread::sleep(pause.unwrap_or(Duration::from_secs(1)));
            }
        })
    }

    /// What runs has changed, and containers with it.
    pub(super) fn containers_changed(&self) {
        if let Some(keeper) = self.containers.get() {
            let wanted = self.wanted_containers();
            self.catalog.taps().retain(|guest| wanted.contains_key(guest));
            self.catalog.active_guests().retain(|function| wanted.contains_key(function));
            keeper.want(wanted);
        }
    }

    fn wanted_containers(&self) -> BTreeMap<String, Wanted> {
        let layout = |tenant: &str, image: &str| self.shelf.container_layout(tenant, image);
        wanted_containers(&self.host.wiring(), &self.catalog, layout)
    }

    /// Starts a container anew; false if there is none of this name.
    pub(super) fn restart_container(&self, name: &str) -> bool {
        self.containers.get().is_some_and(|keeper| keeper.restart(name))
    }

    /// How one is, in words for a tenant or an administrator; `None`: there is none of this name.
    pub(super) fn container_status(&self, name: &str, tenant: Option<&str>) -> Option<FunctionStatus> {
        let container = self.host.container(name)?;
        let condition = self.containers.get().and_then(|keeper| keeper.condition(name)).unwrap_or_default();
        let named = container.interfaces.iter().map(|it| container_port(name, &it.name));
        let ports: Vec<_> = named.filter_map(|port| self.host.account_of_port(&port)).collect();
        let port = |name: &str| ports.iter().find(|port| port.name == name);
        let standing = Standing::of((name, &container), &condition, &self.attaching, port);
        let counted = container_readings::read(&container.tenant, standing.state, 0, ports.iter());
        let promised = container.promised_memory();
        let processes = guest_wasm::watchdog::clock().cycles(Nanos(condition.cpu_us.saturating_mul(1000)));
        let engine = self.host.used_beside(name);
        let [of_engine, of_processes] = parts(name);
        let processor = ContainerProcessor {
            engine_cycles: engine.0,
            engine_share: share_of(self, &of_engine, engine),
            processes_cycles: processes.0,
            processes_share: share_of(self, &of_processes, processes),
        };
        let worker = container.worker.and_then(|worker| u32::try_from(worker).ok());
        let standby = standing_by(name, &container, &ports);
        Some(FunctionStatus {
            state: standing.state,
            reason: standing
                .reason
                .map(|why| if tenant.is_some() { why.for_tenant() } else { why.to_string() }),
            since: standing.since.map(|since| self.time_of(since)),
            worker,
            image: container_digest(&container).unwrap_or_default(),
            packets: counted.packets,
            bytes: counted.bytes,
            calls: 0,
            cycles: engine.0 + processes.0,
            promised_share: lock(&self.promised).get(name).copied().unwrap_or(0.0),
            got_share: processor.engine_share + processor.processes_share,
            processor: Some(processor),
            standby,
            queue: counted.queue,
            drops: counted.dropped.nonzero().map(|(reason, count)| (reason.to_string(), count)).collect(),
            latency: latency(&counted.latencies),
            memory: FunctionMemory { private: condition.memory, promised, ..FunctionMemory::default() },
            faults: condition.faults,
            restarts: condition.restarts,
        })
    }

    /// What all of them have done, or those of a tenant, for an account.
    pub(super) fn container_accounts(
        &self,
        account: &Account,
        tenant: Option<&str>,
    ) -> Vec<ContainerAccount> {
        let wiring = self.host.wiring();
        let own = |(_, container): &(&String, &Container)| tenant.is_none_or(|it| container.tenant == it);
        let promised = lock(&self.promised).clone();
        let from = ContainerSources {
            host: &self.host,
            keeper: self.containers.get().map(Arc::as_ref),
            attaching: &self.attaching,
            promised: &promised,
        };
        let words = |why: &Why| if tenant.is_some() { why.for_tenant() } else { why.to_string() };
        container_account::container_accounts(wiring.containers.iter().filter(own), account, from, words)
    }

    /// A moment as it is told.
    fn time_of(&self, moment: Instant) -> String {
        let started = UNIX_EPOCH + Duration::from(self.started);
        let (after, before) =
            (moment.checked_duration_since(self.begun), self.begun - moment.min(self.begun));
        let time = after.map_or_else(|| started.checked_sub(before), |after| started.checked_add(after));
        humantime::format_rfc3339_millis(time.unwrap_or(started)).to_string()
    }

    /// What the memory of each is.
    pub(super) fn container_memory(&self) -> Vec<ContainerMemory> {
        let wiring = self.host.wiring();
        let memory = |(name, container): (&String, &Container)| {
            let condition = self.containers.get().and_then(|keeper| keeper.condition(name));
            ContainerMemory {
                name: name.clone(),
                tenant: container.tenant.clone(),
                bytes: condition.map_or(0, |condition| condition.memory),
                limit: container.promised_memory(),
            }
        };
        wiring.containers.iter().map(memory).collect()
    }

    /// Why something is not done to what is no function in the sandbox.
    pub(super) fn no_function(&self, name: &str) -> Refusal {
        if let Some(container) = self.host.container(name) {
            let kind = container.kind.as_str();
            let message = format!("`{name}` is a {kind}; allowed: a function in the sandbox (`guest: wasm`)");
            return Refusal::Conflict(vec![Fault::of_request("guest", message)]);
        }
        Refusal::NotFound(format!("there is no function `{name}`"))
    }
}
