//! What those do who write functions: new ones, their tests, their faults.

use super::*;

#[test]
fn the_functions_of_the_readme_build_and_run() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the document");
    let block = |after: &str, language: &str| {
        let rest = readme.split_once(after).unwrap_or_else(|| panic!("no `{after}`")).1;
        let rest = rest.split_once(&format!("```{language}\n")).expect("a block").1;
        rest.split_once("```").expect("an end").0.to_owned()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let hello = folder.path().join("hello");
    fs::create_dir_all(hello.join("src")).expect("a folder");
    fs::write(hello.join("function.yaml"), block("`function.yaml`", "yaml")).expect("written");
    fs::write(hello.join("src/lib.rs"), block("`src/lib.rs`", "rust")).expect("written");
    let sdk = root().join("crates/sandbox/nf_sdk").canonicalize().expect("the SDK").display().to_string();
    let manifest = block("`Cargo.toml`", "toml").replace("../superfluid/crates/sandbox/nf_sdk", &sdk);
    fs::write(hello.join("Cargo.toml"), manifest).expect("written");
    let image = folder.path().join("hello.wasm");
    let built =
        run(&["image", "build", &hello.display().to_string(), "--output", &image.display().to_string()]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let (lines, output) = run_in(
        folder.path(),
        "
superfluid: 1
ports:
  source: {type: generator, sizes: [{size: 100}, {size: 800}], count: 1000, rate: 100kpps}
  end: {type: sink}
functions:
  hello: {image: ./hello.wasm, config: {limit: 500}}
chains:
  main: [source, hello, end]
",
        &[],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let dropped = account["functions"]["hello"]["drops"]["too-big"].as_u64().expect("some are too big");
    assert!(dropped > 300 && dropped < 700, "{dropped} of 1000");
    assert_eq!(account["ports"]["end"]["packets"]["delivered"].as_u64().expect("a count") + dropped, 1000);
}

/// Runs a command in a folder; its standard output.
fn command_in(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_new_function_builds_runs_in_a_chain_and_has_a_test() {
    let folder = tempfile::tempdir().expect("a folder");
    for (language, name, tests) in
        [("rust", "length-limit", ["cargo", "test", "--quiet"].as_slice()), ("c", "gate", &["make", "test"])]
    {
        let place = folder.path().join(name);
        let made = run(&["new", name, "--lang", language, "--path", &place.display().to_string()]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        command_in(&place, tests[0], &tests[1..]);
        let image = place.join(format!("{name}.wasm"));
        let built =
            run(&["image", "build", &place.display().to_string(), "--output", &image.display().to_string()]);
        assert!(built.status.success(), "{}", text(&built.stderr));
        assert!(text(&built.stderr).contains("tests/image.yaml: passed (cases: 1, packets: 3)"));
        assert!(text(&built.stdout).lines().any(|line| line.starts_with("foreign exports")));
        image_builds_are_tested_and_cut(&place, name);
        let captured = place.join("dropped.pcapng").display().to_string();
        let output = run(&[
            "run",
            &place.join("example.yaml").display().to_string(),
            "--json",
            "--capture",
            &format!("{name}={captured}"),
            "--capture-filter",
            "dropped",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines: Vec<Value> = text(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect();
        let function = &last(&lines)["functions"][name];
        let (passed, dropped) = (&function["counters"]["passed"], &function["drops"]["too-long"]);
        assert_eq!(passed.as_u64().unwrap_or(0) + dropped.as_u64().unwrap_or(0), 100_000);
        assert!(dropped.as_u64() > Some(10_000), "{function}");
        let capture = lines.iter().find(|line| line["event"] == "captured").expect("told");
        assert_eq!(&capture["written"], dropped, "{capture}");
        let comment = format!("{name}: from left: drop too-long");
        let bytes = fs::read(&captured).expect("a capture");
        assert!(bytes.windows(comment.len()).any(|window| window == comment.as_bytes()));

        let again = run(&["new", name, "--lang", language, "--path", &place.display().to_string()]);
        assert_eq!(again.status.code(), Some(2));
        assert!(text(&again.stderr).contains("is there already"), "{}", text(&again.stderr));
    }
    for bad in ["Hello", "fn", "9lives", "", "null", "../x", "packet", "nf-sdk"] {
        let refused = run(&["new", bad, "--path", &folder.path().join("bad").display().to_string()]);
        assert_eq!(refused.status.code(), Some(2), "{bad}");
        assert!(text(&refused.stderr).contains("no name for a function"), "{}", text(&refused.stderr));
    }
    assert!(!folder.path().join("bad").exists());
}

/// The same source in the sandbox and as a process, with the library that the Debian package has.
#[test]
fn a_new_native_function_is_a_process_and_an_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("gate");
    let new = |more: &[&str]| {
        run(&[&["new", "gate", "--path", &place.display().to_string(), "--native"], more].concat())
    };
    let made = new(&[]);
    assert!(made.status.success() && text(&made.stdout).contains("make native"), "{}", text(&made.stderr));
    command_in(&place, "make", &["test"]);
    let here = std::env::current_exe().expect("this test");
    let libraries = format!("LIBRARIES={}", here.parent().expect("a folder").display());
    command_in(&place, "make", &["native", &libraries]);
    let image = place.join("gate.wasm").display().to_string();
    let built = run(&["image", "build", &place.display().to_string(), "--output", &image]);
    assert!(built.status.success(), "{}", text(&built.stderr));

    let program = place.join("build/gate");
    let sockets = |name: &str| folder.path().join(format!("{name}.sock"));
    let process = |settings: &[&str]| {
        let mut command = Command::new(&program);
        command.args(settings).args([sockets("left"), sockets("right")]);
        command
    };
    for (settings, wanted) in [
        (["--set", "=500"], "--set =500: allowed: KEY=VALUE"),
        (["--set", "longest"], "--set longest: allowed: KEY=VALUE"),
        (["--set", "longest=500"], "left.sock"),
    ] {
        let output = process(&settings).output().expect("it starts");
        assert!(
            !output.status.success() && text(&output.stderr).contains(wanted),
            "{}",
            text(&output.stderr)
        );
    }
    packets_pass(&place, folder.path(), process(&["--set", "longest=500"]));
}

/// The same of one in Rust, whose process is made of crates of the registry.
#[test]
fn a_new_native_function_in_rust_is_a_process_and_an_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("gate");
    let new = |name: &str| {
        run(&["new", name, "--native", "--lang", "rust", "--path", &place.display().to_string()])
    };
    let refused = new("thiserror");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let made = new("gate");
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(text(&made.stdout).contains("--manifest-path native/Cargo.toml"), "{}", text(&made.stdout));
    // What the function itself needs is in its folder all the same.
    let locked = fs::read_to_string(place.join("Cargo.lock")).expect("a lock file");
    assert!(!locked.contains("source ="), "{locked}");
    command_in(&place, "cargo", &["test", "--quiet", "--locked", "--offline"]);
    let image = place.join("gate.wasm").display().to_string();
    let built = run(&["image", "build", &place.display().to_string(), "--no-cut", "--output", &image]);
    assert!(built.status.success(), "{}", text(&built.stderr));

    // In the versions with which this project was built, so that nothing has to be fetched.
    let output = Command::new("cargo")
        .args(["build", "--locked", "--offline", "--manifest-path", "native/Cargo.toml"])
        .current_dir(&place)
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("warning"), "{said}");
    let mut process = Command::new(place.join("native/target/debug/gate"));
    process.arg("--config").arg(place.join("native/settings.yaml"));
    process.args(["left", "right"].map(|name| folder.path().join(format!("{name}.sock"))));
    packets_pass(&place, folder.path(), process);
}

/// Packets of up to 500 bytes pass the process in the chain of its folder, whose sockets are made elsewhere.
fn packets_pass(place: &Path, to: &Path, mut process: Command) {
    let file = place.join("native.yaml");
    let described = fs::read_to_string(&file).expect("its chain");
    let sockets = |name: &str| to.join(format!("{name}.sock"));
    let moved = ["left", "right"].iter().fold(described, |text, name| {
        text.replace(&format!("/tmp/gate-{name}.sock"), &sockets(name).display().to_string())
    });
    fs::write(&file, moved).expect("written");
    let mut chain = superfluid()
        .args(["run", "--json", "--every", "100ms"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(chain.stdout.take().expect("a pipe")).lines();
    let mut next = || {
        let line = lines.next()?.expect("a line");
        Some(serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("not JSON: {line}")))
    };
    let begin = Instant::now();
    while !sockets("left").exists() || !sockets("right").exists() {
        assert!(begin.elapsed() < Duration::from_secs(40), "there are no sockets");
        next().expect("it runs");
    }
    let mut attached = process.spawn().expect("it starts");
    let delivered = |account: &Value| account["ports"]["end"]["packets"]["delivered"].as_u64().unwrap_or(0);
    while delivered(&next().expect("it runs")) < 1_000 {
        assert!(begin.elapsed() < Duration::from_secs(40), "no packets pass the process");
    }
    let interrupted = Command::new("kill").args(["-INT", &chain.id().to_string()]).status().expect("kill");
    assert!(interrupted.success());
    let rest: Vec<Value> = std::iter::from_fn(next).collect();
    assert!(chain.wait().expect("it ends").success() && attached.wait().expect("it ends").success());
    // What the process had when the ports closed comes back with its end, which no run waits for.
    let account = rest.last().expect("a final account");
    assert_eq!(
        (&account["event"], &account["balanced"]),
        (&Value::from("final"), &Value::from(true)),
        "{account}"
    );
    let bytes = account["ports"]["end"]["delivered_bytes"].as_u64().unwrap_or(0);
    assert!(bytes < 200 * delivered(account), "those of 800 bytes are too long: {account}");
}

/// With a compiler and nothing else: no registry, no network, and nothing that was fetched before.
#[test]
fn a_new_function_builds_from_what_is_in_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    fs::create_dir_all(&home).expect("a folder");
    let place = folder.path().join("alone");
    let made = run(&["new", "alone", "--path", &place.display().to_string()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let locked = fs::read_to_string(place.join("Cargo.lock")).expect("a lock file");
    assert!(!locked.contains("source ="), "{locked}");
    let cargo = |arguments: &[&str]| {
        let output = Command::new("cargo")
            .args(arguments)
            .args(["--offline", "--locked"])
            .current_dir(&place)
            .env("CARGO_HOME", &home)
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        let said = text(&output.stderr);
        assert!(output.status.success() && !said.contains("warning"), "cargo {arguments:?}: {said}");
    };
    cargo(&["build", "--target", "wasm32-unknown-unknown"]);
    cargo(&["test", "--quiet"]);
    assert!(!home.join("registry").exists(), "something was looked up");
    // What is not of this project goes with one of its licences.
    let mut brought = 0;
    for entry in fs::read_dir(place.join("sdk")).expect("the SDK") {
        let entry = entry.expect("an entry").path();
        let Ok(manifest) = fs::read_to_string(entry.join("Cargo.toml")) else { continue };
        brought += 1;
        let is_ours = manifest.contains("license = \"Apache-2.0\"");
        let names = fs::read_dir(&entry).expect("a folder").map(|file| file.expect("an entry").file_name());
        let has_licence =
            names.map(|name| text(name.as_encoded_bytes())).any(|name| name.starts_with("LICENSE"));
        assert_ne!(is_ours, has_licence, "{}", entry.display());
    }
    assert_eq!((brought, place.join("sdk/LICENSE").is_file()), (8, true));
}

#[test]
fn a_panic_tells_its_place_and_text_and_its_backtrace() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("fragile");
    let made = run(&["new", "fragile", "--lang", "rust", "--path", &place.display().to_string()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let source = place.join("src/lib.rs");
    let code = fs::read_to_string(&source).expect("its source");
    let first = "for mut packet in batch.packets() {";
    assert_eq!(code.matches(first).count(), 1);
    let code = code.replace(first, &format!("{first}\n            checked(packet.len(), self.longest);"));
    let panics = "#[inline(never)]\nfn checked(length: usize, longest: usize) {\n    \
                  assert!(length <= longest, \"{length} bytes are more than {longest}\");\n}\n";
    fs::write(&source, format!("{code}\n{panics}")).expect("its source");
    let (from, image) = (place.display().to_string(), place.join("fragile.wasm").display().to_string());
    let built = run(&["image", "build", &from, "--no-cut", "--names", "--output", &image]);
    assert!(built.status.success(), "{}", text(&built.stderr));

    let output = run(&["run", &place.join("example.yaml").display().to_string(), "--json", "--perf-map"]);
    let events: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let find = |kind: &str| events.iter().find(|event| event["event"] == kind);
    let log = find("log").unwrap_or_else(|| panic!("no log: {}", text(&output.stdout)));
    let said = log["text"].as_str().unwrap_or_default();
    assert!(said.starts_with("panicked at src/lib.rs:"), "{said}");
    assert!(said.ends_with(": 800 bytes are more than 500"), "{said}");
    assert_eq!(log["severity"], "error");
    let fault = find("fault").unwrap_or_else(|| panic!("no fault: {}", text(&output.stdout)));
    let reason = fault["reason"].as_str().unwrap_or_default();
    let (checked, process) = (reason.find("checked"), reason.find("sf_process"));
    assert!(checked.is_some() && checked < process, "{reason}");

    let notice = text(&output.stderr);
    let (_, path) = notice.split_once("named to perf in ").unwrap_or_else(|| panic!("{notice}"));
    let path = path.lines().next().unwrap_or_default();
    let map = fs::read_to_string(path).expect("a map");
    fs::remove_file(path).expect("its own file");
    let line = map.lines().find(|line| line.contains("fragile::") && line.contains("checked"));
    let fields: Vec<&str> = line.unwrap_or_else(|| panic!("{map}")).split(' ').collect();
    let [address, length, _] = fields.as_slice() else { panic!("three fields: {fields:?}") };
    assert!(u64::from_str_radix(address, 16).is_ok_and(|it| it > 0), "{address}");
    assert!(u64::from_str_radix(length, 16).is_ok_and(|it| it > 0), "{length}");
}

/// Builds the function once more in other ways: without its test, without cuts, and with a test that it
/// fails.
fn image_builds_are_tested_and_cut(place: &Path, name: &str) {
    let folder = place.display().to_string();
    let image = place.join("other.wasm").display().to_string();
    let build = |more: &[&str]| run(&[&["image", "build", &folder, "--output", &image], more].concat());
    let size = || fs::metadata(&image).expect("an image").len();

    let listed = build(&["-o", "json", "--for", "size"]);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let steps: Vec<Value> = serde_json::from_slice(&listed.stdout).expect("a list and nothing else");
    let saved: i64 = steps.iter().map(|step| step["saved_bytes"].as_i64().expect("a number")).sum();
    let first = steps[0]["before_bytes"].as_i64().expect("a number");
    assert_eq!(first - saved, size() as i64, "{name}: what was saved is what is missing");
    assert!(steps.iter().any(|step| step["kept"] == true && step["cost_ratio"].is_f64()), "{steps:?}");
    let smallest = size();

    let whole = build(&["--no-cut"]);
    assert!(whole.status.success() && !text(&whole.stdout).contains("CUT"), "{}", text(&whole.stdout));
    assert!(size() > smallest, "{} bytes without cuts, {smallest} with", size());

    let test = place.join("tests/image.yaml");
    let wanted = fs::read_to_string(&test).expect("the test");
    fs::write(&test, wanted.replace("passed: 2", "passed: 3")).expect("written");
    let failed = build(&[]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("the counter `passed` is 2, wanted 3"), "{}", text(&failed.stderr));
    fs::write(&test, wanted.replace("too-long", "too-lang")).expect("written");
    let wrong = build(&[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("tests/image.yaml:8:"), "{}", text(&wrong.stderr));

    fs::remove_file(&test).expect("removed");
    let untested = build(&[]);
    assert!(untested.status.success());
    assert!(text(&untested.stderr).contains("has no test of its image"), "{}", text(&untested.stderr));
    assert!(text(&untested.stdout).contains("the function has no test"), "{}", text(&untested.stdout));
    fs::write(&test, wanted).expect("written");
}
