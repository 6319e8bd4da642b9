//! Where a bench ran: figures mean nothing without it.

use std::fs;

/// How long a virtual machine's processor that has nothing to do looks for work before it stops, in
/// nanoseconds. To start it again takes tens of microseconds, and it begins with cold caches.
const HALT_POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";

/// One line: processor, cores, kernel, huge pages, halt polling.
pub(crate) fn describe() -> String {
    let facts = facts();
    let of =
        |name: &str| facts.iter().find(|(known, _)| known == name).map_or("?", |(_, value)| value.as_str());
    format!(
        "{}, {} cores, Linux {}, {} huge pages of 2 MiB, halt polling {}",
        of("processor"),
        of("cores"),
        of("kernel"),
        of("huge pages"),
        of("halt polling")
    )
}

/// The same by name.
pub(crate) fn facts() -> Vec<(String, String)> {
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
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    vec![
        fact("processor", model),
        fact("cores", &cores.to_string()),
        fact("kernel", kernel.trim()),
        fact("huge pages", huge),
        fact("halt polling", &halt_polling(&read(HALT_POLL))),
    ]
}

fn halt_polling(nanoseconds: &str) -> String {
    match nanoseconds.trim().parse::<u64>() {
        Ok(nanoseconds) if nanoseconds > 0 => format!("{} us", nanoseconds / 1000),
        _ => "off".to_owned(),
    }
}
