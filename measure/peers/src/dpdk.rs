//! What a program with DPDK tells of its ports, by the telemetry socket that every such program has.

use crate::PeerError;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket,
};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time for an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Packets that a program's ports moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Taken in, by all ports.
    pub received: u64,
    /// Given out, by all ports.
    pub sent: u64,
}

/// A connection to a program.
#[derive(Debug)]
pub(crate) struct Telemetry(OwnedFd);

impl Telemetry {
    /// Where a program with this run folder and this file prefix listens.
    pub fn path(folder: &Path, prefix: &str) -> PathBuf {
        folder.join("dpdk").join(prefix).join("dpdk_telemetry.v2")
    }

    /// Connects; `None` as long as there is no listener.
    pub fn connect(path: &Path) -> Option<Telemetry> {
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).ok()?;
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, which, Some(LIMIT)).ok()?;
        }
        connect(&socket, &SocketAddrUnix::new(path).ok()?).ok()?;
        let connection = Telemetry(socket);
        // It begins by saying what it is.
        connection.receive().ok()?;
        Some(connection)
    }

    fn receive(&self) -> Result<Value, PeerError> {
        let mut answer = vec![0; 16 << 10];
        let unexpected = |found: String| PeerError::Unexpected { peer: "DPDK telemetry", found };
        let (length, _) = recv(&self.0, &mut answer[..], RecvFlags::empty())
            .map_err(|error| unexpected(format!("no answer: {error}")))?;
        serde_json::from_slice(&answer[..length]).map_err(|error| unexpected(format!("{error}")))
    }

    fn ask(&self, what: &str) -> Result<Value, PeerError> {
        send(&self.0, what.as_bytes(), SendFlags::empty()).map_err(|error| PeerError::Unexpected {
            peer: "DPDK telemetry",
            found: format!("asking for {what}: {error}"),
        })?;
        self.receive()
    }

    /// Numbers of the ports.
    pub fn ports(&self) -> Result<Vec<u64>, PeerError> {
        let answer = self.ask("/ethdev/list")?;
        let ports =
            answer["/ethdev/list"].as_array().map(|ports| ports.iter().filter_map(Value::as_u64).collect());
        ports.ok_or_else(|| PeerError::Unexpected {
            peer: "DPDK telemetry",
            found: format!("no list of ports: {answer}"),
        })
    }

    /// What these ports moved until now.
    pub fn counts(&self, ports: &[u64]) -> Result<Counts, PeerError> {
        let mut sum = Counts::default();
        for port in ports {
            let answer = self.ask(&format!("/ethdev/stats,{port}"))?;
            let counts = counts(&answer).ok_or_else(|| PeerError::Unexpected {
                peer: "DPDK telemetry",
                found: format!("no counters of port {port}: {answer}"),
            })?;
            sum.received += counts.received;
            sum.sent += counts.sent;
        }
        Ok(sum)
    }
}

fn counts(answer: &Value) -> Option<Counts> {
    let stats = &answer["/ethdev/stats"];
    Some(Counts { received: stats["ipackets"].as_u64()?, sent: stats["opackets"].as_u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{accept, bind, listen};

    #[test]
    fn asks_as_the_programs_of_dpdk_expect() {
        let folder = crate::Folder::new().expect("a folder");
        let path = Telemetry::path(folder.path(), "x");
        assert!(Telemetry::connect(&path).is_none());
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
        let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        bind(&listener, &SocketAddrUnix::new(&path).expect("an address")).expect("bound");
        listen(&listener, 1).expect("listening");
        let server = std::thread::spawn(move || {
            let client = accept(&listener).expect("a client");
            let answer = |text: &str| send(&client, text.as_bytes(), SendFlags::empty()).expect("sent");
            answer(r#"{"version":"DPDK 22.11","pid":1,"max_output_len":16384}"#);
            let mut question = [0; 64];
            loop {
                let (length, _) = recv(&client, &mut question[..], RecvFlags::empty()).expect("received");
                match &question[..length] {
                    b"/ethdev/list" => answer(r#"{"/ethdev/list":[0,1]}"#),
                    b"/ethdev/stats,0" => answer(r#"{"/ethdev/stats":{"ipackets":5,"opackets":3}}"#),
                    b"/ethdev/stats,1" => answer(r#"{"/ethdev/stats":{"ipackets":7,"opackets":4}}"#),
                    b"/ethdev/stats,9" => answer(r#"{"/ethdev/stats":null}"#),
                    _ => return,
                };
            }
        });
        let telemetry = Telemetry::connect(&path).expect("connected");
        let ports = telemetry.ports().expect("ports");
        assert_eq!(telemetry.counts(&ports).expect("counters"), Counts { received: 12, sent: 7 });
        assert!(telemetry.counts(&[9]).is_err());
        drop(telemetry);
        server.join().expect("the server ended");
    }
}
