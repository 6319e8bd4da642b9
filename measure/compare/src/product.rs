//! What the product says about captures: `superfluid run` with `dpi` and `monitor` in line.
//!
//! 1. [`run`] writes a file: for each capture a `pcap` port that gives its packets, the two functions, and an
//!    end that takes all; a `pcap` port for what the monitor exports.
//! 2. It starts the program and reads the accounts that it prints. Flows are exported when they have been
//!    idle for a second; when all captures are read and no message has come for so many accounts, the
//!    program is asked to end.
//! 3. Alerts are read from the function's file of events, flows from the exported messages. What was lost on
//!    the way, or exported less than was counted, is an error: nothing is compared with half of it.

use crate::Error;
use crate::captures::Capture;
use crate::child::{self, Running};
use crate::rules::{Rules, VARIABLES};
use crate::table::Flows;
use crate::{collector, eve};
use peers::Folder;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// What is run.
const PROGRAM: &str = "superfluid run";
/// Longest time for a batch of captures.
const LIMIT: Duration = Duration::from_secs(1800);
/// Longest time for the program's end.
const END: Duration = Duration::from_secs(60);
/// Accounts in a row, one each 200 ms, in which nothing came.
const QUIET: u32 = 15;

/// What ran, and where its alerts are.
#[derive(Debug)]
pub struct Ran {
    /// Exported flows.
    pub flows: Flows,
    /// Rules that `dpi` loaded.
    pub loaded: u64,
    /// What the rules that it skipped lack, and how many lack it.
    pub lacking: Vec<(String, u64)>,
    alerts: PathBuf,
}

impl Ran {
    /// Its alerts; see [`eve::read`].
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn alerts(
        &self,
        frame_at: impl Fn(u64, &crate::table::Flow) -> Option<u64>,
    ) -> Result<crate::table::Alerts, Error> {
        eve::read(&self.alerts, frame_at)
    }
}

/// Runs a batch of captures in one process, in a folder that holds what it writes.
///
/// # Errors
/// [`Error`]: it failed, did not end in time, or lost something.
pub fn run(program: &Path, captures: &[Capture], rules: &Rules, folder: &Folder) -> Result<Vec<Ran>, Error> {
    folder.write("all.rules", &rules.text)?;
    let file = folder.write("run.yaml", &file(captures))?;
    let log = folder.file("accounts");
    let output = File::create(&log).map_err(|source| Error::file(&log, source))?;
    let mut command = child::product(program);
    command.arg("run").arg(file).args(["--json", "--every", "200ms"]).current_dir(folder.path());
    let mut running = Running::start(PROGRAM, &mut command, output)?;
    let begin = Instant::now();
    let mut accounts = Accounts { log, offset: 0, quiet: 0, last: 0 };
    while running.lives() && begin.elapsed() < LIMIT && !accounts.are_done(captures.len())? {
        thread::sleep(Duration::from_millis(100));
    }
    if begin.elapsed() >= LIMIT {
        return Err(Error::TimeOut { program: PROGRAM, limit: LIMIT });
    }
    running.interrupt();
    running.finish(END)?;
    let log = read_log(&accounts.log)?;
    (0..captures.len()).map(|n| ran(n, &log, folder)).collect()
}

/// The program's file.
fn file(captures: &[Capture]) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let (mut ports, mut functions) = (String::new(), String::new());
    let (mut chains, mut wires) = (String::new(), String::new());
    let variables: Vec<String> =
        VARIABLES.iter().map(|(name, value)| format!("{{name: {name}, value: {}}}", quoted(value))).collect();
    let variables = variables.join(", ");
    for (n, capture) in captures.iter().enumerate() {
        let path = quoted(&capture.path.display().to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(
            ports,
            "  in{n}: {{type: pcap, read: {path}, pace: flat_out}}\n  end{n}: {{type: \"null\"}}"
        );
        let _ = writeln!(ports, "  export{n}: {{type: pcap, write: flows{n}.pcapng}}");
        let _ = writeln!(
            functions,
            "  dpi{n}: {{image: dpi, max_call: 5s, events: alerts{n}.json, config: {{rules: all.rules, inline: alert, \
             unsupported: skip, stream_window: 16384, variables: [{variables}]}}}}"
        );
        let _ = writeln!(
            functions,
            "  monitor{n}: {{image: monitor, max_call: 5s, config: {{flows: 262144, bidirectional: false, ipfix: {{idle_timeout: \
             1s, collector: 192.0.2.9, source: 192.0.2.1, collector_mac: \"02:00:00:00:00:09\", source_mac: \
             \"02:00:00:00:00:01\"}}}}}}"
        );
        let _ = writeln!(chains, "  chain{n}: [in{n}, dpi{n}, monitor{n}, end{n}]");
        let _ = writeln!(wires, "  - [monitor{n}:export, export{n}]");
    }
    // The clock keeps the program running when all captures have been read.
    format!(
        "superfluid: 1\ntenants:\n  default: {{pool: {{buffers: 2048, buffer_size: 64KiB}}}}\nports:\n  clock: {{type: \
         generator, rate: 1pps}}\n  wall: {{type: sink}}\n{ports}functions:\n  pass: {{image: forwarder}}\n{functions}chains:\n  \
         time: [clock, pass, wall]\n{chains}wires:\n{wires}"
    )
}

/// The accounts that the program prints.
struct Accounts {
    log: PathBuf,
    offset: u64,
    quiet: u32,
    last: u64,
}

impl Accounts {
    /// Whether all captures have been read, and nothing is exported any more.
    fn are_done(&mut self, captures: usize) -> Result<bool, Error> {
        let failed = |source| Error::file(&self.log, source);
        let mut file = File::open(&self.log).map_err(failed)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        // The last line may still be written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.offset += whole as u64;
        for line in text[..whole].lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            if event["event"] == "account" {
                self.take(&event["ports"], captures);
            }
        }
        Ok(self.quiet >= QUIET)
    }

    fn take(&mut self, ports: &Value, captures: usize) {
        let (mut sum, mut are_read) = (0, true);
        for n in 0..captures {
            let input = &ports[format!("in{n}")];
            are_read &= matches!(input["status"].as_str(), Some("finished" | "down"));
            sum += input["packets"]["received"].as_u64().unwrap_or_default();
            for taker in ["end", "export"] {
                sum += ports[format!("{taker}{n}")]["packets"]["delivered"].as_u64().unwrap_or_default();
            }
        }
        self.quiet = if are_read && sum == self.last { self.quiet + 1 } else { 0 };
        self.last = sum;
    }
}

/// What the program printed but accounts on the way.
fn read_log(path: &Path) -> Result<Vec<Value>, Error> {
    let failed = |source| Error::file(path, source);
    let mut events = Vec::new();
    for line in BufReader::new(File::open(path).map_err(failed)?).lines() {
        let line = line.map_err(failed)?;
        if !line.starts_with("{\"event\":\"account\"") {
            events.extend(serde_json::from_str::<Value>(&line));
        }
    }
    Ok(events)
}

fn ran(n: usize, log: &[Value], folder: &Folder) -> Result<Ran, Error> {
    let lost = |found: String| Error::Unexpected { program: PROGRAM, found };
    let account = log.iter().find(|event| event["event"] == "final");
    let Some(account) = account else { return Err(lost("it printed no final account".into())) };
    let functions = &account["functions"];
    let [dpi, monitor] = ["dpi", "monitor"].map(|name| &functions[format!("{name}{n}")]);
    let count = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    for (name, function) in [("dpi", dpi), ("monitor", monitor)] {
        if count(&function["faults"]) != 0 {
            let own = format!("{name}{n}");
            let why = log.iter().find(|event| event["event"] == "fault" && event["function"] == own.as_str());
            let why = why.and_then(|event| event["reason"].as_str()).unwrap_or("of an unknown reason");
            return Err(lost(format!("{name} failed: {why}")));
        }
    }
    let dropped = account["ports"][format!("in{n}")]["packets"]["dropped"].as_object();
    if let Some((reason, count)) = dropped.and_then(|reasons| reasons.iter().next()) {
        return Err(lost(format!("the capture's port dropped {count} packets: {reason}")));
    }
    let events = log.iter().filter(|event| event["event"] == "events-written");
    let not_written: u64 = events.map(|event| count(&event["lost"])).sum();
    let not_told = count(&dpi["counters"]["alerts-lost"]);
    if not_written + not_told != 0 {
        return Err(lost(format!("{} alerts were lost", not_written + not_told)));
    }
    let rules = &dpi["report"]["rules"];
    let flows = collector::read(&folder.file(&format!("flows{n}.pcapng")))?;
    let counted: u64 = monitor["report"]["protocols"]
        .as_array()
        .map_or(u64::MAX, |all| all.iter().map(|protocol| count(&protocol["packets"])).sum());
    let exported: u64 = flows.values().map(|count| count.packets).sum();
    if exported < counted {
        return Err(lost(format!("the monitor counted {counted} IP packets and exported {exported}")));
    }
    let lacking = rules["skipped"]["lacking"].as_object().into_iter().flatten();
    Ok(Ran {
        flows,
        loaded: count(&rules["loaded"]),
        lacking: lacking.map(|(name, number)| (name.clone(), count(number))).collect(),
        alerts: folder.file(&format!("alerts{n}.json")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_done_when_all_is_read_and_nothing_comes_for_some_accounts() {
        let mut accounts = Accounts { log: PathBuf::new(), offset: 0, quiet: 0, last: 0 };
        let ports = |status: &str, exported: u64| {
            json!({
                "in0": {"status": status, "packets": {"received": 10}},
                "end0": {"packets": {"delivered": 10}},
                "export0": {"packets": {"delivered": exported}},
            })
        };
        for _ in 0..2 * QUIET {
            accounts.take(&ports("up", 1), 1);
        }
        assert_eq!(accounts.quiet, 0);
        for _ in 0..QUIET - 1 {
            accounts.take(&ports("finished", 1), 1);
        }
        accounts.take(&ports("finished", 2), 1);
        assert_eq!(accounts.quiet, 0, "a message came");
        for _ in 0..QUIET {
            accounts.take(&ports("finished", 2), 1);
        }
        assert_eq!(accounts.quiet, QUIET);
    }

    /// A final account of one capture, with something changed in it.
    fn finished(change: impl Fn(&mut Value)) -> Result<Ran, Error> {
        let folder = Folder::new()?;
        // A section without packets.
        let mut section = vec![0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
        section.extend([0xff; 8]);
        section.extend([28, 0, 0, 0]);
        std::fs::write(folder.file("flows0.pcapng"), section).expect("a capture");
        let mut account = json!({
            "event": "final",
            "ports": {"in0": {"packets": {"dropped": {}}}},
            "functions": {
                "dpi0": {"faults": 0, "counters": {"alerts-lost": 0},
                         "report": {"rules": {"loaded": 9, "skipped": {"lacking": {"lua": 2}}}}},
                "monitor0": {"faults": 0, "report": {"protocols": []}},
            },
        });
        change(&mut account);
        ran(0, &[json!({"event": "events-written", "lost": 0}), account], &folder)
    }

    #[test]
    fn what_was_lost_on_the_way_is_no_result() {
        let good = finished(|_| ()).expect("nothing is lost");
        assert_eq!((good.loaded, good.lacking), (9, vec![("lua".to_owned(), 2)]));
        let failed = |change: fn(&mut Value)| finished(change).expect_err("something is lost").to_string();
        assert!(failed(|account| account["functions"]["dpi0"]["faults"] = json!(1)).contains("dpi failed"));
        let lost = failed(|account| account["functions"]["dpi0"]["counters"]["alerts-lost"] = json!(3));
        assert!(lost.contains("3 alerts were lost"), "{lost}");
        let dropped =
            failed(|account| account["ports"]["in0"]["packets"]["dropped"] = json!({"too-long": 2}));
        assert!(dropped.contains("dropped 2 packets: too-long"), "{dropped}");
        let less = failed(|account| {
            account["functions"]["monitor0"]["report"]["protocols"] = json!([{"packets": 5}]);
        });
        assert!(less.contains("counted 5 IP packets and exported 0"), "{less}");
        assert!(failed(|account| account["event"] = json!("account")).contains("no final account"));
    }
}
