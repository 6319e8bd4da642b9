//! The commands that ask a daemon, as their user meets them: against the daemon's own server with a host that
//! runs nothing.

#[path = "../../api_server/tests/support/fake.rs"]
mod fake;
#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use api_server::{Server, Settings};
use fake::Fake;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Store;
use support::commands::{Commands, PROGRAM, text};
use support::daemon::SOCKET;
use tempfile::TempDir;

/// A daemon with a host that runs nothing; commands that ask it.
struct Daemon {
    commands: Commands,
    _folder: TempDir,
    fake: Arc<Fake>,
}

impl Daemon {
    /// A server in this process, which ends with the test.
    fn start() -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings::new(folder.path().join(SOCKET), folder.path().join("audit.jsonl"));
        let store = Arc::new(Store::open(&folder.path().join("state")).expect("opens"));
        let fake = Arc::new(Fake::default());
        let server = Server::bind(&settings, store, fake.clone()).expect("binds");
        std::thread::spawn(move || server.serve_until(std::future::pending()).expect("serves"));
        Daemon { commands: Commands::new(folder.path()).asking(SOCKET), _folder: folder, fake }
    }
}

impl Deref for Daemon {
    type Target = Commands;

    fn deref(&self) -> &Commands {
        &self.commands
    }
}

const EDGE: &str = "superfluid: 1\nports:\n  lan: {type: \"null\"}\n  wan: {type: \"null\"}\nfunctions:\n  fw:\n    image: firewall\n    config: {default_action: accept}\nchains:\n  edge: [lan, fw, wan]\n";

#[test]
fn what_there_is_is_printed_as_a_document_that_changes_nothing() {
    let daemon = Daemon::start();
    let all = format!(
        "{EDGE}  back: [wan, fw2, lan2]\nworkers: {{count: 2}}\ntenants: {{default: {{}}, red: {{}}}}\nobservers: {{seen: {{at: [fw]}}}}\n\
         services: {{7: \"fw:0\", red:8: {{to: \"fw:1\", for: [red]}}}}\nwires: [[seen:2, spare], [other:0, spare2]]\n"
    );
    let all = all.replace("functions:\n", "functions:\n  fw2: {image: forwarder}\n  seen: {image: monitor}\n  other: {image: forwarder, tenant: red}\n");
    let all = all.replace(
        "ports:\n",
        "ports:\n  lan2: {type: \"null\"}\n  spare: {type: sink}\n  spare2: {type: sink, tenant: red}\n",
    );
    daemon.write("all.yaml", &all);
    daemon.done("apply -f all.yaml");
    let revision = daemon.json("health")["revision"].clone();
    for (format, file) in [("", "again.yaml"), (" -o json", "again.json")] {
        let printed = daemon.done(&format!("get all --document{format}"));
        assert!(!printed.contains("status") && !printed.contains("version"), "{printed}");
        daemon.write(file, &printed);
        assert_eq!(daemon.done(&format!("diff --prune -f {file}")), "nothing differs\n", "{printed}");
        let applied = daemon.done(&format!("apply --prune -f {file}"));
        assert!(applied.ends_with(&format!("unchanged; revision {revision}\n")), "{applied}");
    }
    // Of kinds and names, in the order in which they are made.
    let some = daemon.done("get chain/edge fn/fw fn/seen --document");
    let wanted = "superfluid: 1\nfunctions:\n  fw:\n    image: \"firewall\"\n    config:\n      default_action: \"accept\"\n  \
                  seen:\n    image: \"monitor\"\nchains:\n  edge:\n    - \"lan\"\n    - \"fw\"\n    - \"wan\"\n";
    assert_eq!(some, wanted);
    let of_red = daemon.done("get functions --tenant red --document");
    assert_eq!(
        of_red,
        "superfluid: 1\nfunctions:\n  other:\n    image: \"forwarder\"\n    tenant: \"red\"\n"
    );
    let (status, told) = daemon.refused("get images --document");
    assert!(status == 2 && told.contains("allowed: kinds of objects, and all"), "{told}");
    // What a list prints is none, and is told what is.
    daemon.write("list.yaml", &daemon.done("get all -o yaml"));
    let (status, told) = daemon.refused("apply -f list.yaml");
    assert!(status == 2 && told.contains("`superfluid get KIND --document`"), "{told}");
}

#[test]
fn a_file_is_applied_and_only_what_differs_is_touched() {
    let daemon = Daemon::start();
    daemon.write("edge.yaml", EDGE);
    let diff = daemon.run("diff -f edge.yaml");
    assert_eq!(diff.status.code(), Some(1), "something differs");
    assert_eq!(text(&diff.stdout), "+ port/lan\n+ port/wan\n+ function/fw\n+ chain/edge\n");
    let tried = daemon.done("apply -f edge.yaml --dry-run");
    assert!(tried.contains("function/fw would be created") && tried.contains("4 created"), "{tried}");
    assert_eq!(daemon.json("get functions"), Value::Array(vec![]));

    let applied = daemon.done("apply -f edge.yaml --durable");
    assert!(
        applied.contains("function/fw created\n") && applied.ends_with("4 created; revision 1\n"),
        "{applied}"
    );
    assert_eq!(daemon.done("apply -f edge.yaml"), "4 unchanged; revision 1\n");
    assert_eq!(daemon.done("diff -f edge.yaml"), "nothing differs\n");

    // From standard input; what it does not name is pruned.
    let mut child = daemon
        .command("apply -f - --prune --allow-restart")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let less = "superfluid: 1\nports: {lan: {type: \"null\"}}\nfunctions: {fw: {image: monitor}}\n";
    daemon.write("less.yaml", less);
    let diff = text(&daemon.run("diff -f less.yaml --prune").stdout);
    assert!(diff.contains("- chain/edge\n") && diff.contains("~ function/fw, begins anew\n"), "{diff}");
    assert!(diff.contains("    ~ image: \"firewall\" -> \"monitor\"\n"), "{diff}");
    assert!(diff.contains("    - config: {\"default_action\":\"accept\"}\n"), "{diff}");
    let (status, told) = daemon.refused("apply -f less.yaml --prune");
    assert!(status == 1 && told.contains("functions.fw: it would begin anew"), "{told}");
    child.stdin.take().expect("piped").write_all(less.as_bytes()).expect("sent");
    let output = child.wait_with_output().expect("ends");
    let applied = text(&output.stdout);
    assert!(applied.contains("function/fw changed, begins anew\n"), "{applied}");
    assert!(
        applied.contains("port/wan deleted\n") && applied.contains("2 deleted, 1 unchanged"),
        "{applied}"
    );
    let difference = daemon.json("apply -f edge.yaml --allow-restart");
    assert_eq!((&difference["created"][0]["name"], &difference["revision"]), (&"wan".into(), &3.into()));
}

#[test]
fn faults_have_their_line_and_column_wherever_they_are_found() {
    let daemon = Daemon::start();
    daemon.write("form.yaml", "superfluid: 1\nfuctions: {}\nports: [a]\n");
    let (status, told) = daemon.refused("apply -f form.yaml");
    assert_eq!(status, 2);
    assert!(told.contains("form.yaml:2:1: fuctions: unknown key `fuctions`"), "{told}");
    assert!(
        told.contains("did you mean `functions`?") && told.contains("form.yaml:3:8: ports: found a list")
    );
    daemon.write(
        "inner.yaml",
        "superfluid: 1\nfunctions:\n  a: {image: firewall}\n  b:\n    image: missing\n    config: {}\n",
    );
    let (status, told) = daemon.refused("apply -f inner.yaml");
    assert_eq!(status, 2);
    assert_eq!(
        told,
        "inner.yaml:5:12: functions.b.image: found `missing`; allowed: `firewall`\ninner.yaml:6:13: functions.b.config: not known without its image"
    );
    assert_eq!(daemon.json("get functions"), Value::Array(vec![]), "nothing half");
    let (status, told) = daemon.refused("diff -f none.yaml");
    assert!(status == 2 && told.contains("none.yaml: No such file"), "{told}");
}

#[test]
fn paths_are_meant_from_where_the_user_stands() {
    let daemon = Daemon::start();
    let path = daemon.write("mine.wasm", "no module; it is not read");
    daemon.write("f.yaml", "superfluid: 1\nfunctions: {a: {image: mine.wasm, events: e.json}, b: {image: ./other.wasm}, c: {image: firewall}}\n");
    daemon.done("apply -f f.yaml");
    let spec = |name: &str| daemon.json(&format!("get function {name}"))["spec"].clone();
    let whole = |name: &str| path.with_file_name(name).display().to_string();
    assert_eq!(
        (&spec("a")["image"], &spec("a")["events"]),
        (&whole("mine.wasm").into(), &whole("e.json").into())
    );
    assert_eq!((&spec("b")["image"], &spec("c")["image"]), (&whole("other.wasm").into(), &"firewall".into()));
    daemon.done("function create d --image mine.wasm");
    assert_eq!(spec("d")["image"], whole("mine.wasm"));
    daemon.write("p.yaml", "superfluid: 1\nports: {p: {type: pcap, write: 7}}\n");
    daemon.done("apply -f p.yaml");
    assert_eq!(daemon.json("get port p")["spec"]["write"], whole("7"), "a number is a name, too");
}

#[test]
fn objects_are_listed_described_and_deleted() {
    let daemon = Daemon::start();
    daemon.write("edge.yaml", EDGE);
    daemon.done("apply -f edge.yaml");
    for kind in ["functions", "function", "fn", "FN"] {
        let listed = daemon.done(&format!("get {kind}"));
        assert!(
            listed.starts_with("NAME  STATE    IMAGE     TENANT   WORKER  PACKETS  DROPPED  CPU\n"),
            "{listed}"
        );
        assert!(
            listed.contains("fw    running  firewall  default  0       1        1        25.0%\n"),
            "{listed}"
        );
    }
    assert!(daemon.done("get fn -o wide").contains("000000000000  1\n"));
    assert!(daemon.done("get ch").contains("edge  lan - fw - wan\n"));
    assert!(daemon.done("get all").contains("function/fw  running\n"));
    assert!(daemon.done("get port/lan function/fw").contains("port/lan     -\n"));
    assert!(daemon.done("get images").contains("firewall"));
    let one = daemon.json("get function fw");
    assert_eq!((&one["name"], &one["spec"]["config"]["default_action"]), (&"fw".into(), &"accept".into()));
    assert!(daemon.done("get function fw -o yaml").starts_with("kind: \"function\"\nname: \"fw\"\n"));
    assert_eq!(daemon.json("get functions --tenant red"), Value::Array(vec![]));

    daemon.fake.say("hello");
    let told = daemon.done("describe function fw");
    for part in
        ["function/fw  version 1\n", "\nspec:\n  image: \"firewall\"\n", "\nstatus:\n  state: \"running\"\n"]
    {
        assert!(told.contains(part), "{told}");
    }
    assert!(
        told.contains("named by:\n  chain/edge  [\"lan\",\"fw\",\"wan\"]\n")
            && told.contains("notice: hello"),
        "{told}"
    );

    let (status, told) = daemon.refused("get fuction fw");
    assert!(status == 2 && told.ends_with("did you mean `function`?"), "{told}");
    let (status, told) = daemon.refused("get port lam");
    assert!(status == 1 && told.contains("there is no port/lam; did you mean `lan`?"), "{told}");

    let (status, told) = daemon.refused("delete function fw");
    let needed = "function/fw is still needed, and is not deleted:\nfunctions.fw: chain/edge needs it; delete that first";
    assert_eq!((status, told.as_str()), (1, needed));
    assert_eq!(daemon.done("delete function/fw chain/edge"), "chain/edge deleted\nfunction/fw deleted\n");
    let (status, told) = daemon.refused("delete -f edge.yaml");
    assert!(status == 1 && told.contains("there is no chain/edge"), "{told}");
    let gone = daemon.done("delete -f edge.yaml --missing-ok");
    assert!(gone.contains("function/fw not there\n") && gone.contains("port/lan deleted\n"), "{gone}");
    assert_eq!(daemon.json("get all"), Value::Array(vec![]));
}

#[test]
fn what_others_of_its_kind_need_is_deleted_after_them() {
    let daemon = Daemon::start();
    let file = "superfluid: 1\nports: {lan: {type: \"null\"}}\nfunctions:\n  a: {image: firewall, attach: {0: lan, 1: \"b:0\"}}\n  b: {image: firewall, attach: {1: \"c:0\"}}\n  c: {image: firewall}\n";
    daemon.write("row.yaml", file);
    for arguments in
        ["-f row.yaml", "port/lan function/c function/b function/a", "function/a fn/b fn/c port/lan"]
    {
        daemon.done("apply -f row.yaml");
        let told = daemon.done(&format!("delete {arguments}"));
        let wanted = "function/a deleted\nfunction/b deleted\nfunction/c deleted\n";
        let of_functions: String = told
            .lines()
            .filter(|line| line.contains("function"))
            .fold(String::new(), |all, line| all + line + "\n");
        assert_eq!(of_functions, wanted, "{arguments}: {told}");
        assert_eq!(daemon.json("get all"), Value::Array(vec![]), "{arguments}");
    }
    // What something else needs stays, and what can go is gone.
    daemon.done("apply -f row.yaml");
    let (status, told) = daemon.refused("delete function b c");
    assert!(status == 1 && told.starts_with("function/b is still needed, and is not deleted:\n"), "{told}");
    assert_eq!(daemon.json("get functions").as_array().map(Vec::len), Some(3));
}

#[test]
fn a_function_is_created_watched_and_driven() {
    let daemon = Daemon::start();
    daemon.write("rules.yaml", "- {action: drop}\n");
    let created = daemon.done(
        "function create fw --image firewall --attach inside=lan --attach 1=gate:0 --config default_action=accept --config rules=@rules.yaml --weight 300 --cap 20% --memory 16MiB --tenant red --trace",
    );
    assert!(created.starts_with("function/fw created, running\nSTEP"), "{created}");
    assert!(
        ["\nconnect ", "\nask the daemon ", "\n  commit ", "\n  total ", "\nall ", "##"]
            .iter()
            .all(|part| created.contains(part)),
        "{created}"
    );
    let spec = daemon.json("get fn fw")["spec"].clone();
    let wanted = serde_json::json!({
        "image": "firewall", "tenant": "red", "config": {"default_action": "accept", "rules": [{"action": "drop"}]},
        "attach": {"inside": "lan", "1": "gate:0"}, "memory": "16MiB", "cpu": {"weight": 300, "cap": "20%"}
    });
    assert_eq!(spec, wanted);
    let (status, told) = daemon.refused("function create fw --image monitor");
    assert!(status == 1 && told.contains("function/fw is there already"), "{told}");

    assert_eq!(daemon.done("function pause fw"), "function/fw asked to pause, paused\n");
    assert_eq!(daemon.done("function resume fw --durable"), "function/fw asked to go on, running\n");
    assert_eq!(daemon.done("function restart fw"), "function/fw begins anew, running\n");
    let (status, told) = daemon.refused("function pause fx");
    assert!(status == 1 && told.ends_with("did you mean `fw`?"), "{told}");

    assert_eq!(daemon.done("upgrade fw --image monitor --allow-restart"), "function/fw upgraded, running\n");
    assert_eq!(daemon.json("get fn fw")["spec"]["image"], "monitor");
    assert!(
        daemon.done("snapshot save fw monday").starts_with("snapshot/monday saved of function/fw, 64.0KiB\n")
    );
    assert_eq!(daemon.json("snapshot ls")[0]["function"], "fw");
    assert_eq!(
        daemon.done("snapshot restore monday --as clone"),
        "function/clone restored of snapshot/monday\n"
    );
    let (status, told) = daemon.refused("snapshot rm monda");
    assert!(status == 1 && told.ends_with("did you mean `monday`?"), "{told}");
    assert_eq!(daemon.done("snapshot rm monday"), "snapshot/monday removed\n");

    // What has to be compiled first.
    let created = daemon.run("function create slow --image slow-a");
    assert!(created.status.success() && text(&created.stdout).starts_with("function/slow created"));
    let left = daemon.done("function create slow2 --image slow-b --no-wait");
    assert!(left.starts_with("operation/") && left.contains("goes on: compiling slow-b"), "{left}");
    let (status, told) = daemon.refused("function create slow3 --image slow-broken");
    assert_eq!((status, told.as_str()), (2, "image: it is no module"));
    assert!(daemon.done("get operations").contains("compiling slow-b"));
    let (status, told) = daemon.refused("function create big --image huge");
    assert!(status == 1 && told.contains("1 TiB"), "{told}");

    let one = daemon.json("top --every 10ms");
    assert_eq!((&one[0]["state"], &one[0]["cpu_share"]), (&"running".into(), &0.25.into()));
    assert!(daemon.done("top --every 10ms --sort name").starts_with("NAME   STATE    CPU    PACKETS/S"));
    assert!(daemon.done("account").contains("balanced"));
    let memory = daemon.json("memory");
    assert_eq!((&memory["functions"], &memory["pools"]), (&serde_json::json!({}), &serde_json::json!({})));
    assert!(memory["events"]["bytes"].as_u64() > Some(0), "those of the last hour: {memory}");
    assert!(daemon.done("health").contains("healthy"));
}

/// An editor that does the first line of `edits` with the file at its first run, the second at its second,
/// and keeps each file that it is given as `seen1`, `seen2` and so on.
fn editor(daemon: &Daemon, edits: &[&str]) -> Commands {
    let cases: String = edits.iter().enumerate().map(|(n, edit)| format!("{}) {edit} ;;\n", n + 1)).collect();
    let script =
        format!("echo x >>runs\nn=$(wc -l <runs)\ncp \"$1\" seen$n\ncase $n in\n{cases}*) exit 7 ;;\nesac\n");
    daemon.write("editor.sh", &script);
    daemon.write("runs", "");
    Commands::clone(&daemon.commands).variable("EDITOR", "sh ./editor.sh").variable("VISUAL", "")
}

#[test]
fn an_object_is_edited_as_it_was_read_and_what_is_wrong_opens_the_editor_again() {
    let daemon = Daemon::start();
    daemon.write("edge.yaml", EDGE);
    daemon.done("apply -f edge.yaml");
    let seen = |n: usize| std::fs::read_to_string(daemon.path(&format!("seen{n}"))).expect("was edited");
    let action = || daemon.json("get function fw")["spec"]["config"]["default_action"].clone();

    let edited = editor(&daemon, &["sed -i s/accept/drop/ \"$1\""]).done("edit fn/fw --allow-restart");
    assert_eq!(edited, "function/fw changed\n");
    assert_eq!(action(), "drop");
    let first = seen(1);
    assert!(first.starts_with("# function/fw, version 1. "), "{first}");
    assert!(first.contains("\nsuperfluid: 1\nfunctions:\n  fw:\n"), "{first}");

    // What is left as it is, or emptied, changes nothing.
    for nothing in ["true", ": >\"$1\"", "touch \"$1\"; echo '# mine' >\"$1\""] {
        assert_eq!(editor(&daemon, &[nothing]).done("edit function fw"), "function/fw is as it was\n");
    }
    assert_eq!(daemon.json("get function fw")["version"], 2);

    // Wrong form, then wrong for the daemon, then right: each time it is told where, in the file as it is
    // shown.
    let edits = [
        "sed -i s/functions:/functoins:/ \"$1\"",
        "sed -i 's/functoins:/functions:/; s/\"firewall\"/missing/' \"$1\"",
        "sed -i 's/missing/firewall/; s/drop/accept/' \"$1\"",
    ];
    assert_eq!(editor(&daemon, &edits).done("edit function fw --allow-restart"), "function/fw changed\n");
    assert_eq!(action(), "accept");
    for (n, wrong, word) in [(2, "unknown key `functoins`", "functoins:"), (3, "found `missing`", "missing")]
    {
        let text = seen(n);
        let told = text.lines().find(|line| line.starts_with('#') && line.contains(wrong)).expect("told");
        let place = told.strip_prefix("# function-fw.yaml:").unwrap_or_else(|| panic!("{told}"));
        let line: usize = place.split(':').next().expect("a line").parse().expect("a number");
        let there = text.lines().nth(line - 1).expect("is there");
        assert!(!there.starts_with('#') && there.contains(word), "{told} is about {there}");
    }

    // Another object is none of its business.
    let edits = ["sed -i 's/^  fw:/  other:/' \"$1\"", "true"];
    let (status, told) = editor(&daemon, &edits).refused("edit function fw");
    assert!(status == 1 && told.starts_with("function/fw is as it was; what was edited is in "), "{told}");
    assert!(seen(2).contains("# found function/other; allowed: function/fw alone\n"), "{}", seen(2));
    let kept = std::path::PathBuf::from(told.rsplit(" in ").next().expect("a path"));
    assert!(std::fs::read_to_string(&kept).expect("is kept").contains("  other:"));
    std::fs::remove_dir_all(kept.parent().expect("a folder")).expect("removed");
    assert_eq!(daemon.json("get functions").as_array().expect("a list").len(), 1);

    // A change made meanwhile is shown, not overwritten unseen.
    daemon.write("less.yaml", &EDGE.replace("accept", "drop"));
    let meanwhile =
        format!("{PROGRAM} apply -f less.yaml --allow-restart >&2; sed -i 's/\"accept\"/reject/' \"$1\"");
    let edits = [meanwhile.as_str(), "sed -i 's/reject/log/' \"$1\""];
    assert_eq!(editor(&daemon, &edits).done("edit function fw --allow-restart"), "function/fw changed\n");
    let again = seen(2);
    assert!(again.contains("changed meanwhile") && again.contains("\"accept\" -> \"drop\""), "{again}");
    assert!(again.contains("default_action: reject"), "what was typed is there: {again}");
    assert_eq!(action(), "log");

    // An editor that fails, and what is none to edit.
    let (status, told) = editor(&daemon, &[]).refused("edit function fw");
    assert!(status == 1 && told.contains("the editor `sh ./editor.sh` ended with exit status: 7"), "{told}");
    let kept = std::path::PathBuf::from(told.rsplit(" in ").next().expect("a path"));
    std::fs::remove_dir_all(kept.parent().expect("a folder")).expect("removed");
    let (status, told) = daemon.refused("edit function wf");
    assert!(status == 1 && told.ends_with("did you mean `fw`?"), "{told}");
}

#[test]
fn what_changes_of_a_list_is_watched() {
    let daemon = Daemon::start();
    daemon.write("edge.yaml", EDGE);
    daemon.done("apply -f edge.yaml");
    let ports = Followed::start(daemon.command("get ports -w"));
    assert!(ports.next().starts_with("NAME  TYPE"));
    assert!(ports.next().starts_with("lan   null") && ports.next().starts_with("wan   null"));
    let one = Followed::start(daemon.command("get function fw --watch -o json"));
    let version = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["version"].clone();
    assert_eq!(version(&one.next()), 1);
    let all = Followed::start(daemon.command("get all -w"));
    assert!((0..5).map(|_| all.next()).any(|line| line.starts_with("chain/edge")));

    daemon.done("function create other --image monitor");
    daemon.write("more.yaml", "superfluid: 1\nports: {a-longer-one: {type: sink}}\n");
    daemon.done("apply -f more.yaml");
    daemon.done("function pause fw");
    assert!(ports.next().starts_with("a-longer-one  sink"));
    daemon.done("delete port/a-longer-one");
    assert_eq!(ports.next(), "a-longer-one deleted");
    // Not the other function. The notice of the pause may come before the change itself.
    let next = std::iter::from_fn(|| Some(version(&one.next()))).find(|version| *version != 1);
    assert_eq!(next, Some(4.into()));
    let next = all.next();
    assert!(next.starts_with("function/other") && !next.starts_with("OBJECT"), "{next}");
    let (status, told) = daemon.refused("get images -w");
    assert!(status == 2 && told.contains("cannot be watched"), "{told}");
}

/// A command whose lines are read as they come; ended by its own id.
struct Followed {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Followed {
    fn start(mut command: Command) -> Followed {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Followed { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(20)).expect("a line in time")
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

#[test]
fn events_and_logs_are_followed() {
    let daemon = Daemon::start();
    daemon.done("function create fw --image firewall");
    let events = Followed::start(daemon.command("events --follow --after 0"));
    assert_eq!(events.next(), "1 function/fw put");
    let logs = Followed::start(daemon.command("function logs fw --follow -o json"));
    daemon.fake.say("first\u{1b}[2J");
    let line: Value = serde_json::from_str(&logs.next()).expect("JSON");
    assert_eq!((&line["number"], &line["text"]), (&1.into(), &"first\u{1b}[2J".into()));
    daemon.done("function pause fw");
    // The change and the notice of it come in an order that is not fixed.
    let mut both = [events.next(), events.next()];
    both.sort();
    assert_eq!(both[0], "2 function/fw put");
    assert!(both[1].ends_with("function/fw paused: by request"), "{both:?}");
    assert_eq!(daemon.done("events --after 1"), "2 function/fw put\n");
    let said = daemon.done("function logs fw");
    assert!(said.ends_with("notice: first\\u{1b}[2J\n") && !said.contains('\u{1b}'), "{said:?}");
    let (status, told) = daemon.refused("events --after 99");
    assert!(status == 1 && told.contains("no longer known"), "{told}");
}

#[test]
fn events_of_the_last_hour_are_told_with_their_times() {
    let daemon = Daemon::start();
    daemon.done("function create fw --image firewall");
    daemon.done("function pause fw");
    let told = daemon.done("events --since 1h");
    let lines: Vec<&str> = told.lines().collect();
    let [first, created, ref rest @ ..] = lines[..] else { panic!("{told}") };
    assert!(first.starts_with("all since 2") && created.ends_with("Z 1 function/fw put"), "{told}");
    let has = |end: &str| rest.iter().any(|line| line.ends_with(end));
    assert!(
        rest.len() == 2 && has("Z 2 function/fw put") && has("Z function/fw paused: by request"),
        "{told}"
    );
    let told = daemon.done("events --past 10m --limit 1 -o json");
    let event: Value = serde_json::from_str(&told).expect("one line of JSON");
    assert!(event["age_ms"].is_u64() && event["time"].is_string() && event["name"] == "fw", "{told}");
    // What was, then what comes: each once.
    let events = Followed::start(daemon.command("events --since 1h --follow"));
    let before: Vec<String> = (0..4).map(|_| events.next()).collect();
    assert!(before[0].starts_with("all since ") && before[1].ends_with("Z 1 function/fw put"), "{before:?}");
    daemon.done("function resume fw");
    let mut next = [events.next(), events.next()];
    next.sort();
    assert_eq!(next[1], "3 function/fw put", "{next:?}");
    for wrong in ["events --since 2h", "events --since 0s", "events --limit 3", "events --since 1m --after 1"]
    {
        assert_eq!(daemon.refused(wrong).0, 2, "{wrong}");
    }
}

#[test]
fn a_daemon_that_cannot_be_asked_is_told_in_one_line() {
    let daemon = Daemon::start();
    let (status, told) = daemon.refused("get functions --socket ./none");
    assert_eq!(status, 3);
    assert_eq!(
        told,
        "the daemon at ./none cannot be reached: No such file or directory (os error 2); does `superfluid daemon` run there? --socket names another socket"
    );
    let (status, told) =
        daemon.refused("get functions --connect localhost:1 --tls-ca a --tls-cert b --tls-key c");
    assert!(status == 2 && told.contains("a: No such file"), "{told}");
    let (status, told) = daemon.refused("get functions --connect localhost:1");
    assert!(status == 2 && told.contains("--tls-ca"), "{told}");
    let (status, told) = daemon.refused("function create a --image b --config c");
    assert!(status == 2 && told.contains("KEY=VALUE"), "{told}");
}

#[test]
fn top_works_in_a_terminal_and_gives_it_back() {
    let daemon = Daemon::start();
    daemon.done("function create fw --image firewall");
    // `script` gives the program a terminal, and carries keys and lines.
    let run = format!("{PROGRAM} top --every 20ms");
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--echo", "never", "--command", &run, "/dev/null"])
        .env("SUPERFLUID_SOCKET", daemon.path(SOCKET))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script(1) starts");
    let mut keys = child.stdin.take().expect("piped");
    let mut out = child.stdout.take().expect("piped");
    let (sender, parts) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = out.read(&mut bytes) {
            if sender.send(text(&bytes[..read])).is_err() {
                return;
            }
        }
    });
    let began = Instant::now();
    let mut seen = String::new();
    let mut pressed = false;
    while child.try_wait().expect("a child").is_none() {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not end: {seen:?}");
        if let Ok(part) = parts.recv_timeout(Duration::from_millis(100)) {
            seen.push_str(&part);
        }
        if !pressed && seen.contains("fw    running") {
            keys.write_all(b"nq").expect("typed");
            pressed = true;
        }
    }
    assert!(child.wait().expect("ended").success());
    while let Ok(part) = parts.recv_timeout(Duration::from_millis(100)) {
        seen.push_str(&part);
    }
    assert!(
        seen.contains("1 function  cpu 25.0%") && seen.trim_end().ends_with("\u{1b}[?25h\u{1b}[?1049l"),
        "{seen:?}"
    );
}

#[test]
fn a_table_fits_its_terminal() {
    let daemon = Daemon::start();
    let name = "firewall-of-a-customer-in-rack-1";
    daemon.done(&format!("function create {name} --image firewall"));
    let shown = |arguments: &str| {
        // `script` gives the program a terminal.
        let run = format!("{PROGRAM} {arguments}");
        let output = Command::new("script")
            .args(["--quiet", "--return", "--command", &run, "/dev/null"])
            .env("SUPERFLUID_SOCKET", daemon.path(SOCKET))
            .env("COLUMNS", "80")
            .stdin(Stdio::null())
            .output()
            .expect("script(1) starts");
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).replace('\r', "")
    };
    let table = shown("get functions");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(
        table.contains("firew") && table.contains('~') && table.contains("`-o wide` shows all"),
        "{table}"
    );
    assert!(shown("get functions -o wide").contains(name));
    // What is no terminal is for programs.
    assert!(daemon.done("get functions").contains(name));
}

/// Commands that ask a daemon or none, each with what is run before it. `{n}` is another number each time.
const COMMANDS: &[(&[&str], &str)] = &[
    (&[], "--help"),
    (&[], "--version"),
    (&[], "help"),
    (&[], "completions bash"),
    (&[], "completions zsh"),
    (&[], "completions fish"),
    (&[], "man"),
    (&[], "man --output pages"),
    (&[], "new probe --path probe{n}"),
    (&[], "image inspect firewall"),
    (&[], "image ls --images kept"),
    (&[], "check ports.yaml"),
    (&[], "apply -f edge.yaml"),
    (&[], "diff -f edge.yaml"),
    (&[], "diff -f ports.yaml --prune"),
    (&[], "get all"),
    (&[], "get functions -o json"),
    (&[], "get fn fw -o yaml"),
    (&[], "get port/none"),
    (&[], "describe function fw"),
    (&[], "edit function fw"),
    (&[], "delete function/none --missing-ok"),
    (&[], "function create fw --image firewall"),
    (&[], "function pause fw"),
    (&[], "function resume fw"),
    (&[], "function restart fw"),
    (&[], "function logs fw"),
    (&[], "function events fw"),
    (&[], "function report fw"),
    (&["function create up --image firewall"], "upgrade up --image monitor --allow-restart"),
    (&[], "snapshot save fw s{n}"),
    (&["snapshot save fw saved"], "snapshot restore saved --as clone{n}"),
    (&[], "snapshot ls"),
    (&["snapshot save fw gone"], "snapshot rm gone"),
    (&[], "snapshot adopt saved --tenant default"),
    (&[], "snapshot rotate-key"),
    (&[], "token create t{n} --tenant default"),
    (&[], "token ls"),
    (&["token create of{n} --tenant default"], "token delete of{n}"),
    (&[], "registry login registry.example.org --tenant default --username u --password-stdin"),
    (&[], "registry ls"),
    (&[], "registry logout registry.example.org --tenant default"),
    (&[], "neighbours"),
    (&[], "top --every 10ms"),
    (&[], "graph --every 10ms"),
    (&[], "page"),
    (&[], "events --past 1h"),
    (&[], "trace --for 100ms"),
    (&[], "capture fw --for 100ms"),
    (&[], "memory"),
    (&[], "account -o json"),
    (&[], "health"),
    (&[], "backup -o backup{n}.tar"),
    (&[], "names functions"),
];

/// Commands that start something that is tried elsewhere: what packets pass, and what is built or measured.
const ELSEWHERE: [&str; 8] =
    ["run", "daemon", "launcher", "restore", "image-build", "image-push", "image-pull", "vm-build"];

/// Standard output is a pipe that no process reads.
const READER_GONE: &str = "# reader gone";

#[test]
fn a_file_is_checked_as_it_comes_by_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = Commands::new(folder.path());
    let check = |text: &str| {
        let mut child = commands.command("check -");
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("it starts");
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
        child.wait_with_output().expect("it ends")
    };
    let good = check("superfluid: 1\nports:\n  lan: {type: \"null\"}\n");
    let said = text(&good.stdout);
    assert!(said.starts_with("standard input: good: 1 tenants, 1 ports"), "{said}{}", text(&good.stderr));
    let wrong = check("superfluid: 1\nprots: {}\n");
    let said = text(&wrong.stderr);
    assert!(said.starts_with("standard input:2:1: ") && said.contains("did you mean `ports`?"), "{said}");
    assert_eq!((good.status.code(), wrong.status.code()), (Some(0), Some(2)));
}

/// A command without its reader, or with a full disk, ends as it would else, or says that it could not show
/// what it has; and nothing panics.
#[test]
fn commands_end_well_wherever_their_output_goes() {
    let daemon = Daemon::start();
    daemon.write("edge.yaml", EDGE);
    daemon.write("ports.yaml", "superfluid: 1\nports:\n  lan: {type: \"null\"}\n");
    daemon.done("apply -f edge.yaml");
    let all = daemon.clone().variable("EDITOR", "true");
    let (mut faults, mut number) = (Vec::new(), 0);
    for (before, command) in COMMANDS {
        let mut run = |redirected: &str| {
            number += 1;
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let numbered = |command: &str| command.replace("{n}", &number.to_string());
            before.iter().for_each(|before| drop(all.run(&numbered(before))));
            let mut shell = Command::new("timeout");
            let script = format!("\"$@\" {redirected}");
            let line = numbered(command);
            shell.args(["60", "bash", "-c", script.as_str(), "bash", PROGRAM]).args(line.split(' '));
            let given = all.command(command);
            shell.current_dir(given.get_current_dir().expect("a folder")).stdin(Stdio::null());
            shell.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
            if redirected == READER_GONE {
                shell.stdout(writer);
            }
            let output = shell.output().expect("it starts");
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let (usual, printed, said) = run("");
        let mut expect = |how: &str, allowed: &[Option<i32>]| {
            let (code, _, said) = run(how);
            if !allowed.contains(&code) || said.contains("panicked") {
                faults.push(format!("{command} {how}: {code:?} instead of {allowed:?}: {said}"));
            }
        };
        // What `check` prints waits for no reader; it says what was lost, and its status is the file's.
        let full = if printed.is_empty() || command.starts_with("check") { usual } else { Some(1) };
        expect(">&-", &[usual]);
        expect(READER_GONE, &[usual, Some(0)]);
        expect(">/dev/full", &[full]);
        expect("2>&-", &[usual]);
        expect("2>/dev/full", &[usual]);
        if usual.is_none_or(|code| code > 3) || said.contains("panicked") {
            faults.push(format!("{command}: {usual:?}: {said}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // No command is forgotten: each has a page of the manual, those with commands below it have theirs.
    let pages: Vec<String> = std::fs::read_dir(daemon.path("pages"))
        .expect("pages")
        .map(|page| page.expect("a page").file_name().into_string().expect("a name"))
        .filter_map(|page| Some(page.strip_prefix("superfluid-")?.strip_suffix(".1")?.to_owned()))
        .collect();
    let is_leaf = |page: &&String| !pages.iter().any(|other| other.starts_with(&format!("{page}-")));
    let is_tried = |page: &str| {
        let tried = |(_, command): &(&[&str], &str)| command.replace(' ', "-").starts_with(page);
        ELSEWHERE.contains(&page) || page == "bench" || COMMANDS.iter().any(tried)
    };
    let forgotten: Vec<_> = pages.iter().filter(is_leaf).filter(|page| !is_tried(page)).collect();
    assert!(pages.len() > 40 && forgotten.is_empty(), "not tried: {forgotten:?} of {}", pages.len());
}
