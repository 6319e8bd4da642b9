//! The memory that the daemon's control group may have: the smallest limit from its own group up to the root.
//!
//! Version 2 has `memory.max` in each group, version 1 `memory.limit_in_bytes` in those of the memory
//! controller (`cgroups(7)`). Where a file system is mounted, and which part of the hierarchy it shows, is in
//! `/proc/self/mountinfo`.

use std::path::{Path, PathBuf};

/// Larger than any limit: version 1 says "none" by a number of pages that no host has.
const NONE: u64 = 1 << 60;

/// The limit, if there is one.
pub(super) fn limit() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    limit_of(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"), Path::new("/"))
}

/// The same from the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`; mounts are looked for below
/// `root`.
fn limit_of(groups: &str, mounts: &str, root: &Path) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (kind, file) = match controllers {
            "" => ("cgroup2", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => ("cgroup", "memory.limit_in_bytes"),
            _ => continue,
        };
        for (at, shows) in mounts.lines().filter_map(|line| mount(line, kind)) {
            // What lies outside of what is mounted cannot be seen, and limits all the same; its own root is
            // the nearest.
            let Ok(within) = Path::new(group).strip_prefix(&shows) else { continue };
            let at = root.join(at.strip_prefix("/").unwrap_or(&at));
            let own = at.join(within);
            let up = own.ancestors().take_while(|folder| folder.starts_with(&at));
            limits.extend(up.filter_map(|folder| read(&folder.join(file))));
        }
    }
    limits.into_iter().filter(|limit| *limit < NONE).min()
}

/// Where a control group file system of this kind is mounted, and which group it shows there.
fn mount(line: &str, kind: &str) -> Option<(PathBuf, PathBuf)> {
    let (before, behind) = line.split_once(" - ")?;
    let mut behind = behind.split(' ');
    let (is, _, options) = (behind.next()?, behind.next()?, behind.next()?);
    if is != kind || (kind == "cgroup" && !options.split(',').any(|option| option == "memory")) {
        return None;
    }
    let mut before = before.split(' ').skip(3);
    let (shows, at) = (before.next()?, before.next()?);
    Some((at.replace("\\040", " ").into(), shows.replace("\\040", " ").into()))
}

fn read(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy with these limits.
    fn tree(limits: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in limits {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        folder
    }

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_smallest_limit_up_to_the_root_counts() {
        let root = tree(&[
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "2000000\n"),
            ("sys/fs/cgroup/a/b/c/memory.max", "max\n"),
            ("sys/fs/cgroup/other/memory.max", "5\n"),
        ]);
        assert_eq!(limit_of("0::/a/b/c\n", V2, root.path()), Some(1_000_000));
        assert_eq!(limit_of("0::/\n", V2, root.path()), None);
        assert_eq!(limit_of("", V2, root.path()), None);
        assert_eq!(limit_of("0::/a/b/c\n", "", root.path()), None);
    }

    #[test]
    fn a_part_of_the_hierarchy_may_be_mounted() {
        let root = tree(&[("sys/fs/cgroup/memory.max", "3000\n"), ("sys/fs/cgroup/c/memory.max", "7000\n")]);
        let mounts = V2.replace(" / /sys", " /docker/x /sys");
        assert_eq!(limit_of("0::/docker/x/c\n", &mounts, root.path()), Some(3000));
        assert_eq!(limit_of("0::/elsewhere\n", &mounts, root.path()), None);
    }

    #[test]
    fn version_1_has_a_memory_controller_and_a_number_for_none() {
        let root = tree(&[
            ("mnt/mem/memory.limit_in_bytes", "9223372036854771712\n"),
            ("mnt/mem/system/memory.limit_in_bytes", "4096000\n"),
            ("mnt/mem/system/sf/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let mounts = "33 32 0:30 / /mnt/cpu rw - cgroup cgroup rw,cpu\n34 32 0:31 / /mnt/mem rw - cgroup cgroup rw,memory\n";
        let groups = "5:cpu,cpuacct:/x\n4:memory:/system/sf\n0::/\n";
        assert_eq!(limit_of(groups, mounts, root.path()), Some(4_096_000));
        assert_eq!(limit_of("4:memory:/\n", mounts, root.path()), None);
    }
}
