//! What busybox's init runs in the guest: the start, and the program.

use crate::Tree;

/// Where busybox lies inside.
pub const BUSYBOX: &str = "/bin/busybox";
const START: &str = "/etc/superfluid/start";
const PROGRAM: &str = "/etc/superfluid/program";

/// How the program is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// A line for the shell.
    pub command: String,
    /// It goes on in the background by itself, and is not started again when its first process ends.
    pub once: bool,
    /// Lines for the shell, before it starts.
    pub before: Vec<String>,
    /// Users that the program looks up by their names.
    pub users: Vec<String>,
}

/// Mounts, modules, and what the kernel's command line says of the network: `superfluid.address=
/// [INTERFACE,]ADDRESS/LENGTH`, `superfluid.gateway=ADDRESS`, `superfluid.nameserver=ADDRESS`.
const HEAD: &str = r#"#!/bin/busybox sh
# What is there already stays: the program's packages come first.
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t devtmpfs dev /dev 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts 2>/dev/null
# Those of the kernel that runs, in the order in which they need each other.
modules=/lib/modules/$(uname -r)
if [ -f $modules/order ]; then
    for module in $(cat $modules/order); do insmod $modules/$module; done
fi
for interface in $(ls /sys/class/net); do ip link set $interface up; done
for word in $(cat /proc/cmdline); do
    value=${word#*=}
    case $word in
    superfluid.address=*,*) ip address add ${value#*,} dev ${value%%,*} ;;
    superfluid.address=*) ip address add $value dev eth0 ;;
    superfluid.gateway=*) gateway="$gateway $value" ;;
    superfluid.nameserver=*) echo "nameserver $value" >>/etc/resolv.conf ;;
    esac
done
for address in $gateway; do ip route add default via $address; done
"#;

/// Adds init, its table and its scripts, and the files that programs expect in any system. What the
/// packages have is not replaced.
pub fn add(tree: &mut Tree, service: &Service) {
    tree.link("init", BUSYBOX);
    tree.link("bin/sh", "busybox");
    for (folder, mode) in [
        ("dev", 0o755),
        ("proc", 0o555),
        ("sys", 0o555),
        ("run", 0o755),
        ("root", 0o700),
        ("tmp", 0o1777),
        ("var/log", 0o755),
        ("var/tmp", 0o1777),
    ] {
        tree.folder(folder, mode);
    }
    if tree.get("var/run").is_none() {
        tree.link("var/run", "/run");
    }
    let mut start = String::from(HEAD);
    service.before.iter().for_each(|line| {
        start.push_str(line);
        start.push('\n');
    });
    tree.text(START, &start, 0o755);
    tree.text(PROGRAM, format!("#!/bin/sh\n{}\n", service.command), 0o755);
    let action = if service.once { "once" } else { "respawn" };
    tree.text(
        "etc/inittab",
        format!("::sysinit:{START}\n::{action}:{PROGRAM}\n::ctrlaltdel:/bin/busybox reboot -f\n"),
        0o644,
    );
    let (mut users, mut groups) =
        (String::from("root:x:0:0:root:/root:/bin/sh\n"), String::from("root:x:0:\n"));
    let known = [("www-data", 33), ("nogroup", 65_534), ("nobody", 65_534)];
    for (name, id) in known {
        if name != "nogroup" {
            users.push_str(&format!("{name}:x:{id}:{id}::/:/usr/sbin/nologin\n"));
        }
        if name != "nobody" {
            groups.push_str(&format!("{name}:x:{id}:\n"));
        }
    }
    // Those that a package would have made when it was installed.
    for (number, name) in
        (100..).zip(service.users.iter().filter(|it| known.iter().all(|(other, _)| it != other)))
    {
        users.push_str(&format!("{name}:x:{number}:{number}::/:/usr/sbin/nologin\n"));
        groups.push_str(&format!("{name}:x:{number}:\n"));
    }
    let absent = [
        ("etc/passwd", users.as_str()),
        ("etc/group", groups.as_str()),
        ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ];
    for (name, text) in absent {
        if tree.get(name).is_none() {
            tree.text(name, text, 0o644);
        }
    }
}

/// How a package's unit of systemd starts its program (systemd.service(5)), if it is one.
pub fn of_unit(text: &str) -> Option<Service> {
    let mut service = Service::default();
    // A line goes on behind a backslash.
    let text = text.replace("\\\n", " ");
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| section == "[Service]") else { continue };
        let (key, value) = (key.trim(), value.trim());
        let folder =
            |below: &str| value.split_whitespace().map(|name| format!("mkdir -p {below}/{name}")).collect();
        let mut more: Vec<String> = Vec::new();
        match key {
            "ExecStart" if !value.is_empty() => {
                value.trim_start_matches(['-', '@', ':', '+', '!']).clone_into(&mut service.command);
            }
            "Type" => service.once = value == "forking",
            "User" | "Group" if is_user(value) && !service.users.iter().any(|it| it == value) => {
                service.users.push(value.to_owned());
            }
            "RuntimeDirectory" => more = folder("/run"),
            "StateDirectory" => more = folder("/var/lib"),
            "CacheDirectory" => more = folder("/var/cache"),
            "LogsDirectory" => more = folder("/var/log"),
            _ => {}
        }
        service.before.extend(more);
    }
    let whole = !service.command.is_empty() && !service.command.contains(['%', '$']);
    whole.then_some(service)
}

fn is_user(name: &str) -> bool {
    !name.is_empty()
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && name != "root"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;
    use std::process::Command;

    fn text(tree: &Tree, name: &str) -> String {
        match tree.get(name) {
            Some(Entry::Text { bytes, .. }) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn init_starts_the_program_after_what_comes_before_it() {
        let mut tree = Tree::default();
        tree.text("etc/hosts", "10.0.0.1 own\n", 0o644);
        let before = vec!["mkdir -p /var/log/server".to_owned()];
        let users = vec!["redis".to_owned(), "www-data".to_owned()];
        add(&mut tree, &Service { command: "exec server -g 'x y'".into(), once: false, before, users });
        assert!(text(&tree, START).ends_with("done\nmkdir -p /var/log/server\n"));
        assert_eq!(text(&tree, PROGRAM), "#!/bin/sh\nexec server -g 'x y'\n");
        assert!(text(&tree, "etc/inittab").contains("::respawn:/etc/superfluid/program\n"));
        assert_eq!(text(&tree, "etc/hosts"), "10.0.0.1 own\n", "the package's own stays");
        let passwd = text(&tree, "etc/passwd");
        assert!(passwd.contains("redis:x:100:100:") && passwd.matches("www-data").count() == 1, "{passwd}");
        let sh = Command::new("sh").args(["-n", "-c", &text(&tree, START)]).status().expect("a shell");
        assert!(sh.success(), "it is a script");
    }

    #[test]
    fn units_of_systemd_say_how_a_program_is_run() {
        let nginx = "[Unit]\nDescription=A =b\n[Service]\nType=forking\nExecStartPre=/x -t\n\
            ExecStart=/usr/sbin/nginx -g 'daemon on; \\\n master_process on;'\nExecReload=/x\n[Install]\nWantedBy=x\n";
        let service = of_unit(nginx).expect("a service");
        assert!(service.once);
        assert_eq!(service.command, "/usr/sbin/nginx -g 'daemon on;   master_process on;'");
        let redis = "[Service]\nType=notify\nExecStart=-/usr/bin/redis-server /etc/redis/redis.conf\nUser=redis\nGroup=redis\nRuntimeDirectory=redis\n";
        let service = of_unit(redis).expect("a service");
        assert_eq!((service.once, service.users.as_slice()), (false, &["redis".to_owned()][..]));
        assert_eq!(service.before, ["mkdir -p /run/redis"]);
        for text in
            ["", "[Service]\nExecStart=/x %i\n", "[Service]\nExecStart=/x $OPTS\n", "[Unit]\nExecStart=/x\n"]
        {
            assert_eq!(of_unit(text), None, "{text}");
        }
    }
}
