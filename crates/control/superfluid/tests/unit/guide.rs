//! The operations guide is carried out, and every message that it explains is provoked.

use crate::machine::Machine;
use crate::{HOSTS, LOG};
use std::collections::BTreeMap;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/operations.md");

/// The folder of the repository after `make build`, as far as the guide wants it; `sysctl` says what it would
/// do, because settings of the kernel are shared by all; the daemon's lines go to a file.
const PREPARE: &str = "
mkdir -p /root/superfluid/target/release; cd /root/superfluid
ln -s /run/program/superfluid target/release/superfluid
ln -s /run/source/packaging packaging; cp /run/given/next.wasm .
cat >/usr/local/bin/sysctl <<'END'
#!/bin/bash
[[ $1 == --load ]] && grep -v '^#' \"$2\" | while read -r key equals value; do
    [[ -e /proc/sys/${key//.//} && $equals == = ]] && echo \"$key = $value\"
done
END
chmod 755 /usr/local/bin/sysctl
";

/// What provokes each message, run at the end of the chapter on backups, while the chain is there.
const PROVOKED: &[(&str, &str)] = &[
    (
        "allow it setpriority(2)",
        "cd /etc/systemd/system; mkdir -p superfluid.service.d
         printf '[Service]\\nSystemCallFilter=~setpriority\\n' >superfluid.service.d/priority.conf
         systemctl daemon-reload; systemctl restart superfluid; superfluid health -o json >&2
         rm superfluid.service.d/priority.conf; systemctl daemon-reload; systemctl restart superfluid; false",
    ),
    (
        "does superfluid daemon run there? --socket names another socket",
        "superfluid health --socket /tmp/none.sock",
    ),
    (
        "the socket is for its owner and group alone",
        "setpriv --reuid=nobody --regid=nogroup --clear-groups superfluid health --socket /tmp/open/s.sock",
    ),
    (
        "the store is in use by another process or another part of this one",
        "superfluid daemon --socket /tmp/second.sock",
    ),
    (
        "allowed: a folder for its owner alone, mode 700",
        "mkdir -m 755 /tmp/wide; superfluid daemon --socket /tmp/second.sock --state /tmp/wide",
    ),
    (
        "is not there; waiting for it",
        "echo '{superfluid: 1, ports: {x: {type: af_packet, interface: none}}}' >/tmp/x.yaml
         superfluid apply -f /tmp/x.yaml; superfluid describe port x; superfluid delete -f /tmp/x.yaml; false",
    ),
    (
        "needs the capability CAP_NET_RAW",
        "echo '{superfluid: 1, ports: {x: {type: af_packet, interface: lan}, o: {type: sink}}, functions: {f: {image: forwarder}}, chains: {c: [x, f, o]}}' >/tmp/x.yaml
         setpriv --reuid=nobody --regid=nogroup --clear-groups env XDG_CACHE_HOME=/tmp/nobody superfluid run /tmp/x.yaml --for 1s; false",
    ),
    (
        "making a TAP device needs the capability CAP_NET_ADMIN",
        "echo '{superfluid: 1, ports: {x: {type: tap, interface: made9}, o: {type: sink}}, functions: {f: {image: forwarder}}, chains: {c: [x, f, o]}}' >/tmp/y.yaml
         setpriv --reuid=nobody --regid=nogroup --clear-groups env XDG_CACHE_HOME=/tmp/nobody superfluid run /tmp/y.yaml --for 1s; false",
    ),
    ("Permission denied (os error 13)", "superfluid function create x --image /root/superfluid/next.wasm"),
    ("did you mean", "superfluid function create x --image firewal"),
    (
        "was cut off or damaged",
        "head -c 9000 /var/backups/superfluid/edge1.tar >/tmp/cut.tar; superfluid restore /tmp/cut.tar --state /tmp/fresh",
    ),
    (
        "does not have the checksum that it had",
        "cp /var/backups/superfluid/edge1.tar /tmp/other.tar
         at=$(grep -abo 'SQLite format 3' /tmp/other.tar | cut -d: -f1)
         printf X | dd of=/tmp/other.tar bs=1 seek=$((at + 3000)) conv=notrunc status=none
         superfluid restore /tmp/other.tar --state /tmp/fresh",
    ),
    (
        "allowed: an empty folder, or one that does not exist",
        "superfluid restore /var/backups/superfluid/edge1.tar",
    ),
];

/// This one takes a host with few mappings, or twenty thousand functions: its words are held to the program's
/// by `guest_wasm`'s source.
const BY_SOURCE: &str = "mappings; sysctl vm.max_map_count shows the limit";
/// These take a disk without room and files that are taken away, which `tests/kill/disk.rs` has: they are
/// looked for in their sources.
const BY_DISKS: [(&str, &str); 3] = [
    ("the audit log cannot be written", include_str!("../../../api_server/src/audit.rs")),
    ("the file was removed while the store is open", include_str!("../../../store/src/folder.rs")),
    ("the audit log was removed; a new one begins", include_str!("../../../api_server/src/audit.rs")),
];

/// The same, put together by `local_file`, whose test has them.
const BY_PLACES: [&str; 2] =
    ["the file was removed while it is in use", "the folder was removed while it is in use"];

#[test]
fn the_guide_does_what_it_says_and_its_messages_are_the_programs() {
    let text = std::fs::read_to_string(GUIDE).expect("the guide");
    let machine = Machine::boot();
    machine.run(HOSTS);
    let image = stock_images::stock("forwarder").expect("an image");
    std::fs::write(machine.given.path().join("next.wasm"), image).expect("written");
    machine.run(PREPARE);
    machine.run(LOG);
    let mut run = 0;
    for chapter in text.split("\n## ").skip(1) {
        for block in chapter.split("\n```console\n").skip(1) {
            let block = block.split("\n```").next().unwrap_or_default();
            for example in format!("\n{block}").split("\n$ ").skip(1) {
                let (command, shown) = example.split_once('\n').unwrap_or((example, ""));
                let printed = machine.run(&format!("set +o pipefail; cd /root/superfluid; {command}"));
                assert_eq!(printed.trim_end(), shown.trim_end(), "{command}\n{}", machine.logs());
                run += 1;
            }
        }
        if chapter.starts_with("Troubleshoot\n") {
            messages(&machine, chapter);
        }
    }
    assert!(run >= 40, "the guide has commands: {run}");
}

/// Each message of the table is one of those that are provoked here, and each of those is in the table.
fn messages(machine: &Machine, chapter: &str) {
    let rows = chapter.lines().filter(|line| line.starts_with("| ")).skip(1);
    let told: BTreeMap<&str, &str> =
        rows.filter_map(|row| Some((row.split(" | ").nth(1)?.trim_matches('`'), row))).collect();
    machine.run("mkdir -p -m 755 /tmp/open; ln -sf /run/superfluid/superfluid.sock /tmp/open/s.sock; chmod 755 /run/superfluid");
    for (message, script) in PROVOKED {
        assert!(told.contains_key(message), "{message} is not in the table");
        // Each ends with a failure, and its words.
        let failed = machine.attempt(&format!("set +e; {script}")).expect_err(message);
        assert!(failed.replace('`', "").contains(message), "{message}: {failed}");
    }
    let source = include_str!("../../../../sandbox/guest_wasm/src/shell.rs").replace('`', "");
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ").replace("\\ ", "");
    assert!(source.contains(BY_SOURCE) && told.contains_key(BY_SOURCE), "{BY_SOURCE}");
    for (message, source) in BY_DISKS {
        assert!(source.contains(message) && told.contains_key(message), "{message}");
    }
    let place = include_str!("../../../../formats/local_file/src/place.rs");
    for message in BY_PLACES {
        assert!(place.contains(message) && told.contains_key(message), "{message}");
    }
    assert_eq!(told.len(), PROVOKED.len() + 1 + BY_DISKS.len() + BY_PLACES.len(), "{told:#?}");
    assert_eq!(machine.run("ls /tmp/fresh 2>/dev/null || echo nothing"), "nothing\n");
}

#[test]
fn what_prometheus_is_to_be_told_is_what_it_takes() {
    let guide = std::fs::read_to_string(GUIDE).expect("the guide");
    let text = guide + include_str!("../../../../../docs/alerts.md");
    let folder = tempfile::tempdir().expect("a folder");
    let blocks: Vec<_> =
        text.split("\n```yaml\n").skip(1).filter_map(|block| block.split("\n```").next()).collect();
    let configs: Vec<_> = blocks.iter().filter(|block| block.contains("scrape_configs:")).collect();
    assert_eq!(configs.len(), 3, "{blocks:?}");
    for block in configs {
        let file = folder.path().join("file.yml");
        std::fs::write(&file, block).expect("written");
        let check = ["check", "config", "--syntax-only"];
        let said = std::process::Command::new("promtool").args(check).arg(&file).output();
        let said = said.expect("promtool, which `scripts/setup test` installs");
        assert!(said.status.success(), "{block}: {said:?}");
    }
    let metrics = include_str!("../../../../../docs/metrics.md");
    let text = text + include_str!("../../../../../packaging/prometheus/superfluid.rules.yml");
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let named: Vec<_> = words
        .filter(|word| {
            word.starts_with("superfluid_") && !["superfluid_backup", "superfluid_0"].contains(word)
        })
        .collect();
    assert!(named.len() >= 30, "{named:?}");
    for name in named {
        assert!(metrics.contains(&format!("`{name}`")), "{name} is no metric");
    }
}
