//! Servers that are asked.

use crate::BenchError;
use std::fs;
use std::time::{Duration, Instant};
use testbed::{Background, Namespace};

/// Longest time until a server listens.
const LIMIT: Duration = Duration::from_secs(10);

/// A server on a host; ended with this value.
pub(crate) struct Served(Background);

impl Served {
    /// Starts a program, and waits until there is a socket on its port.
    pub(crate) fn start(
        host: &Namespace,
        program: &str,
        words: &[&str],
        port: u16,
    ) -> Result<Served, BenchError> {
        let mut server = Background::start(host.command(program).args(words)).map_err(BenchError::setup)?;
        let begin = Instant::now();
        while !host.enter(|| is_bound(port)) {
            if begin.elapsed() > LIMIT || !server.is_running() {
                let (stdout, stderr) = server.finish();
                return Err(BenchError::Setup(format!(
                    "{program} listens on no port {port}: {stdout}{stderr}"
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Served(server))
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> String {
        self.0.id().as_raw_nonzero().to_string()
    }

    /// Refuses figures of one that has ended meanwhile.
    pub(crate) fn expect_running(&mut self) -> Result<(), BenchError> {
        match self.0.is_running() {
            true => Ok(()),
            false => Err(BenchError::Invalid("the server has ended".into())),
        }
    }
}

/// Whether a socket of this network namespace waits at a port, see proc_pid_net(5): TCP in the state LISTEN,
/// UDP unconnected.
fn is_bound(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    [("tcp", "0A"), ("udp", "07")].into_iter().any(|(table, state)| {
        let rows = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        rows.lines().any(|row| {
            let mut words = row.split_whitespace();
            words.nth(1).is_some_and(|address| address.ends_with(&wanted)) && words.nth(1) == Some(state)
        })
    })
}
