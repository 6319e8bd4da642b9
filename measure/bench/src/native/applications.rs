//! What servers cost behind a veth pair whose other end the engine has (`as: veth`), beside the same behind a
//! bridge thread, as HyperNF's conclusion names them: a key-value store, a web server, a DNS server.
//!
//! 1. On each side a client, a server, and a pair of veth between each of them and the middle. In the middle
//!    the engine joins the two pairs by the ports that `as: veth` has; or a thread does that receives what
//!    there is and sends it, and sleeps until there is more (`merge`: the thread that moves packets shares
//!    the processor of the function). Both use the same port driver with the same settings.
//! 2. The server and what is in the middle have one processor, the client has the other one.
//! 3. Compared is how many requests are answered for each second of processor time of the server and what is
//!    in the middle, in turns.

use crate::between_hosts::{Served, hosts};
use crate::{BenchError, Measurement, RUNS};
use ::peers::{Cores, Folder};
use packet_memory::{BufferSize, Pool, PoolConfig};
use port_af_packet::Settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testbed::{Background, CLIENT, Hosts, Namespace, Relay, SERVER};

/// Longest time for one run of a client, and for the program to begin and to end.
const LIMIT: Duration = Duration::from_secs(60);
/// The ends in the middle.
const TO_CLIENT: &str = "to-client";
const TO_SERVER: &str = "to-server";
/// The ring of the ports of a container's interfaces.
const RING: u64 = 1 << 20;
/// Requests of redis-benchmark, GET and SET each.
const REDIS: u32 = 30_000;

/// Programs and their packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("nginx", "nginx-light"),
    ("wrk", "wrk"),
    ("unbound", "unbound"),
    ("dnsperf", "dnsperf"),
    ("taskset", "util-linux"),
];

const NGINX: &str = "\
daemon off;
master_process off;
pid nginx.pid;
events { worker_connections 256; }
http {
  access_log off;
  server { listen 80; location / { default_type text/plain; return 200 'what was asked for, in some sixty characters or a few more'; } }
}
";

const UNBOUND: &str = "\
server:
  interface: 0.0.0.0
  access-control: 0.0.0.0/0 allow
  do-daemonize: no
  use-syslog: no
  verbosity: 0
  username: \"\"
  chroot: \"\"
  pidfile: \"\"
  num-threads: 1
  local-zone: \"test.\" static
  local-data: \"a.test. 3600 IN A 192.0.2.1\"
  local-data: \"b.test. 3600 IN A 192.0.2.2\"
remote-control:
  control-enable: no
";

const QUERIES: &str = "a.test A\nb.test A\n";

/// A server, its client, and where the client says how many requests were answered.
struct Application {
    name: &'static str,
    port: u16,
    server: fn(&Folder) -> Vec<String>,
    client: fn(&Folder) -> String,
    answered: fn(&str) -> Option<u64>,
}

const APPLICATIONS: [Application; 3] = [
    Application {
        name: "redis",
        port: 6379,
        server: |_| {
            let words = "redis-server --save \"\" --appendonly no --protected-mode no --bind";
            let words = words.split_whitespace().map(|word| word.trim_matches('"').to_owned());
            words.chain([SERVER.to_owned()]).collect()
        },
        client: |_| format!("redis-benchmark -h {SERVER} -t get,set -n {REDIS} -c 50 --csv"),
        answered: |printed| {
            let done = ["\"SET\",", "\"GET\","].iter().all(|kind| printed.contains(kind));
            done.then_some(2 * u64::from(REDIS))
        },
    },
    Application {
        name: "nginx",
        port: 80,
        server: |folder| {
            let (prefix, file) = (folder.path().display().to_string(), folder.file("nginx.conf"));
            let words = ["nginx", "-p", &prefix, "-e", "stderr", "-c"].map(str::to_owned);
            words.into_iter().chain([file.display().to_string()]).collect()
        },
        client: |_| format!("wrk -t1 -c32 -d2s http://{SERVER}/"),
        answered: |printed| {
            printed.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok())
        },
    },
    Application {
        name: "unbound",
        port: 53,
        server: |folder| {
            let file = folder.file("unbound.conf").display().to_string();
            vec!["unbound".to_owned(), "-d".to_owned(), "-c".to_owned(), file]
        },
        client: |folder| {
            format!("dnsperf -s {SERVER} -d {} -l 2 -c 16 -q 64", folder.file("queries").display())
        },
        answered: |printed| {
            let line = printed.lines().find_map(|line| line.trim().strip_prefix("Queries completed:"))?;
            line.split_whitespace().next()?.parse().ok()
        },
    },
];

/// What is said where it cannot be measured.
pub(super) fn missing() -> Vec<Measurement> {
    vec![Measurement::missing("applications-ratio", "x", "not-measured")]
}

/// What joins the two pairs.
enum Middle {
    Program(Background),
    Thread { stop: Arc<AtomicBool>, number: String, thread: JoinHandle<()> },
}

/// A client and a server with something between them.
struct Side {
    hosts: Hosts,
    middle: Middle,
    _folder: Folder,
}

fn joined() -> Result<Hosts, BenchError> {
    let hosts = hosts()?;
    let join = || {
        for (name, host, address) in [(TO_CLIENT, &hosts.client, CLIENT), (TO_SERVER, &hosts.server, SERVER)]
        {
            hosts.middle.join(name, host, "eth0")?;
            host.ip(&format!("addr add {address}/24 dev eth0"))?;
        }
        Ok(())
    };
    join().map_err(|error: testbed::TestbedError| BenchError::setup(error))?;
    Ok(hosts)
}

impl Side {
    /// The engine.
    fn engine(processor: usize) -> Result<Side, BenchError> {
        let (hosts, folder) = (joined()?, Folder::new().map_err(BenchError::setup)?);
        let port = |name: &str| format!("{{type: af_packet, interface: {name}, ring: 1MiB}}");
        let file = format!(
            "superfluid: 1\nworkers: {{processors: [{processor}]}}\n\
             tenants: {{default: {{pool: {{buffers: 2048, buffer_size: 64KiB}}}}}}\n\
             ports:\n  client: {}\n  server: {}\nchains: {{application: [client, server]}}\n",
            port(TO_CLIENT),
            port(TO_SERVER)
        );
        let path = folder.write("chain.yaml", &file).map_err(BenchError::setup)?;
        let program = crate::product::superfluid()?;
        let mut command = hosts.middle.command(&program.to_string_lossy());
        command.arg("run").arg(path).args(["--json", "--every", "1h"]);
        let program = Background::start(&mut command).map_err(BenchError::setup)?;
        Side { hosts, middle: Middle::Program(program), _folder: folder }.answers()
    }

    /// A bridge thread.
    fn thread(processor: usize) -> Result<Side, BenchError> {
        let (hosts, folder) = (joined()?, Folder::new().map_err(BenchError::setup)?);
        let config =
            PoolConfig { buffers: 2048, buffer_size: BufferSize::LARGEST, headroom: 128, pages: None };
        let pool = Pool::new("bridge", config).map_err(BenchError::setup)?;
        let settings = |name: &str| Settings { ring: RING, ..Settings::new(name) };
        let relay = hosts.middle.enter(|| Relay::open(pool, settings(TO_CLIENT), settings(TO_SERVER)));
        let relay = relay.map_err(BenchError::setup)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (until, (told, number)) = (stop.clone(), std::sync::mpsc::channel());
        let work = move || {
            let mut set = rustix::thread::CpuSet::new();
            set.set(processor);
            // Refused, it would be found to have used the other one's time.
            let pinned = rustix::thread::sched_setaffinity(None, &set);
            let _ = told.send(pinned.map(|()| rustix::thread::gettid().as_raw_nonzero().to_string()));
            drop(relay.run(&until));
        };
        let thread =
            std::thread::Builder::new().name("bridge".into()).spawn(work).map_err(BenchError::setup)?;
        let number = number.recv().map_err(BenchError::setup)?.map_err(BenchError::setup)?;
        Side { hosts, middle: Middle::Thread { stop, number, thread }, _folder: folder }.answers()
    }

    /// Waits until the client reaches the server.
    fn answers(mut self) -> Result<Side, BenchError> {
        let began = Instant::now();
        while self.hosts.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_err() {
            let runs = match &mut self.middle {
                Middle::Program(program) => program.is_running(),
                Middle::Thread { .. } => true,
            };
            if !runs || began.elapsed() > LIMIT {
                return Err(BenchError::Setup("the client does not reach the server".to_owned()));
            }
        }
        Ok(self)
    }

    /// Processor time of what is in the middle.
    fn used(&self) -> Result<Duration, BenchError> {
        match &self.middle {
            Middle::Program(program) => threads_of(&program.id().as_raw_nonzero().to_string()),
            Middle::Thread { number, .. } => had(&format!("/proc/self/task/{number}")),
        }
    }

    fn end(self) -> Result<(), BenchError> {
        match self.middle {
            Middle::Program(program) => program.interrupt(LIMIT).map(drop).map_err(BenchError::setup),
            Middle::Thread { stop, thread, .. } => {
                stop.store(true, Relaxed);
                thread.join().map_err(|_| BenchError::Invalid("the bridge thread has failed".to_owned()))
            }
        }
    }
}

/// Processor time of a thread (proc(5), `schedstat`).
fn had(task: &str) -> Result<Duration, BenchError> {
    let text = std::fs::read_to_string(format!("{task}/schedstat")).map_err(BenchError::setup)?;
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| BenchError::setup("the kernel counts no processor time"))
}

/// Processor time of all threads of a process.
fn threads_of(process: &str) -> Result<Duration, BenchError> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).map_err(BenchError::setup)?;
    // A thread of a moment may be gone.
    Ok(tasks.flatten().filter_map(|task| had(&task.path().display().to_string()).ok()).sum())
}

/// One server of an application, and how its client asks.
struct Asked {
    server: Served,
    command: String,
    // Its server has files there.
    _folder: Folder,
}

impl Application {
    fn serve(&self, host: &Namespace, cores: Cores) -> Result<Asked, BenchError> {
        let folder = Folder::new().map_err(BenchError::setup)?;
        for (name, text) in [("nginx.conf", NGINX), ("unbound.conf", UNBOUND), ("queries", QUERIES)] {
            folder.write(name, text).map_err(BenchError::setup)?;
        }
        let device = cores.device.to_string();
        let words = (self.server)(&folder);
        let words: Vec<&str> = ["-c", &device].into_iter().chain(words.iter().map(String::as_str)).collect();
        let server = Served::start(host, "taskset", &words, self.port)?;
        let command = format!("taskset -c {} {}", cores.sender, (self.client)(&folder));
        Ok(Asked { server, command, _folder: folder })
    }

    /// Requests for each second of processor time, once.
    fn measure(&self, side: &Side, asked: &mut Asked) -> Result<f64, BenchError> {
        asked.server.expect_running()?;
        let server = asked.server.id();
        let used = || Ok::<_, BenchError>(side.used()? + threads_of(&server)?);
        let before = used()?;
        let printed = side.hosts.client.run(&asked.command, LIMIT).map_err(BenchError::setup)?.stdout;
        let spent = used()?.saturating_sub(before);
        let answered = (self.answered)(&printed).filter(|answered| *answered > 0);
        let none = || BenchError::Invalid(format!("`{}` answered nothing: {printed}", asked.command));
        Ok(answered.ok_or_else(none)? as f64 / spent.as_secs_f64().max(1e-6))
    }
}

pub(super) fn run(
    cores: Cores,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    ::peers::missing_of(PROGRAMS).map_err(BenchError::setup)?;
    progress(0.0, "hosts");
    let sides = [Side::engine(cores.device)?, Side::thread(cores.device)?];
    let (mut all, mut worst): (Vec<Measurement>, Option<Measurement>) = (Vec::new(), None);
    for (n, application) in APPLICATIONS.iter().enumerate() {
        let mut asked = Vec::new();
        for side in &sides {
            asked.push(application.serve(&side.hosts.server, cores)?);
        }
        let mut found = [Vec::new(), Vec::new()];
        // The first turn warms up and is not counted.
        for turn in 0..=RUNS {
            progress((n as f64 + turn as f64 / (RUNS + 1) as f64) / 3.0, application.name);
            for (n, side) in sides.iter().enumerate() {
                let value = application.measure(side, &mut asked[n])?;
                if turn > 0 {
                    found[n].push(value);
                }
            }
        }
        drop(asked);
        let [ours, theirs] = &found;
        let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        let ratio = Measurement::new("applications-ratio", "x", &ratios);
        if worst.as_ref().is_none_or(|worst| ratio.value < worst.value) {
            worst = Some(ratio);
        }
        let named = |what: &str, unit, values: &[f64]| {
            Measurement::new(&format!("{}-{what}", application.name), unit, values)
        };
        all.push(named("ratio", "x", &ratios));
        all.push(named("veth", "requests/s", ours));
        all.push(named("merge", "requests/s", theirs));
    }
    for side in sides {
        side.end()?;
    }
    let results = worst.into_iter().chain(all).collect();
    let note = format!(
        "applications: requests for each second of processor time; the server and the worker, or the bridge thread, on \
         processor {}, the client on processor {}",
        cores.device, cores.sender
    );
    Ok((results, vec![note]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_where_clients_print_them() {
        let [redis, nginx, unbound] = APPLICATIONS.map(|application| application.answered);
        assert_eq!(redis("\"SET\",\"20000.00\"\n\"GET\",\"60000.00\"\n"), Some(60_000));
        assert_eq!(redis("\"SET\",\"20000.00\"\n"), None);
        assert_eq!(nginx("  24181 requests in 2.00s, 4.91MB read\nRequests/sec:  12088.02\n"), Some(24_181));
        assert_eq!(unbound("  Queries sent: 9\n  Queries completed:    81234 (100.00%)\n"), Some(81_234));
        assert!(nginx("").is_none() && unbound("").is_none());
    }
}
