//! Where a bench ran: figures mean nothing without it.

use std::fs;

/// One line: processor, cores, kernel, huge pages.
pub(crate) fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(':')))
        .map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let meminfo = read("/proc/meminfo");
    let huge = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Total:")).map_or("0", str::trim);
    format!("{model}, {cores} cores, Linux {}, {huge} huge pages of 2 MiB", kernel.trim())
}
