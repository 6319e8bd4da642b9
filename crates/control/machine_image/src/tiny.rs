//! A kernel of Debian's source with nothing but what a guest of vhost-user needs.
//!
//! The configuration is that of `tinyconfig` and [`NEEDED`]; everything else is off, also what would be on by
//! default beside these. Without modules: what is not in the kernel is not there.

use crate::{BuildError, command, packages};
use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options beside those of `tinyconfig`: a console on a serial port, an initramfs, programs, file systems
/// without a disk, IP, a network device of virtio by PCI, and what C libraries and servers ask of a kernel.
pub const NEEDED: [&str; 48] = [
    "64BIT",
    "EXPERT",
    "PRINTK",
    "TTY",
    "SERIAL_8250",
    "SERIAL_8250_CONSOLE",
    "BLK_DEV_INITRD",
    "KERNEL_GZIP",
    "BINFMT_ELF",
    "BINFMT_SCRIPT",
    "DEVTMPFS",
    "PROC_FS",
    "PROC_SYSCTL",
    "SYSFS",
    "SHMEM",
    "TMPFS",
    "SLUB",
    "NET",
    "UNIX",
    "INET",
    "IPV6",
    "PACKET",
    "PCI",
    "PCI_MSI",
    "ACPI",
    "VIRTIO_MENU",
    "VIRTIO_PCI",
    "NETDEVICES",
    "NET_CORE",
    "VIRTIO_NET",
    "HYPERVISOR_GUEST",
    "PARAVIRT",
    "KVM_GUEST",
    "HIGH_RES_TIMERS",
    "NO_HZ_IDLE",
    "FUTEX",
    "EPOLL",
    "SIGNALFD",
    "TIMERFD",
    "EVENTFD",
    "AIO",
    "POSIX_TIMERS",
    "ADVISE_SYSCALLS",
    "MEMBARRIER",
    "FILE_LOCKING",
    "INOTIFY_USER",
    "MULTIUSER",
    "SYSVIPC",
];

/// Room that the unpacked source and one build take, in MiB.
const SPACE: u64 = 3000;

/// What a kernel's configuration says beside [`NEEDED`]: the value by the option's name without `CONFIG_`.
pub type Options = BTreeMap<String, String>;

/// Reads lines of a configuration: `CONFIG_X=y`, `CONFIG_X=n`, `# CONFIG_X is not set`; a name alone is `=y`.
///
/// # Errors
/// A line is none of these.
pub fn parse_options(text: &str) -> Result<Options, BuildError> {
    let mut options = Options::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let unset = line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set"));
        if unset.is_none() && line.starts_with('#') {
            continue;
        }
        let (name, value) = match unset {
            Some(name) => (name, "n"),
            None => line.split_once('=').unwrap_or((line, "y")),
        };
        let name = name.strip_prefix("CONFIG_").unwrap_or(name);
        let good = |text: &str, more: &[char]| {
            !text.is_empty()
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || more.contains(&c))
        };
        if !good(name, &[]) || !good(value, &['"', '-', '.', ' ', '/', ',', '=']) {
            let allowed =
                "CONFIG_NAME=y, CONFIG_NAME=n, CONFIG_NAME=VALUE, `# CONFIG_NAME is not set`, a line each";
            return Err(BuildError::input("option of the kernel", line, allowed));
        }
        options.insert(name.to_owned(), value.to_owned());
    }
    Ok(options)
}

/// Debian's source, and a folder for what is made of it. One build at a time has it.
#[derive(Debug)]
pub struct Source {
    folder: PathBuf,
    objects: PathBuf,
    /// `linux-source-6.1_6.1.192-2`.
    version: String,
    kernels: PathBuf,
    jobs: usize,
    _lock: File,
}

/// A configuration that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    text: String,
}

impl Config {
    /// Whether an option is on, or has a value.
    pub fn has(&self, name: &str) -> bool {
        self.text.lines().any(|line| line.strip_prefix("CONFIG_").is_some_and(|rest| is_of(rest, name)))
    }

    /// The file.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn is_of(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
}

impl Source {
    /// The newest of Debian's sources, unpacked in the cache's folder; it waits for another build that has
    /// it.
    ///
    /// # Errors
    /// What compiles a kernel is not there, there is no room, or the source cannot be fetched.
    pub fn open(
        cache: &Path,
        work: &Path,
        jobs: usize,
        say: &mut dyn FnMut(&str),
    ) -> Result<Source, BuildError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(BuildError::input("kernel", "tiny", "debian, or a file; `tiny` is made on x86-64"));
        }
        tools()?;
        fs::create_dir_all(cache).map_err(BuildError::file(cache))?;
        let lock = cache.join("tiny.lock");
        let locked = File::create(&lock).map_err(BuildError::file(&lock))?;
        if rustix::fs::flock(&locked, FlockOperation::NonBlockingLockExclusive).is_err() {
            say("another build has the kernel's source; waiting for it");
            let waited = rustix::fs::flock(&locked, FlockOperation::LockExclusive);
            waited.map_err(|error| BuildError::file(&lock)(error.into()))?;
        }
        let (folder, version) = source(cache, work, say)?;
        let objects = cache.join("objects").join(&version);
        fs::create_dir_all(&objects).map_err(BuildError::file(&objects))?;
        Ok(Source { folder, objects, version, kernels: cache.join("tiny"), jobs, _lock: locked })
    }

    fn make(&self) -> Command {
        // It ends with this process: the next build has the folder for itself.
        let mut make = Command::new("setpriv");
        make.args(["--pdeathsig", "TERM", "nice", "-n", "10", "make", "-s", "ARCH=x86_64"]);
        make.arg("-C").arg(&self.folder).arg(format!("O={}", self.objects.display()));
        // The same source and configuration are the same kernel.
        make.env("KBUILD_BUILD_USER", "superfluid").env("KBUILD_BUILD_HOST", "superfluid");
        make.env("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970");
        ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "KCONFIG_ALLCONFIG"].iter().for_each(|name| {
            make.env_remove(name);
        });
        make
    }

    /// Makes the configuration with these options beside [`NEEDED`]; what is `n` is left out, also of those.
    ///
    /// # Errors
    /// An option that is to be on cannot be.
    pub fn configure(&self, options: &Options) -> Result<Config, BuildError> {
        let tiny = self.objects.join("superfluid.tiny");
        if !tiny.exists() {
            command::run(self.make().arg("tinyconfig"), "make")?;
            let made = self.objects.join(".config");
            crate::build::copy(&made, &tiny)?;
        }
        let base = fs::read_to_string(&tiny).map_err(BuildError::file(&tiny))?;
        let wanted = self.objects.join("superfluid.wanted");
        fs::write(&wanted, wanted_of(&base, options)).map_err(BuildError::file(&wanted))?;
        command::run(self.make().arg("allnoconfig").env("KCONFIG_ALLCONFIG", &wanted), "make")?;
        let made = self.objects.join(".config");
        let text = fs::read_to_string(&made).map_err(BuildError::file(&made))?;
        let config = Config { text };
        let on = options.iter().filter(|(_, value)| *value != "n").map(|(name, _)| name);
        if let Some(name) = on.into_iter().find(|name| !config.has(name)) {
            let allowed = format!(
                "options of {} whose own needs are on as well (see `depends on` in its Kconfig files)",
                self.version
            );
            return Err(BuildError::input("option of the kernel", format!("CONFIG_{name}"), allowed));
        }
        Ok(config)
    }

    /// Compiles the configuration that was made last, unless that has been done before; the kernel's file.
    ///
    /// # Errors
    /// The compiler's, or there is no room.
    pub fn compile(&self, config: &Config) -> Result<PathBuf, BuildError> {
        let mut hash = Sha256::new();
        hash.update(&self.version);
        hash.update(&config.text);
        let key: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let kept = self.kernels.join(key);
        let image = kept.join("kernel");
        if image.is_file() {
            return Ok(image);
        }
        let output = command::output(self.make().arg(format!("-j{}", self.jobs)).arg("bzImage"), "make")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = text.lines().filter(|line| line.contains("rror")).take(3).collect();
            let told = printable::harmless(&lines.join("; "), 600);
            return Err(BuildError::Command { command: "make bzImage".to_owned(), told });
        }
        let begun = crate::build::begun(&self.kernels, "begun");
        fs::create_dir_all(&begun).map_err(BuildError::file(&begun))?;
        let made = self.objects.join("arch/x86/boot/bzImage");
        fs::copy(&made, begun.join("kernel")).map_err(BuildError::file(&made))?;
        fs::write(begun.join("config"), &config.text).map_err(BuildError::file(&begun))?;
        crate::build::put(&begun, &kept)?;
        Ok(image)
    }
}

/// What `allnoconfig` is to set: the base, then the options, each once.
fn wanted_of(base: &str, options: &Options) -> String {
    let mut wanted: Options = NEEDED.iter().map(|name| ((*name).to_owned(), "y".to_owned())).collect();
    wanted.extend(options.clone());
    let is_set = |line: &&str| {
        let name = line.strip_prefix("CONFIG_").and_then(|rest| rest.split_once('='));
        name.is_some_and(|(name, _)| !wanted.contains_key(name))
    };
    let mut text: String = base.lines().filter(is_set).map(|line| format!("{line}\n")).collect();
    for (name, value) in &wanted {
        match value.as_str() {
            "n" => text.push_str(&format!("# CONFIG_{name} is not set\n")),
            value => text.push_str(&format!("CONFIG_{name}={value}\n")),
        }
    }
    text
}

/// What compiling needs.
fn tools() -> Result<(), BuildError> {
    let programs = [
        ("make", "make"),
        ("gcc", "gcc"),
        ("ld", "binutils"),
        ("flex", "flex"),
        ("bison", "bison"),
        ("bc", "bc"),
        ("tar", "tar"),
        ("xz", "xz-utils"),
        ("nice", "coreutils"),
        ("setpriv", "util-linux"),
    ];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if let Some((program, package)) = programs.into_iter().find(|(program, _)| !is_there(program)) {
        return Err(BuildError::Missing { program: program.to_owned(), package });
    }
    let header = "/usr/include/gelf.h";
    if !Path::new(header).is_file() {
        return Err(BuildError::Missing { program: header.to_owned(), package: "libelf-dev" });
    }
    Ok(())
}

/// The source's folder, and its version.
fn source(cache: &Path, work: &Path, say: &mut dyn FnMut(&str)) -> Result<(PathBuf, String), BuildError> {
    let all = packages::resolve(&["linux-source"], work)?;
    let found = all.iter().find(|it| it.name.starts_with("linux-source-"));
    let found =
        found.ok_or_else(|| BuildError::input("kernel", "linux-source", "a package with a source"))?;
    let version = format!("{}_{}", found.name, found.version);
    let folder = cache.join("source").join(&version);
    if folder.is_dir() {
        return Ok((folder, version));
    }
    crate::build::has_space(cache, SPACE, "for the kernel's source and what is made of it")?;
    say(&format!("fetching {version}"));
    let files = packages::fetch(std::slice::from_ref(found), cache)?;
    let begun = crate::build::begun(cache, "source");
    say("unpacking it");
    packages::unpack(&files[0], &begun)?;
    let archive = begun.join("usr/src").join(format!("{}.tar.xz", found.name));
    let done = command::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&begun), "tar");
    let done = done.and_then(|_| crate::build::put(&begun.join(&found.name), &folder));
    let _ = fs::remove_dir_all(&begun);
    done.map(|()| (folder, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_the_forms_of_a_configuration() {
        let text =
            "CONFIG_SMP=y\n# a remark\n# CONFIG_ACPI is not set\nNF_TABLES\nCONFIG_NR_CPUS=4\nIPV6=n\n";
        let options = parse_options(text).expect("read");
        let found: Vec<(&str, &str)> =
            options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("ACPI", "n"), ("IPV6", "n"), ("NF_TABLES", "y"), ("NR_CPUS", "4"), ("SMP", "y")]);
        for text in ["=y", "CONFIG_X=", "A B", "X=$(shell id)", "-y", "X;Y"] {
            assert!(parse_options(text).expect_err(text).is_input(), "{text}");
        }
    }

    #[test]
    fn what_is_wanted_is_said_once() {
        let base = "# x\nCONFIG_KERNEL_XZ=y\nCONFIG_PRINTK=y\nCONFIG_CC_OPTIMIZE_FOR_SIZE=y\n# CONFIG_NET is not set\n";
        let options = parse_options("ACPI=n\nSMP").expect("read");
        let wanted = wanted_of(base, &options);
        assert_eq!(wanted.matches("CONFIG_PRINTK").count(), 1);
        assert!(wanted.contains("CONFIG_CC_OPTIMIZE_FOR_SIZE=y\n") && wanted.contains("CONFIG_NET=y\n"));
        assert!(wanted.contains("# CONFIG_ACPI is not set\n") && !wanted.contains("CONFIG_ACPI=y"));
        let config = Config { text: "CONFIG_SMP=y\n# CONFIG_ACPI is not set\nCONFIG_SMPX=y\n".to_owned() };
        assert!(config.has("SMP") && !config.has("ACPI") && !config.has("SM"));
    }
}
