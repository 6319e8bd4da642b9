//! Superfluid's side: a function in the engine, between two ports.

use super::Side;
use crate::BenchError;
use crate::chain::{Factory, setup};
use crate::guests::program;
use engine::{Account, Event, GuestFactory, Target, Worker, WorkerSettings};
use guest_wasm::{InstanceSettings, Sandbox};
use image::Image;
use packet_memory::Pool;
use peers::{Busy, Cores, SoftirqThread, Window, thread_time};
use port::Port;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::clock::Clock;

/// A worker with one function between two ports.
pub(super) struct Device {
    worker: Worker,
    softirq: SoftirqThread,
    core: usize,
}

impl Device {
    /// Puts a function between the ports, the first of which is at its first interface.
    pub(super) fn new(
        sandbox: &Sandbox,
        image: &Image,
        config: Vec<u8>,
        pool: Arc<Pool>,
        ports: [Box<dyn Port>; 2],
        cores: Cores,
    ) -> Result<Device, BenchError> {
        Device::telling(sandbox, image, config, pool, ports, cores, |_| {})
    }

    /// The same; `tell` is called with what happens.
    pub(super) fn telling(
        sandbox: &Sandbox,
        image: &Image,
        config: Vec<u8>,
        pool: Arc<Pool>,
        ports: [Box<dyn Port>; 2],
        cores: Cores,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Device, BenchError> {
        let clock = Clock::calibrate();
        let mut worker = Worker::new(WorkerSettings::default(), clock, tell).map_err(BenchError::setup)?;
        let pool_id = worker.add_pool(pool.clone()).map_err(BenchError::setup)?;
        let settings = InstanceSettings { config, ..InstanceSettings::default() };
        let factory = Factory { program: program(sandbox, image)?, pool, settings };
        let guest = factory.start().map_err(BenchError::Setup)?;
        let tenant = worker.default_tenant();
        let function = worker.add_instance(setup(image, Box::new(factory), tenant, pool_id), guest);
        for (interface, mut port) in (0..).zip(ports) {
            port.maintain(clock.now());
            let name = format!("port-{interface}");
            let port = worker.add_port(&name, pool_id, port);
            worker
                .link(Target::Port(port), Target::Instance(function, interface))
                .map_err(BenchError::setup)?;
        }
        Ok(Device { worker, softirq: SoftirqThread::of(cores.device), core: cores.device })
    }

    /// Works for this long, on the processor of the program that is measured.
    pub(super) fn work(&mut self, time: Duration) -> Result<(), BenchError> {
        let _claim = Cores::claim(self.core).map_err(BenchError::setup)?;
        let began = Instant::now();
        while began.elapsed() < time {
            for _ in 0..16 {
                self.worker.step();
            }
        }
        Ok(())
    }

    /// Works until nothing comes any more; the processor time that took.
    pub(super) fn work_to_the_end(&mut self, limit: Duration) -> Result<Duration, BenchError> {
        let _claim = Cores::claim(self.core).map_err(BenchError::setup)?;
        let (began, before) = (Instant::now(), self.time()?);
        while self.worker.turn() {
            if began.elapsed() > limit {
                return Err(BenchError::Invalid(format!("not done within {limit:?}")));
            }
        }
        Ok(self.time()?.saturating_sub(before))
    }

    /// Polls for this long without ever sleeping; which part of that were turns in which there was something
    /// to do.
    pub(super) fn poll(&mut self, time: Duration) -> Result<f64, BenchError> {
        let _claim = Cores::claim(self.core).map_err(BenchError::setup)?;
        let began = Instant::now();
        let (mut last, mut busy) = (began, Duration::ZERO);
        while last - began < time {
            let worked = self.worker.turn();
            let now = Instant::now();
            busy += if worked { now - last } else { Duration::ZERO };
            last = now;
        }
        Ok(busy.as_secs_f64() / (last - began).as_secs_f64())
    }

    /// What it does in this time, polling.
    pub(super) fn measure_polling(&mut self, window: Duration) -> Result<Busy, BenchError> {
        let mut share = 0.0;
        let window = self.measured(|device| {
            share = device.poll(window)?;
            Ok(())
        })?;
        Ok(Busy { window, share })
    }

    /// What it does in this time.
    pub(super) fn measure(&mut self, window: Duration) -> Result<Window, BenchError> {
        self.measured(|device| device.work(window))
    }

    fn measured(
        &mut self,
        work: impl FnOnce(&mut Device) -> Result<(), BenchError>,
    ) -> Result<Window, BenchError> {
        let before = self.account();
        let began = self.time()?;
        work(self)?;
        let time = self.time()?.saturating_sub(began);
        let after = self.account();
        let ports = |count: fn(&port::PortCounters) -> u64| -> u64 {
            let sum = |account: &Account| account.ports.iter().map(|port| count(&port.counters)).sum::<u64>();
            sum(&after) - sum(&before)
        };
        Ok(Window {
            packets: ports(|counters| counters.ledger.delivered),
            received: ports(|counters| counters.ledger.received + counters.ledger.generated),
            time,
        })
    }

    /// The account of now.
    pub(super) fn account(&mut self) -> Account {
        self.worker.account(true)
    }

    /// Ends it, and checks that every packet is accounted for.
    pub(super) fn end(mut self) -> Result<Account, BenchError> {
        let account = self.account();
        account.balance().map_err(BenchError::setup)?;
        Ok(account)
    }

    /// The same where all packets have been through, after what it has found has been told.
    pub(super) fn finish(self) -> Result<Account, BenchError> {
        let account = self.worker.stop();
        account.balance().map_err(BenchError::setup)?;
        Ok(account)
    }
}

impl Side for Device {
    fn time(&mut self) -> Result<Duration, BenchError> {
        Ok(thread_time().map_err(BenchError::setup)? + self.softirq.time())
    }

    fn pass(&mut self, time: Duration) -> Result<(), BenchError> {
        self.work(time)
    }
}
