//! What a daemon that was taken over can ask for, and what it gets.

use crate::permits::PREFIX;
use crate::request::{GuestKind, Interface, InterfaceKind, Limits, Start};
use crate::{Permits, Request};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A host's folders: images of two tenants, files for one, and something that is for none.
struct Host {
    folder: TempDir,
    permits: Permits,
}

fn host() -> Host {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for made in ["images/a", "images/b", "other", "etc/below", "secret"] {
        std::fs::create_dir_all(root.join(made)).expect("made");
    }
    std::fs::write(root.join("etc/a.yaml"), "a").expect("written");
    std::fs::write(root.join("secret/key"), "x").expect("written");
    symlink("../secret", root.join("etc/way")).expect("linked");
    symlink("../secret/key", root.join("etc/link")).expect("linked");
    symlink("../other", root.join("images/link")).expect("linked");
    let text = format!(
        "superfluid_launcher: 1\nclients: [998]\ntenants:\n  blue:\n    uids: 1000000\n    images: [{0}/images]\n    \
         mounts: [{0}/etc, /dev]\n    programs: [/usr, /opt/nf]\n    memory: 64MiB\n    kvm: true\n  red: {{uids: 1065536, images: [{0}/other]}}\n",
        root.display()
    );
    let permits = Permits::from_text("launcher.yaml", &text).expect("a file");
    Host { folder, permits }
}

impl Host {
    fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.folder.path().display())
    }

    fn start(&self) -> Start {
        Start {
            name: "ids".into(),
            tenant: "blue".into(),
            guest: GuestKind::Container,
            sockets_of: None,
            image: self.path("images/a"),
            digest: None,
            command: Vec::new(),
            interfaces: vec![Interface {
                name: "eth0".into(),
                kind: InterfaceKind::Veth,
                outer: format!("{PREFIX}-1"),
                addresses: vec!["192.0.2.1/24".into()],
                gateways: Vec::new(),
                mtu: None,
                mac: None,
            }],
            mounts: BTreeMap::from([("/etc/a.yaml".to_owned(), self.path("etc/a.yaml"))]),
            limits: Limits { memory: 32 << 20, weight: 100, cap: None, processes: 16, files: 64 },
            beside: None,
            kvm: crate::KvmUse::No,
            probe: None,
            mark: None,
        }
    }

    fn refused(&self, change: impl FnOnce(&mut Start)) -> String {
        let mut start = self.start();
        change(&mut start);
        let refused = self.permits.check(&start).expect_err("refused").to_string();
        assert!(refused.contains("allowed"), "{refused}");
        refused
    }
}

#[test]
fn what_the_file_allows_is_permitted() {
    let host = host();
    let permitted = host.permits.check(&host.start()).expect("permitted");
    assert_eq!((permitted.uids, permitted.mounts.len()), (1_000_000, 1));
}

#[test]
fn a_host_that_cannot_run_guests_is_told_before_one_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime =
        |name: &str| crate::runtime::Runtime::new(&folder.path().join(name), folder.path()).is_there();
    std::fs::write(folder.path().join("runc"), "").expect("written");
    assert!(runtime("runc").is_ok());
    let told = runtime("missing").expect_err("it is not there").to_string();
    assert!(told.starts_with("runtime: ") && told.contains("missing: No such file"), "{told}");
    assert!(crate::runtime::has_namespaces(folder.path()).is_ok(), "the kernel has no bounds");
    let bound = |text| std::fs::write(folder.path().join("max_user_namespaces"), text).expect("written");
    bound("15000\n");
    assert!(crate::runtime::has_namespaces(folder.path()).is_ok());
    bound("0\n");
    let told = crate::runtime::has_namespaces(folder.path()).expect_err("none").to_string();
    assert!(told.contains("max_user_namespaces is 0"), "{told}");
    // A program is looked for as a file.
    let host = host();
    let program =
        |path: &str| crate::program::is_there(&Start { command: vec![path.to_owned()], ..host.start() });
    assert!(program("/bin/sh").is_ok());
    assert!(program("/usr/missing").is_err() && program("/usr").is_err());
}

#[test]
fn images_lie_where_the_tenants_are() {
    let host = host();
    for image in [
        host.path("other"),
        host.path("secret"),
        host.path("images"),
        host.path("images/../secret"),
        host.path("images/./a"),
        host.path("images/link"),
        host.path("images/missing"),
        "/".to_owned(),
        "images/a".to_owned(),
        String::new(),
    ] {
        let refused = host.refused(|start| start.image = image.clone());
        assert!(refused.starts_with("image: "), "{image}: {refused}");
    }
    // What is one tenant's is not another's.
    let refused = host.refused(|start| {
        start.tenant = "red".into();
        start.mounts.clear();
    });
    assert!(refused.starts_with("image: "), "{refused}");
}

#[test]
fn mounts_are_files_of_the_tenants_folders() {
    let host = host();
    for from in [
        "/etc/shadow".to_owned(),
        host.path("secret/key"),
        host.path("etc/../secret/key"),
        host.path("etc/link"),
        host.path("etc/way/key"),
        "/dev/null".to_owned(),
        "/proc/self/mem".to_owned(),
    ] {
        let refused = host.refused(|start| drop(start.mounts.insert("/x".into(), from.clone())));
        assert!(refused.starts_with("mounts: "), "{from}: {refused}");
    }
    for inside in ["/", "/proc/x", "/sys", "/dev/sda", "etc", "/a/../b", "/a/./b", "/a\0b", ""] {
        let refused = host.refused(|start| {
            start.mounts = BTreeMap::from([(inside.to_owned(), host.path("etc/a.yaml"))]);
        });
        assert!(refused.starts_with("mounts: "), "{inside}: {refused}");
    }
}

#[test]
fn programs_are_the_files_of_the_host_that_the_file_names() {
    let host = host();
    let program = |start: &mut Start, command: &str| {
        start.guest = GuestKind::Program;
        start.image.clear();
        start.command = vec![command.to_owned(), "-x".to_owned()];
    };
    let mut start = host.start();
    for good in ["/usr/bin/suricata", "/opt/nf/ids"] {
        program(&mut start, good);
        let permitted = host.permits.check(&start).expect("permitted");
        assert_eq!(permitted.files.folders().len(), 2);
    }
    for command in [
        "",
        "suricata",
        "usr/bin/suricata",
        "/bin/sh",
        "/usr",
        "/usr/",
        "/usr/../bin/sh",
        "/usr/./../etc/x",
        "/usrx/a",
        "/opt/a",
        "/opt/nf",
        "/usr/bin/a\0b",
        "/proc/self/exe",
    ] {
        let refused = host.refused(|start| program(start, command));
        assert!(refused.starts_with("command: "), "{command}: {refused}");
    }
    let refused = host.refused(|start| (start.guest, start.image) = (GuestKind::Program, String::new()));
    assert!(refused.starts_with("command: found the program ``"), "{refused}");
    // A program has no image, and a container has one.
    let image = host.path("images/a");
    let refused = host.refused(|start| {
        program(start, "/usr/bin/a");
        start.image = image;
    });
    assert!(refused.starts_with("image: "), "{refused}");
    let refused = host.refused(|start| start.image.clear());
    assert!(refused.starts_with("image: "), "{refused}");
    // The other tenant has no programs.
    let refused = host.refused(|start| {
        program(start, "/usr/bin/a");
        start.tenant = "red".into();
        start.mounts.clear();
    });
    assert!(refused.ends_with("allowed by the launcher's file: none"), "{refused}");
    // Mounted files and limits are what they are for containers.
    let refused = host.refused(|start| {
        program(start, "/usr/bin/a");
        start.mounts.insert("/x".into(), "/etc/shadow".into());
    });
    assert!(refused.starts_with("mounts: "), "{refused}");
}

#[test]
fn sockets_are_names_in_a_folder_of_the_launchers() {
    let host = host();
    let socket = |name: &str| Interface::new(name, InterfaceKind::Socket);
    let mut start = host.start();
    start.interfaces = vec![socket("in"), socket("out-2"), socket("A_b")];
    assert!(host.permits.check(&start).is_ok());
    for name in ["", "..", ".", "a/b", "../x", "a.sock", "a b", "a\0", "-a", "aaaaaaaaaaaaaaaa", "in\nx"] {
        let refused = host.refused(|start| start.interfaces = vec![socket(name)]);
        assert!(refused.starts_with("interfaces: "), "{name}: {refused}");
    }
    host.refused(|start| start.interfaces = vec![socket("in"), socket("in")]);
    // There is no word for a path.
    host.refused(|start| start.interfaces = vec![Interface { outer: "/etc".into(), ..socket("in") }]);
    host.refused(|start| {
        start.interfaces = vec![Interface { addresses: vec!["192.0.2.1/24".into()], ..socket("in") }];
    });
}

#[test]
fn a_guest_that_stands_by_names_another_one_and_no_folder() {
    let host = host();
    let mut start = host.start();
    (start.name, start.sockets_of) = ("ids.1".into(), Some("ids".into()));
    assert!(host.permits.check(&start).is_ok());
    for name in ["ids.", "ids.0", "ids.10", "ids.a", "ids.1.1", ".1", "ids./", "ids.."] {
        host.refused(|start| start.name = name.into());
    }
    for of in ["", "..", "/etc", "a/b", "ids.1", "ids sockets"] {
        host.refused(|start| start.sockets_of = Some(of.into()));
    }
}

#[test]
fn interfaces_are_the_launchers_own() {
    let host = host();
    for outer in
        ["eth0", "lo", "sf-lan", "sfg/../x", "sfg 1", "sfg-0123456789abc", "sfg\nlink delete eth0", "SFG-1"]
    {
        let refused = host.refused(|start| start.interfaces[0].outer = outer.into());
        assert!(refused.starts_with("interfaces: "), "{outer}: {refused}");
    }
    for name in ["lo", "", "eth0 up", "eth0\nx", "../x", "0"] {
        host.refused(|start| start.interfaces[0].name = name.into());
    }
    for address in ["192.0.2.1", "192.0.2.1/33", "x", "192.0.2.1/24 dev lo", "192.0.2.1/24\nlink delete eth0"]
    {
        host.refused(|start| start.interfaces[0].addresses = vec![address.into()]);
    }
    host.refused(|start| start.interfaces.push(start.interfaces[0].clone()));
}

#[test]
fn tenants_names_and_limits_are_checked() {
    let host = host();
    let probe: crate::Probe = serde_json::from_str(r#"{"tcp": 70}"#).expect("a probe");
    let refused = host.refused(|start| start.probe = Some(crate::Probe { failures: 0, ..probe }));
    assert!(refused.starts_with("probe.failures: "), "{refused}");
    host.refused(|start| start.tenant = "green".into());
    for name in ["", "..", "a/b", "a b", "-a", "0", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
        host.refused(|start| start.name = name.into());
    }
    host.refused(|start| start.limits.memory = 65 << 20);
    host.refused(|start| start.limits.weight = 0);
    host.refused(|start| start.limits.processes = 513);
    host.refused(|start| start.command = vec!["x\0y".into()]);
    host.refused(|start| start.digest = Some("sha256:x".into()));
}

/// Programs alone, of tenants of which the file says so.
#[test]
fn the_device_of_kvm_is_for_whom_the_file_says() {
    let host = host();
    let mut start = host.start();
    start.kvm = crate::KvmUse::IfPossible;
    assert!(!host.permits.check(&start).expect("permitted").kvm, "a container");
    (start.guest, start.image) = (GuestKind::Program, String::new());
    start.command = vec!["/usr/bin/x".to_owned()];
    assert!(host.permits.check(&start).expect("permitted").kvm);
    let node = Some(std::path::Path::new("/var/lib/x/kvm/1000000"));
    let mounts = crate::bundle::OfHost { kvm: node, ..Default::default() }.mounts();
    assert_eq!((&mounts[0]["destination"], mounts.len()), (&"/dev/kvm".into(), 1));
    let options = mounts[0]["options"].as_array().expect("options");
    assert!(["nosuid", "noexec"].iter().all(|it| options.iter().any(|option| option == it)), "{options:?}");
    let text = "superfluid_launcher: 1\nclients: [998]\ntenants: {blue: {uids: 1000000, programs: [/usr]}}\n";
    let permits = Permits::from_text("launcher.yaml", text).expect("a file");
    start.mounts.clear();
    assert!(!permits.check(&start).expect("permitted").kvm, "nothing is said");
}

#[test]
fn packet_sockets_are_for_tenants_of_which_the_file_does_not_say_otherwise() {
    let host = host();
    let mut start = host.start();
    start.interfaces[0].addresses.clear();
    start.interfaces.push(Interface::new("in", InterfaceKind::Socket));
    assert!(host.permits.check(&start).is_ok(), "nothing is said");
    let root = host.folder.path().display();
    let text = format!(
        "superfluid_launcher: 1\nclients: [998]\ntenants:\n  blue: {{uids: 1000000, images: [{root}/images], mounts: [{root}/etc], \
         packet_sockets: false}}\n"
    );
    let permits = Permits::from_text("launcher.yaml", &text).expect("a file");
    let refused = permits.check(&start).expect_err("an interface without addresses").to_string();
    assert!(
        refused.starts_with("interfaces: `eth0` has no addresses") && refused.contains("allowed"),
        "{refused}"
    );
    start.interfaces[0].addresses.push("192.0.2.1/24".to_owned());
    assert!(permits.check(&start).is_ok(), "a socket has none either way");
}

/// There is no word for more rights: each of these is an unknown key.
#[test]
fn requests_name_no_users_namespaces_devices_or_hooks() {
    let good = serde_json::to_value(Request::Start(Box::new(host().start()))).expect("JSON");
    assert!(serde_json::from_value::<Request>(good.clone()).is_ok());
    for key in [
        "programs",
        "sockets",
        "uids",
        "user",
        "namespaces",
        "devices",
        "capabilities",
        "privileged",
        "hooks",
        "seccomp",
        "rootfs",
    ] {
        let mut bad = good.clone();
        bad["start"][key] = serde_json::json!([]);
        let error = serde_json::from_value::<Request>(bad).expect_err("refused").to_string();
        assert!(error.contains("unknown field"), "{key}: {error}");
    }
    for bad in [r#"{"exec": {}}"#, r#"{"start": null}"#, "[]", r#"{"list": {}, "stop": {"name": "x"}}"#] {
        assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
    }
}

/// All words of the border: one that is added has to be argued in a decision record, as these were.
#[test]
fn the_border_is_these_words() {
    let expected = |text: &str| {
        let told = serde_json::from_str::<Request>(text).expect_err("refused").to_string();
        let words = told.split('`').skip(3).step_by(2);
        words.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    for (text, words) in [
        (r#"{"?": 0}"#, "start check limit share stop list queues kill"),
        (
            r#"{"start": {"?": 0}}"#,
            "name tenant guest image digest command interfaces sockets_of mounts limits beside kvm probe mark",
        ),
        (r#"{"start": {"interfaces": [{"?": 0}]}}"#, "name as outer addresses gateways mtu mac"),
        (r#"{"start": {"limits": {"?": 0}}}"#, "memory weight cap processes files"),
        (r#"{"start": {"probe": {"?": 0}}}"#, "exec tcp every_ms within_ms failures start_ms"),
        (r#"{"start": {"guest": "?"}}"#, "container program"),
        (r#"{"start": {"interfaces": [{"as": "?"}]}}"#, "veth tap socket"),
        (r#"{"limit": {"?": 0}}"#, "name limits"),
        (r#"{"share": {"?": 0}}"#, "most"),
        (r#"{"stop": {"?": 0}}"#, "name grace_ms"),
        (r#"{"list": {"?": 0}}"#, "after wait_ms log_of"),
        (r#"{"queues": {"?": 0}}"#, "name"),
        (r#"{"kill": {"?": 0}}"#, "name pid unless failure"),
    ] {
        assert_eq!(expected(text), words, "{text}");
    }
}

#[test]
fn ranges_of_users_are_apart() {
    let text = |second: u32| {
        format!(
            "superfluid_launcher: 1\nclients: [998]\ntenants:\n  a: {{uids: 1000000}}\n  b: {{uids: {second}}}\n"
        )
    };
    assert!(Permits::from_text("f", &text(1_065_536)).is_ok());
    let faults = Permits::from_text("f", &text(1_065_535)).expect_err("a fault");
    assert!(faults[0].to_string().contains("are also those of `a`"), "{}", faults[0]);
    // The host's own users, and the daemon's.
    assert!(Permits::from_text("f", &text(998)).is_err());
}

#[test]
fn the_file_is_checked() {
    for text in [
        "clients: [1]",
        "superfluid_launcher: 2\nclients: [1]",
        "superfluid_launcher: 1",
        "superfluid_launcher: 1\nclients: [1]\ntenant: {}",
        "superfluid_launcher: 1\nclients: [1]\ntenants: {a: {uids: 100000, images: [/]}}",
        "superfluid_launcher: 1\nclients: [1]\ntenants: {a: {uids: 100000, images: [/a/../b]}}",
        "superfluid_launcher: 1\nclients: [1]\ntenants: {a: {uids: 100000, programs: [/]}}",
        "superfluid_launcher: 1\nclients: [1]\ntenants: {a: {uids: 100000, programs: [/run/x]}}",
        "superfluid_launcher: 1\nclients: [1]\ntenants: {a: {uids: 100000, programs: [/proc]}}",
        "superfluid_launcher: 1\nclients: [1]\ntenants: {a: {uids: 100000, root: true}}",
        "superfluid_launcher: 1\nclients: [1]\ntenants: {'../x': {uids: 100000}}",
    ] {
        assert!(Permits::from_text("f", text).is_err(), "{text}");
    }
}

#[test]
fn a_log_is_bounded() {
    let mut log = crate::log::Log::default();
    for number in 0..300 {
        log.take(format!("line {number}\n").as_bytes());
    }
    log.take(&[b'x'; 5000]);
    log.take(b"\n\x1b[2Jhidden\nrest");
    let lines = log.lines();
    assert_eq!((lines.len(), log.lost), (crate::LOG_LINES + 1, 300 + 2 - crate::LOG_LINES as u64));
    assert!(lines.iter().all(|line| line.len() <= crate::LOG_LINE + 3));
    assert!(lines.iter().any(|line| line.contains("\\u{1b}[2Jhidden")), "{:?}", lines.last());
}

/// The container's configuration for this request, and an image of this user.
fn config(start: &Start, user: &str) -> Result<serde_json::Value, crate::Refusal> {
    let root = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(root.path().join("etc")).expect("made");
    std::fs::write(root.path().join("etc/users"), "root:x:0:0::/:\nweb:x:101:102::/:\nfar:x:70000:0::/:\n")
        .expect("written");
    std::fs::write(root.path().join("etc/group"), "staff:x:50:\nweb:x:103:\nfar:x:70000:\nodd\n")
        .expect("written");
    // As an image may have it: the name leads to the image's own file, and not to the host's.
    symlink("/etc/users", root.path().join("etc/passwd")).expect("linked");
    let config =
        container_image::Config { user: user.into(), cmd: vec!["/bin/x".into()], ..Default::default() };
    let image = crate::images::Unpacked { root: root.path().to_owned(), config };
    crate::bundle::config("group", start, 1_000_000, &image, &[])
}

#[test]
fn a_container_is_confined_whatever_is_asked() {
    let mut start = host().start();
    let made = config(&start, "").expect("a configuration");
    let kinds: Vec<_> = made["linux"]["namespaces"].as_array().expect("a list").iter().collect();
    for kind in ["pid", "network", "ipc", "uts", "mount", "user", "cgroup"] {
        // Without a path: a new one, and not the host's.
        assert!(kinds.iter().any(|it| **it == serde_json::json!({"type": kind})), "{kind}: {kinds:?}");
    }
    let process = &made["process"];
    assert_eq!(process["noNewPrivileges"], true);
    for set in ["bounding", "effective", "permitted", "inheritable", "ambient"] {
        assert_eq!(process["capabilities"][set], serde_json::json!([]), "{set}");
    }
    assert_eq!(made["root"]["readonly"], true);
    assert_eq!(made["linux"]["seccomp"]["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(
        made["linux"]["uidMappings"][0],
        serde_json::json!({"containerID": 0, "hostID": 1_000_000, "size": 65_536})
    );
    assert_eq!(made["linux"]["resources"]["pids"]["limit"], 16);
    assert_eq!(made["linux"]["cgroupsPath"], "/group/ids");
    assert!(made.get("hooks").is_none());
    for mount in made["mounts"].as_array().expect("mounts") {
        assert_ne!(mount["type"], "bind", "{mount}");
    }
    // An interface without addresses is read by packet sockets.
    start.interfaces[0].addresses.clear();
    let raw = config(&start, "").expect("a configuration");
    assert_eq!(raw["process"]["capabilities"]["effective"], serde_json::json!(["CAP_NET_RAW"]));
}

#[test]
fn what_a_guest_sees_of_the_host_is_bound_read_only() {
    let folders = ["/usr".into(), "/opt/nf".into()];
    let sockets = Some(std::path::Path::new("/run/superfluid-guests/ids"));
    let mounts = crate::bundle::OfHost { programs: &folders, sockets, kvm: None }.mounts();
    let seen: Vec<_> = mounts.iter().map(|it| (it["source"].clone(), it["destination"].clone())).collect();
    let expected =
        [("/usr", "/usr"), ("/opt/nf", "/opt/nf"), ("/run/superfluid-guests/ids", crate::SOCKETS_INSIDE)];
    assert_eq!(seen, expected.map(|(from, to)| (from.into(), to.into())));
    for mount in &mounts {
        let options = mount["options"].as_array().expect("options");
        for option in ["ro", "nosuid", "nodev"] {
            assert!(options.iter().any(|it| it == option), "{option}: {mount}");
        }
        // What else is mounted below is not seen.
        assert!(!options.iter().any(|it| it == "rbind"), "{mount}");
    }
    let none = crate::bundle::OfHost::default().mounts();
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn the_images_user_is_one_of_the_images() {
    let start = host().start();
    for (user, uid, gid) in [
        ("", 0, 0),
        ("root", 0, 0),
        ("7", 7, 0),
        ("7:8", 7, 8),
        ("7:staff", 7, 50),
        ("web", 101, 102),
        ("101", 101, 102),
        ("web:9", 101, 9),
        ("web:web", 101, 103),
        ("web:root", 101, 0),
    ] {
        let made = config(&start, user).expect("a configuration");
        assert_eq!(
            (&made["process"]["user"]["uid"], &made["process"]["user"]["gid"]),
            (&uid.into(), &gid.into()),
            "{user}"
        );
    }
    for user in ["far", "missing", "65536", "-1", "7:x", "7:far", "7:odd", "7:65536", "web:"] {
        let refused = config(&start, user).expect_err("refused").to_string();
        assert!(refused.contains("allowed"), "{user}: {refused}");
    }
}

#[test]
fn a_process_is_held_by_its_start_as_well() {
    let own = std::process::id();
    let began = crate::record::start_time(own).expect("it runs");
    let record = |process| crate::record::Record { start: host().start(), root: None, process };
    assert!(record(Some((own, began))).hold().is_some());
    // Another process has its number.
    assert!(record(Some((own, began + 1))).hold().is_none());
    assert!(record(None).hold().is_none());
    let folder = tempfile::tempdir().expect("a folder");
    record(Some((own, began))).write(folder.path()).expect("written");
    assert!(crate::record::Record::read(folder.path()).expect("read").hold().is_some());
    // What is no file is not waited for: a start would never come to its end.
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let fifo = folder.path().join("record.json");
    std::fs::remove_file(&fifo).expect("removed");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
    let told = crate::record::Record::read(folder.path()).expect_err("no file").to_string();
    assert_eq!(told, "found a FIFO; allowed: a regular file");
    assert!(crate::record::number(&fifo).is_err());
}

#[test]
fn a_guest_has_one_router_of_each_version_of_ip_on_links_where_it_has_addresses() {
    let host = host();
    let with = |name: &str, number: u8, addresses: &[&str], gateways: &[&str]| Interface {
        outer: format!("{PREFIX}-{number}"),
        addresses: addresses.iter().map(|it| (*it).to_owned()).collect(),
        gateways: gateways.iter().map(|it| it.parse().expect("an address")).collect(),
        ..Interface::new(name, InterfaceKind::Veth)
    };
    let both = ["192.0.2.1/24", "2001:db8::1/64"];
    let mut start = host.start();
    start.interfaces = vec![
        with("eth0", 1, &both, &["192.0.2.254"]),
        with("eth1", 2, &["198.51.100.1/24", "2001:db8:1::1/64"], &["fe80::1"]),
    ];
    assert!(host.permits.check(&start).is_ok());
    for bad in [
        vec![with("eth0", 1, &both, &["192.0.2.254", "192.0.2.253"])],
        vec![with("eth0", 1, &both[1..], &["192.0.2.254"])],
        vec![with("eth0", 1, &[], &["192.0.2.254"])],
        vec![with("eth0", 1, &both, &["fe80::1"]), with("eth1", 2, &both, &["2001:db8::2"])],
    ] {
        let refused = host.refused(|start| start.interfaces = bad);
        assert!(refused.contains("interfaces: found the gateway "), "{refused}");
    }
    let socket =
        Interface { outer: String::new(), kind: InterfaceKind::Socket, ..with("in", 1, &[], &["192.0.2.1"]) };
    let refused = host.refused(|start| start.interfaces = vec![socket]);
    assert!(refused.contains("`in` is a socket"), "{refused}");
}

#[test]
fn a_tap_device_has_what_one_can_have_and_others_have_none_of_it() {
    let host = host();
    let tap = |mtu, mac: Option<&str>| Interface {
        outer: format!("{PREFIX}-1"),
        mtu,
        mac: mac.map(str::to_owned),
        ..Interface::new("eth0", InterfaceKind::Tap)
    };
    let mut start = host.start();
    start.interfaces = vec![tap(Some(9000), Some("02:00:00:00:00:01"))];
    assert!(host.permits.check(&start).is_ok());
    for (bad, wanted) in [
        (tap(Some(67), None), "the mtu of `eth0` is 67; allowed: 68 to 65521"),
        (tap(None, Some("01:00:00:00:00:01")), "the mac of `eth0` is `01:00:00:00:00:01`; allowed: "),
        (Interface { kind: InterfaceKind::Veth, ..tap(Some(9000), None) }, "`eth0` is no TAP device"),
        (Interface { outer: "eth0".into(), ..tap(None, None) }, "found `eth0` as the outer end"),
        (Interface { name: "../x".into(), ..tap(None, None) }, "found the name `../x`"),
        (
            Interface { kind: InterfaceKind::Socket, outer: String::new(), ..tap(Some(9000), None) },
            "`eth0` is a socket",
        ),
    ] {
        let refused = host.refused(|start| start.interfaces = vec![bad]);
        assert!(refused.contains(wanted), "{refused}");
    }
}
