//! Images of functions as operators name them: by tags in a real registry, in registries that hang and lie,
//! and in files. What was applied is what runs, until it is applied anew. Needs no privileges.

#[path = "../../registry/tests/support/debian.rs"]
mod debian;
#[path = "../../registry/tests/hostile/server.rs"]
#[expect(dead_code, reason = "other tests make it do more")]
mod server;
#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use debian::Registry;
use image::{Image, Names, assemble};
use registry::{Artifact, Client, Credentials, Login, Settings};
use serde_json::{Value, json};
use server::{Act, Server, honest};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::commands::text;
use support::daemon::{Daemon, Options, SOCKET};
use support::http;
use support::layouts;
use tempfile::TempDir;

/// A daemon with more arguments, and its folder.
fn start(arguments: &[&str]) -> (TempDir, Daemon) {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Options::new(folder.path()).arguments(arguments.iter().copied()).start();
    (folder, daemon)
}

/// A function as it is wanted, and the digest of the image that it runs.
fn image_of(daemon: &Daemon, function: &str) -> (String, String) {
    let object = daemon.json(&format!("get functions {function}"));
    let told = |value: &Value| value.as_str().expect("text").to_owned();
    (told(&object["spec"]["image"]), told(&object["status"]["image"]))
}

fn document(function: &str, image: &str) -> String {
    format!("superfluid: 1\nfunctions:\n  {function}:\n    image: '{image}'\n")
}

/// A function that does nothing; another one for each number.
fn image(number: u8) -> Image {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // Types, functions, one page of memory, exports, code, and a byte of data.
    module.extend(
        b"\x01\x0a\x02\x60\x00\x01\x7f\x60\x02\x7f\x7e\x00\x03\x04\x03\x00\x00\x01\x05\x03\x01\x00\x01",
    );
    module.extend(
        b"\x07\x2c\x04\x06memory\x02\x00\x08sf_batch\x00\x00\x07sf_init\x00\x01\x0asf_process\x00\x02",
    );
    module.extend(b"\x0a\x0f\x03\x05\x00\x41\xc0\x00\x0b\x04\x00\x41\x00\x0b\x02\x00\x0b");
    module.extend(b"\x0b\x08\x01\x00\x41\x80\x08\x0b\x01");
    module.push(number);
    let manifest = "name: echo\nversion: 1.2.3\nabi: 1\nsummary: Does nothing.\nlanguage: c\naccess: read\n\
                    interfaces: [wire]\nmemory_limit: 128KiB\n";
    assemble(&module, manifest, Names::Dropped).expect("an image").0
}

/// Pushes the image of a number; what the reference then means.
fn push(registry: &Registry, reference: &str, number: u8) -> String {
    let credentials = Credentials::default().with_login(Login::new("me", "secret"));
    let settings = Settings { insecure: vec![registry.host.clone()], credentials, ..Settings::default() };
    let reference = reference.parse().expect("a reference");
    let pushed = Client::new(settings).expect("a client").push(&reference, &Artifact::of(image(number)));
    pushed.expect("pushed").reference.to_string()
}

/// As a function's status has it.
fn content(number: u8) -> String {
    format!("sha256:{}", image(number).digest())
}

#[test]
fn a_function_runs_what_its_tag_meant_when_it_was_applied() {
    let registry = Registry::start("", "");
    let (_folder, mut daemon) = start(&["--registry-insecure", &registry.host]);
    let tagged = format!("{}/nf/echo:1", registry.host);
    let first = push(&registry, &tagged, 1);
    daemon.write("edge.yaml", &document("fw", &tagged));
    assert_eq!(text(&daemon.run("diff -f edge.yaml").stdout), "+ function/fw\n");
    let applied = daemon.done("apply -f edge.yaml");
    assert!(applied.contains(&format!("function/fw image {first}\n")), "{applied}");
    assert_eq!(image_of(&daemon, "fw"), (first.clone(), content(1)));
    let described = daemon.done("describe function fw");
    assert!(described.contains(&first) && described.contains(&content(1)), "{described}");
    let short = first.split_once("sha256:").expect("a digest").1[..12].to_owned();
    assert!(daemon.done("get functions").contains(&format!("{tagged}@{short}")));
    assert!(daemon.done("apply -f edge.yaml").contains("1 unchanged; revision 1"));

    // The tag moves: nothing changes, and only a client that asks for it is told.
    let second = push(&registry, &tagged, 2);
    assert_ne!(first, second);
    assert_eq!(daemon.done("diff -f edge.yaml"), "nothing differs\n");
    let moved = daemon.run("diff -f edge.yaml --resolve");
    assert_eq!(moved.status.code(), Some(1));
    let line = format!("    ~ image: \"{first}\" -> \"{second}\"\n");
    assert!(text(&moved.stdout).contains(&line), "{}", text(&moved.stdout));
    daemon.done("function restart fw");
    assert_eq!(image_of(&daemon, "fw"), (first.clone(), content(1)));
    daemon = daemon.again();
    assert_eq!(image_of(&daemon, "fw"), (first.clone(), content(1)));
    let upgraded = daemon.done(&format!("upgrade fw --allow-restart --image {tagged}"));
    assert!(upgraded.contains("function/fw"), "{upgraded}");
    assert_eq!(image_of(&daemon, "fw"), (second.clone(), content(2)));
    // By digest, back to the first.
    daemon.done(&format!("upgrade fw --allow-restart --image {first}"));
    assert_eq!(image_of(&daemon, "fw"), (first.clone(), content(1)));
    daemon.done("apply -f edge.yaml --allow-restart");
    assert_eq!(image_of(&daemon, "fw"), (second.clone(), content(2)));
    let third = push(&registry, &format!("{}/nf/echo:2", registry.host), 3);
    daemon.done(&format!("function create g --image {}/nf/echo:2", registry.host));
    let images = daemon.json("get images");
    let listed = |pinned: &str| {
        let found = images.as_array().expect("a list").iter().find(|image| image["pinned"] == pinned);
        found.unwrap_or_else(|| panic!("no {pinned} in {images}")).clone()
    };
    assert_eq!(
        (&listed(&second)["functions"], &listed(&second)["reference"]),
        (&1.into(), &tagged.clone().into())
    );
    assert_eq!(listed(&third)["digest"], content(3));

    // No registry is needed for what is here.
    drop(registry);
    daemon = daemon.again();
    assert_eq!(image_of(&daemon, "fw"), (second.clone(), content(2)));
    assert_eq!(image_of(&daemon, "g"), (third, content(3)));
    assert_eq!(daemon.done("diff -f edge.yaml"), "nothing differs\n");
    let refused = daemon.refused("apply -f edge.yaml").1;
    assert!(refused.contains("edge.yaml:4:") && refused.contains("cannot be reached"), "{refused}");
    daemon.write("pinned.yaml", &document("fw", &second));
    assert!(daemon.done("apply -f pinned.yaml").contains("1 unchanged"));
    daemon.done("function create other --image monitor");
}

#[test]
fn registries_that_hang_lie_or_have_nothing_are_told_in_time_and_the_rest_goes_on() {
    let registry = Registry::start("", "");
    let lying = Server::new(|asked| honest(&Artifact::of(image(7)), asked));
    let hanging = Server::new(|_| Act::Hang(Vec::new()));
    let hosts = [registry.host.clone(), lying.host(), hanging.host()];
    let mut options: Vec<&str> = hosts.iter().flat_map(|host| ["--registry-insecure", host]).collect();
    options.extend(["--registry-timeout", "3s"]);
    let (_folder, daemon) = start(&options);
    let create = |image: &str| daemon.refused(&format!("function create fw --image {image}")).1;

    let refused = create(&format!("{}/nf/echo:1", registry.host));
    assert!(refused.contains("404") && refused.contains("nf/echo:1"), "{refused}");
    let wanted = Artifact::of(image(8)).digest();
    let refused = create(&format!("{}/edge/echo@{wanted}", lying.host()));
    assert!(refused.contains(&format!("where {wanted} was asked for")), "{refused}");
    let refused = create("r.example/nf/echo@sha256:12");
    assert!(refused.contains("`sha256:12` is no digest"), "{refused}");
    // No connection without TLS where that was not allowed.
    let refused = create("localhost:1/nf/echo:1");
    assert!(refused.contains("localhost:1"), "{refused}");

    // While one hangs, others are made; several of its images cost no more time than one.
    let mut both = document("fw", &format!("{}/a/b:1", hanging.host()));
    both.push_str(
        &document("g", &format!("{}/a/c:1", hanging.host())).replace("superfluid: 1\nfunctions:\n", ""),
    );
    both.push_str(&document("h", "monitor").replace("superfluid: 1\nfunctions:\n", ""));
    daemon.write("both.yaml", &both);
    let began = Instant::now();
    let waiting = daemon.command("apply -f both.yaml").stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    daemon.done("function create other --image monitor");
    let waited = waiting.expect("starts").wait_with_output().expect("it ends");
    let told = text(&waited.stderr);
    assert!(!waited.status.success() && began.elapsed() < Duration::from_secs(60), "{told}");
    assert!(told.contains("both.yaml:4:") && told.contains("both.yaml:6:"), "{told}");
    // Nothing is half applied.
    let functions = daemon.json("get functions");
    let names: Vec<_> = functions.as_array().expect("a list").iter().map(|object| &object["name"]).collect();
    assert_eq!(names, ["other"]);
}

#[test]
fn a_file_is_kept_as_it_was_when_it_was_applied() {
    let (_folder, mut daemon) = start(&[]);
    let put = |number: u8| {
        fs::write(daemon.path("fw.new"), image(number).wasm()).expect("written");
        fs::rename(daemon.path("fw.new"), daemon.path("fw.wasm")).expect("renamed");
    };
    put(1);
    daemon.write("edge.yaml", &document("fw", "./fw.wasm"));
    let path = daemon.path("fw.wasm").display().to_string();
    let pinned = |number| format!("{path}@{}", content(number));
    daemon.done("apply -f edge.yaml");
    assert_eq!(image_of(&daemon, "fw"), (pinned(1), content(1)));
    assert!(daemon.done("apply -f edge.yaml").contains("1 unchanged; revision 1"));

    put(2);
    let differs = daemon.run("diff -f edge.yaml");
    let line = format!("    ~ image: \"{}\" -> \"{}\"\n", pinned(1), pinned(2));
    assert!(text(&differs.stdout).contains(&line), "{}{}", text(&differs.stdout), text(&differs.stderr));
    assert_eq!(image_of(&daemon, "fw").1, content(1));
    fs::remove_file(&path).expect("removed");
    daemon = daemon.again();
    assert_eq!(image_of(&daemon, "fw"), (pinned(1), content(1)));
    daemon.done("function restart fw");
    // A snapshot keeps its image as well.
    daemon.done("snapshot save fw before");
    let refused = daemon.refused("apply -f edge.yaml").1;
    assert!(refused.contains("edge.yaml:4:") && refused.contains("fw.wasm"), "{refused}");
    fs::write(&path, image(2).wasm()).expect("written");
    assert!(daemon.done("apply -f edge.yaml --allow-restart").contains("function/fw changed"));
    assert_eq!(image_of(&daemon, "fw"), (pinned(2), content(2)));
    fs::write(&path, image(3).wasm()).expect("written");
    daemon.done("upgrade fw --allow-restart --image ./fw.wasm");
    assert_eq!(image_of(&daemon, "fw"), (pinned(3), content(3)));
    daemon.done("delete function fw");
    daemon = daemon.again();
    daemon.done("snapshot restore before --as fw");
    assert_eq!(image_of(&daemon, "fw"), (pinned(1), content(1)));
    // What is not needed any more leaves when something comes.
    daemon = daemon.again();
    let blob = |number| daemon.path("state/images/blobs/sha256").join(&content(number)[7..]);
    assert!(blob(1).exists() && !blob(2).exists() && !blob(3).exists());
}

/// Seconds of processor time that were used for a tenant beside the workers.
fn background(daemon: &Daemon, tenant: &str) -> f64 {
    let metrics = daemon.text("/metrics");
    let wanted = format!("superfluid_tenant_background_seconds_total{{tenant=\"{tenant}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&wanted)?.parse::<f64>().ok()).unwrap_or(0.0)
}

/// A daemon with two tenants, and a large file that is never compiled, because it cannot be loaded.
fn with_a_broken_file() -> (TempDir, Daemon, PathBuf) {
    let (folder, daemon) = start(&[]);
    daemon.write("tenants.yaml", "superfluid: 1\ntenants: {red: {}, blue: {}}\n");
    daemon.done("apply -f tenants.yaml");
    let path = daemon.path("broken.wasm");
    fs::write(&path, vec![0; 8 << 20]).expect("written");
    (folder, daemon, path)
}

/// To read and check a file is work of the tenant whose function it is for, and not of the thread that
/// answers.
#[test]
fn a_file_is_read_in_the_account_of_its_tenant() {
    let (_folder, daemon, path) = with_a_broken_file();
    let used = |tenant: &str| background(&daemon, tenant);
    let before = (used("red"), used("blue"));
    let refused = daemon.refused(&format!("function create fw --tenant blue --image {}", path.display())).1;
    assert!(refused.contains("broken.wasm"), "{refused}");
    // It is charged when it has ended, which is told before.
    daemon.wait("it is charged", || used("blue") > before.1);
    assert_eq!(used("red"), before.0);
}

/// A check of it is such work, too: it compiles nothing and is asked for again and again.
#[test]
fn a_file_is_checked_in_the_account_of_its_tenant() {
    let (_folder, daemon, path) = with_a_broken_file();
    let used = |tenant: &str| background(&daemon, tenant);
    let before = (used("red"), used("blue"));
    let function = json!({"image": path, "tenant": "blue"});
    let report = daemon
        .post("/v1/check", Some(json!({"superfluid": 1, "functions": {"one": function, "two": function}})));
    let faults = report["faults"].as_array().expect("a list");
    assert_eq!(faults.len(), 2, "{report}");
    assert!(faults.iter().all(|fault| fault["message"].as_str().expect("text").contains("broken.wasm")));
    // As above: it is told before it is charged.
    daemon.wait("it is charged", || used("blue") > before.1);
    assert_eq!(used("red"), before.0);
}

/// A file is as slow as whatever is behind it: here a file system whose process never answers, in a mount
/// namespace of the daemon's own. What waits for it, checks and changes of an administrator's, keeps nothing
/// else waiting, a tenant's requests neither.
#[test]
fn a_file_that_never_comes_keeps_nothing_else_waiting() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: there is no root, whose right it is to mount, or no /dev/fuse");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("slow")).expect("made");
    let mount = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none slow \
                 && exec \"$@\"";
    let daemon = Options::new(folder.path())
        .launcher(["unshare", "-m", "sh", "-c", mount, "sh"])
        .tenants_socket("tenants")
        .start();
    daemon.write("tenants.yaml", "superfluid: 1\ntenants: {red: {}, blue: {}, green: {}}\n");
    daemon.done("apply -f tenants.yaml");
    daemon.done("token create green --tenant green --expires 1d --file green.token");
    let token = fs::read_to_string(daemon.path("green.token")).expect("reads").trim().to_owned();
    let slow = daemon.path("slow/fw.wasm");
    let mut waiting = Vec::new();
    for tenant in ["default", "red", "blue"] {
        for number in 0..4 {
            let function = json!({"image": slow, "tenant": tenant});
            let document = json!({"superfluid": 1, "functions": {"fw": function}});
            let begin =
                |method, path: &str, body| http::begin(&daemon.path(SOCKET), None, method, path, Some(&body));
            waiting.push(begin("POST", "/v1/check", document));
            waiting.push(begin(
                "PUT",
                &format!("/v1/functions/{tenant}-{number}?wait=true"),
                json!({"spec": function}),
            ));
        }
    }
    // Until they are there: each reads on a thread of its own, in the account of its tenant.
    daemon.wait("looks at files wait", || {
        let threads = fs::read_dir(format!("/proc/{}/task", daemon.id())).expect("a process");
        let slow = threads.flatten().filter(|task| {
            let of = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            // It waits within the kernel, and no signal but one that ends it would wake it.
            let stat = of("stat");
            of("comm").trim() == "apart" && stat.rsplit_once(") ").is_some_and(|(_, it)| it.starts_with('D'))
        });
        slow.count() >= 3
    });
    daemon.get("/v1/health");
    for _ in 0..8 {
        let (status, answer) =
            http::exchange(&daemon.path("tenants"), Some(&token), "GET", "/v1/tenants/green", None);
        assert_eq!(status, 200, "{answer}");
    }
    drop(waiting);
}

#[test]
fn what_is_missing_after_a_restart_is_fetched_when_it_is_applied_again() {
    let registry = Registry::start("", "");
    let (_folder, daemon) = start(&["--registry-insecure", &registry.host]);
    let tagged = format!("{}/nf/echo:1", registry.host);
    let pinned = push(&registry, &tagged, 1);
    daemon.write("edge.yaml", &document("fw", &tagged));
    daemon.done("apply -f edge.yaml");
    let images = daemon.path("state/images");
    let options = daemon.kill();
    fs::remove_dir_all(images).expect("removed");
    let daemon = options.start();
    let object = daemon.json("get functions fw");
    let (image, state) = (&object["spec"]["image"], &object["status"]["state"]);
    assert_eq!((image, state), (&pinned.clone().into(), &Value::from("down")));
    let reason = object["status"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("apply it again"), "{reason}");
    assert!(daemon.log().contains("apply it again"), "{}", daemon.log());
    daemon.done("apply -f edge.yaml");
    assert_eq!(image_of(&daemon, "fw"), (pinned, content(1)));
}

#[test]
fn credentials_come_from_a_file_that_may_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let passwords = folder.path().join("htpasswd");
    fs::write(&passwords, "me:$2b$04$Sh6sJ.ctVzV8DNgaUxE4k.n/rrMj6On0EcuDg/Pp1VNZ.toLUTHUm\n")
        .expect("written");
    let auth = format!("auth:\n  htpasswd:\n    realm: x\n    path: {}\n", passwords.display());
    let registry = Registry::start("", &auth);
    let tagged = format!("{}/nf/echo:1", registry.host);
    push(&registry, &tagged, 1);
    let file = registry.folder.path().join("auth.json");
    fs::write(&file, "{}").expect("written");
    let path = file.display().to_string();
    let (_folder, daemon) = start(&["--registry-insecure", &registry.host, "--registry-auth-file", &path]);
    let refused = daemon.refused(&format!("function create fw --image {tagged}")).1;
    assert!(refused.contains("401"), "{refused}");
    let entry = format!("{{\"auths\": {{\"{}\": {{\"auth\": \"bWU6c2VjcmV0\"}}}}}}", registry.host);
    fs::write(&file, entry).expect("written");
    daemon.done(&format!("function create fw --image {tagged}"));
    assert_eq!(image_of(&daemon, "fw").1, content(1));
}

/// A registry that wants a name and a password, which are `me` and `secret`, and what its reference of the
/// image of a number means.
fn private(folder: &TempDir, number: u8) -> (Registry, String) {
    let passwords = folder.path().join("htpasswd");
    fs::write(&passwords, "me:$2b$04$Sh6sJ.ctVzV8DNgaUxE4k.n/rrMj6On0EcuDg/Pp1VNZ.toLUTHUm\n")
        .expect("written");
    let auth = format!("auth:\n  htpasswd:\n    realm: x\n    path: {}\n", passwords.display());
    let registry = Registry::start("", &auth);
    let pinned = push(&registry, &format!("{}/nf/echo:1", registry.host), number);
    (registry, pinned)
}

#[test]
fn a_tenant_has_images_by_its_own_login_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (registry, pinned) = private(&folder, 1);
    let host = registry.host.as_str();
    let tagged = format!("{host}/nf/echo:1");
    let auth = registry.folder.path().join("auth.json");
    fs::write(&auth, format!("{{\"auths\": {{\"{host}\": {{\"auth\": \"bWU6c2VjcmV0\"}}}}}}"))
        .expect("written");
    let arguments = ["--registry-insecure", host, "--tenant-registry", host, "--registry-auth-file"];
    let arguments = arguments.into_iter().map(str::to_owned).chain([auth.display().to_string()]);
    let mut daemon = Options::new(folder.path()).tenants_socket("tenants").arguments(arguments).start();
    daemon.write("tenants.yaml", "superfluid: 1\ntenants: {red: {}, blue: {}}\n");
    daemon.done("apply -f tenants.yaml");
    for tenant in ["red", "blue"] {
        daemon.done(&format!("token create {tenant} --tenant {tenant} --file {tenant}.token"));
    }
    let of = |daemon: &Daemon, tenant: &str| {
        let commands: &support::commands::Commands = daemon;
        commands.clone().asking("tenants").variable("SUPERFLUID_TOKEN_FILE", format!("{tenant}.token"))
    };
    let create = |name: &str, tenant: &str, image: &str| {
        format!("function create {name} --image {image} --tenant {tenant}")
    };
    // The administrator's login is the administrator's, and what it has brought is no tenant's by its digest.
    daemon.done(&format!("function create fw --image {tagged}"));
    for image in [&tagged, &pinned] {
        let told = of(&daemon, "red").refused(&create("red-fw", "red", image)).1;
        assert!(told.contains("401"), "{told}");
    }
    // Nor is it told what such an image is: a key of another schema is not looked at before.
    let told = of(&daemon, "red")
        .refused(&format!("{} --config rules=/etc/passwd", create("red-fw", "red", &pinned)))
        .1;
    assert!(told.contains("401") && !told.contains("rules"), "{told}");

    let red = of(&daemon, "red");
    daemon.write("password", "secret\n");
    let login = format!("registry login {host} --username me --password-file password");
    assert_eq!(red.done(&login), format!("login of tenant/red at {host} set, as me\n"));
    red.done(&create("red-fw", "red", &tagged));
    red.done(&create("red-two", "red", &pinned));
    // It is red's alone, before and after another start.
    for _ in 0..2 {
        let blue = of(&daemon, "blue");
        assert_eq!(blue.json("registry ls"), Value::Array(Vec::new()));
        let told = blue.refused(&create("blue-fw", "blue", &pinned)).1;
        assert!(told.contains("401"), "{told}");
        let told = blue.refused(&format!("registry logout {host}")).1;
        assert!(told.contains("there is no login of the tenant `blue`"), "{told}");
        let (red, admin) = (of(&daemon, "red").json("registry ls"), daemon.json("registry ls"));
        assert_eq!((&red[0]["username"], &red), (&"me".into(), &admin));
        daemon = daemon.again();
    }
    let red = of(&daemon, "red");
    let told = daemon.refused(&login).1;
    assert!(told.contains("tenant: found nothing"), "{told}");
    red.done(&create("red-tagged", "red", &tagged));
    assert_eq!(red.done(&format!("registry logout {host}")), format!("login at {host} deleted\n"));
    // What it has it keeps, by its functions; nothing is pulled any more.
    red.done(&create("red-three", "red", &pinned));
    let other = push(&registry, &format!("{host}/nf/echo:2"), 2);
    daemon.done(&format!("function create other --image {other}"));
    let told = red.refused(&create("red-four", "red", &other)).1;
    assert!(told.contains("401"), "{told}");
    // A tenant that goes takes its logins with it, and the one of that name begins without.
    of(&daemon, "blue").done(&login);
    daemon.done("token delete blue");
    daemon.done("delete tenant blue");
    assert_eq!(daemon.json("registry ls"), Value::Array(Vec::new()));
    // What a registry gave it is not the next one's of that name either, within the hour too.
    for name in ["red-fw", "red-two", "red-three", "red-tagged"] {
        daemon.done(&format!("delete function {name}"));
    }
    daemon.done("token delete red");
    daemon.done("delete tenant red");
    fs::remove_file(daemon.path("red.token")).expect("removed");
    daemon.done("apply -f tenants.yaml");
    daemon.done("token create red --tenant red --file red.token");
    let told = of(&daemon, "red").refused(&create("red-fw", "red", &pinned)).1;
    assert!(told.contains("401"), "{told}");
    let known = [daemon.log(), fs::read_to_string(folder.path().join("state/audit.jsonl")).expect("reads")];
    assert!(known[1].contains("registry_login"), "{}", known[1]);
    for text in known {
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn a_tenants_images_leave_room_for_those_of_others() {
    // Each of its tags is another image.
    let server = Server::new(|asked| {
        let tag = |path: &str| path.split("/e").nth(1)?.split('/').next()?.parse::<u8>().ok();
        honest(&Artifact::of(image(tag(&asked.path).unwrap_or(0))), asked)
    });
    let host = server.host();
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--registry-insecure", &host, "--tenant-registry", &host, "--keep-images", "32KiB"];
    let daemon = Options::new(folder.path()).tenants_socket("tenants").arguments(arguments).start();
    daemon.write("tenants.yaml", "superfluid: 1\ntenants: {red: {}, blue: {}}\n");
    daemon.done("apply -f tenants.yaml");
    let tenant = |name: &str| {
        daemon.done(&format!("token create {name} --tenant {name} --file {name}.token"));
        let commands: &support::commands::Commands = &daemon;
        commands.clone().asking("tenants").variable("SUPERFLUID_TOKEN_FILE", format!("{name}.token"))
    };
    let (red, blue) = (tenant("red"), tenant("blue"));
    let wanted = |number: u8| {
        let image = format!("{{image: '{host}/nf/e{number}:1', tenant: red}}");
        daemon.write("red.yaml", &format!("superfluid: 1\nfunctions: {{red-{number}: {image}}}\n"));
    };
    // What is only tried is kept for an hour, too.
    let mut refused = None;
    for number in 1..=40 {
        wanted(number);
        let command = if number % 2 == 0 { "apply -f red.yaml" } else { "apply --dry-run -f red.yaml" };
        let done = red.run(command);
        if !done.status.success() {
            refused = Some((number, text(&done.stderr)));
            break;
        }
    }
    let (number, told) = refused.expect("it has as many as it may");
    assert!(
        number > 2 && told.contains("images that functions and snapshots of the tenant `red` name"),
        "{told}"
    );
    assert!(told.contains("allowed: less than 1024 of less than 8192 bytes"), "{told}");
    assert!(!told.contains("state/images"), "{told}");
    // What is here it has all the same, by its tag too.
    red.done(&format!("function create red-again --tenant red --image {host}/nf/e2:1"));
    blue.done(&format!("function create blue --tenant blue --image {host}/nf/e100:1"));
    daemon.done(&format!("function create other --image {host}/nf/e101:1"));
}

#[test]
fn a_tenant_has_containers_of_its_registries_where_it_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = folder.path().join("layout");
    let digest = layouts::write(&layout, b"an archive");
    let server = Server::new(move |asked| match layouts::answer(&layout, &asked.path) {
        // Red's login alone opens it.
        Some(_) if asked.authorization.as_deref() != Some("Basic bWU6c2VjcmV0") => {
            Act::Answer(401, vec![("www-authenticate", "Basic realm=\"x\"".to_owned())], Vec::new())
        }
        Some((media_type, bytes)) => Act::Answer(200, vec![("content-type", media_type)], bytes),
        None => Act::Answer(404, Vec::new(), Vec::new()),
    });
    let host = server.host();
    let arguments = ["--registry-insecure", &host, "--tenant-registry", &host];
    let daemon = Options::new(folder.path()).tenants_socket("tenants").arguments(arguments).start();
    daemon.write(
        "tenants.yaml",
        "superfluid: 1\ntenants: {red: {guests: [container], memory: {limit: 64MiB}}, blue: {guests: [container]}, green: {}}\n",
    );
    daemon.done("apply -f tenants.yaml");
    let asking = |tenant: &str| {
        let commands: &support::commands::Commands = &daemon;
        commands.clone().asking("tenants").variable("SUPERFLUID_TOKEN_FILE", format!("{tenant}.token"))
    };
    for tenant in ["red", "blue", "green"] {
        daemon.done(&format!("token create {tenant} --tenant {tenant} --file {tenant}.token"));
    }
    daemon.write("password", "secret\n");
    asking("red").done(&format!("registry login {host} --username me --password-file password"));
    let apply = |tenant: &str, name: &str, keys: &str| {
        let text = format!(
            "superfluid: 1\nfunctions: {{{name}: {{guest: container, tenant: {tenant}, memory: 16MiB, {keys}}}}}\n"
        );
        daemon.write(&format!("{tenant}.yaml"), &text);
        format!("apply -f {tenant}.yaml")
    };
    let image = format!("image: '{host}/nf/ids:7'");
    let pinned = format!("{host}/nf/ids:7@{digest}");

    // What is the host's is not a tenant's.
    for (keys, told) in [
        ("image: /srv/images/ids".to_owned(), "found a folder of the host; allowed: an image of a registry"),
        ("image: 'other.example/nf/ids:7'".to_owned(), "found the registry `other.example`; allowed: "),
        (
            format!("{image}, mounts: {{/etc/a: /etc/shadow}}"),
            "functions.ids.mounts: this is an administrator's",
        ),
        (format!("{image}, cpu: {{weight: 10000}}"), "functions.ids.cpu: this is an administrator's"),
        (
            format!("{image}, restart: {{first_delay: 1ms}}"),
            "functions.ids.restart: this is an administrator's",
        ),
        (
            format!("{image}, interfaces: {{in: {{as: af_xdp}}}}"),
            "functions.ids.interfaces.in.as: interfaces that are `af_xdp` are an administrator's",
        ),
    ] {
        let refused = asking("red").refused(&apply("red", "ids", &keys)).1;
        assert!(refused.contains(told), "{keys}: {refused}");
    }
    // A program is none, whatever guests it may have.
    let program =
        "superfluid: 1\nfunctions: {p: {guest: program, tenant: red, memory: 8MiB, command: [/usr/bin/a]}}\n";
    daemon.write("program.yaml", program);
    let refused = asking("red").refused("apply -f program.yaml").1;
    assert!(
        refused.contains("functions.p.guest: this tenant's programs are an administrator's"),
        "{refused}"
    );
    let refused = asking("green").refused(&apply("green", "ids", &image)).1;
    assert!(refused.contains("this tenant's containers are an administrator's"), "{refused}");
    assert_eq!(server.asked().len(), 0, "nothing is asked for what is refused");

    asking("red").done(&apply("red", "ids", &image));
    let spec = daemon.json("get functions ids");
    assert_eq!(spec["spec"]["image"], pinned.as_str());
    let place = |tenant: &str| folder.path().join("state/container-images").join(tenant).join(&digest[7..]);
    assert!(place("red").join("index.json").exists() && !place("blue").exists());
    // Its memory is promised.
    let text = "superfluid: 1\nfunctions: {more: {guest: container, tenant: red, memory: 63MiB, image: X}}\n";
    daemon.write("more.yaml", &text.replace('X', &format!("'{pinned}'")));
    let refused = asking("red").refused("apply -f more.yaml").1;
    assert!(refused.contains("functions.more.memory: may grow to 63MiB; "), "{refused}");
    // Knowing the digest gives no right to it.
    for image in [&image, &format!("image: '{pinned}'")] {
        let refused = asking("blue").refused(&apply("blue", "blue-ids", image)).1;
        assert!(refused.contains("401"), "{refused}");
    }
    assert!(!place("blue").exists());
    // Red needs no registry for what it has; what is applied again is no change.
    let before = server.asked().len();
    asking("red").done(&apply("red", "ids", &format!("image: '{pinned}'")));
    assert_eq!(server.asked().len(), before);
    // Who may not make containers any more keeps those that are there, and may delete them.
    daemon.write("tenants.yaml", "superfluid: 1\ntenants: {red: {}, blue: {}, green: {}}\n");
    daemon.done("apply -f tenants.yaml");
    let refused = asking("red").refused(&apply("red", "ids", &format!("image: '{pinned}', processes: 7"))).1;
    assert!(refused.contains("this tenant's containers are an administrator's"), "{refused}");
    asking("red").done("delete function/ids");
    // A tenant without containers has no images at the next start.
    let daemon = daemon.again();
    assert!(!place("red").exists());
    drop(daemon);
}

#[test]
fn a_check_says_what_the_command_says_and_fetches_nothing() {
    let (registry, folder) = (Registry::start("", ""), tempfile::tempdir().expect("a folder"));
    let tagged = format!("{}/nf/echo:1", registry.host);
    let pinned = push(&registry, &tagged, 1);
    let arguments = ["--registry-insecure", &registry.host, "--tenant-registry", &registry.host];
    let daemon = Options::new(folder.path()).tenants_socket("tenants").arguments(arguments).start();
    let check = |text: &str| {
        let document: Value = serde_json::from_str(text).expect("JSON");
        let (status, report) = daemon.ask("POST", "/v1/check", Some(document));
        assert_eq!(status, 200, "{report}");
        report
    };
    // The same words at the same places; JSON is YAML, and so has the same lines.
    for text in [
        r#"{"superfluid": 1, "functions": {"fw": {"image": "firewal"}}}"#,
        r#"{"superfluid": 1, "functions": {"fw": {"image": "firewall", "config": {"default_action": "acept"}}}}"#,
        r#"{"superfluid": 1, "ports": {"lan": {"type": "nul"}}, "chains": {"c": ["lan", "fw"]}}"#,
        r#"{"superfluid": 1, "functions": {"fw": {"image": "monitor", "memory": "1B", "cpu": {"cap": "200%"}}}}"#,
        r#"{"superfluid": 1, "tenants": {"red": {"guests": ["vm"], "memory": {"limit": "1MiB"}}}}"#,
        r#"{"superfluid": 1, "functions": {"c": {"guest": "container", "image": "./x", "memory": "8MiB", "as": "veth"}}}"#,
    ] {
        daemon.write("f.yaml", &serde_json::from_str::<Value>(text).expect("JSON").to_string());
        let said = daemon.refused("check f.yaml").1;
        let report = check(text);
        let faults = report["faults"].as_array().expect("a list");
        assert!(!faults.is_empty(), "{report}");
        for fault in faults {
            let part = |key: &str| fault[key].as_str().expect("text").to_owned();
            let line = format!("f.yaml:1:{}: {}: {}", fault["column"], part("at"), part("message"));
            assert!(said.lines().any(|told| told == line), "{line}\n{said}");
        }
        assert_eq!(said.lines().filter(|line| line.starts_with("f.yaml:1:")).count(), faults.len(), "{said}");
    }

    // An image that would be fetched is not, and is no fault.
    let text = |name: &str, image: &str| {
        format!(
            r#"{{"superfluid": 1, "functions": {{"{name}": {{"image": "{image}", "tenant": "red", "config": {{"x": 1}}}}}}}}"#
        )
    };
    daemon.write("tenants.yaml", "superfluid: 1\ntenants: {red: {}}\n");
    daemon.done("apply -f tenants.yaml");
    for image in [&tagged, &pinned] {
        let report = check(&text("fw", image));
        assert_eq!(report["faults"], serde_json::json!([]), "{report}");
        let told = report["warnings"].to_string();
        assert!(
            told.contains("functions.fw.image") && told.contains("is fetched when it is applied"),
            "{told}"
        );
    }
    assert_eq!(
        daemon
            .json("get images")
            .as_array()
            .map_or(0, |all| all.iter().filter(|one| one["pinned"].is_string()).count()),
        0
    );
    // The administrator's image is known to the administrator, and to no tenant by its digest.
    daemon.done(&format!("function create fw --image {tagged}"));
    let report = check(&text("more", &pinned));
    assert!(report["faults"].to_string().contains("functions.more.config"), "{report}");
    daemon.done("token create red --tenant red --file red.token");
    let token = fs::read_to_string(folder.path().join("red.token")).expect("a token");
    let body: Value = serde_json::from_str(&text("red-fw", &pinned)).expect("JSON");
    let socket = folder.path().join("tenants");
    let (status, answer) =
        support::http::exchange(&socket, Some(token.trim()), "POST", "/v1/check", Some(&body));
    assert_eq!(status, 200, "{answer}");
    let report: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(report["faults"], serde_json::json!([]), "{report}");
    assert!(report["warnings"].to_string().contains("is fetched when it is applied"), "{report}");
}
