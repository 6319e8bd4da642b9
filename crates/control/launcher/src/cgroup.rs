//! Guests' control groups: ending all that is in one, and what it uses (cgroups(7), both versions).

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Attempts to end what is in a group and forks meanwhile.
const ROUNDS: u32 = 500;

/// Where guests' control groups are.
#[derive(Debug)]
pub(crate) struct Cgroups {
    /// Where the hierarchies are mounted.
    pub(crate) root: PathBuf,
    /// The group that guests' are below, in the root of each hierarchy.
    pub(crate) parent: String,
}

impl Cgroups {
    /// The group that those are below which stay beside a worker.
    pub(crate) fn beside(&self) -> String {
        format!("{}-beside", self.parent)
    }

    /// Where hierarchies may be mounted: version 2, and each controller of version 1.
    fn hierarchies(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let below = fs::read_dir(&self.root).into_iter().flatten().flatten().map(|entry| entry.path());
        std::iter::once(self.root.clone()).chain(below)
    }

    /// Folders that may have guests' groups in them.
    fn parents(&self) -> Vec<PathBuf> {
        let names = [self.parent.clone(), self.beside()];
        self.hierarchies().flat_map(|it| names.clone().map(|name| it.join(name))).collect()
    }

    /// The control groups of this name, one in each hierarchy that has it.
    fn groups(&self, name: &str) -> Vec<PathBuf> {
        let groups = self.parents().into_iter().map(|parent| parent.join(name));
        groups.filter(|group| group.join("cgroup.procs").exists()).collect()
    }

    /// Names of the groups that there are.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let parents = self.parents();
        let entries = parents.iter().flat_map(|parent| fs::read_dir(parent).into_iter().flatten().flatten());
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Kills all processes of a group; `false` if some are left.
    pub(crate) fn kill(&self, name: &str) -> bool {
        for _ in 0..ROUNDS {
            let mut empty = true;
            for group in &self.groups(name) {
                // Version 2 has it since Linux 5.14.
                let _ = OpenOptions::new()
                    .write(true)
                    .open(group.join("cgroup.kill"))
                    .and_then(|mut file| file.write_all(b"1"));
                for process in processes(group) {
                    empty = false;
                    let Some(pid) = Pid::from_raw(process) else { continue };
                    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
                    // What is held is still the process that was listed: its number may have become
                    // another's.
                    if processes(group).contains(&process) {
                        let _ = pidfd_send_signal(&held, Signal::KILL);
                    }
                }
            }
            if empty {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Kills one process, if it is in a group of this name.
    pub(crate) fn kill_one(&self, name: &str, process: i32) {
        let Some(held) = Pid::from_raw(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        // What is held is the one that is listed now: its number may have become another's.
        if self.lists(name, process) {
            let _ = pidfd_send_signal(&held, Signal::KILL);
        }
    }

    /// Whether a process is in a group of this name.
    pub(crate) fn has(&self, name: &str, process: u32) -> bool {
        i32::try_from(process).is_ok_and(|process| self.lists(name, process))
    }

    fn lists(&self, name: &str, process: i32) -> bool {
        self.groups(name).iter().any(|group| processes(group).contains(&process))
    }

    /// Removes a group, which is empty, from all hierarchies. One that is not stays for the next start to
    /// find.
    pub(crate) fn remove(&self, name: &str) {
        self.groups(name).iter().for_each(|group| drop(fs::remove_dir(group)));
    }

    /// Removes the parent where no group is left in it.
    pub(crate) fn remove_parent(&self) {
        self.parents().iter().for_each(|parent| drop(fs::remove_dir(parent)));
    }

    /// What it has of memory and processor time.
    pub(crate) fn usage(&self, name: &str) -> Usage {
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        let number = |path: PathBuf| read(path)?.trim().parse::<u64>().ok();
        let of_parent = |parent: &str| {
            let group = |hierarchy: &str| self.root.join(hierarchy).join(parent).join(name);
            let own = self.root.join(parent).join(name);
            let row = |path: PathBuf, name: &str| row(&read(path)?, name);
            let of_v2 = number(own.join("memory.current"));
            let of_v1 = || number(group("memory").join("memory.usage_in_bytes"));
            // The kernel takes files that were not read lately back before the limit is met.
            let files = || match of_v2 {
                Some(_) => row(own.join("memory.stat"), "inactive_file"),
                None => row(group("memory").join("memory.stat"), "total_inactive_file"),
            };
            let memory = of_v2.or_else(of_v1).map(|bytes| bytes.saturating_sub(files().unwrap_or(0)));
            let of_stat = || {
                let text = read(own.join("cpu.stat"))?;
                text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse().ok()
            };
            let nanoseconds = || {
                let hierarchies = ["cpuacct", "cpu,cpuacct"];
                hierarchies.iter().find_map(|it| number(group(it).join("cpuacct.usage"))).map(|ns| ns / 1000)
            };
            Usage { memory, cpu_us: of_stat().or_else(nanoseconds) }
        };
        match of_parent(&self.parent) {
            Usage { memory: None, cpu_us: None } => of_parent(&self.beside()),
            found => found,
        }
    }

    /// How many of its processes were ended because there was no memory below its limit.
    pub(crate) fn killed_for_memory(&self, name: &str) -> u64 {
        let read = |path: PathBuf| row(&fs::read_to_string(path).ok()?, "oom_kill");
        let of_parent = |parent: &str| {
            let own = self.root.join(parent).join(name).join("memory.events");
            let of_v1 = self.root.join("memory").join(parent).join(name).join("memory.oom_control");
            read(own).or_else(|| read(of_v1))
        };
        of_parent(&self.parent).or_else(|| of_parent(&self.beside())).unwrap_or(0)
    }

    /// Groups beside workers give way to these: half of a thread's weight for all of them together. That
    /// they get what they are promised is seen to by those whose workers these are.
    pub(crate) fn give_way_beside(&self) {
        for group in self.hierarchies().map(|it| it.join(self.beside())) {
            for (file, weight) in [("cpu.shares", "512"), ("cpu.weight", "50")] {
                // Where there is none, this is another controller's.
                let _ = write(&group.join(file), weight);
            }
        }
    }

    /// Sets how much of one processor a group may use, in thousandths; `None`: as much as there is.
    pub(crate) fn set_quota(&self, name: &str, thousandths: Option<u32>) {
        let (quota, period) = quota(thousandths);
        for group in self.groups(name) {
            if group.join("cpu.max").exists() {
                let quota = quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
                let _ = write(&group.join("cpu.max"), &format!("{quota} {period}"));
            } else if group.join("cpu.cfs_quota_us").exists() {
                let (quota_file, period_file) =
                    (group.join("cpu.cfs_quota_us"), group.join("cpu.cfs_period_us"));
                let quota = quota.map_or_else(|| "-1".to_owned(), |quota| quota.to_string());
                // The kernel refuses none of these pairs, in whichever order they are written.
                let _ = write(&quota_file, &quota);
                let _ = write(&period_file, &period.to_string());
            }
        }
    }
}

/// A quota and its period, in microseconds. The period is short where the quota still is the millisecond that
/// the kernel wants at least, so that what several of them share a processor is shared by turns that are
/// short.
fn quota(thousandths: Option<u32>) -> (Option<u32>, u32) {
    let period = match thousandths {
        Some(200..) => 10_000,
        Some(100..) => 20_000,
        _ => 100_000,
    };
    (thousandths.map(|thousandths| thousandths.max(10).saturating_mul(period / 1000)), period)
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// What a guest has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Bytes, without files that the kernel takes back first.
    pub(crate) memory: Option<u64>,
    /// Microseconds of processor time.
    pub(crate) cpu_us: Option<u64>,
}

/// The number in a row of a table of names and numbers.
fn row(table: &str, name: &str) -> Option<u64> {
    table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn processes(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_its_part_of_the_period_and_a_millisecond_at_least() {
        for thousandths in [10, 99, 100, 199, 200, 500, 1000, 4000] {
            let (Some(quota), period) = quota(Some(thousandths)) else { panic!("one is set") };
            assert_eq!(quota * 1000 / period, thousandths);
            assert!(quota >= 1000 && (10_000..=100_000).contains(&period));
        }
        assert_eq!(quota(Some(1)), (Some(1000), 100_000));
        assert_eq!(quota(None), (None, 100_000));
    }

    /// A hierarchy of files, as the kernel shows one.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "").expect("written");
        }
        root
    }

    #[test]
    fn quotas_are_written_and_time_is_read_in_both_versions_and_beside_workers() {
        let second = ["sf-beside/a/cgroup.procs", "sf-beside/a/cpu.max", "sf-beside/cpu.weight"];
        let first = ["cpu/sf/a/cgroup.procs", "cpu/sf/a/cpu.cfs_quota_us", "cpu/sf/a/cpu.cfs_period_us"];
        let root = tree(&second);
        let cgroups = |root: &tempfile::TempDir| Cgroups { root: root.path().into(), parent: "sf".into() };
        let read = |root: &tempfile::TempDir, file: &str| fs::read_to_string(root.path().join(file));
        cgroups(&root).set_quota("a", Some(412));
        assert_eq!(read(&root, second[1]).expect("it is there"), "4120 10000");
        cgroups(&root).give_way_beside();
        assert_eq!(read(&root, second[2]).expect("it is there"), "50");
        fs::write(root.path().join("sf-beside/a/cpu.stat"), "usage_usec 77\nuser_usec 5\n").expect("written");
        let usage = cgroups(&root).usage("a");
        assert_eq!((usage.memory, usage.cpu_us), (None, Some(77)));
        assert!(cgroups(&root).names().contains("a"));
        let root = tree(&first);
        cgroups(&root).set_quota("a", Some(50));
        assert_eq!(read(&root, first[1]).expect("it is there"), "5000");
        cgroups(&root).set_quota("a", None);
        assert!(read(&root, first[1]).expect("it is there").starts_with("-1"));
        assert_eq!(read(&root, first[2]).expect("it is there"), "100000");
    }
}
