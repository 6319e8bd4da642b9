//! Where the launcher has its files.

use std::path::PathBuf;

/// Where the launcher has its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What may be started.
    pub permits: PathBuf,
    /// Where it listens.
    pub socket: PathBuf,
    /// Unpacked images.
    pub state: PathBuf,
    /// What runs now: records, bundles, the runtime's state. It must not outlive a start of the host.
    pub run: PathBuf,
    /// The control groups' file systems.
    pub cgroups: PathBuf,
    /// The control group that guests' are below, in the root of each hierarchy. It is the launcher's alone: what it
    /// finds in it at its start and does not know it ends.
    pub group: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            permits: "/etc/superfluid/launcher.yaml".into(),
            socket: "/run/superfluid-launcher/launcher.sock".into(),
            state: "/var/lib/superfluid-launcher".into(),
            run: "/run/superfluid-launcher".into(),
            cgroups: "/sys/fs/cgroup".into(),
            group: "superfluid".into(),
        }
    }
}
