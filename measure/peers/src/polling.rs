//! A program that polls: started once, measured in windows, stopped in between.

use crate::dpdk::{Counts, Telemetry};
use crate::process::Process;
use crate::{Cores, PeerError, SoftirqThread};
use std::time::Duration;

/// What was moved in a window of time, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Packets given out.
    pub packets: u64,
    /// Packets taken in.
    pub received: u64,
    /// Processor time of the polling threads, with what the kernel did in their name and in its own for them.
    pub time: Duration,
}

impl Window {
    /// Nanoseconds of processor time for each packet given out.
    pub fn nanos_per_packet(&self) -> f64 {
        self.time.as_nanos() as f64 / self.packets as f64
    }
}

/// What a thread that polls did in a window of time, and which part of its time it took packets in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// All of it.
    pub window: Window,
    /// Of its time, from 0 to 1, that of rounds in which packets came.
    pub share: f64,
}

impl Busy {
    /// Nanoseconds of processor time for each packet given out, of rounds in which packets came.
    pub fn nanos_per_packet(&self) -> f64 {
        self.window.nanos_per_packet() * self.share
    }

    /// Millions of packets given out in a second.
    pub fn mega_packets_per_second(&self) -> f64 {
        self.window.packets as f64 / self.window.time.as_micros() as f64
    }
}

/// A program whose threads poll DPDK ports.
#[derive(Debug)]
pub struct Polling {
    process: Process,
    telemetry: Telemetry,
    ports: Vec<u64>,
    threads: &'static str,
    softirq: SoftirqThread,
}

impl Polling {
    /// Waits until the program has `ports` ports and polls them. `threads` is how the names of the polling
    /// ones begin.
    pub(crate) fn ready(
        mut process: Process,
        socket: &std::path::Path,
        ports: usize,
        threads: &'static str,
        cores: Cores,
    ) -> Result<Polling, PeerError> {
        const START: Duration = Duration::from_secs(30);
        let telemetry = process.wait_for("no telemetry", START, |_| Telemetry::connect(socket))?;
        let ports = process
            .wait_for("no ports", START, |_| telemetry.ports().ok().filter(|found| found.len() == ports))?;
        // A thread that polls takes most of its processor; one that waits to be told takes nothing.
        process.wait_for("no thread polls", START, |process| {
            let before = process.time_of(threads).ok()?.0;
            std::thread::sleep(Duration::from_millis(50));
            (process.time_of(threads).ok()?.0 - before > Duration::from_millis(10)).then_some(())
        })?;
        process.favour(threads)?;
        Ok(Polling { process, telemetry, ports, threads, softirq: SoftirqThread::of(cores.device) })
    }

    fn snapshot(&self) -> Result<(Duration, Counts), PeerError> {
        Ok((self.time()?, self.telemetry.counts(&self.ports)?))
    }

    /// What it moves in this time.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended, or does not answer.
    pub fn measure(&self, window: Duration) -> Result<Window, PeerError> {
        let before = self.snapshot()?;
        std::thread::sleep(window);
        let after = self.snapshot()?;
        Ok(Window {
            packets: after.1.sent - before.1.sent,
            received: after.1.received - before.1.received,
            time: after.0.saturating_sub(before.0),
        })
    }

    /// Processor time of its polling threads until now, and of the kernel's thread on their processor.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended.
    pub fn time(&self) -> Result<Duration, PeerError> {
        Ok(self.process.time_of(self.threads)?.0 + self.softirq.time())
    }

    /// Stops it.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended.
    pub fn pause(&self) -> Result<(), PeerError> {
        self.process.pause()
    }

    /// Lets it go on, and gives it time to warm up.
    ///
    /// # Errors
    /// [`PeerError`]: it has ended.
    pub fn resume(&self) -> Result<(), PeerError> {
        self.process.resume()?;
        std::thread::sleep(Duration::from_millis(150));
        Ok(())
    }
}
