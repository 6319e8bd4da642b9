//! Debian's docker-registry, on a loopback port of the kernel's choice.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// One that runs until it is dropped.
pub struct Registry {
    process: Child,
    /// Host and port.
    pub host: String,
    /// Its storage, its settings, and whatever a test puts there.
    pub folder: TempDir,
}

impl Registry {
    /// With these lines below `http:`, and these behind all.
    pub fn start(http: &str, more: &str) -> Registry {
        let folder = tempfile::tempdir().expect("a folder");
        let config = format!(
            "version: 0.1\nlog: {{level: info, formatter: json}}\nstorage:\n  filesystem:\n    rootdirectory: {}\n  delete: \
             {{enabled: true}}\nhttp:\n  addr: 127.0.0.1:0\n{http}{more}",
            folder.path().join("storage").display()
        );
        let path = folder.path().join("config.yml");
        fs::write(&path, config).expect("written");
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut process = process.unwrap_or_else(|error| {
            panic!("docker-registry cannot be run ({error}); install the package `docker-registry`, or run scripts/setup test")
        });
        let log = process.stderr.take().expect("piped");
        let (sender, receiver) = mpsc::channel();
        // Reads to the end, so that the registry never waits for its log.
        thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("listening on ") {
                    let end = rest.find(['"', ',']).unwrap_or(rest.len());
                    let _ = sender.send(rest[..end].to_owned());
                }
            }
        });
        let host = receiver.recv_timeout(Duration::from_secs(20));
        let host = host.unwrap_or_else(|_| {
            let _ = process.kill();
            panic!("docker-registry does not listen")
        });
        Registry { process, host, folder }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
