//! Reading a file, and in it tenants, ports and functions.

use crate::Catalog;
use crate::format::{SECTIONS, function_schema, pool_schema, tenant_schema};
use crate::groups::{Group, Guarded};
use crate::reference::{FunctionFacts, Names, What};
use api::DEFAULT_TENANT;
use manifest::Manifest;
use packet_memory::{BufferSize, PageKind, PoolConfig};
use schema::{Files, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use telemetry::clock::Nanos;
use wiring::{
    Claimant, ContainerKind, Cpu, Endpoint, FailMode, Fraction, Instance, InstancePool, Observation, Pause,
    Port, PortIo, RestartDelays, Tenant, TenantMemory, Wiring,
};
use yaml_document::{Fault, Key, Location, Node, Position, spelling};

/// Most bytes in a pool: the packet window.
const POOL_MAX: u64 = 1 << 30;

/// The catalog's files.
struct Named<'a>(&'a dyn Catalog);

impl Files for Named<'_> {
    fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        self.0.file(path, most)
    }
}

/// What has been read so far. What has a fault is not in the wiring, but its name is in `names`, so that a
/// reference to it is not a second fault.
pub(crate) struct Reader<'a> {
    pub(crate) catalog: &'a dyn Catalog,
    /// What is read is all that there is; what is not wired in a part may be elsewhere.
    pub(crate) whole: bool,
    images: HashMap<String, Result<Arc<Manifest>, String>>,
    pub(crate) wiring: Wiring,
    pub(crate) faults: Vec<Fault>,
    pub(crate) warnings: Vec<Fault>,
    pub(crate) names: Names,
    /// Names of tenants, also of those that have a fault.
    tenants: Vec<String>,
    /// Ports and functions that name no tenant.
    unnamed: Vec<String>,
    /// Where each endpoint got its wire, and the other end.
    pub(crate) wired: HashMap<Endpoint, (Position, Endpoint)>,
    /// Ports and functions that have a wire, and where the first one is said.
    pub(crate) inline: HashMap<String, Position>,
    /// Functions that are observed, and where that is said first.
    pub(crate) observed: HashMap<String, Position>,
    /// Ports and functions that a service leads to, and where that is said first.
    pub(crate) serving: HashMap<String, Position>,
    /// Where each observation is said: its number in the observer's list, and the place.
    pub(crate) observations: BTreeMap<Observation, (usize, Position)>,
    /// Where a `reserve` is said.
    pub(crate) reserves: BTreeMap<Claimant, Position>,
    /// Where it is said how much memory a tenant or function may have.
    pub(crate) memories: BTreeMap<Claimant, Position>,
    /// Security groups by name, also those that have a fault.
    pub(crate) groups: BTreeMap<String, Group>,
    /// Devices that name groups.
    pub(crate) guarded: BTreeMap<String, Guarded>,
    /// How many workers there are; `None` when their section has a fault.
    pub(crate) worker_count: Option<usize>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(catalog: &'a dyn Catalog, whole: bool) -> Reader<'a> {
        Reader {
            catalog,
            whole,
            images: HashMap::new(),
            wiring: Wiring::default(),
            faults: Vec::new(),
            warnings: Vec::new(),
            names: Names::default(),
            tenants: Vec::new(),
            unnamed: Vec::new(),
            wired: HashMap::new(),
            inline: HashMap::new(),
            observed: HashMap::new(),
            serving: HashMap::new(),
            observations: BTreeMap::new(),
            reserves: BTreeMap::new(),
            memories: BTreeMap::new(),
            groups: BTreeMap::new(),
            guarded: BTreeMap::new(),
            worker_count: None,
        }
    }

    /// Reads a whole file, section by section in the order in which they build on one another.
    pub(crate) fn read(&mut self, place: &Location<'_>, root: &Node) {
        for (key, _) in root.as_map().unwrap_or_default() {
            if !SECTIONS.contains(&key.text.as_str()) {
                place.key(&key.text, key.position).report_unknown_key(&mut self.faults, || {
                    let name = spelling::shown(&key.text);
                    format!("unknown key `{name}`{}", spelling::choices(&key.text, SECTIONS))
                });
            }
        }
        self.workers(place, root);
        self.section(place, root, "tenants", Self::tenant);
        if self.tenants.is_empty() {
            self.add_default();
        }
        self.section(place, root, "ports", Self::port);
        self.section(place, root, "switches", Self::switch);
        self.section(place, root, "groups", Self::group);
        self.section(place, root, "devices", Self::device);
        self.section(place, root, "functions", Self::function);
        self.section(place, root, "chains", Self::chain);
        self.attachments(place, root);
        self.wires(place, root);
        self.section(place, root, "observers", Self::observer);
        self.services(place, root);
        self.guest_gateways(place, root);
        self.guest_stations(place);
        self.openers(place, root);
        self.loops(place);
        self.stations_differ(place, root);
        self.stations_on_one_link(place, root);
        self.guards(place, root);
        self.unnamed_tenants(place, root);
        self.leftovers(place, root);
        self.promises(place);
        self.overdrafts(place);
    }

    /// Reads each entry of a section that maps names to descriptions.
    fn section(
        &mut self,
        place: &Location<'_>,
        root: &Node,
        name: &str,
        read: impl Fn(&mut Self, &Location<'_>, &Key, &Node),
    ) {
        let Some((_, node)) = root.entry(name) else { return };
        let section = place.key(name, node.position);
        for (key, node) in self.entries(&section, node) {
            let place = section.key(&key.text, node.position);
            if self.is_name(&place.at(key.position), &key.text) {
                read(self, &place, key, node);
            }
        }
    }

    /// The entries of a section, which may be empty.
    pub(crate) fn entries<'n>(&mut self, place: &Location<'_>, node: &'n Node) -> &'n [(Key, Node)] {
        match node.as_map() {
            Some(entries) => entries,
            None if node.is_null() => &[],
            None => {
                place.report(&mut self.faults, || {
                    format!("{}; allowed: a map from name to description", node.found())
                });
                &[]
            }
        }
    }

    pub(crate) fn is_name(&mut self, place: &Location<'_>, text: &str) -> bool {
        let good = text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !good {
            place.report(&mut self.faults, || {
                format!(
                    "found the name `{}`; allowed: a letter, then letters, digits, `_` and `-`, 32 characters at most",
                    spelling::shown(text)
                )
            });
        }
        good
    }

    /// The tenant `default`, which is there without being said.
    fn add_default(&mut self) {
        self.tenants.push(DEFAULT_TENANT.to_owned());
        self.wiring.tenants.insert(
            DEFAULT_TENANT.to_owned(),
            Tenant { pool: PoolConfig::default(), cpu: Cpu::default(), memory: TenantMemory::default() },
        );
    }

    fn tenant(&mut self, place: &Location<'_>, key: &Key, node: &Node) {
        self.tenants.push(key.text.clone());
        // What it may run is for what asks in its name; to what is wired it means nothing.
        let known = tenant_schema().check_at(place, Some(node), &["pool", "cpu", "memory"], &mut self.faults);
        let pool = match node.entry("pool") {
            Some((_, node)) => self.pool(&place.key("pool", node.position), node),
            None => Some(PoolConfig::default()),
        };
        let cpu = self.cpu(place, node, Claimant::Tenant(key.text.clone()));
        let memory = self.tenant_memory(place, node, &key.text);
        if let (Some(_), Some(pool), Some(cpu), Some(memory)) = (known, pool, cpu, memory) {
            self.wiring.tenants.insert(key.text.clone(), Tenant { pool, cpu, memory });
        }
    }

    fn pool(&mut self, place: &Location<'_>, node: &Node) -> Option<PoolConfig> {
        let value = pool_schema().check_at(place, Some(node), &[], &mut self.faults)?;
        let integer = |key| value.get(key).and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok());
        let at = |key: &str| node.get(key).map_or(place.position(), |node| node.position);
        let (buffers, headroom) = (integer("buffers")?, integer("headroom")?);
        let bytes = value.get("buffer_size").and_then(Value::as_size)?;
        let Some(buffer_size) = u32::try_from(bytes).ok().and_then(BufferSize::new) else {
            place.key("buffer_size", at("buffer_size")).report(&mut self.faults, || {
                let found = Value::Size(bytes);
                format!("found `{found}`; allowed: 2KiB, 4KiB, 8KiB, 16KiB, 32KiB, 64KiB")
            });
            return None;
        };
        if headroom > buffer_size.bytes() / 2 {
            let allowed = buffer_size.bytes() / 2;
            place.key("headroom", at("headroom")).report(&mut self.faults, || {
                format!("found `{headroom}`; allowed: at most {allowed}, half a buffer (unit: bytes)")
            });
            return None;
        }
        let size = u64::from(buffer_size.bytes());
        if u64::from(buffers) * size > POOL_MAX {
            place.key("buffers", at("buffers")).report(&mut self.faults, || {
                let (most, size) = (POOL_MAX / size, Value::Size(size));
                format!("found `{buffers}`; allowed: at most {most} buffers of {size} (1GiB in all)")
            });
            return None;
        }
        let pages = match value.get("pages").and_then(Value::as_text) {
            Some("huge") => Some(PageKind::Huge),
            Some("ordinary") => Some(PageKind::Ordinary),
            _ => None,
        };
        Some(PoolConfig { buffers, buffer_size, headroom, pages })
    }

    /// The tenant that a port, device or function names, or `default` when it names none.
    pub(crate) fn owner(&mut self, place: &Location<'_>, key: &Key, node: &Node) -> Option<String> {
        match node.entry("tenant") {
            Some((_, named)) => {
                let place = place.key("tenant", named.position);
                let Some(name) = named.as_text() else {
                    place.report(&mut self.faults, || {
                        format!("{}{}", named.found(), spelling::choices("", tenant_names(&self.tenants)))
                    });
                    return None;
                };
                self.known_tenant(&place, name)
            }
            None => {
                self.unnamed.push(key.text.clone());
                self.known_tenant(place, DEFAULT_TENANT)
            }
        }
    }

    /// The tenant of a name. `default` is there as soon as something is of it.
    pub(crate) fn known_tenant(&mut self, place: &Location<'_>, name: &str) -> Option<String> {
        if !self.tenants.iter().any(|tenant| tenant == name) {
            if name != DEFAULT_TENANT {
                let found = spelling::shown(name);
                place.report(&mut self.faults, || {
                    format!("found `{found}`{}", spelling::choices(name, tenant_names(&self.tenants)))
                });
                return None;
            }
            self.add_default();
        }
        Some(name.to_owned())
    }

    /// Warns of what is the tenant `default`'s because it names none, in a file that names other tenants and
    /// not `default`.
    fn unnamed_tenants(&mut self, place: &Location<'_>, root: &Node) {
        let Some((_, node)) = root.entry("tenants") else { return };
        let tenants = node.as_map().unwrap_or_default();
        if self.unnamed.is_empty()
            || tenants.is_empty()
            || tenants.iter().any(|(key, _)| key.text == DEFAULT_TENANT)
        {
            return;
        }
        let unnamed = spelling::listed(self.unnamed.iter().map(String::as_str));
        let others = spelling::listed(tenants.iter().map(|(key, _)| key.text.as_str()));
        place.key("tenants", node.position).report(&mut self.warnings, || {
            format!(
                "without a `tenant` these are the tenant `{DEFAULT_TENANT}`'s and of none that is named here ({others}): {unnamed}; write \
                 `tenant: {DEFAULT_TENANT}` if that is meant"
            )
        });
    }

    fn port(&mut self, place: &Location<'_>, key: &Key, node: &Node) {
        self.names.add(&key.text, key.position, What::Port);
        if node.as_map().is_none() {
            place
                .report(&mut self.faults, || format!("{}; allowed: a map with the key `type`", node.found()));
            return;
        }
        let tenant = self.owner(place, key, node);
        let drivers = self.catalog.driver_names();
        let Some((_, kind)) = node.entry("type") else {
            place.key("type", place.position()).report(&mut self.faults, || {
                format!("the required key `type` is missing; allowed: {}", spelling::listed(drivers))
            });
            // Which keys there may be says the driver.
            let near = |key: &&Key| spelling::nearest(&key.text, ["type"]).is_some();
            if let Some(key) = node.as_map().unwrap_or_default().iter().map(|(key, _)| key).find(near) {
                place.key(&key.text, key.position).report_unknown_key(&mut self.faults, || {
                    let name = spelling::shown(&key.text);
                    format!("unknown key `{name}`; allowed: type, tenant, io, fault, and those of the driver; did you mean `type`?")
                });
            }
            return;
        };
        let name = kind.as_text().unwrap_or_default();
        let Some(schema) = self.catalog.driver(name) else {
            place.key("type", kind.position).report(&mut self.faults, || {
                let choices = spelling::choices(name, drivers.iter().copied());
                // The word is the name of a driver, and nothing where it has no quotes.
                let meant = if kind.is_null() { "; write \"null\" for the driver of that name" } else { "" };
                format!("{}{choices}{meant}", kind.found())
            });
            return;
        };
        let settings =
            schema.check_at(place, Some(node), &["type", "tenant", "io", "fault"], &mut self.faults);
        let fault = match node.entry("fault") {
            Some((_, node)) => {
                let place = place.key("fault", node.position);
                self.catalog.faults().check_at(&place, Some(node), &[], &mut self.faults).map(Some)
            }
            None => Some(None),
        };
        let io = self.port_io(place, node);
        if let (Some(tenant), Some(settings), Some(fault), Some(io)) = (tenant, settings, fault, io) {
            if let Err(why) = self.catalog.check_port(name, &settings, fault.as_ref()) {
                let about = why.split_once(": ").and_then(|(key, why)| Some((node.entry(key)?, why)));
                match about {
                    Some(((key, value), why)) => {
                        let place = place.key(&key.text, value.position);
                        place.report(&mut self.faults, || why.to_owned());
                    }
                    None => place.report(&mut self.faults, || why),
                }
            }
            let port = Port { tenant, driver: name.to_owned(), settings, fault, io, bypass: None };
            self.wiring.ports.insert(key.text.clone(), port);
        }
    }

    fn port_io(&mut self, place: &Location<'_>, node: &Node) -> Option<PortIo> {
        let Some((_, node)) = node.entry("io") else { return Some(PortIo::default()) };
        match node.as_text() {
            Some("inline") => Some(PortIo::Inline),
            Some("thread") => Some(PortIo::Thread),
            text => {
                place.key("io", node.position).report(&mut self.faults, || {
                    let found = node.found();
                    format!("{found}{}", spelling::choices(text.unwrap_or_default(), ["inline", "thread"]))
                });
                None
            }
        }
    }

    /// Whether the name is one of a part that was read before, which is a fault.
    pub(crate) fn is_taken(&mut self, place: &Location<'_>, key: &Key) -> bool {
        let Some(other) = self.names.get(&key.text) else { return false };
        let (kind, there) = (other.what.kind(), other.position.in_line(" "));
        place.at(key.position).report(&mut self.faults, || {
            format!("`{}` is the name of the {kind}{there}; allowed: a name of its own", key.text)
        });
        true
    }

    pub(crate) fn function(&mut self, place: &Location<'_>, key: &Key, node: &Node) {
        if self.is_taken(place, key) {
            return;
        }
        self.names.add(&key.text, key.position, What::Broken);
        if node.as_map().is_none() {
            place.report(&mut self.faults, || {
                format!("{}; allowed: a map with the key `image`", node.found())
            });
            return;
        }
        match node.entry("guest").map(|(_, guest)| (guest.as_text(), guest)) {
            None | Some((Some("wasm"), _)) => {}
            // Which keys it may have is not known of another kind.
            Some((text, guest)) => {
                if let Some(kind) = text.and_then(ContainerKind::of) {
                    return self.container(kind, place, key, node);
                }
                place.key("guest", guest.position).report(&mut self.faults, || {
                    let kinds = ["wasm"].into_iter().chain(ContainerKind::ALL.map(ContainerKind::as_str));
                    format!("{}{}", guest.found(), spelling::choices(text.unwrap_or_default(), kinds))
                });
                return;
            }
        }
        let tenant = self.owner(place, key, node);
        let values = function_schema().check_at(
            place,
            Some(node),
            &["pool", "cpu", "config", "attach"],
            &mut self.faults,
        );
        let pool = self.instance_pool(place, node, tenant.as_deref());
        let restart = values.as_ref().and_then(|values| self.restart(place, node, values));
        let quota = values.as_ref().and_then(|values| self.quota(place, node, values));
        let pauses = values.as_ref().and_then(|values| self.pauses(place, node, values));
        let cpu = self.cpu(place, node, Claimant::Instance(key.text.clone()));
        let worker = values.as_ref().and_then(|values| self.stays_on(place, node, values));
        let manifest = node.get("image").and_then(Node::as_text).and_then(|reference| {
            let place = place.key("image", node.get("image").map_or(place.position(), |node| node.position));
            self.image(&place, reference)
        });
        let Some(manifest) = manifest else { return };
        let files = Named(self.catalog);
        let config = match node.entry("config") {
            Some((_, node)) => {
                let place = place.key("config", node.position);
                manifest.schema.check_with(&place, Some(node), &[], &files, &mut self.faults)
            }
            None => {
                let place = place.key("config", place.position());
                manifest.schema.check_with(&place, None, &[], &files, &mut self.faults)
            }
        };
        let memory =
            values.as_ref().and_then(|values| self.memory(place, node, values, &key.text, &manifest));
        let resident = values.as_ref().and_then(|it| self.resident(place, node, it, memory, &manifest));
        let facts = FunctionFacts {
            interfaces: manifest.interfaces.clone(),
            optional: manifest.optional_interfaces.clone(),
            access: manifest.access,
            tenant: tenant.clone(),
        };
        self.names.learn(&key.text, facts);
        let instance = (|| {
            let values = values?;
            let duration = |key| values.get(key).and_then(Value::as_duration).map(Nanos);
            Some(Instance {
                tenant: tenant?,
                payer: None,
                image: values.get("image").and_then(Value::as_text)?.to_owned(),
                config: config?,
                interfaces: u16::try_from(manifest.interfaces.len()).ok()?,
                access: manifest.access,
                memory: memory?,
                resident,
                pool: pool?,
                max_call: duration("max_call")?,
                fail: match values.get("fail").and_then(Value::as_text)? {
                    "open" => FailMode::Open,
                    _ => FailMode::Closed,
                },
                restart: restart?,
                quota: quota?,
                longest_hold: duration("longest_hold")?,
                events: values.get("events").and_then(Value::as_text).map(str::to_owned),
                cpu: cpu?,
                worker: worker?,
                preemptible: values.get("preemptible").and_then(Value::as_bool)?,
                pauses: pauses?,
                stations: BTreeMap::new(),
                members: BTreeMap::new(),
            })
        })();
        if let Some(instance) = instance {
            self.wiring.instances.insert(key.text.clone(), instance);
        }
    }

    fn image(&mut self, place: &Location<'_>, reference: &str) -> Option<Arc<Manifest>> {
        let known = self.catalog.image_names();
        let path = reference.contains('/') || reference.ends_with(".wasm");
        if !path && !known.contains(&reference) {
            place.report(&mut self.faults, || {
                let allowed = spelling::listed(known.iter().copied());
                let hint = spelling::nearest(reference, known.iter().copied());
                let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                let name = spelling::shown(reference);
                format!("no stock image is named `{name}`; allowed: {allowed}, or a file's path such as `./x.wasm`{hint}")
            });
            return None;
        }
        let catalog = self.catalog;
        let image = self.images.entry(reference.to_owned()).or_insert_with(|| catalog.image(reference));
        match image {
            Ok(manifest) => Some(manifest.clone()),
            Err(why) => {
                place.report(&mut self.faults, || {
                    let hidden = printable::is_hidden;
                    let why: String = why.chars().map(|c| if hidden(c) { ' ' } else { c }).collect();
                    format!("the image `{}` cannot be used: {why}", spelling::shown(reference))
                });
                None
            }
        }
    }

    fn instance_pool(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        tenant: Option<&str>,
    ) -> Option<InstancePool> {
        let Some((_, pool)) = node.entry("pool") else { return Some(InstancePool::Tenant) };
        let place = place.key("pool", pool.position);
        match pool.as_text() {
            Some("tenant") => Some(InstancePool::Tenant),
            Some("own") => Some(InstancePool::Own(self.wiring.tenants.get(tenant?)?.pool)),
            None if pool.as_map().is_some() => self.pool(&place, pool).map(InstancePool::Own),
            text => {
                place.report(&mut self.faults, || {
                    let hint = spelling::nearest(text.unwrap_or_default(), ["tenant", "own"]);
                    let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                    let keys = spelling::listed(pool_schema().keys().iter().map(|key| key.name.as_str()));
                    format!("{}; allowed: tenant, own, or a map of these keys: {keys}{hint}", pool.found())
                });
                None
            }
        }
    }

    pub(crate) fn restart(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        values: &Value,
    ) -> Option<RestartDelays> {
        let delay = |key| values.get("restart")?.get(key)?.as_duration();
        let (first, longest) = (delay("first_delay")?, delay("longest_delay")?);
        if first > longest {
            let position = node.get("restart").map_or(place.position(), |node| node.position);
            place.key("restart", position).report(&mut self.faults, || {
                let (first, longest) = (Value::Duration(first), Value::Duration(longest));
                format!("found a `first_delay` of {first} above the `longest_delay` of {longest}")
            });
            return None;
        }
        Some(RestartDelays { first: Nanos(first), longest: Nanos(longest) })
    }

    /// When an instance is paused: spans that follow one another.
    fn pauses(&mut self, place: &Location<'_>, node: &Node, values: &Value) -> Option<Vec<Pause>> {
        let list = values.get("pauses").and_then(Value::as_list)?;
        let at = |value: &Value, key| value.get(key).and_then(Value::as_duration).map(Nanos);
        let spans = list.iter().map(|value| Some(Pause { from: at(value, "from")?, to: at(value, "to")? }));
        let spans: Vec<Pause> = spans.collect::<Option<_>>()?;
        let mut before = Nanos(0);
        for (index, span) in spans.iter().enumerate() {
            if span.from >= before && span.to > span.from {
                before = span.to;
                continue;
            }
            let nodes = node.get("pauses");
            let list = place.key("pauses", nodes.map_or(place.position(), |node| node.position));
            let position = nodes.and_then(Node::as_list).and_then(|items| items.get(index));
            let position = position.map_or(list.position(), |node| node.position);
            list.item(index, position).report(&mut self.faults, || {
                format!(
                    "found {} to {} s; allowed: spans that end after they begin, each after the one before",
                    span.from.as_secs_f64(),
                    span.to.as_secs_f64()
                )
            });
            return None;
        }
        Some(spans)
    }

    fn quota(&mut self, place: &Location<'_>, node: &Node, values: &Value) -> Option<Fraction> {
        let quota = values.get("quota").and_then(Value::as_text)?;
        let fraction = Fraction::parse(quota);
        if fraction.is_none() {
            let position = node.get("quota").map_or(place.position(), |node| node.position);
            place.key("quota", position).report(&mut self.faults, || {
                format!(
                    "found `{}`; allowed: a fraction above 0 and up to 1, such as `1/16`",
                    spelling::shown(quota)
                )
            });
        }
        fraction
    }
}

/// Names that `tenant` may have.
fn tenant_names(tenants: &[String]) -> impl Iterator<Item = &str> + Clone {
    let unsaid = (!tenants.iter().any(|tenant| tenant == DEFAULT_TENANT)).then_some(DEFAULT_TENANT);
    tenants.iter().map(String::as_str).chain(unsaid)
}
