//! Where the launcher has its files.

use std::path::{PathBuf, absolute};

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
    /// A folder for each guest whose interfaces are sockets. Clients know it, and make sockets in the folders
    /// of their guests.
    pub sockets: PathBuf,
    /// The QEMU that finds out whether KVM runs guests.
    pub qemu: PathBuf,
    /// The control groups' file systems.
    pub cgroups: PathBuf,
    /// The control group that guests' are below, in the root of each hierarchy. It is the launcher's alone:
    /// what it finds in it at its start and does not know it ends.
    pub group: String,
}

impl Settings {
    /// The same with whole paths: the runtime and the kernel are told them, and stand in other folders.
    ///
    /// # Errors
    /// There is no present folder.
    pub(crate) fn whole(&self) -> std::io::Result<Settings> {
        let Settings { permits, socket, state, run, sockets, qemu, cgroups, group } = self;
        Ok(Settings {
            permits: absolute(permits)?,
            socket: absolute(socket)?,
            state: absolute(state)?,
            run: absolute(run)?,
            sockets: absolute(sockets)?,
            qemu: absolute(qemu)?,
            cgroups: absolute(cgroups)?,
            group: group.clone(),
        })
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            permits: "/etc/superfluid/launcher.yaml".into(),
            socket: "/run/superfluid-launcher/launcher.sock".into(),
            state: "/var/lib/superfluid-launcher".into(),
            run: "/run/superfluid-launcher".into(),
            sockets: "/run/superfluid-guests".into(),
            qemu: "/usr/bin/qemu-system-x86_64".into(),
            cgroups: "/sys/fs/cgroup".into(),
            group: "superfluid".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_meant_from_the_present_folder() {
        let here = std::env::current_dir().expect("a folder");
        let given = Settings { state: "kept".into(), run: "./now".into(), ..Settings::default() };
        let whole = given.whole().expect("whole");
        assert_eq!((whole.state, whole.run), (here.join("kept"), here.join("now")));
        assert_eq!(whole.socket, given.socket);
    }
}
