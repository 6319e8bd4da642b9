//! What the program says: of wrong files, of commands, of its end, in documents.

use super::*;

#[test]
fn a_wrong_file_is_told_whole_and_nothing_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.yaml");
    let yaml = CHAIN
        .replace("flows: 500", "flows: none")
        .replace("stateful: false", "statefull: false")
        .replace("protocol: udp, source: 198.18.0.0/17", "protocol: udp, source: 198.18.0.0/99")
        .replace("[source, gate, swap, end]", "[source, gaet, swap, end]");
    fs::write(&file, yaml).expect("written");
    for command in ["check", "run"] {
        let output = run(&[command, &file.display().to_string()]);
        assert_eq!(output.status.code(), Some(2));
        let errors = text(&output.stderr);
        for (line, what) in [(4, "flows"), (10, "statefull"), (12, "source"), (17, "gaet")] {
            let place = format!("wrong.yaml:{line}:");
            assert!(
                errors.lines().any(|error| error.contains(&place) && error.contains(what)),
                "no fault at line {line} about {what}:\n{errors}"
            );
        }
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
}

#[test]
fn a_check_refuses_what_a_daemon_would_refuse_for_its_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("many.yaml");
    let switches: String = (0..10_001).map(|n| format!("  s{n}: {{}}\n")).collect();
    fs::write(&file, format!("superfluid: 1\nswitches:\n{switches}")).expect("written");
    let output = run(&["check", &file.display().to_string()]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("found 10001 objects; allowed in one document: at most 10000"), "{errors}");
}

/// What a port would be refused for when it is opened is found without opening it.
#[test]
fn a_check_refuses_what_a_port_would_be_refused_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ports.yaml");
    fs::write(folder.path().join("text"), "no capture").expect("written");
    fs::create_dir(folder.path().join("folder")).expect("made");
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .expect("made");
    let check = |port: &str| {
        fs::write(&file, format!("superfluid: 1\nports:\n  p: {port}\n")).expect("written");
        let checked = run(&["check", &file.display().to_string()]);
        (checked.status.code(), text(&checked.stderr))
    };
    for (port, place, told) in [
        ("{type: pcap, read: absent.pcap}", "ports.p: ", "No such file"),
        ("{type: pcap, read: text}", "ports.p: ", "no capture"),
        ("{type: pcap, read: fifo}", "ports.p: ", "not a regular file"),
        ("{type: pcap, write: fifo}", "ports.p: ", "not a regular file"),
        ("{type: pcap, write: folder}", "ports.p: ", "not a regular file"),
        ("{type: pcap, write: absent/out.pcap}", "ports.p: ", "No such file"),
        ("{type: pcap}", "ports.p: ", "read, write: found neither"),
        (
            "{type: pcap, write: out.pcap, sides: {inside: 10.0.0.0/8}}",
            "ports.p.sides: ",
            "found without read",
        ),
        ("{type: tap, interface: a/b}", "ports.p: ", "not the name of an interface"),
        ("{type: af_packet, interface: a/b}", "ports.p: ", "not the name of an interface"),
        ("{type: generator, batch: 8}", "ports.p.batch: ", "found neither rate nor schedule"),
        ("{type: generator, destination: \"2001:db8::/64\"}", "ports.p.destination: ", "not of the family"),
    ] {
        let (code, errors) = check(port);
        let is_it =
            |line: &str| line.contains("ports.yaml:3:") && line.contains(place) && line.contains(told);
        assert!(code == Some(2) && errors.lines().any(is_it), "{port}: {code:?} {errors}");
    }
    assert_eq!(check("{type: pcap, write: out.pcap}").0, Some(0));
    assert!(!folder.path().join("out.pcap").exists(), "nothing is made");
}

/// The name of a file is shown and controls no terminal.
#[test]
fn hidden_characters_of_names_are_escaped() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "a\u{1b}[2J\u{202e}.yaml";
    for command in ["check", "run"] {
        for written in [false, true] {
            let file = folder.path().join(name);
            if written {
                fs::write(&file, "superfluid: 1\nports: 1\n").expect("written");
            }
            let output = run(&[command, &file.display().to_string()]);
            let errors = text(&output.stderr);
            assert!(errors.contains("a\\u{1b}[2J\\u{202e}.yaml"), "{command}: {errors}");
            assert!(!errors.contains(['\u{1b}', '\u{202e}']), "{command}: {errors:?}");
            let _ = fs::remove_file(&file);
        }
    }
}

#[test]
fn files_that_are_no_files_and_images_that_are_none_are_refused() {
    let missing = run(&["run", "/no/such.yaml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("/no/such.yaml"));

    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bad.wasm"), b"\0asm\x01\0\0\0garbage").expect("written");
    let (lines, output) = run_in(folder.path(), &CHAIN.replace("image: monitor", "image: ./bad.wasm"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(lines.is_empty());
    assert!(text(&output.stderr).contains("bad.wasm"), "{}", text(&output.stderr));

    let inspected = run(&["image", "inspect", &folder.path().join("bad.wasm").display().to_string()]);
    assert_eq!(inspected.status.code(), Some(2));
    for name in [
        "dpi",
        "firewall",
        "forwarder",
        "ips",
        "load-balancer",
        "monitor",
        "nat",
        "policer",
        "router",
        "security-groups",
        "vxlan-gateway",
    ] {
        let inspected = run(&["image", "inspect", name]);
        assert!(inspected.status.success());
        assert!(text(&inspected.stdout).contains(name));
    }
}

/// What measures is another program, which may not be there.
#[test]
fn bench_starts_the_program_beside_it_or_says_that_there_is_none() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = folder.path().join("superfluid");
    std::fs::hard_link(env!("CARGO_BIN_EXE_superfluid"), &program).expect("in the same file system");
    let bench = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("bench").args(arguments).env("PATH", "").output().expect("it runs")
    };
    let missing = bench(&["call"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stderr).contains("superfluid-bench"), "{}", text(&missing.stderr));
    let beside = folder.path().join("superfluid-bench");
    std::fs::write(&beside, "#!/bin/sh\necho \"$@\"\nexit 7\n").expect("written");
    std::fs::set_permissions(&beside, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    let started = bench(&["call", "--json", "--help"]);
    assert_eq!((text(&started.stdout).trim(), started.status.code()), ("call --json --help", Some(7)));
}

#[test]
fn an_interface_that_is_not_there_is_told_and_the_rest_goes_on() {
    let yaml = CHAIN
        .replace(
            "chains:",
            "  spare: {image: forwarder, config: {mode: swap}}\nchains:\n  other: [wire, spare, nothing]",
        )
        .replace(
            "functions:",
            "  wire: {type: af_packet, interface: sf-not-there}\n  nothing: {type: \"null\"}\nfunctions:",
        );
    let (lines, output) = run_file(&yaml, &["--for", "1s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("sf-not-there"), "{}", text(&output.stderr));
    let account = last(&lines);
    assert_eq!(account["ports"]["wire"]["status"], "down");
    assert!(account["ports"]["end"]["packets"]["delivered"].as_u64().expect("a count") > 0);
}

#[test]
fn signals_drain_report_and_end_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.yaml");
    fs::write(&file, CHAIN.replace("count: 20000, ", "")).expect("written");
    for signal in ["INT", "TERM"] {
        let mut child = superfluid()
            .args(["run", &file.display().to_string(), "--json", "--every", "100ms"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let id = child.id().to_string();
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut said = said.map(|line| serde_json::from_str::<Value>(&line.expect("text")).expect("JSON"));
        let two = said.by_ref().filter(|line| line["event"] == "account").take(2).count();
        assert_eq!(two, 2, "accounts while it runs");
        let killed = Command::new("kill").args([&format!("-{signal}"), &id]).status().expect("kill");
        assert!(killed.success());
        let began = Instant::now();
        let lines: Vec<Value> = said.collect();
        assert!(child.wait().expect("it ends").success());
        assert!(began.elapsed() < Duration::from_secs(60), "it took its time");
        last(&lines);
    }
}

#[test]
fn the_view_for_people_says_what_matters() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.yaml");
    fs::write(&file, CHAIN.replace("count: 20000, ", "")).expect("written");
    let output = run(&["run", &file.display().to_string(), "--for", "700ms", "--every", "200ms"]);
    assert!(output.status.success());
    let shown = text(&output.stdout);
    for what in ["running", "gate", "final account", "the account balances", "the-rest"] {
        assert!(shown.contains(what), "`{what}` is missing:\n{shown}");
    }
}

/// What `check` warns of that is the machine's and not the file's: interfaces that are not there, a launcher
/// that does not run.
const OF_THE_MACHINE: [&str; 2] =
    ["there is none of this name in this network namespace", "was not asked: the launcher at"];

/// Checks a file, which has nothing to be warned of.
fn is_good(file: &Path, shown: &str) {
    let output = run(&["check", &file.display().to_string()]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{shown}\n{said}");
    let is_its = |line: &&str| !OF_THE_MACHINE.iter().any(|words| line.contains(words));
    let warnings: Vec<&str> = said.lines().filter(is_its).collect();
    assert!(warnings.is_empty(), "{shown}\n{warnings:?}");
}

#[test]
fn every_example_and_every_file_in_the_documents_is_good_and_warns_of_nothing() {
    for entry in fs::read_dir(root().join("examples")).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            is_good(&path, "");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = 0;
    let documents = fs::read_dir(root().join("docs")).expect("documents");
    let documents = documents.map(|entry| entry.expect("an entry").path());
    let documents = documents.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    for document in documents.chain([root().join("README.md")]) {
        let document = fs::read_to_string(document).expect("the document");
        for block in document.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if block.contains("superfluid: 1") {
                files += 1;
                let file = folder.path().join(format!("{files}.yaml"));
                fs::write(&file, block).expect("written");
                is_good(&file, block);
            }
        }
    }
    assert!(files >= 30, "the documents' files were not found: {files}");
}

#[test]
fn help_has_an_example_for_every_command() {
    for arguments in [
        &["run"][..],
        &["check"],
        &["new"],
        &["completions"],
        &["man"],
        &["image", "build"],
        &["image", "inspect"],
        &[],
    ] {
        let output = run(&[arguments, &["--help"]].concat());
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("Example"), "{arguments:?}");
    }
}

#[test]
fn completions_and_manual_pages_are_of_all_commands() {
    for (shell, sign) in
        [("bash", "complete -F _superfluid"), ("zsh", "#compdef superfluid"), ("fish", "complete -c")]
    {
        let script = run(&["completions", shell]);
        assert!(script.status.success());
        assert!(text(&script.stdout).contains(sign), "{shell}");
        assert!(text(&script.stdout).contains("capture-filter"), "{shell}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let written = run(&["man", "--output", &folder.path().display().to_string()]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    for page in ["superfluid.1", "superfluid-run.1", "superfluid-image-build.1", "superfluid-new.1"] {
        let page = fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(page.contains(".TH") && page.contains(".SH"), "{page}");
    }
    assert!(!folder.path().join("superfluid-compile-module.1").exists(), "hidden commands have no page");
}

#[test]
fn a_rule_file_with_mistakes_is_told_line_by_line_and_nothing_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("bad.rules"),
        "alert tcp any any -> any any (msg:\"good\"; content:\"x\"; sid:1;)\n\
         alert tpc any any -> any any (msg:\"bad\"; content:\"x\"; sid:2;)\n\
         alert tcp any any -> any any (msg:\"bad\"; contnet:\"x\"; sid:3;)\n",
    )
    .expect("written");
    let file = folder.path().join("test.yaml");
    let yaml = "superfluid: 1\nports: {a: {type: \"null\"}, b: {type: \"null\"}}\n\
                functions: {ids: {image: dpi, config: {rules: bad.rules}}}\nchains: {main: [a, ids, b]}\n";
    fs::write(&file, yaml).expect("written");
    for command in ["check", "run"] {
        let output = run(&[command, &file.display().to_string()]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let errors = text(&output.stderr);
        for place in ["bad.rules:2:7: ", "bad.rules:3:"] {
            assert!(errors.contains(place), "{command}: {errors}");
        }
        assert!(errors.lines().count() >= 3 && !errors.contains("bad.rules:1:"), "{errors}");
    }
}

#[test]
fn check_lists_all_faults_of_a_rule_file_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules: String =
        (1..=300).map(|sid| format!("alert tcp any any -> any any (contnet:\"x\"; sid:{sid};)\n")).collect();
    fs::write(folder.path().join("bad.rules"), rules).expect("written");
    let file = folder.path().join("test.yaml");
    let yaml = "superfluid: 1\nports: {a: {type: \"null\"}, b: {type: \"null\"}}\n\
                functions: {ids: {image: dpi, config: {rules: bad.rules}}}\nchains: {main: [a, ids, b]}\n";
    fs::write(&file, yaml).expect("written");
    let faults = |options: &[&str]| {
        let file = file.display().to_string();
        let output = run(&[&["check", file.as_str()], options].concat());
        assert_eq!(output.status.code(), Some(2));
        let errors = text(&output.stderr);
        let places = (1..=300).filter(|line| errors.contains(&format!("bad.rules:{line}:"))).count();
        assert!(errors.contains("bad.rules: 300 faults") && !errors.contains("more faults"), "{errors}");
        (places, errors.contains("at most 64 lines are shown; `superfluid check --all` shows all"))
    };
    // As many lines as a function that starts may say at once.
    assert_eq!(faults(&[]), (63, true));
    assert_eq!(faults(&["--all"]), (300, false));
}

/// How many of what, and where each of them is found.
#[test]
fn check_tells_of_rules_that_are_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = "alert tcp any any -> any any (tls.cert_subject; content:\"a\"; sid:1;)\n\
                 alert smb any any -> any any (content:\"b\"; sid:2;)\n\
                 alert ip any any -> any any (sid:3;)\n";
    fs::write(folder.path().join("public.rules"), rules).expect("written");
    let file = folder.path().join("test.yaml");
    let yaml = "superfluid: 1\nports: {a: {type: \"null\"}, b: {type: \"null\"}}\n\
                functions:\n  ids: {image: dpi, config: {rules: public.rules, unsupported: skip}}\n\
                chains: {main: [a, ids, b]}\n";
    fs::write(&file, yaml).expect("written");
    let output = run(&["check", &file.display().to_string()]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(text(&output.stdout).contains("good: "));
    let told = "test.yaml:4:8: functions.ids: public.rules: 2 rules are left out";
    assert!(errors.starts_with("warning: ") && errors.contains(told), "{errors}");
    for part in
        ["the report has each of them", "`superfluid check --all`", "1 protocol smb, 1 tls.cert_subject"]
    {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    // With them refused, each is listed with its place.
    fs::write(&file, yaml.replace("skip", "refuse")).expect("written");
    let output = run(&["check", "--all", &file.display().to_string()]);
    let errors = text(&output.stderr);
    assert!(errors.contains("public.rules:1:31: ") && errors.contains("public.rules:2:7: "), "{errors}");
}

/// A pipe gets each message as one line, a terminal with lines of its width.
#[test]
fn messages_are_as_wide_as_a_terminal_and_whole_in_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let yaml = "superfluid: 1\nports: {a: {type: \"null\"}, b: {type: \"null\"}}\n\
                functions:\n  f: {image: forwarder, cpu: {cap: 150%}}\nchains: {c: [a, f, b]}\n";
    fs::write(folder.path().join("f.yaml"), yaml).expect("written");
    let told = "f.yaml:4:36: functions.f.cpu.cap: found `150%`; allowed: a fraction from 0.0001% to 100%, such as `0.5%` \
                (units: %, ppm, ppb)\n";
    let piped = superfluid().args(["check", "f.yaml"]).current_dir(folder.path()).output().expect("it runs");
    assert!(text(&piped.stderr).starts_with(told), "{}", text(&piped.stderr));
    let command = format!("stty cols 60; {} check f.yaml", env!("CARGO_BIN_EXE_superfluid"));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &command, "/dev/null"]).current_dir(folder.path()).env_remove("COLUMNS");
    let shown =
        terminal.env("XDG_CACHE_HOME", compiled()).stdin(Stdio::null()).output().expect("bsdutils has it");
    let shown = text(&shown.stdout).replace('\r', "");
    let wanted = "f.yaml:4:36: functions.f.cpu.cap: found `150%`; allowed: a\n    fraction from 0.0001% to 100%, such as \
                  `0.5%` (units: %,\n    ppm, ppb)\n";
    assert!(shown.contains(wanted), "{shown}");
}
