//! Opening ports.

use crate::catalog::Catalog;
use crate::stations::Stations;
use guest_wasm::watchdog;
use indexmap::IndexMap;
use packet_memory::Pool;
use port::Port;
use port::fault::{self, FaultPort};
use port::pcap::{self, PcapPort};
use port::station::StationPort;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wiring::{BypassSide, ON_A_LINK, container_of_port, is_container_port};

/// Opens a port as a wiring says. What there is to say of it goes to `notices`: one that waits for its
/// interface, say.
///
/// # Errors
/// Why it cannot be opened, and will not be.
pub(crate) fn open(
    name: &str,
    port: &wiring::Port,
    pool: &Arc<Pool>,
    (catalog, stations): (&Catalog, &Stations),
    notices: &mut Vec<String>,
) -> Result<Box<dyn Port>, String> {
    let mut opened = Opening { name, pool, catalog, stations, notices }.open(&port.driver, &port.settings)?;
    if let Some(BypassSide { container, second }) = &port.bypass {
        let joined = catalog.bypasses().join(container, *second, opened);
        opened = Box::new(joined.map_err(|error| error.to_string())?);
    }
    if let Some(fault) = &port.fault {
        opened = Box::new(FaultPort::new(opened, fault::Config::from_value(fault)?));
    }
    if ON_A_LINK.contains(&port.driver.as_str()) {
        opened = Box::new(StationPort::new(opened).map_err(|error| error.to_string())?);
    }
    opened.maintain(watchdog::clock().now());
    Ok(opened)
}

/// What a schema cannot say of a port's settings, and of the faults that it is given; nothing is opened.
///
/// # Errors
/// What is wrong, in words for the operator.
pub(crate) fn check(
    driver: &str,
    settings: &schema::Value,
    fault: Option<&schema::Value>,
) -> Result<(), String> {
    use port::generator;
    if let Some(fault) = fault {
        fault::Config::from_value(fault).map_err(|why| format!("fault: {why}"))?;
    }
    let told = |error: &dyn std::fmt::Display| error.to_string();
    match driver {
        "af_packet" => port_af_packet::Settings::from_value(settings).check().map_err(|e| told(&e)),
        "af_xdp" => port_af_xdp::Settings::from_value(settings).check().map_err(|e| told(&e)),
        "generator" => generator::Config::from_value(settings).map(drop),
        "memif" => port_memif::Settings::from_value(settings).check().map_err(|e| told(&e)),
        "native" => port_native::Settings::from_value(settings).check().map_err(|e| told(&e)),
        "pcap" => pcap::Config::from_value(settings).map(drop),
        "tap" => port_tap::Settings::from_value(settings).check().map_err(|e| told(&e)),
        "vhost-user" => port_vhost_user::Settings::from_value(settings).check().map_err(|e| told(&e)),
        _ => Ok(()),
    }
}

/// Interfaces of the kernel that ports are to be opened on and that are not there, each with its port.
/// Devices that ports make themselves are not among them, nor are the interfaces of containers, which come
/// with these.
pub fn missing_interfaces(wiring: &wiring::Wiring) -> Vec<(String, String)> {
    let named =
        wiring.ports.iter().filter(|(_, port)| ["af_packet", "af_xdp"].contains(&port.driver.as_str()));
    let named = named.filter(|(name, _)| !is_container_port(name));
    let missing = named.filter_map(|(name, port)| {
        let interface = port.settings.get("interface")?.as_text()?;
        Some((name.clone(), port_af_packet::missing(interface)?.to_string()))
    });
    missing.collect()
}

/// Ports whose capture files cannot be read or written, each with the reason: they could not be opened.
/// Nothing is made. Of all these `ports` those are looked at that are `new`.
pub fn unusable_captures(
    ports: &IndexMap<String, wiring::Port>,
    new: impl Fn(&str) -> bool,
    catalog: &Catalog,
) -> Vec<(String, String)> {
    let captures = ports.iter().filter(|(name, port)| port.driver == "pcap" && new(name));
    let unusable = captures.filter_map(|(name, port)| {
        let config = with_whole_paths(pcap::Config::from_value(&port.settings).ok()?, catalog);
        let path = config.read.clone().or_else(|| config.write.clone())?;
        let look = move |_: &Path| PcapPort::look(&config).map_err(|error| error.to_string());
        let looked = catalog.look(&path, look);
        Some((name.clone(), looked.and_then(|looked| looked).err()?))
    });
    let mut unusable: Vec<_> = unusable.collect();
    unusable.extend(shared_capture(ports, new, catalog));
    unusable
}

/// A new port that writes a file which another port writes or reads, or reads one that another writes, and
/// what it does: each would spoil what the other has.
pub(crate) fn shared_capture(
    ports: &IndexMap<String, wiring::Port>,
    new: impl Fn(&str) -> bool,
    catalog: &Catalog,
) -> Option<(String, String)> {
    let captures = || ports.iter().filter(|(_, port)| port.driver == "pcap");
    if captures().count() < 2 || !captures().any(|(name, _)| new(name)) {
        return None;
    }
    let place = |path: PathBuf| catalog.look(&path, canonical).unwrap_or(path);
    let files = captures().filter_map(|(name, port)| {
        let config = with_whole_paths(pcap::Config::from_value(&port.settings).ok()?, catalog);
        let read = config.read.map(|path| (place(path), "read"));
        Some((name, [read, config.write.map(|path| (place(path), "write"))]))
    });
    let mut found: HashMap<PathBuf, Vec<(&str, &str)>> = HashMap::new();
    for (name, files) in files {
        for (path, how) in files.into_iter().flatten() {
            let others = found.entry(path).or_default();
            let clash = others.iter().find(|(other, theirs)| {
                other != name && (how, *theirs) != ("read", "read") && (new(name) || new(other))
            });
            if let Some((other, theirs)) = clash {
                let (one, what, by) =
                    if new(name) { (name.as_str(), how, *other) } else { (*other, *theirs, name.as_str()) };
                return Some((
                    one.to_owned(),
                    format!("{what}: the port `{by}` has this file; allowed: another one"),
                ));
            }
            others.push((name.as_str(), how));
        }
    }
    None
}

/// A path without links, also of a file that is not there yet.
fn canonical(path: &Path) -> PathBuf {
    let whole = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(whole).unwrap_or_else(|| path.to_owned())
}

/// Paths as they stand in the file are relative to the file.
fn with_whole_paths(mut config: pcap::Config, catalog: &Catalog) -> pcap::Config {
    for path in [&mut config.read, &mut config.write].into_iter().flatten() {
        *path = catalog.path(&*path);
    }
    config
}

/// Whether a port's settings name another port.
pub(crate) fn names_another(port: &wiring::Port) -> bool {
    port.driver == "pcap" && port.settings.get("side_of").is_some()
}

/// What a port names as the one whose capture it is the other side of has to be one, and of the same tenant:
/// their packets come from one pool, whose free buffers keep them in order.
///
/// # Errors
/// The port, and what is wrong with what it names.
pub(crate) fn pair(ports: &IndexMap<String, wiring::Port>) -> Result<(), (String, String)> {
    for (name, port) in ports.iter().filter(|(_, port)| names_another(port)) {
        let Some(other) = port.settings.get("side_of").and_then(schema::Value::as_text) else { continue };
        let read = ports.get(other).filter(|read| {
            read.driver == "pcap" && read.tenant == port.tenant && read.settings.get("sides").is_some()
        });
        if read.is_none() {
            let allowed = "a pcap port of the same tenant that has sides";
            return Err((name.clone(), format!("side_of: found `{other}`; allowed: {allowed}")));
        }
    }
    Ok(())
}

struct Opening<'a> {
    name: &'a str,
    pool: &'a Arc<Pool>,
    catalog: &'a Catalog,
    stations: &'a Stations,
    notices: &'a mut Vec<String>,
}

impl Opening<'_> {
    fn open(&mut self, driver: &str, settings: &schema::Value) -> Result<Box<dyn Port>, String> {
        use port::{generator, null, sink};
        let pool = self.pool.clone();
        let owner = self.catalog.owner().filter(|_| is_container_port(self.name));
        let interface = settings.get("interface").and_then(schema::Value::as_text);
        let active = container_of_port(self.name)
            .zip(interface)
            .map(|(function, first)| self.catalog.active_guests().place(function, first));
        Ok(match driver {
            "af_packet" => {
                use port_af_packet::{AfPacketPort, Settings};
                let settings = Settings::from_value(settings).of_guest(owner, active);
                let opened = AfPacketPort::open(settings.clone());
                Box::new(self.open_or_wait(opened, || AfPacketPort::waiting(settings))?)
            }
            "af_xdp" => {
                use port_af_xdp::{AfXdpPort, Settings};
                let settings = Settings::from_value(settings).of_guest(owner, active);
                let opened = AfXdpPort::open(settings.clone(), pool.clone());
                Box::new(self.open_or_wait(opened, || AfXdpPort::waiting(settings, pool))?)
            }
            "memif" => {
                let mut settings = port_memif::Settings::from_value(settings);
                if is_container_port(self.name) {
                    settings = settings.of_guest(self.catalog.guest_sockets());
                }
                let opened = port_memif::MemifPort::open_over(settings, &pool, self.catalog.memif_peers());
                Box::new(opened.map_err(|error| error.to_string())?)
            }
            "native" => {
                use port_native::{NativePort, Settings};
                let mut settings = Settings::from_value(settings);
                if is_container_port(self.name) {
                    settings = settings.of_guest(self.catalog.guest_sockets());
                }
                let table = self.stations.table(self.name);
                let opened = NativePort::open_at_device(settings, pool, self.catalog.processes(), &table);
                Box::new(opened.map_err(|error| error.to_string())?)
            }
            "tap" => {
                use port_tap::{Settings, TapPort};
                let settings = Settings::from_value(settings);
                if is_container_port(self.name) {
                    let opened = TapPort::handed(settings, self.catalog.taps(), active);
                    return Ok(Box::new(opened.map_err(|error| error.to_string())?));
                }
                let opened = TapPort::open(settings.clone());
                Box::new(self.open_or_wait(opened, || TapPort::waiting(settings))?)
            }
            "vhost-user" => {
                use port_vhost_user::{Settings, VhostUserPort};
                let mut settings = Settings::from_value(settings);
                if is_container_port(self.name) {
                    settings = settings.of_guest(self.catalog.guest_sockets());
                }
                let opened = VhostUserPort::open(settings);
                Box::new(opened.map_err(|error| error.to_string())?)
            }
            "generator" => Box::new(generator::GeneratorPort::new(generator::Config::from_value(settings)?)?),
            "null" => Box::new(null::NullPort::new(null::Config::from_value(settings)?)),
            "pcap" => {
                let config = with_whole_paths(pcap::Config::from_value(settings)?, self.catalog);
                let opened = PcapPort::open_among(self.name, config, self.catalog.meetings());
                Box::new(opened.map_err(|error| error.to_string())?)
            }
            "sink" => Box::new(sink::SinkPort::new(sink::Config::from_value(settings)?)),
            other => return Err(format!("there is no driver `{other}`")),
        })
    }

    /// A port that was opened, or one that waits: the rest can work without it, and it is taken up when it
    /// can be.
    fn open_or_wait<P, E: std::fmt::Display>(
        &mut self,
        opened: Result<P, E>,
        wait: impl FnOnce() -> Result<P, E>,
    ) -> Result<P, String> {
        match opened {
            Ok(port) => Ok(port),
            Err(error) => {
                // A container's interface comes with the container.
                if !is_container_port(self.name) {
                    self.notices.push(format!("port `{}`: {error}", self.name));
                }
                wait().map_err(|error| error.to_string())
            }
        }
    }
}
