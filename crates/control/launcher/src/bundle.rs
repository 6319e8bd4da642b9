//! A guest's bundle: `config.json` of the OCI Runtime Specification 1.0, and copies of what is mounted. Of
//! the host itself there are three things, by paths that are the launcher's: folders of programs, the
//! folder of the guest's sockets, and the device of KVM.

use crate::images::Unpacked;
use crate::interfaces::links;
use crate::permits::{Permitted, USERS, parse_address};
use crate::request::{Limits, Start};
use crate::{Refusal, SOCKETS_INSIDE, kvm, seccomp};
use container_image::Config;
use rustix::fs::{Dir, FileType, Gid, Mode, OFlags, Uid};
use serde_json::{Value, json};
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The most bytes and files of all that is mounted into one guest.
const COPIED_BYTES: u64 = 64 << 20;
const COPIED_FILES: usize = 4096;
/// Folders that an image may ask to write to.
const VOLUMES_MAX: usize = 16;
/// Largest `/etc/passwd` or `/etc/group` that is looked into.
const FILE_MAX: u64 = 1 << 20;

const MASKED: [&str; 9] = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What a guest sees of the host.
#[derive(Debug, Default)]
pub(crate) struct OfHost<'a> {
    /// Folders, at the same paths.
    pub(crate) programs: &'a [PathBuf],
    /// The folder of its sockets.
    pub(crate) sockets: Option<&'a Path>,
    /// Its file of the device of KVM.
    pub(crate) kvm: Option<&'a Path>,
}

impl OfHost<'_> {
    /// What else is mounted there is not seen.
    pub(crate) fn mounts(&self) -> Vec<Value> {
        let bind = |from: &Path, to: &Path, options: &[&str]| json!({"destination": to, "type": "bind", "source": from, "options": options});
        let programs = self.programs.iter().map(|path| bind(path, path, &["bind", "ro", "nosuid", "nodev"]));
        let sockets = self
            .sockets
            .map(|path| bind(path, Path::new(SOCKETS_INSIDE), &["bind", "ro", "nosuid", "nodev", "noexec"]));
        let kvm =
            self.kvm.map(|path| bind(path, Path::new(kvm::DEVICE), &["bind", "rw", "nosuid", "noexec"]));
        programs.chain(sockets).chain(kvm).collect()
    }
}

/// Writes a guest's bundle into its folder; its control group will be below `group`.
pub(crate) fn write(
    folder: &Path,
    group: &str,
    start: &Start,
    permitted: &Permitted,
    image: &Unpacked,
    of_host: &OfHost<'_>,
) -> Result<(), Refusal> {
    let files = folder.join("files");
    let failed = |error: io::Error| Refusal::new(format!("the guest's folder: {error}"));
    crate::images::passable(&files).map_err(failed)?;
    // What is mounted may be a key: no user of the host passes but those of the tenant's first group.
    rustix::fs::chown(&files, None, Some(Gid::from_raw(permitted.uids)))
        .map_err(|error| failed(error.into()))?;
    fs::set_permissions(&files, Permissions::from_mode(0o710)).map_err(failed)?;
    let mut left = Left { bytes: COPIED_BYTES, files: COPIED_FILES };
    let mut mounts = of_host.mounts();
    for (number, (inside, from)) in permitted.mounts.iter().enumerate() {
        let to = files.join(number.to_string());
        copy(from, Some(&to), permitted.uids, &mut left, 0).map_err(not_copied(start, inside))?;
        mounts.push(json!({"destination": inside, "type": "bind", "source": to,
            "options": ["rbind", "ro", "nosuid", "nodev", "noexec"]}));
    }
    let mut config = config(group, start, permitted.uids, image, &mounts)?;
    if of_host.kvm.is_some()
        && let Some(devices) = config["linux"]["resources"]["devices"].as_array_mut()
    {
        let (major, minor) = kvm::NUMBERS;
        devices.push(json!({"allow": true, "type": "c", "major": major, "minor": minor, "access": "rw"}));
    }
    fs::write(folder.join("config.json"), config.to_string()).map_err(failed)
}

/// Whether all that is to be mounted can be copied, as it is now.
pub(crate) fn check_mounts(start: &Start, permitted: &Permitted) -> Result<(), Refusal> {
    let mut left = Left { bytes: COPIED_BYTES, files: COPIED_FILES };
    let copied = |(inside, from): (&String, &OwnedFd)| {
        copy(from, None, permitted.uids, &mut left, 0).map_err(not_copied(start, inside))
    };
    permitted.mounts.iter().try_for_each(copied)
}

fn not_copied<'a>(start: &'a Start, inside: &'a str) -> impl Fn(io::Error) -> Refusal + 'a {
    move |error| Refusal::new(format!("mounts: `{}`: {error}", start.mounts[inside]))
}

/// What may still be copied.
struct Left {
    bytes: u64,
    files: usize,
}

/// Copies a file, or a folder with files and folders in it, from what was opened when it was checked: what is
/// mounted cannot become another file meanwhile, and has an owner that the guest's users may read. Without
/// `to` it is only found out whether it could be.
fn copy(from: &OwnedFd, to: Option<&Path>, uids: u32, left: &mut Left, depth: usize) -> io::Result<()> {
    left.files = left.files.checked_sub(1).ok_or_else(|| too_much("more than 4096 files"))?;
    let found = rustix::fs::fstat(from)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            let mut file = to.map(File::create_new).transpose()?;
            let read = match &mut file {
                Some(file) => io::copy(&mut File::from(from.try_clone()?).take(left.bytes + 1), file)?,
                None => u64::try_from(found.st_size).unwrap_or_default(),
            };
            left.bytes = left.bytes.checked_sub(read).ok_or_else(|| too_much("more than 64 MiB"))?;
            file.map_or(Ok(()), |file| give(&file, uids, 0o444 | found.st_mode & 0o111))
        }
        FileType::Directory if depth < 16 => {
            to.map_or(Ok(()), fs::create_dir)?;
            for entry in Dir::read_from(from)? {
                let entry = entry?;
                if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                    continue;
                }
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
                let opened = rustix::fs::openat(from, entry.file_name(), flags, Mode::empty());
                let opened = opened.map_err(|error| {
                    too_much(&format!("{} in it cannot be opened: {error}", name.display()))
                })?;
                copy(&opened, to.map(|to| to.join(name)).as_deref(), uids, left, depth + 1)?;
            }
            to.map_or(Ok(()), |to| give(&File::open(to)?, uids, 0o555))
        }
        _ => Err(too_much("neither files nor folders are in it; allowed: those")),
    }
}

fn too_much(what: &str) -> io::Error {
    io::Error::other(format!("{what}; allowed: 4096 files and folders of 64 MiB, 16 deep"))
}

fn give(to: &impl AsFd, uids: u32, mode: u32) -> io::Result<()> {
    rustix::fs::fchown(to, Some(Uid::from_raw(uids)), Some(Gid::from_raw(uids)))?;
    Ok(rustix::fs::fchmod(to, Mode::from_bits_truncate(mode))?)
}

pub(crate) fn config(
    group: &str,
    start: &Start,
    uids: u32,
    image: &Unpacked,
    mounts: &[Value],
) -> Result<Value, Refusal> {
    let Config { env, .. } = &image.config;
    let command = command(start, &image.config)?;
    let (uid, gid) = user(&image.config.user, &image.root)?;
    let mut env: Vec<&str> = env.iter().map(String::as_str).filter(|one| one.contains('=')).collect();
    let path = format!("PATH={}", path_of(&image.config));
    if !env.iter().any(|one| one.starts_with("PATH=")) {
        env.push(&path);
    }
    let mut all = fixed_mounts(start.limits.memory / 4);
    all.extend(volumes_of(&image.config)?.map(|path| temporary(path, start.limits.memory / 4, "0755")));
    all.extend_from_slice(mounts);
    // Where an interface has no address, what comes by it is read by a packet socket, or not at all.
    let raw = links(&start.interfaces).any(|interface| interface.addresses.is_empty());
    let capabilities = if raw { vec!["CAP_NET_RAW"] } else { Vec::new() };
    let own = ["pid", "network", "ipc", "uts", "mount", "user", "cgroup"];
    let namespaces = own.map(|kind| json!({"type": kind}));
    let range = json!([{"containerID": 0, "hostID": uids, "size": USERS}]);
    Ok(json!({
        "ociVersion": "1.0.2",
        "hostname": start.name,
        "root": {"path": image.root, "readonly": true},
        "process": {
            "terminal": false,
            "user": {"uid": uid, "gid": gid, "umask": 0o022},
            "args": command,
            "env": env,
            "cwd": working_folder(&image.config),
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
                "inheritable": capabilities, "ambient": capabilities,
            },
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "hard": start.limits.files, "soft": start.limits.files},
                {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            ],
        },
        "mounts": all,
        "linux": {
            "namespaces": namespaces,
            "uidMappings": range,
            "gidMappings": range,
            "cgroupsPath": format!("/{group}/{}", start.name),
            "resources": first_resources(start),
            "seccomp": seccomp::profile(),
            "sysctl": sysctl(start),
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
    }))
}

/// The `linux.resources` of a guest that is started.
fn first_resources(start: &Start) -> Value {
    let mut resources = resources(&start.limits, true);
    if let Some(processors) = start.beside.as_ref().filter(|processors| !processors.is_empty()) {
        let listed: Vec<String> = processors.iter().map(u32::to_string).collect();
        resources["cpu"]["cpus"] = json!(listed.join(","));
    }
    resources
}

/// The `linux.resources` of limits.
pub(crate) fn resources(limits: &Limits, first: bool) -> Value {
    // A weight of 100 is the kernel's default share of 1024; the runtime turns it into version 2's weight.
    let shares = (u64::from(limits.weight) * 1024 / 100).max(2);
    let quota = limits.cap.map_or(-1, |thousandths| i64::from(thousandths) * 100);
    let mut resources = json!({
        "memory": {"limit": limits.memory, "swap": limits.memory},
        "cpu": {"shares": shares, "quota": quota, "period": 100_000},
        "pids": {"limit": limits.processes},
    });
    // A kernel without accounting of swap refuses its limit.
    if !Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists()
        && !Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
    {
        resources["memory"] = json!({"limit": limits.memory});
    }
    if first {
        // The runtime adds null, zero, full, random, urandom and tty.
        resources["devices"] = json!([{"allow": false, "access": "rwm"}]);
    }
    resources
}

fn temporary(path: &str, bytes: u64, mode: &str) -> Value {
    let options = [
        "nosuid".to_owned(),
        "nodev".to_owned(),
        "noexec".to_owned(),
        format!("size={bytes}"),
        "nr_inodes=65536".to_owned(),
        format!("mode={mode}"),
    ];
    json!({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options})
}

fn fixed_mounts(bytes: u64) -> Vec<Value> {
    let plain = |to: &str, kind: &str, options: &[&str]| json!({"destination": to, "type": kind, "source": kind, "options": options});
    vec![
        plain("/proc", "proc", &["nosuid", "nodev", "noexec"]),
        plain("/dev", "tmpfs", &["nosuid", "noexec", "mode=755", "size=65536"]),
        plain("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        plain("/sys", "sysfs", &["nosuid", "nodev", "noexec", "ro"]),
        temporary("/dev/shm", bytes, "1777"),
        temporary("/tmp", bytes, "1777"),
        temporary("/run", bytes, "0755"),
    ]
}

/// Of the guest's own network namespace.
fn sysctl(start: &Start) -> Value {
    let addresses = || {
        start.interfaces.iter().map(|interface| {
            interface.addresses.iter().filter_map(|address| parse_address(address)).collect::<Vec<_>>()
        })
    };
    let mut set = serde_json::Map::new();
    // Low ports need no capability: all ports are its own.
    set.insert("net.ipv4.ip_unprivileged_port_start".to_owned(), json!("0"));
    // A guest with addresses on several links is a router between them.
    let routes = |v4: bool| addresses().filter(|of| of.iter().any(|(ip, _)| ip.is_ipv4() == v4)).count() > 1;
    if routes(true) {
        set.insert("net.ipv4.ip_forward".to_owned(), json!("1"));
    }
    if Path::new("/proc/sys/net/ipv6").exists() {
        if routes(false) {
            set.insert("net.ipv6.conf.all.forwarding".to_owned(), json!("1"));
        }
        if !addresses().flatten().any(|(ip, _)| ip.is_ipv6()) {
            // Otherwise the kernel sends neighbour discovery of its own among the packets.
            set.insert("net.ipv6.conf.all.disable_ipv6".to_owned(), json!("1"));
            set.insert("net.ipv6.conf.default.disable_ipv6".to_owned(), json!("1"));
        }
    }
    set.into()
}

/// Whether an image has what its container needs, as far as its configuration says.
pub(crate) fn check(start: &Start, config: &Config) -> Result<(), Refusal> {
    command(start, config)?;
    volumes_of(config).map(drop)
}

/// The folders that an image asks to write to, but for those that each guest has anyway.
fn volumes_of(config: &Config) -> Result<impl Iterator<Item = &str>, Refusal> {
    if config.volumes.len() > VOLUMES_MAX {
        let found = config.volumes.len();
        return Err(Refusal::new(format!("image: it has {found} volumes; allowed: at most {VOLUMES_MAX}")));
    }
    let shown = ["/proc", "/sys", "/dev"];
    let all = move || {
        let all = config.volumes.keys().map(String::as_str);
        all.filter(move |path| !shown.iter().any(|own| Path::new(path).starts_with(own)))
    };
    if let Some(volume) = all().find(|it| !it.starts_with('/') || it.split('/').any(|part| part == "..")) {
        return Err(Refusal::new(format!(
            "image: found the volume `{volume}`; allowed: absolute paths without `..`"
        )));
    }
    Ok(all())
}

/// Where an image's programs are found by their names.
pub(crate) fn path_of(config: &Config) -> &str {
    let told = config.env.iter().find_map(|one| one.strip_prefix("PATH="));
    told.unwrap_or("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

/// Where an image's programs begin.
pub(crate) fn working_folder(config: &Config) -> &Path {
    let told = Some(Path::new(&config.working_dir)).filter(|path| path.is_absolute());
    told.unwrap_or(Path::new("/"))
}

/// What runs: the request's command, or the image's.
pub(crate) fn command(start: &Start, config: &Config) -> Result<Vec<String>, Refusal> {
    let command: Vec<String> = match start.command.as_slice() {
        [] => config.entrypoint.iter().chain(&config.cmd).cloned().collect(),
        given => given.to_vec(),
    };
    if command.is_empty() {
        return Err(Refusal::new(
            "command: none is given and the image has none; allowed: a program and its arguments",
        ));
    }
    Ok(command)
}

/// The user and group of `UID[:GID]`, or of names, inside. As other runtimes have it, a user without a group
/// has that of its line in the image's `/etc/passwd`, and without a line root's.
fn user(text: &str, root: &Path) -> Result<(u32, u32), Refusal> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let wrong = || {
        Refusal::new(format!(
            "image: its user is `{text}`; allowed: UID[:GID] below {USERS}, or names of its /etc/passwd and /etc/group"
        ))
    };
    let number = |text: &str| text.parse::<u32>().ok().filter(|id| *id < USERS);
    let (user, own) = match (user, number(user)) {
        ("" | "root", _) => (0, 0),
        (_, Some(user)) => (user, of_file(root, "etc/passwd", 2, &user.to_string(), 3).unwrap_or(0)),
        (name, None) => {
            let id = |field| of_file(root, "etc/passwd", 0, name, field);
            id(2).zip(id(3)).ok_or_else(wrong)?
        }
    };
    let group = match group {
        None => Some(own),
        Some("root") => Some(0),
        Some(group) => number(group).or_else(|| of_file(root, "etc/group", 0, group, 2)),
    };
    Ok((user, group.ok_or_else(wrong)?))
}

/// Of the first line of one of the image's files whose field `at` is `text`, the number in the field `wanted`
/// (passwd(5), group(5)).
fn of_file(root: &Path, file: &str, at: usize, text: &str, wanted: usize) -> Option<u32> {
    use rustix::fs::ResolveFlags;
    let root = File::open(root).ok()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(&root, file, flags, Mode::empty(), resolve).ok()?;
    let mut lines = String::new();
    File::from(file).take(FILE_MAX).read_to_string(&mut lines).ok()?;
    let mut lines = lines.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.get(at) == Some(&text))?;
    fields.get(wanted)?.parse().ok().filter(|id: &u32| *id < USERS)
}
