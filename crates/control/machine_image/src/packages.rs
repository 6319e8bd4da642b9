//! Debian's packages: which ones a program needs, fetched and verified by `apt-get`, and unpacked. Nothing is
//! installed, and no script of a package runs.

use crate::{BuildError, PACKAGES_MAX, command};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package in a version, as `apt-get` names its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version, with its epoch.
    pub version: String,
    /// The file's name: `NAME_VERSION_ARCHITECTURE.deb`, with `%3a` for the colon.
    pub file: String,
    /// The file's length.
    pub size: u64,
}

/// What packages are named as dependencies for: being installed, configured and looked after, which a guest
/// that is made once never is (Tinyx has such a list as well). Names, or beginnings of them with a `*`.
const LEFT_OUT: [&str; 52] = [
    "adduser",
    "apt",
    "apt-utils",
    "base-files",
    "bash",
    "bsdutils",
    "bzip2",
    "ca-certificates-java",
    "coreutils",
    "cpio",
    "cron",
    "dash",
    "dbus*",
    "debconf",
    "debconf-i18n",
    "debianutils",
    "diffutils",
    "dmsetup",
    "dpkg",
    "findutils",
    "gcc-*-base",
    "grep",
    "gzip",
    "hostname",
    "init",
    "init-system-helpers",
    "initramfs-tools*",
    "install-info",
    "iso-codes",
    "klibc-utils",
    "kmod",
    "libc-bin",
    "libpam-modules-bin",
    "linux-base",
    "logrotate",
    "logsave",
    "lsb-base",
    "mawk",
    "mount",
    "passwd",
    "perl*",
    "readline-common",
    "sed",
    "sensible-utils",
    "systemd*",
    "sysvinit-utils",
    "tar",
    "ucf",
    "udev",
    "usr-is-merged",
    "usrmerge",
    "util-linux*",
];

/// Whether nothing of a package is needed unless it is asked for.
pub fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|one| match one.split_once('*') {
        Some((begin, end)) => {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        }
        None => name == *one,
    })
}

/// Whether it can be a package's name (Debian Policy, 5.6.7), and no option of a command.
pub fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-' | '.');
    name.len() >= 2
        && name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(good)
}

/// The packages of these names and all that they depend on, as for a host that has none; without what is
/// only recommended. `work` is an empty folder for the question.
///
/// # Errors
/// A package does not exist, or `apt-get` is not there.
pub fn resolve(names: &[&str], work: &Path) -> Result<Vec<Package>, BuildError> {
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        return Err(BuildError::input("package", name, "a name of a Debian package, or a path with a `/`"));
    }
    let status = work.join("status");
    let archives = work.join("archives");
    fs::write(&status, "").map_err(BuildError::file(&status))?;
    fs::create_dir_all(archives.join("partial")).map_err(BuildError::file(&archives))?;
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--print-uris", "-qq", "--yes", "--no-install-recommends"]);
    apt.args(["-o", "Debug::NoLocking=1"]);
    apt.args(["-o", &format!("Dir::State::status={}", status.display())]);
    apt.args(["-o", &format!("Dir::Cache::archives={}", archives.display())]);
    let printed = command::run(apt.args(names), "apt").map_err(|error| match error {
        BuildError::Command { told, .. } => {
            let allowed = "packages that `apt-cache search` knows; `apt-get update` fetches the lists";
            BuildError::input("package", names.join(" "), format!("{allowed} ({told})"))
        }
        other => other,
    })?;
    let packages = parse(&String::from_utf8_lossy(&printed));
    if packages.is_empty() || packages.len() > PACKAGES_MAX {
        let found = format!("{} with {} packages", names.join(" "), packages.len());
        return Err(BuildError::input("package", found, format!("1 to {PACKAGES_MAX} packages in all")));
    }
    Ok(packages)
}

/// Reads lines of `'URL' FILE SIZE HASH`.
fn parse(printed: &str) -> Vec<Package> {
    let line = |line: &str| {
        let (_, rest) = line.strip_prefix('\'')?.split_once("' ")?;
        let mut words = rest.split_whitespace();
        let (file, size) = (words.next()?, words.next()?.parse().ok()?);
        let mut parts = file.strip_suffix(".deb")?.split('_');
        let (name, version) = (parts.next()?, parts.next()?);
        // A file's name that is no path.
        let good = is_name(name) && !file.contains('/');
        let version = version.replace("%3a", ":");
        good.then(|| Package { name: name.to_owned(), version, file: file.to_owned(), size })
    };
    printed.lines().filter_map(line).collect()
}

/// The files of packages, in the cache's folder. What is not there is downloaded by `apt-get`, which verifies
/// it by the signatures of its sources, and put there when it is whole.
///
/// # Errors
/// A download fails or is not what the sources have signed.
pub fn fetch(packages: &[Package], cache: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let folder = cache.join("packages");
    let begun = crate::build::begun(cache, "packages");
    fs::create_dir_all(&folder).map_err(BuildError::file(&folder))?;
    let is_there = |package: &&Package| {
        fs::metadata(folder.join(&package.file)).is_ok_and(|found| found.len() == package.size)
    };
    let wanted: Vec<&Package> = packages.iter().filter(|package| !is_there(package)).collect();
    if !wanted.is_empty() {
        let needed = wanted.iter().map(|package| package.size).sum::<u64>() >> 20;
        crate::build::has_space(cache, needed + 16, "for downloads")?;
        fs::create_dir_all(&begun).map_err(BuildError::file(&begun))?;
        let done = download(&wanted, &begun, &folder);
        // What is left of a download that failed is of no use.
        let _ = fs::remove_dir_all(&begun);
        done?;
    }
    Ok(packages.iter().map(|package| folder.join(&package.file)).collect())
}

fn download(wanted: &[&Package], begun: &Path, folder: &Path) -> Result<(), BuildError> {
    let mut apt = Command::new("apt-get");
    apt.current_dir(begun).args(["download", "-qq"]);
    if rustix::process::geteuid().is_root() {
        // Its own user could not write into this folder, of which it warns.
        apt.args(["-o", "APT::Sandbox::User=root"]);
    }
    command::run(apt.args(wanted.iter().map(|it| format!("{}={}", it.name, it.version))), "apt")?;
    for package in wanted {
        let (from, to) = (begun.join(&package.file), folder.join(&package.file));
        fs::rename(&from, &to).map_err(BuildError::file(&from))?;
    }
    Ok(())
}

/// Unpacks a package's file into a folder of its own, which is made.
///
/// # Errors
/// `dpkg-deb` refuses it.
pub fn unpack(file: &Path, into: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(into).map_err(BuildError::file(into))?;
    command::run(Command::new("dpkg-deb").arg("--extract").arg(file).arg(into), "dpkg").map(drop)
}

/// Of resolved packages those that the named ones need in a guest: what only packages bring that are [left
/// out](is_left_out) is left out with them.
///
/// # Errors
/// `apt-cache` does not know one of them.
pub fn needed(all: Vec<Package>, names: &[&str]) -> Result<Vec<Package>, BuildError> {
    let mut apt = Command::new("apt-cache");
    apt.args(["show", "--quiet"]).args(all.iter().map(|it| format!("{}={}", it.name, it.version)));
    let printed = command::run(&mut apt, "apt")?;
    let keep = reached(&String::from_utf8_lossy(&printed), names);
    Ok(all.into_iter().filter(|it| keep.contains(&it.name)).collect())
}

/// The names that are reached from some, by what the records of packages (deb-control(5)) say.
fn reached(records: &str, names: &[&str]) -> BTreeSet<String> {
    // By name, real or provided: which packages it is, and what each depends on.
    let (mut is, mut needs) = (BTreeMap::<&str, BTreeSet<&str>>::new(), BTreeMap::<&str, Vec<&str>>::new());
    for record in records.split("\n\n") {
        let field = |key: &str| {
            let lines = record.lines().filter_map(|line| line.split_once(':'));
            lines.filter(|(name, _)| *name == key).map(|(_, value)| value.trim()).next().unwrap_or_default()
        };
        let name = field("Package");
        is.entry(name).or_default().insert(name);
        for provided in named(field("Provides")) {
            is.entry(provided).or_default().insert(name);
        }
        let of = [field("Depends"), field("Pre-Depends")];
        needs.entry(name).or_default().extend(of.iter().flat_map(|value| named(value)));
    }
    let (mut found, mut pending) = (BTreeSet::new(), names.to_vec());
    while let Some(name) = pending.pop() {
        if (is_left_out(name) && !names.contains(&name)) || !found.insert(name.to_owned()) {
            continue;
        }
        let packages = needs.get(name).into_iter().flatten().filter_map(|needed| is.get(needed)).flatten();
        pending.extend(packages);
    }
    found
}

/// The names in a list of dependencies: `a (>= 1), b:any | c [amd64]`.
fn named(list: &str) -> impl Iterator<Item = &str> {
    let one = |part: &'_ str| part.trim().split([' ', '(', ':', '[']).next().unwrap_or_default().len();
    list.split([',', '|']).map(move |part| &part.trim()[..one(part)]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apt_prints_is_read() {
        let printed = "'http://deb.debian.org/x/libattr1_2.5.1-4_amd64.deb' libattr1_1%3a2.5.1-4_amd64.deb 22164 MD5Sum:52\n\
            'http://deb.debian.org/x/nginx_1.22_amd64.deb' nginx_1.22.1-9+deb12u11_amd64.deb 532468 \n\
            'http://x/y' ../../etc/x_1_all.deb 5 \n'cdrom:x' x 5\nE: noise\n";
        let found = parse(printed);
        let names: Vec<(&str, &str, u64)> =
            found.iter().map(|it| (it.name.as_str(), it.version.as_str(), it.size)).collect();
        assert_eq!(names, [("libattr1", "1:2.5.1-4", 22164), ("nginx", "1.22.1-9+deb12u11", 532_468)]);
        assert_eq!(found[0].file, "libattr1_1%3a2.5.1-4_amd64.deb");
    }

    #[test]
    fn what_only_a_package_brings_that_is_left_out_goes_with_it() {
        let records = "Package: server\nDepends: libc6 (>= 2.34), debconf:any (>= 0.5) | debconf-2.0, server-data (= 1),\n \
            x\nPre-Depends: virtual | other\n\nPackage: libc6\nDepends: libgcc-s1\n\nPackage: libgcc-s1\nDepends: gcc-12-base (= \
            12), libc6\n\nPackage: gcc-12-base\n\nPackage: debconf\nDepends: perl-base\n\nPackage: perl-base\nDepends: \
            libperl5\n\nPackage: libperl5\n\nPackage: server-data\n\nPackage: real\nProvides: virtual (= 1), more\n";
        let found: Vec<String> = reached(records, &["server"]).into_iter().collect();
        assert_eq!(found, ["libc6", "libgcc-s1", "real", "server", "server-data"]);
        let found = reached(records, &["server", "perl-base"]);
        assert!(found.contains("libperl5") && !found.contains("debconf"), "{found:?}");
    }

    #[test]
    fn names_are_packages_and_no_options() {
        for name in ["nginx", "libstdc++6", "g++", "0ad", "linux-image-6.1.0-56-cloud-amd64"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-y", "--yes", "x", "a b", "a/../b", "A", "nginx;x", "nginx/bookworm-backports"] {
            assert!(!is_name(name), "{name}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let error = resolve(&["--download-only"], folder.path()).expect_err("refused");
        assert!(error.is_input(), "{error}");
    }

    #[test]
    fn what_is_for_installing_is_left_out() {
        for name in ["dpkg", "debconf", "perl-base", "gcc-12-base", "systemd", "initramfs-tools-core"] {
            assert!(is_left_out(name), "{name}");
        }
        for name in ["nginx-common", "libc6", "iproute2", "tzdata", "gcc-base"] {
            assert!(!is_left_out(name), "{name}");
        }
    }
}
