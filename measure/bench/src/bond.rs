//! One TCP stream over two links between two hosts, beside the same stream over one of them.
//!
//! 1. The program itself is started on two hosts, each a network namespace, that are joined by two links.
//!    Each link is a veth pair that a token bucket of the kernel's (`tbf`) holds to 200 Mbit/s in either
//!    direction.
//! 2. On both hosts a bond is over the links: striped, which gives one flow both of them. A client and a
//!    server are behind the bonds.
//! 3. The same is there a second time with bonds that balance by flow, which give one flow one link.
//! 4. iperf3 sends one stream through the one and the other in turns.
//! 5. The programs are asked to end, and their accounts are looked at.

use crate::{BenchError, Measurement, RUNS};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testbed::{Background, CLIENT, Iperf, Namespace, SERVER, TestbedError};

/// How long iperf3 sends each time, after a second in which TCP finds the rate.
const SECONDS: u32 = 3;
const OPTIONS: &str = "--omit 1";

/// What the links let through, and how long packets wait for it at most.
const LINK: &str = "tbf rate 200mbit burst 32kb latency 20ms";
const LINKS: [&str; 2] = ["one", "two"];

/// What is behind the bonds: 1,500 bytes less the sequence header, so that nothing has to be fragmented.
const MTU: &str = "mtu 1488";

/// Longest time until the programs have compiled the function and passed a packet, and until they have ended.
const START: Duration = Duration::from_secs(120);
const END: Duration = Duration::from_secs(30);

fn file(balance: &str) -> String {
    format!(
        "\
superfluid: 1
tenants: {{default: {{pool: {{buffers: 2048, buffer_size: 64KiB}}}}}}
ports:
  lan: {{type: af_packet, interface: lan}}
  one: {{type: af_packet, interface: one}}
  two: {{type: af_packet, interface: two}}
devices:
  bond: {{mode: bond, balance: {balance}, over: [one, two]}}
functions:
  gate: {{image: firewall, config: {{default_action: accept}}}}
chains: {{way: [lan, gate, bond]}}
"
    )
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    progress(0.0, "hosts, and the program on each");
    let mut sides = [Side::new("stripe")?, Side::new("flow")?];
    let mut rates = [Vec::new(), Vec::new()];
    // The first pair warms both up and is not counted.
    for pair in 0..=RUNS {
        for (n, side) in sides.iter_mut().enumerate() {
            progress((2 * pair + n) as f64 / (2 * RUNS + 2) as f64, side.balance);
            let bits = side.iperf.measure(&side.client, SECONDS, OPTIONS).map_err(BenchError::setup)?;
            rates[n].push(bits / 1e6);
        }
    }
    for side in sides {
        side.finish()?;
    }
    let [both, one] = rates.map(|rates| rates[1..].to_vec());
    let ratios: Vec<f64> = both.iter().zip(&one).map(|(both, one)| both / one).collect();
    Ok(vec![
        Measurement::new("stream-ratio", "x", &ratios),
        Measurement::new("stream-both", "Mbit/s", &both),
        Measurement::new("stream-one", "Mbit/s", &one),
    ])
}

/// A client and a server, and what joins them.
struct Side {
    balance: &'static str,
    client: Namespace,
    iperf: Iperf,
    programs: [Background; 2],
    /// The two hosts and the server, whose namespaces go with the last descriptor.
    _hosts: [Namespace; 3],
}

impl Side {
    fn new(balance: &'static str) -> Result<Side, BenchError> {
        let (client, left, right, server) = (host()?, host()?, host()?, host()?);
        let join = || -> Result<(), TestbedError> {
            for (host, end, address) in [(&left, &client, CLIENT), (&right, &server, SERVER)] {
                host.join("lan", end, "eth0")?;
                end.ip(&format!("link set eth0 {MTU}"))?;
                end.ip(&format!("addr add {address}/24 dev eth0"))?;
            }
            for link in LINKS {
                left.join(link, &right, link)?;
                for host in [&left, &right] {
                    host.run(&format!("tc qdisc add dev {link} root {LINK}"), END)?;
                }
            }
            Ok(())
        };
        join().map_err(BenchError::setup)?;
        let file = File::new(balance)?;
        let mut programs = [start(&left, &file)?, start(&right, &file)?];
        let begin = Instant::now();
        while client.run(&format!("ping -c 1 -W 1 {SERVER}"), END).is_err() {
            if begin.elapsed() > START || !programs.iter_mut().all(Background::is_running) {
                let said = programs.map(|program| program.finish().1);
                return Err(BenchError::Setup(format!(
                    "nothing passes between the hosts; the programs said: {}",
                    said.join("\n").trim()
                )));
            }
        }
        let iperf = Iperf::serve(&server).map_err(BenchError::setup)?;
        Ok(Side { balance, client, iperf, programs, _hosts: [left, right, server] })
    }

    /// Ends it, and looks at what it was.
    fn finish(self) -> Result<(), BenchError> {
        drop(self.iperf);
        for program in self.programs {
            check(self.balance, &program.interrupt(END).map_err(BenchError::setup)?.stdout)?;
        }
        Ok(())
    }
}

fn host() -> Result<Namespace, BenchError> {
    Namespace::new().map_err(|error| match error {
        TestbedError::Kernel { what, source } => BenchError::Setup(format!(
            "{what}: {source}; run as root, or by `unshare --user --map-root-user --net superfluid bench bond`"
        )),
        other => BenchError::setup(other),
    })
}

fn start(host: &Namespace, file: &File) -> Result<Background, BenchError> {
    let program = crate::product::superfluid()?;
    let mut command = host.command(&program.to_string_lossy());
    command.arg("run").arg(&file.0).args(["--json", "--every", "1h"]);
    Background::start(&mut command).map_err(BenchError::setup)
}

/// The file that describes a host; it goes with this value.
struct File(PathBuf);

impl File {
    fn new(balance: &str) -> Result<File, BenchError> {
        let name = format!("superfluid-bench-bond-{balance}-{}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        let failed = |error| BenchError::Setup(format!("{}: {error}", path.display()));
        // Never another user's file, or where another user's link points.
        let mut made = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        made.write_all(file(balance).as_bytes()).map_err(failed)?;
        Ok(File(path))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // What cannot be removed is a small file in a temporary folder.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Looks at the account that a program printed at its end: a striped bond has used both links alike, and
/// every packet is accounted for.
fn check(balance: &str, output: &str) -> Result<(), BenchError> {
    let mut last = output.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let account = last
        .find(|line| line["event"] == "final")
        .ok_or_else(|| BenchError::Invalid("a program printed no final account".into()))?;
    if account["balanced"] != true {
        return Err(BenchError::Invalid(format!("the account does not balance: {account}")));
    }
    let received = LINKS.map(|link| account["ports"][link]["packets"]["received"].as_u64().unwrap_or(0));
    let [less, more] = [received.into_iter().min().unwrap_or(0), received.into_iter().max().unwrap_or(0)];
    if balance == "stripe" && (more == 0 || less < more / 10 * 9) {
        return Err(BenchError::Invalid(format!("one link brought {less} packets and the other {more}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn output(balanced: bool, received: [u64; 2]) -> String {
        let port = |received: u64| json!({"packets": {"received": received}});
        let ports = json!({"one": port(received[0]), "two": port(received[1])});
        let account = json!({"event": "final", "balanced": balanced, "ports": ports});
        format!("{}\nnot json\n{account}\n", json!({"event": "account"}))
    }

    #[test]
    fn a_figure_is_only_taken_from_a_sound_run() {
        assert!(check("stripe", &output(true, [1000, 950])).is_ok());
        assert!(check("flow", &output(true, [1000, 0])).is_ok());
        for (balance, unsound, why) in [
            ("flow", output(false, [1000, 1000]), "balance"),
            ("stripe", output(true, [1000, 10]), "one link brought 10"),
            ("stripe", output(true, [0, 0]), "one link brought 0"),
            ("flow", String::new(), "no final account"),
        ] {
            let error = check(balance, &unsound).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
