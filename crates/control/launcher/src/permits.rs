//! What may be started: the launcher's own file, and whether a request is within it.

use crate::interfaces::{links, parse_mac};
use crate::request::{GuestKind, Interface, InterfaceKind, Limits, Start};
use crate::{LauncherError, Refusal, open_files};
use container_image::Digest;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use schema::{Schema, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use yaml_document::{Document, Fault, Key, Location, Node, Position};

/// The version of the file's format.
const VERSION: &str = "1";
/// Users of one tenant, and groups.
pub(crate) const USERS: u32 = 65_536;
/// Longest file.
const FILE_MAX: u64 = 1 << 20;
/// What outer ends of veth pairs begin with.
pub(crate) const PREFIX: &str = "sfg";

/// Folders that each guest has of its own.
const OWN: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/tmp"];

/// The least memory of a guest: the runtime is in its control group until its program is, and takes about
/// half of this. Docker's least is the same.
const MEMORY_LEAST: u64 = 6 << 20;

const ARGUMENTS_MAX: usize = 256;
const INTERFACES_MAX: usize = 16;
const MOUNTS_MAX: usize = 64;
const PROCESSORS_MAX: usize = 8192;

// A test proves that these texts are schemas.
static ROOT: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("permits.yaml", include_str!("permits.yaml")).unwrap_or_default());
static TENANT: LazyLock<Schema> = LazyLock::new(|| {
    Schema::from_text("permits_tenant.yaml", include_str!("permits_tenant.yaml")).unwrap_or_default()
});

/// The launcher's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permits {
    clients: Vec<u32>,
    pub(crate) runtime: PathBuf,
    pub(crate) image_size: u64,
    tenants: BTreeMap<String, Tenant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tenant {
    uids: u32,
    images: Vec<PathBuf>,
    mounts: Vec<PathBuf>,
    programs: Vec<PathBuf>,
    kvm: bool,
    packet_sockets: bool,
    guests: usize,
    memory: u64,
    processes: u32,
}

/// A request that is within the file, with what it names opened.
#[derive(Debug)]
pub struct Permitted {
    /// The host's user that root inside is.
    pub(crate) uids: u32,
    /// How many the tenant may have at a time.
    pub(crate) guests: usize,
    /// Whether they may use `/dev/kvm`.
    pub(crate) kvm: bool,
    pub(crate) files: Files,
    /// By the path inside: the opened file or folder.
    pub(crate) mounts: BTreeMap<String, OwnedFd>,
}

/// Where a guest's files come from.
#[derive(Debug)]
pub(crate) enum Files {
    /// Of an image: the layout's folder, and the digest that its manifest must have.
    Image(OwnedFd, Option<Digest>),
    /// Of these folders of the host.
    Host(Vec<PathBuf>),
}

impl Files {
    /// The host's folders.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        match self {
            Files::Image(..) => &[],
            Files::Host(folders) => folders,
        }
    }
}

impl Permits {
    /// Reads the file, which only root may write.
    ///
    /// # Errors
    /// [`LauncherError`]: every fault, or why it cannot be read.
    pub fn read(path: &Path) -> Result<Permits, LauncherError> {
        let file = local_file::open(path).map_err(LauncherError::file(path))?;
        let found = file.metadata().map_err(LauncherError::file(path))?;
        if found.uid() != 0 || found.mode() & 0o022 != 0 {
            let found = format!("it is user {}'s, with mode {:03o}", found.uid(), found.mode() & 0o777);
            return Err(LauncherError::PermitsOwner { path: path.to_owned(), found });
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, FILE_MAX), &mut bytes)
            .map_err(LauncherError::file(path))?;
        let name = path.display().to_string();
        let text = yaml_document::text(&name, &bytes).map_err(|fault| LauncherError::Permits(vec![fault]))?;
        Permits::from_text(&name, text).map_err(LauncherError::Permits)
    }

    /// Takes a text for the file of this name.
    ///
    /// # Errors
    /// Every fault.
    pub fn from_text(name: &str, text: &str) -> Result<Permits, Vec<Fault>> {
        let document = Document::parse(name, text).map_err(|fault| vec![fault])?;
        let root = document.root();
        let place = Location::new(name, "", root.position);
        let mut faults = Vec::new();
        if root.get("superfluid_launcher").and_then(Node::as_text) != Some(VERSION) {
            place.report(&mut faults, || {
                format!("the key `superfluid_launcher`, the version of this format, is not there; allowed: {VERSION}")
            });
        }
        let values = ROOT.check_at(&place, Some(root), &["superfluid_launcher", "tenants"], &mut faults);
        let mut tenants: BTreeMap<String, (Tenant, Position)> = BTreeMap::new();
        if let Some((key, node)) = root.entry("tenants") {
            let section = place.key(&key.text, node.position);
            for (key, node) in node.as_map().unwrap_or_default() {
                tenants.extend(tenant(&section, key, node, &mut faults));
            }
        }
        let mut ranges: Vec<(u32, &str, Position)> =
            tenants.iter().map(|(name, (tenant, at))| (tenant.uids, name.as_str(), *at)).collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            let ((first, name, _), (next, other, at)) = (pair[0], pair[1]);
            if next - first < USERS {
                place.at(at).report(&mut faults, || {
                    format!(
                        "the users of `{other}` from {next} on are also those of `{name}` from {first} on; allowed: \
                         {USERS} for each tenant alone"
                    )
                });
            }
        }
        let Some(values) = values.filter(|_| faults.is_empty()) else { return Err(faults) };
        let list = values.get("clients").and_then(Value::as_list).unwrap_or_default();
        let clients = list.iter().filter_map(|uid| u32::try_from(uid.as_integer()?).ok()).collect();
        Ok(Permits {
            clients,
            runtime: values.get("runtime").and_then(Value::as_text).unwrap_or_default().into(),
            image_size: values.get("image_size").and_then(Value::as_size).unwrap_or_default(),
            tenants: tenants.into_iter().map(|(name, (tenant, _))| (name, tenant)).collect(),
        })
    }

    /// Whether processes of this user may ask.
    pub(crate) fn serves(&self, uid: u32) -> bool {
        uid == 0 || self.clients.contains(&uid)
    }

    /// Whether a guest may be started, and what its start needs.
    ///
    /// # Errors
    /// [`Refusal`]: the first thing that is not allowed, and what is.
    pub fn check(&self, start: &Start) -> Result<Permitted, Refusal> {
        check_guest_name(&start.name)?;
        start.sockets_of.as_deref().map_or(Ok(()), check_name)?;
        let tenant = self.tenant(&start.tenant)?;
        tenant.check_limits(&start.limits)?;
        let arguments = &start.command;
        if arguments.len() > ARGUMENTS_MAX || arguments.iter().any(|text| text.contains('\0')) {
            return Err(Refusal::new(format!(
                "command: {} arguments; allowed: at most {ARGUMENTS_MAX}, without zeros",
                arguments.len()
            )));
        }
        check_interfaces(&start.interfaces)?;
        tenant.check_packet_sockets(&start.interfaces)?;
        check_beside(start.beside.as_deref().unwrap_or_default())?;
        start.probe.as_ref().map_or(Ok(()), |probe| probe.check(ARGUMENTS_MAX))?;
        check_mark(start.mark.as_deref())?;
        let files = match start.guest {
            GuestKind::Container => {
                let digest = start.digest.clone().map(Digest::try_from).transpose();
                let digest = digest.map_err(Refusal::of("digest"))?;
                Files::Image(open_below("image", &start.image, &tenant.images, OFlags::DIRECTORY)?, digest)
            }
            GuestKind::Program => Files::Host(tenant.check_program(start)?),
        };
        if start.mounts.len() > MOUNTS_MAX {
            let found = start.mounts.len();
            return Err(Refusal::new(format!("mounts: found {found}; allowed: at most {MOUNTS_MAX}")));
        }
        let mut mounts = BTreeMap::new();
        for (inside, from) in &start.mounts {
            check_inside(inside)?;
            mounts.insert(inside.clone(), open_below("mounts", from, &tenant.mounts, OFlags::empty())?);
        }
        let kvm = start.guest == GuestKind::Program && tenant.kvm;
        Ok(Permitted { uids: tenant.uids, guests: tenant.guests, kvm, files, mounts })
    }

    /// Whether a tenant's guest may have these limits.
    pub(crate) fn check_limits(&self, tenant: &str, limits: &Limits) -> Result<(), Refusal> {
        self.tenant(tenant)?.check_limits(limits)
    }

    fn tenant(&self, name: &str) -> Result<&Tenant, Refusal> {
        self.tenants.get(name).ok_or_else(|| {
            let known = yaml_document::spelling::listed(self.tenants.keys().map(String::as_str));
            Refusal::new(format!("tenant: found `{name}`; allowed by the launcher's file: {known}"))
        })
    }
}

/// Processors by number, as many as a kernel of Linux may have.
fn check_beside(processors: &[u32]) -> Result<(), Refusal> {
    if processors.len() > PROCESSORS_MAX || processors.iter().any(|it| *it as usize >= PROCESSORS_MAX) {
        let found = processors.len();
        return Err(Refusal::new(format!(
            "beside: found {found} numbers; allowed: at most {PROCESSORS_MAX}, each below that"
        )));
    }
    Ok(())
}

impl Tenant {
    /// The folders of the host that a program sees, if it is in one of them.
    fn check_program(&self, start: &Start) -> Result<Vec<PathBuf>, Refusal> {
        if !start.image.is_empty() || start.digest.is_some() {
            let found = "image: found one for a program; allowed: none, its files are the host's";
            return Err(Refusal::new(found));
        }
        let command = start.command.first().map(String::as_str).unwrap_or_default();
        let plain = is_plain(Path::new(command)) && !has_dots(command);
        // Where it leads from there is looked up by the kernel, inside, where nothing else of the host is.
        let below = |folder: &PathBuf| Path::new(command).starts_with(folder) && Path::new(command) != folder;
        if plain && self.programs.iter().any(below) {
            return Ok(self.programs.clone());
        }
        Err(Refusal::new(format!(
            "command: found the program `{command}`; allowed by the launcher's file: {}",
            listed(&self.programs)
        )))
    }

    /// Where there is an interface without addresses, a guest gets the right to packet sockets.
    fn check_packet_sockets(&self, interfaces: &[Interface]) -> Result<(), Refusal> {
        let bare = links(interfaces).find(|it| it.addresses.is_empty());
        match bare.filter(|_| !self.packet_sockets) {
            None => Ok(()),
            Some(bare) => Err(Refusal::new(format!(
                "interfaces: `{}` has no addresses, and `packet_sockets` of the tenant is false; allowed by the launcher's \
                 file: interfaces with addresses",
                bare.name
            ))),
        }
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), Refusal> {
        let within = |key: &str, by: &str, shown: fn(u64) -> String, [least, found, most]: [u64; 3]| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            let [least, found, most] = [least, found, most].map(shown);
            Err(Refusal::new(format!("limits.{key}: found {found}; allowed{by}: {least} to {most}")))
        };
        let size = |bytes| Value::Size(bytes).to_string();
        let number = |number: u64| number.to_string();
        let by_file = " by the launcher's file";
        within("memory", by_file, size, [MEMORY_LEAST, limits.memory, self.memory])?;
        within("weight", "", number, [1, limits.weight.into(), 10_000])?;
        within("cap", "", number, [10, limits.cap.unwrap_or(1000).into(), 1_000_000])?;
        let processes = [1, limits.processes.into(), self.processes.into()];
        within("processes", by_file, number, processes)?;
        let files = [open_files::LEAST.into(), limits.files.into(), open_files::most()];
        within("files", " by the host", number, files)
    }
}

fn tenant(
    section: &Location<'_>,
    key: &Key,
    node: &Node,
    faults: &mut Vec<Fault>,
) -> Option<(String, (Tenant, Position))> {
    let place = section.key(&key.text, node.position);
    if let Err(refused) = check_name(&key.text) {
        place.at(key.position).report(faults, || refused.to_string());
        return None;
    }
    let values = TENANT.check_at(&place, Some(node), &[], faults)?;
    let mut paths = |key: &str| {
        let texts = values.get(key).and_then(Value::as_list).unwrap_or_default();
        let paths: Vec<PathBuf> = texts.iter().filter_map(Value::as_text).map(PathBuf::from).collect();
        for path in paths.iter().filter(|path| !is_plain(path) || path.parent().is_none()) {
            let position = node.get(key).map_or(node.position, |node| node.position);
            place.key(key, position).report(faults, || {
                format!("found `{}`; allowed: absolute paths below `/`, without `..`", path.display())
            });
        }
        paths
    };
    let (images, mounts, programs) = (paths("images"), paths("mounts"), paths("programs"));
    // What a guest has there is its own.
    for path in programs.iter().filter(|path| OWN.iter().any(|own| path.starts_with(own))) {
        let position = node.get("programs").map_or(node.position, |node| node.position);
        place.key("programs", position).report(faults, || {
            format!("found `{}`; allowed: folders that are not below {}", path.display(), OWN.join(", "))
        });
    }
    let integer = |key| values.get(key).and_then(Value::as_integer);
    let tenant = Tenant {
        uids: u32::try_from(integer("uids")?).ok()?,
        images,
        mounts,
        programs,
        kvm: values.get("kvm").and_then(Value::as_bool)?,
        packet_sockets: values.get("packet_sockets").and_then(Value::as_bool)?,
        guests: usize::try_from(integer("guests")?).ok()?,
        memory: values.get("memory").and_then(Value::as_size)?,
        processes: u32::try_from(integer("processes")?).ok()?,
    };
    Some((key.text.clone(), (tenant, key.position)))
}

/// Whether a path is absolute and every part of it a name.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().skip(1).all(|part| matches!(part, Component::Normal(_)))
}

/// A name that can be a file's and a control group's.
pub(crate) fn check_name(name: &str) -> Result<(), Refusal> {
    let good = name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if good {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "found the name `{name}`; allowed: a letter, then letters, digits, `_` and `-`, 32 characters at most"
    )))
}

/// Whether a part of a path is `.` or `..`, or it cannot be one.
fn has_dots(path: &str) -> bool {
    path.contains('\0') || path.split('/').any(|part| matches!(part, "." | ".."))
}

/// What lies below these folders, in words.
fn listed(below: &[PathBuf]) -> String {
    let listed: Vec<String> = below.iter().map(|folder| folder.display().to_string()).collect();
    match listed.is_empty() {
        true => "none".to_owned(),
        false => format!("what lies below {}", listed.join(", ")),
    }
}

/// The same, or with a dot and a digit behind: guests of one function, which stand by one another.
fn check_guest_name(name: &str) -> Result<(), Refusal> {
    match name.split_once('.') {
        Some((function, number)) if matches!(number.as_bytes(), [b'1'..=b'9']) => check_name(function),
        _ => check_name(name),
    }
}

/// Opens what is below one of these folders, following no link on the way down.
fn open_below(key: &str, path: &str, below: &[PathBuf], flags: OFlags) -> Result<OwnedFd, Refusal> {
    let refused = |why: &str| {
        Refusal::new(format!("{key}: `{path}` {why}; allowed by the launcher's file: {}", listed(below)))
    };
    let wanted = Path::new(path);
    if !is_plain(wanted) || has_dots(path) {
        return Err(refused("is not an absolute path without `.` and `..`"));
    }
    let found = below.iter().find_map(|folder| Some((folder, wanted.strip_prefix(folder).ok()?)));
    let Some((folder, rest)) = found.filter(|(_, rest)| !rest.as_os_str().is_empty()) else {
        return Err(refused("lies elsewhere"));
    };
    let base = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, base | OFlags::DIRECTORY, Mode::empty());
    let opened = opened.map_err(|error| refused(&format!("cannot be opened ({error})")))?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    // A pipe must not be waited for.
    let flags = base | flags | OFlags::NONBLOCK;
    let opened = rustix::fs::openat2(&opened, rest, flags, Mode::empty(), resolve);
    let opened = opened.map_err(|error| match error {
        rustix::io::Errno::LOOP => refused("is a link, or lies behind one"),
        error => refused(&format!("cannot be opened ({error})")),
    })?;
    let kind = File::from(opened).into_kind().map_err(|error| refused(&error.to_string()))?;
    kind.ok_or_else(|| refused("is neither a file nor a folder"))
}

/// Files and folders alone; a device is none.
trait IntoKind {
    fn into_kind(self) -> std::io::Result<Option<OwnedFd>>;
}

impl IntoKind for File {
    fn into_kind(self) -> std::io::Result<Option<OwnedFd>> {
        let found = self.metadata()?;
        Ok((found.is_file() || found.is_dir()).then(|| self.into()))
    }
}

/// Where something is mounted inside: not over what the kernel shows there.
fn check_inside(inside: &str) -> Result<(), Refusal> {
    let path = Path::new(inside);
    let parts = || inside.split('/');
    let plain = is_plain(path) && path.parent().is_some() && inside.len() < 4096 && !inside.contains('\0');
    let own = ["/proc", "/sys", "/dev"].iter().any(|folder| path.starts_with(folder));
    if plain && !own && !parts().any(|part| matches!(part, "." | "..")) {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "mounts: found `{inside}` as a path inside; allowed: absolute paths without `..`, not below /proc, /sys and /dev"
    )))
}

/// A text that ends up in lists.
fn check_mark(mark: Option<&str>) -> Result<(), Refusal> {
    let Some(mark) = mark else { return Ok(()) };
    if mark.len() > crate::MARK_MAX || mark.chars().any(char::is_control) {
        return Err(Refusal::new(format!(
            "mark: {} bytes; allowed: at most {}, without control characters",
            mark.len(),
            crate::MARK_MAX
        )));
    }
    Ok(())
}

fn check_interfaces(interfaces: &[Interface]) -> Result<(), Refusal> {
    if interfaces.len() > INTERFACES_MAX {
        let found = interfaces.len();
        return Err(Refusal::new(format!("interfaces: found {found}; allowed: at most {INTERFACES_MAX}")));
    }
    for (index, interface) in interfaces.iter().enumerate() {
        let Interface { name, kind, outer, addresses, gateways, mtu, mac } = interface;
        if *kind == InterfaceKind::Socket {
            check_socket(interface, &interfaces[..index])?;
            continue;
        }
        let is_name = |name: &str| {
            (1..=15).contains(&name.len())
                && name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        let other = |same: &dyn Fn(&Interface) -> bool| interfaces[..index].iter().any(same);
        if !is_name(name) || name == "lo" || other(&|it| it.name == *name) {
            return Err(Refusal::new(format!(
                "interfaces: found the name `{name}`; allowed: a lower-case letter, then such, digits and `-`, 15 \
                 characters at most, each once, not `lo`"
            )));
        }
        if !is_name(outer) || !outer.starts_with(PREFIX) || other(&|it| it.outer == *outer) {
            return Err(Refusal::new(format!(
                "interfaces: found `{outer}` as the outer end of `{name}`; allowed: `{PREFIX}` and lower-case letters, \
                 digits and `-`, 15 characters at most, each once"
            )));
        }
        if *kind != InterfaceKind::Tap && mtu.is_some() {
            return Err(Refusal::new(format!("interfaces: `{name}` is no TAP device; allowed: no mtu")));
        }
        if let Some(found) = mtu.filter(|mtu| !(68..=65_521).contains(mtu)) {
            let refused = format!("interfaces: the mtu of `{name}` is {found}; allowed: 68 to 65521");
            return Err(Refusal::new(refused));
        }
        if let Some(found) = mac.as_deref().filter(|mac| parse_mac(mac).is_none()) {
            return Err(Refusal::new(format!(
                "interfaces: the mac of `{name}` is `{found}`; allowed: the address of one interface, such as \
                 02:00:00:00:00:01"
            )));
        }
        if addresses.len() > 16 || addresses.iter().any(|address| parse_address(address).is_none()) {
            return Err(Refusal::new(format!(
                "interfaces: the addresses of `{name}`; allowed: at most 16 such as 192.0.2.1/24 and 2001:db8::1/64"
            )));
        }
        let before = interfaces[..index].iter().flat_map(|it| &it.gateways);
        for (number, gateway) in gateways.iter().enumerate() {
            let same = |other: &IpAddr| other.is_ipv4() == gateway.is_ipv4();
            let has_address = addresses.iter().filter_map(|it| parse_address(it)).any(|(own, _)| same(&own));
            if !has_address || before.clone().chain(&gateways[..number]).any(same) {
                return Err(Refusal::new(format!(
                    "interfaces: found the gateway {gateway} of `{name}`; allowed: one of IPv4 and one of IPv6 of a \
                     guest, of interfaces with addresses of the same version"
                )));
            }
        }
    }
    Ok(())
}

/// An interface that is a socket: its name is a file's, and it has nothing else.
fn check_socket(interface: &Interface, before: &[Interface]) -> Result<(), Refusal> {
    let Interface { name, outer, addresses, gateways, mtu, mac, .. } = interface;
    let good = (1..=15).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !good || before.iter().any(|it| it.name == *name) {
        return Err(Refusal::new(format!(
            "interfaces: found the name `{name}` of a socket; allowed: letters, digits, `_` and `-`, at most 15, each \
             once"
        )));
    }
    let has_more = !addresses.is_empty() || !gateways.is_empty() || mtu.is_some() || mac.is_some();
    if !outer.is_empty() || has_more {
        return Err(Refusal::new(format!(
            "interfaces: `{name}` is a socket; allowed: neither an outer end, addresses, gateways, mtu nor mac"
        )));
    }
    Ok(())
}

/// An address and its prefix length.
pub(crate) fn parse_address(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}
