//! The account as metrics.

use daemon::Exposition;
use engine::Account;
use std::fmt::Write;

/// Writes the packets of functions and what became of all packets.
pub(crate) fn write(account: &Account, exposition: Exposition, to: &mut String) {
    // OpenMetrics names a counter's family without what its samples end in.
    let suffix = match exposition {
        Exposition::Prometheus => "_total",
        Exposition::OpenMetrics => "",
    };
    let mut family = |name: &str, help: &str| {
        let _ = write!(to, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} counter\n");
    };
    family("superfluid_function_packets", "Packets that a function was called with.");
    for instance in &account.instances {
        let (name, packets) = (&instance.name, instance.packets);
        let _ = writeln!(to, "superfluid_function_packets_total{{function=\"{name}\"}} {packets}");
    }
}
