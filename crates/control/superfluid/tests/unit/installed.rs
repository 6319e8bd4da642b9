//! The Debian package in the hands of dpkg: installed, started, put over an older one, removed and purged.

use crate::LOG;
use crate::machine::Machine;
use crate::packaged::{packaged, run};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The version that there was before.
const OLD: &str = "0.0.1";

/// The same package under an older version.
fn older(package: &Path, folder: &Path) {
    let (tree, control) = (folder.join("older"), folder.join("older/DEBIAN/control"));
    run(Command::new("dpkg-deb").arg("--raw-extract").args([package, &tree]));
    let fields = fs::read_to_string(&control).expect("fields");
    let now = format!("Version: {}\n", env!("CARGO_PKG_VERSION"));
    fs::write(&control, fields.replace(&now, &format!("Version: {OLD}\n"))).expect("written");
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Zgzip", "-z1", "--build"])
        .args([&tree, &folder.join("old.deb")]));
}

/// Files and folders that have to do with the program, but for the operator's own.
const TRACES: &str = "find /usr /etc /var /run \\( -path /run/given -o -path /run/source -o -path /run/program \\
    -o -path /var/lib/dpkg \\) -prune -o -path '*superfluid*' ! -path '*/superfluid.service.d*' ! -path '/etc/superfluid*' -print";

#[test]
fn dpkg_installs_upgrades_and_removes_the_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = packaged(folder.path());
    older(&made.package, folder.path());
    let machine = Machine::boot_for_packages();
    for (from, to) in [(folder.path().join("old.deb"), "old.deb"), (made.package, "new.deb")] {
        fs::copy(from, machine.given.path().join(to)).expect("copied");
    }
    assert_eq!(machine.run(TRACES), "", "nothing is there before");
    machine.run(LOG);
    installs(&machine);
    upgrades(&machine);
    removes(&machine);
    purges(&machine);
}

fn version(machine: &Machine) -> String {
    machine.run("dpkg-query --show --showformat '${db:Status-Abbrev}${Version}' superfluid")
}

/// Everything lies where it belongs, nothing runs, and what is enabled then serves.
fn installs(machine: &Machine) {
    machine.run("dpkg --install old.deb");
    assert_eq!(version(machine), format!("ii {OLD}"));
    assert_eq!(machine.run("dpkg --verify superfluid"), "", "files are those of the package");
    machine.attempt("systemctl is-active superfluid").expect_err("it starts nothing");
    machine.attempt("systemctl is-enabled superfluid").expect_err("it enables nothing");
    assert!(machine.run("getent passwd superfluid").contains(":/var/lib/superfluid:"));
    let verify = "systemd-analyze verify --man=no superfluid.service superfluid-launcher.service 2>&1";
    assert_eq!(machine.run(verify), "", "what systemd says of the units");
    assert_eq!(machine.run("command -v superfluid; superfluid --version").lines().count(), 2);
    assert_eq!(machine.run("command -v superfluid"), "/usr/bin/superfluid\n");
    machine.run("systemctl enable --now superfluid; superfluid function create kept --image forwarder");
    assert!(machine.run("superfluid health").starts_with("healthy"), "{}", machine.logs());
}

/// A daemon that runs goes on until it is started again, with what it kept; the operator's files stay.
fn upgrades(machine: &Machine) {
    let process = "systemctl show -P MainPID superfluid";
    let before = machine.run(process);
    machine.run(
        "echo vm.max_map_count = 300000 >>/etc/sysctl.d/60-superfluid.conf
         mkdir /etc/superfluid; echo 'superfluid: 1' >/etc/superfluid/launcher.yaml",
    );
    let said = machine.run("dpkg --install new.deb");
    assert!(said.contains(&format!("the running daemon is still version {OLD}")), "{said}");
    assert_eq!(version(machine), format!("ii {}", env!("CARGO_PKG_VERSION")));
    assert_eq!(machine.run(process), before, "it goes on");
    assert!(machine.run("superfluid get functions").contains("kept"));
    machine.run("systemctl restart superfluid");
    assert!(machine.run("superfluid get functions").contains("kept"));
    let changed = machine.run("dpkg --verify superfluid || true");
    assert!(
        changed.lines().count() == 1 && changed.contains(" c /etc/sysctl.d/60-superfluid.conf"),
        "{changed}"
    );
    assert!(machine.run("tail -n 1 /etc/sysctl.d/60-superfluid.conf").contains("300000"));
}

/// The daemon ends and is not started at the next boot; state and configuration wait for the package to come
/// back.
fn removes(machine: &Machine) {
    machine.run("dpkg --remove superfluid");
    assert_eq!(version(machine), format!("rc {}", env!("CARGO_PKG_VERSION")));
    let left = machine.run(TRACES);
    let kept = ["/var/lib/superfluid", "/var/cache/superfluid", "/etc/sysctl.d/60-superfluid.conf"];
    let other: Vec<_> = left.lines().filter(|path| !kept.iter().any(|kept| path.starts_with(kept))).collect();
    assert!(other.is_empty() && kept.iter().all(|kept| left.contains(kept)), "{left}");
    machine.run("dpkg --install new.deb; systemctl start superfluid");
    assert!(machine.run("superfluid get functions").contains("kept"));
    // Without a systemd that runs, as in the making of an image, what enables it goes as well.
    machine.run(
        "systemctl enable superfluid; systemctl stop superfluid
         unshare --mount bash -c 'umount -R /run/systemd/system 2>/dev/null; mount -t tmpfs tmpfs /run/systemd && dpkg --remove superfluid'",
    );
    machine.attempt("ls /etc/systemd/system/*.wants/superfluid.service").expect_err("it is not enabled");
}

/// Nothing of it is left but the user, which files may belong to, and what the operator wrote.
fn purges(machine: &Machine) {
    machine.run("dpkg --purge superfluid");
    machine.attempt("dpkg --status superfluid").expect_err("dpkg knows nothing of it");
    assert_eq!(machine.run(TRACES), "", "nothing is left");
    machine.run("getent passwd superfluid; test -s /etc/superfluid/launcher.yaml");
}
