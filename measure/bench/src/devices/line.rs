//! A worker with a device between a feed and a function, and observers at the device.

use crate::chain::{Factory, setup};
use crate::feed::{Counter, Feed, Frames, drive};
use crate::frames::BATCH;
use crate::guests::program;
use crate::{BenchError, RUNS};
use engine::{GuestFactory, InstanceId, Target, View, Worker, WorkerSettings};
use guest_wasm::{InstanceSettings, Sandbox};
use image::Image;
use packet_memory::Pool;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use telemetry::clock::Clock;
use virtual_device::{Device, DeviceSettings, Mode, Opener, Share, SwitchPort};

/// A run, and the one before that warms up.
pub(super) const ROUNDS: usize = RUNS + 1;

/// Makes guests of an image without a configuration.
pub(super) fn factory(sandbox: &Sandbox, image: &Image, pool: &Arc<Pool>) -> Result<Factory, BenchError> {
    Ok(Factory {
        program: program(sandbox, image)?,
        pool: pool.clone(),
        settings: InstanceSettings::default(),
    })
}

/// A direct device: its port is at plug 0, its opener at 1.
pub(super) fn direct() -> Arc<Device> {
    let openers = vec![Opener { plug: SwitchPort(1), side: None, receives: true }];
    let ports = vec![SwitchPort(0)];
    Arc::new(Device::new(DeviceSettings::new(Mode::Direct, Share::Single, ports, openers), None))
}

/// See the module's documentation.
pub(super) struct Line {
    worker: Worker,
    delivered: Arc<AtomicU64>,
    observers: Vec<InstanceId>,
}

impl Line {
    /// With packets of a size, and so many observers.
    pub(super) fn new(
        sandbox: &Sandbox,
        image: &Image,
        size: usize,
        observers: usize,
        pool: &Arc<Pool>,
    ) -> Result<Line, BenchError> {
        let clock = Clock::calibrate();
        let mut worker = Worker::new(WorkerSettings::default(), clock, |_| {}).map_err(BenchError::setup)?;
        let pool_id = worker.add_pool(pool.clone()).map_err(BenchError::setup)?;
        let factory = factory(sandbox, image, pool)?;
        let add = |worker: &mut Worker| {
            let guest = factory.start().map_err(BenchError::Setup)?;
            let setup = setup(image, Box::new(factory.clone()), worker.default_tenant(), pool_id);
            Ok::<_, BenchError>(worker.add_instance(setup, guest))
        };
        let function = add(&mut worker)?;
        let feed = Feed::open(Frames::Computed { size }).at_most(BATCH);
        let source = worker.add_port("feed", pool_id, Box::new(feed));
        let device = worker.add_switch("device", direct()).map_err(BenchError::setup)?;
        let delivered = Arc::new(AtomicU64::new(0));
        let sink = worker.add_port("sink", pool_id, Box::new(Counter::new(delivered.clone())));
        for (a, b) in [
            (Target::Port(source), Target::Switch(device, SwitchPort(0))),
            (Target::Switch(device, SwitchPort(1)), Target::Instance(function, 0)),
            (Target::Instance(function, 1), Target::Port(sink)),
        ] {
            worker.link(a, b).map_err(BenchError::setup)?;
        }
        let observers = (0..observers)
            .map(|_| {
                let observer = add(&mut worker)?;
                let at = Target::Switch(device, SwitchPort(0));
                worker.observe(observer, at, View::default()).map_err(BenchError::setup)?;
                Ok(observer)
            })
            .collect::<Result<Vec<_>, BenchError>>()?;
        Ok(Line { worker, delivered, observers })
    }

    /// Sends packets through; nanoseconds a packet.
    pub(super) fn run(&mut self, packets: usize) -> Result<f64, BenchError> {
        drive(&mut self.worker, &self.delivered, packets)
    }

    /// Checks that nothing was lost, and that every observer was called with every packet itself.
    pub(super) fn check(mut self) -> Result<(), BenchError> {
        let account = self.worker.account(false);
        account.balance().map_err(BenchError::setup)?;
        let generated = account.ledger.generated;
        let shown =
            account.instances.iter().filter(|instance| instance.packets + account.in_flight >= generated);
        let missed: u64 = account.instances.iter().map(|instance| instance.missed).sum();
        let lost = (account.ledger.dropped.total(), account.ledger.copied, missed);
        if lost != (0, 0, 0) || shown.count() != 1 + self.observers.len() {
            return Err(BenchError::Invalid(format!(
                "of {generated} packets {} were lost, {} copied and {} missed by observers",
                lost.0, lost.1, lost.2
            )));
        }
        Ok(())
    }
}
