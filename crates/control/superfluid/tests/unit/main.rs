//! The daemon under its systemd unit, in a machine of namespaces that systemd boots: packets pass, what is
//! kept is kept, and what the unit does not allow is not to be had. There the Debian package is installed as
//! well, by dpkg. Needs root, systemd, cgroups of version 2.

mod guide;
mod installed;
mod machine;
#[path = "../support/packaged.rs"]
#[allow(dead_code, reason = "another test needs more of it")]
mod packaged;

use machine::Machine;
use std::fs;

/// What the daemon says goes to a file.
const LOG: &str = "
mkdir -p /etc/systemd/system/superfluid.service.d
printf '[Service]\\nStandardOutput=append:/run/given/daemon.log\\nStandardError=append:/run/given/daemon.log\\n' \\
    >/etc/systemd/system/superfluid.service.d/log.conf
";

/// As an operator installs it.
const INSTALL: &str = "
install -m 755 /run/program/superfluid /usr/local/bin/
install -m 644 /run/source/packaging/systemd/superfluid.service /etc/systemd/system/
install -m 644 /run/source/packaging/systemd/superfluid.sysusers /etc/sysusers.d/superfluid.conf
systemd-sysusers
";

/// Two hosts, and the device between them.
const HOSTS: &str = "
for host in client server; do ip netns add $host; ip -n $host link set lo up; done
ip link add lan type veth peer name eth0 netns client
ip link add wan type veth peer name eth0 netns server
ip link add fast type veth peer name slow
ip -n client address add 10.9.0.1/24 dev eth0
ip -n server address add 10.9.0.2/24 dev eth0
for link in lan wan fast slow; do ip link set $link up; done
for host in client server; do ip -n $host link set eth0 up; done
";

const CHAIN: &str = "superfluid: 1
ports:
  lan: {type: af_packet, interface: lan}
  wan: {type: af_packet, interface: wan}
  made: {type: tap, interface: made0}
  fast: {type: af_xdp, interface: fast}
functions:
  fw: {image: firewall, config: {default_action: accept}}
  other: {image: forwarder, preemptible: true}
chains:
  edge: [lan, fw, wan]
  side: [made, other, fast]
";

fn passes(machine: &Machine) {
    machine.run("ip netns exec client ping -q -c 5 -i 0.05 -W 2 10.9.0.2");
}

fn shown(machine: &Machine, property: &str) -> String {
    machine.run(&format!("systemctl show -P {property} superfluid")).trim().to_owned()
}

#[test]
fn packets_pass_under_the_unit_and_nothing_else_is_allowed() {
    let mut machine = Machine::boot();
    machine.run(INSTALL);
    machine.run(LOG);
    machine.run(HOSTS);
    fs::write(machine.given.path().join("chain.yaml"), CHAIN).expect("written");
    // With Type=notify this returns when packets are served.
    machine.run("systemctl start superfluid");
    machine.run("superfluid apply -f chain.yaml");
    passes(&machine);
    machine.run("superfluid health; ls /var/cache/superfluid/superfluid/* | grep -q .");
    // It runs as its own user, with three capabilities; only its group may talk to it.
    let status = machine.run("cat /proc/$(systemctl show -P MainPID superfluid)/status");
    for line in [
        "CapEff:\t0000008000003000",
        "CapBnd:\t0000008000003000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "CoreDumping:\t0",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    // What is done beside the workers has a lower priority than they have.
    let nice = |thread: &str| {
        let stat =
            format!("cat /proc/$(systemctl show -P MainPID superfluid)/task/*/stat | grep '({thread}'");
        machine.run(&format!("{stat} | cut -d ' ' -f 19 | sort -u")).trim().to_owned()
    };
    assert_eq!((nice("worker-"), nice("offload-")), ("0".to_owned(), "15".to_owned()));
    let user = machine.run("id -u superfluid");
    assert!(status.contains(&format!("Uid:\t{0}\t{0}\t{0}\t{0}", user.trim())), "{status}");
    let modes =
        machine.run("stat -c '%a %U %G' /run/superfluid /run/superfluid/superfluid.sock /var/lib/superfluid");
    assert_eq!(modes, "750 superfluid superfluid\n660 superfluid superfluid\n700 superfluid superfluid\n");
    machine
        .attempt("setpriv --reuid=nobody --regid=nogroup --clear-groups superfluid health")
        .expect_err("strangers may not talk to it");

    // A restart, and one that was not asked for: what was desired runs again.
    machine.run("superfluid function pause other; systemctl restart superfluid");
    passes(&machine);
    let health = machine.run("superfluid health -o json");
    assert!(!health.contains("setpriority"), "{health}");
    assert!(machine.run("superfluid get functions").contains("other"));
    hang(&mut machine);
    passes(&machine);

    // From a backup, in an empty folder.
    machine.run(
        "superfluid backup -o backup.tar; superfluid delete -f chain.yaml; systemctl stop superfluid
         mv /var/lib/superfluid /var/lib/before; superfluid restore backup.tar; systemctl start superfluid",
    );
    passes(&machine);
    assert_eq!(machine.run("stat -c %U /var/lib/superfluid/store/store.db"), "superfluid\n");

    machine.run("systemctl stop superfluid");
    assert_eq!(shown(&machine, "Result"), "success");
    assert!(machine.logs().contains("the account balances"), "{}", machine.logs());
    confined(&machine);
}

/// A daemon that answers nothing is ended by the watchdog, and started again. This one is refused a low
/// priority for what is done beside the workers, and says so.
fn hang(machine: &mut Machine) {
    machine.run(
        "printf '[Service]\\nWatchdogSec=2\\nSystemCallFilter=~setpriority\\n' >/etc/systemd/system/superfluid.service.d/watchdog.conf
         systemctl daemon-reload; systemctl restart superfluid; sleep 3",
    );
    assert_eq!(shown(machine, "NRestarts"), "0", "it says that it is alive: {}", machine.logs());
    let health = machine.run("superfluid health -o json");
    assert!(health.contains("allow it setpriority(2)"), "{health}");
    machine.run("kill -STOP $(systemctl show -P MainPID superfluid)");
    machine.wait("it is started again", |machine| {
        shown(machine, "NRestarts") == "1" && shown(machine, "ActiveState") == "active"
    });
    machine.run("rm /etc/systemd/system/superfluid.service.d/watchdog.conf; systemctl daemon-reload");
}

/// A program in the daemon's place tries what a daemon that was taken over would try.
fn confined(machine: &Machine) {
    let probe = "[Service]
Type=oneshot
WatchdogSec=0
Restart=no
ExecStart=
ExecStart=/usr/bin/python3 -u /run/source/crates/control/superfluid/tests/unit/probe.py
ExecPaths=PYTHON
StandardOutput=append:/run/given/probe.log
StandardError=append:/run/given/probe.log
";
    let python = fs::canonicalize("/usr/bin/python3").expect("python3, which `scripts/setup test` installs");
    let probe = probe.replace("PYTHON", &python.display().to_string());
    fs::write(machine.given.path().join("probe.conf"), probe).expect("written");
    machine.run(
        "install -d -o superfluid -g 100000 -m 711 /run/superfluid-guests/guest; touch /tmp/of-others /etc/open; chmod 666 /etc/open; cd /etc/systemd/system; cp superfluid.service superfluid-probe.service
         mkdir superfluid-probe.service.d; cp /run/given/probe.conf superfluid-probe.service.d/
         systemctl daemon-reload; systemctl start superfluid-probe",
    );
    let log = fs::read_to_string(machine.given.path().join("probe.log")).expect("it ran");
    let (may, may_not): (Vec<_>, Vec<_>) = log.lines().partition(|line| line.starts_with("may: "));
    assert!(may.len() >= 10 && may_not.len() >= 50, "{log}");
    assert!(may.iter().all(|line| line.ends_with(" ok")), "{may:#?}");
    let done: Vec<_> = may_not.iter().filter(|line| line.ends_with(" ok")).collect();
    assert!(done.is_empty(), "{done:#?}");
    // Without the unit it is the unit that is missing: what the kernel lacks would prove nothing.
    let free = machine.run("python3 /run/source/crates/control/superfluid/tests/unit/probe.py free");
    let refused: Vec<_> = free.lines().filter(|line| !line.ends_with(" ok")).collect();
    assert!(refused.is_empty() && free.lines().count() >= 12, "{free}");
}
