//! iperf3, as far as it is needed.

use crate::{Background, Namespace, SERVER, TestbedError};
use std::thread;
use std::time::{Duration, Instant};

/// The port that iperf3 uses.
const PORT: u16 = 5201;

/// Longest time until the server listens, and for what a measurement takes besides its own time.
const LIMIT: Duration = Duration::from_secs(10);

/// An iperf3 server, ended with this value.
#[derive(Debug)]
pub struct Iperf(Background);

impl Iperf {
    /// Starts a server on a host that has the address [`SERVER`].
    ///
    /// # Errors
    /// [`TestbedError`]: iperf3 is not installed, or does not listen.
    pub fn serve(host: &Namespace) -> Result<Iperf, TestbedError> {
        let mut command = host.command("iperf3");
        let server = Background::start(command.args(["--server", "--forceflush"]))?;
        let begin = Instant::now();
        // It is not asked by a connection: it would take that for a client, and refuse the next one until
        // that has gone.
        while !host.enter(is_listening) {
            if begin.elapsed() > LIMIT {
                let (stdout, stderr) = server.finish();
                let command = "iperf3 --server".to_owned();
                return Err(TestbedError::TimeOut { command, limit: LIMIT, output: stdout + &stderr });
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Iperf(server))
    }

    /// Sends from the client for so many seconds; bits in a second that arrived. `options` are further words
    /// of the command.
    ///
    /// # Errors
    /// [`TestbedError`]: it failed, or printed no rate.
    pub fn measure(&mut self, client: &Namespace, seconds: u32, options: &str) -> Result<f64, TestbedError> {
        let command = format!("iperf3 --client {SERVER} --time {seconds} --format k {options}");
        if !self.0.is_running() {
            let source = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            return Err(TestbedError::Start { command: "iperf3 --server".to_owned(), source });
        }
        let begin = Instant::now();
        let output = loop {
            match client.run(&command, Duration::from_secs(seconds.into()) + LIMIT) {
                // It has still to do with the client before.
                Err(TestbedError::Failed { output, .. }) if is_busy(&output) && begin.elapsed() < LIMIT => {
                    thread::sleep(Duration::from_millis(50));
                }
                finished => break finished?,
            }
        };
        rate(&output.stdout).ok_or(TestbedError::Answer { command, output: output.stdout })
    }
}

/// Whether a process in this network namespace listens on the port, see proc_pid_net(5).
fn is_listening() -> bool {
    let tables = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")));
    let wanted = format!(":{PORT:04X}");
    tables.iter().flatten().flat_map(|table| table.lines()).any(|row| {
        let mut words = row.split_whitespace();
        words.nth(1).is_some_and(|address| address.ends_with(&wanted)) && words.nth(1) == Some("0A")
    })
}

/// Whether a client was refused because the server measures for another one.
fn is_busy(output: &str) -> bool {
    ["Connection reset by peer", "the server is busy"].iter().any(|words| output.contains(words))
}

/// The last line for the receiver: of several connections it is their sum.
fn rate(output: &str) -> Option<f64> {
    let row = output.lines().rfind(|row| row.contains("receiver"))?;
    let words: Vec<&str> = row.split_whitespace().collect();
    let unit = words.iter().position(|word| *word == "Kbits/sec")?;
    Some(words.get(unit.checked_sub(1)?)?.parse::<f64>().ok()? * 1e3)
}

#[cfg(test)]
mod tests {
    use super::{is_busy, rate};

    #[test]
    fn the_rate_is_that_of_the_receiver_and_of_all() {
        let one = "[  5]   0.00-1.00   sec  1.10 GBytes  9437184 Kbits/sec    0             sender\n\
                   [  5]   0.00-1.00   sec  1.09 GBytes  9400000 Kbits/sec                  receiver\n\niperf Done.\n";
        assert_eq!(rate(one), Some(9.4e9));
        let sum = "[SUM]   0.00-1.00   sec  2.0 GBytes  19000000 Kbits/sec                  receiver\n";
        assert_eq!(rate(&format!("{one}{sum}")), Some(19e9));
        assert_eq!(rate("iperf3: error - unable to connect to server"), None);
    }

    #[test]
    fn a_server_that_is_busy_is_told_from_one_that_is_not_there() {
        assert!(is_busy("iperf3: error - unable to connect to server: Connection reset by peer\n"));
        assert!(is_busy("iperf3: error - the server is busy running a test. try again later\n"));
        assert!(!is_busy("iperf3: error - unable to connect to server: Connection refused\n"));
    }
}
