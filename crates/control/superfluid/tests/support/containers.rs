//! What `docs/containers.md` shows, between two hosts: its files in a folder, an image, and a launcher.

use super::launcher::{BUSYBOX, Launcher};
use super::layouts;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::{Background, Line, Namespace};

const LIMIT: Duration = Duration::from_secs(20);
const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/containers.md");
/// One of the two hosts.
pub const SERVER: &str = "198.51.100.2";

/// The document's blocks of a language, with its folders as this test has them.
pub fn blocks(language: &str, folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(GUIDE).expect("the document");
    let begin = format!("\n```{language}\n");
    let blocks = text.split(begin.as_str()).skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.map(|block| block.replace("/srv", &folder.display().to_string())).collect()
}

/// An OCI image layout with parts of busybox in it.
fn image(layout: &Path) {
    let root = tempfile::tempdir().expect("a folder");
    for name in ["bin", "dev", "proc", "sys", "tmp", "run"] {
        fs::create_dir(root.path().join(name)).expect("made");
    }
    for name in ["httpd", "nc", "sleep", "sh"] {
        fs::copy(BUSYBOX, root.path().join("bin").join(name)).expect("copied");
    }
    let tar = Command::new("tar")
        .args(["--owner=0", "--group=0", "-cf", "-", "-C"])
        .arg(root.path())
        .arg(".")
        .output();
    layouts::write(layout, &tar.expect("tar").stdout);
}

/// Asks the other end until it answers.
pub fn await_answer(client: &Namespace) {
    let begin = Instant::now();
    while client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(40), "no answer");
    }
}

/// Two hosts with the container's addresses as their routers, a folder with the guide's files in it, and a
/// launcher that has them.
pub fn with_launcher(test: impl FnOnce(&Line, &Path, &Launcher<'_>, Background)) {
    let line = Line::new().expect("a line");
    for (host, own, router) in
        [(&line.client, "192.0.2.2", "192.0.2.1"), (&line.server, SERVER, "198.51.100.1")]
    {
        host.ip("address flush dev eth0").expect("flushed");
        host.ip(&format!("address add {own}/24 dev eth0")).expect("an address");
        host.ip(&format!("route add default via {router}")).expect("a route");
    }
    let folder = tempfile::Builder::new().prefix("superfluid-test-").tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).expect("changed");
    image(&folder.path().join("images/busybox"));
    let yaml = blocks("yaml", folder.path());
    let names = ["launcher.yaml", "chain.yaml", "observed.yaml", "device.yaml", "translated.yaml"];
    assert_eq!(yaml.len(), names.len());
    for (name, block) in names.iter().zip(&yaml) {
        fs::write(folder.path().join(name), block).expect("written");
    }
    let launcher = Launcher { folder: folder.path(), programs: Path::new("/usr"), line: &line };
    let running = launcher.start();
    test(&line, folder.path(), &launcher, running);
}
