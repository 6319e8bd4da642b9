//! Which programs are needed, and what installs them.

use crate::PeerError;
use std::path::Path;

/// Programs and the Debian packages that have them.
const PROGRAMS: &[(&str, &str)] = &[
    ("dpdk-testpmd", "dpdk-dev"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-common"),
    (crate::openvswitch::DAEMON, "openvswitch-switch-dpdk"),
    ("suricata", "suricata/bookworm-backports libhtp2/bookworm-backports"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
];

/// Says what is missing, if anything is.
///
/// # Errors
/// [`PeerError::Missing`], with every program that is not installed.
pub fn missing() -> Result<(), PeerError> {
    missing_of(PROGRAMS)
}

/// Says which of these programs are missing; with each the Debian package that has it.
///
/// # Errors
/// [`PeerError::Missing`], with every program that is not installed.
pub fn missing_of(programs: &[(&str, &str)]) -> Result<(), PeerError> {
    let absent: Vec<_> = programs.iter().filter(|(program, _)| !installed(program)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = absent.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(PeerError::Missing {
        programs: absent.iter().map(|(program, _)| (*program).to_owned()).collect(),
        command: format!("apt-get install --no-install-recommends {}", packages.join(" ")),
    })
}

/// Says whether DPDK's router is missing, which is in no package, or testpmd beside it.
///
/// # Errors
/// [`PeerError::Missing`].
pub fn missing_l3fwd() -> Result<(), PeerError> {
    missing_of(&[("dpdk-testpmd", "dpdk-dev")])?;
    match installed(crate::l3fwd::PROGRAM) {
        true => Ok(()),
        false => Err(PeerError::Missing {
            programs: vec![crate::l3fwd::PROGRAM.to_owned()],
            command: "scripts/l3fwd".to_owned(),
        }),
    }
}

fn installed(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where programs of the administrator are, whether or not the path says so.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_command() {
        assert!(missing_of(&[("sh", "dash"), ("/proc/self/exe", "x")]).is_ok());
        let programs = [
            ("sh", "dash"),
            ("no-such-a", "package-a"),
            ("/no/such/b", "package-a"),
            ("no-such-c", "package-c"),
        ];
        let error = missing_of(&programs).unwrap_err().to_string();
        assert!(error.contains("no-such-a, /no/such/b, no-such-c"), "{error}");
        assert!(error.contains("scripts/setup bench"), "{error}");
        assert!(error.ends_with("apt-get install --no-install-recommends package-a package-c"), "{error}");
    }
}
