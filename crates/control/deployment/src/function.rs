//! Functions as they are started: their first guest, and how to make the next one after a fault.

use cpu_share::TenantId;
use engine::{
    FailPolicy, GuestFactory, GuestSetup, InstanceSetup, Policies, PoolId, RestartPolicy, StartWork,
};
use guest::{Cold, Guest, NotFrozen, SlotConfig};
use guest_wasm::{InstanceError, InstanceSettings, Program, SharedMemory, Slice};
use image::Image;
use packet_memory::Pool;
use snapshot::Saved;
use std::sync::Arc;
use telemetry::clock::Nanos;
use wiring::{FailMode, Instance};

/// Most packets that wait for a function.
const QUEUE: usize = 1024;

/// Starts instances of one image in one pool.
#[derive(Clone)]
struct Factory {
    program: Arc<Program>,
    pool: Arc<Pool>,
    settings: InstanceSettings,
    /// When preemptible guests are switched out.
    slice: Slice,
}

impl GuestFactory for Factory {
    fn work(&self) -> StartWork {
        let factory = self.clone();
        Box::new(move || factory.guest().map_err(|error| error.to_string()))
    }

    fn set_limits(&mut self, max_call: Nanos, slots: SlotConfig) {
        (self.settings.max_call, self.settings.slots) = (max_call, slots);
    }

    fn set_preemptible(&mut self) {
        self.settings.preemptible = Some(self.slice);
    }
}

/// Bounds on the packets that a function keeps of a pool.
fn slots(instance: &Instance, pool: &Pool) -> SlotConfig {
    SlotConfig { quota: instance.quota.of(pool.config().buffers), longest_hold: instance.longest_hold }
}

/// What holds for a function and its guests, and can be changed while it runs.
pub(crate) fn policies(instance: &Instance, pool: &Pool) -> Policies {
    Policies {
        fail: match instance.fail {
            FailMode::Closed => FailPolicy::Closed,
            FailMode::Open => FailPolicy::Open,
        },
        restart: RestartPolicy {
            first_delay: instance.restart.first,
            longest_delay: instance.restart.longest,
        },
        max_call: instance.max_call,
        slots: slots(instance, pool),
    }
}

impl Factory {
    fn guest(&self) -> Result<Box<dyn Guest>, InstanceError> {
        guest_wasm::start(&self.program, &self.pool, self.settings.clone())
    }
}

/// A function that is to be started: its configuration has been checked, and its program is there.
pub(crate) struct Unstarted {
    factory: Factory,
    image: Image,
    queue: usize,
}

impl Unstarted {
    /// `observes`: it is shown packets of others. Of what its guests say between two collections at most
    /// `log_lines` lines are kept.
    pub(crate) fn new(
        instance: &Instance,
        (image, program): (Image, Arc<Program>),
        pool: Arc<Pool>,
        slice: Slice,
        observes: bool,
        log_lines: usize,
    ) -> Unstarted {
        let policies = policies(instance, &pool);
        // An observer's copies are bounded like any packets of its own: they must not starve functions that
        // forward.
        let queue = if observes { QUEUE.min(policies.slots.quota as usize).max(1) } else { QUEUE };
        let settings = InstanceSettings {
            config: instance.config.to_cbor(),
            slots: policies.slots,
            max_call: policies.max_call,
            memory: Some(instance.memory),
            resident: instance.resident,
            preemptible: instance.preemptible.then_some(slice),
            log_lines,
            ..InstanceSettings::default()
        };
        Unstarted { factory: Factory { program, pool, settings, slice }, image, queue }
    }

    /// Starts it.
    ///
    /// # Errors
    /// As [`Unstarted::start_from`].
    pub(crate) fn start(self) -> Result<StartedFunction, String> {
        self.start_from(None)
    }

    /// Starts it from what was saved of one if there is such, with memory that it shares if there is such.
    ///
    /// # Errors
    /// Why it does not start. What it says of its configuration is told as it is, a line each.
    pub(crate) fn start_from(
        self,
        saved: Option<(&Saved<'_>, Option<Arc<SharedMemory>>)>,
    ) -> Result<StartedFunction, String> {
        let Unstarted { factory, image, queue } = self;
        let guest = match saved {
            None => factory.guest().map_err(|error| match error {
                InstanceError::Refused { log, .. } if !log.is_empty() => {
                    let lines: String = log.iter().flat_map(|line| ["\n  ", line.text.as_str()]).collect();
                    format!("it refuses its configuration:{lines}")
                }
                error => error.to_string(),
            })?,
            Some((saved, shared)) => {
                let Factory { program, pool, settings, .. } = &factory;
                match shared {
                    None => guest_wasm::restore(program, pool, settings.clone(), saved),
                    Some(memory) => {
                        guest_wasm::restore_sharing(program, pool, settings.clone(), saved, &memory)
                    }
                }
                .map_err(|error| error.to_string())?
            }
        };
        Ok(StartedFunction { guest, factory, image, queue })
    }

    /// With another setting of [`InstanceSettings::resident`].
    pub(crate) fn with_resident(mut self, resident: Option<u64>) -> Unstarted {
        self.factory.settings.resident = resident;
        self
    }

    /// Its configuration, as its guest reads it.
    pub(crate) fn config(&self) -> Vec<u8> {
        self.factory.settings.config.clone()
    }

    /// What makes its guests.
    pub(crate) fn factory(&self) -> Box<dyn GuestFactory> {
        Box::new(self.factory.clone())
    }

    /// Whether its image hands over what it knows.
    pub(crate) fn hands_over(&self) -> bool {
        self.factory.program.hands_over()
    }

    /// What an instance goes on with that has a guest, or is to have, of this factory: it is of the same
    /// image.
    pub(crate) fn setup(&self, guest: Option<Box<dyn Guest>>, factory: Box<dyn GuestFactory>) -> GuestSetup {
        guest_setup(&self.image, guest, factory)
    }
}

fn guest_setup(image: &Image, guest: Option<Box<dyn Guest>>, factory: Box<dyn GuestFactory>) -> GuestSetup {
    let manifest = image.manifest();
    let (drop_reasons, counters) = (manifest.drop_reasons.clone(), manifest.counters.clone());
    GuestSetup { guest, factory, drop_reasons, counters, flow_hash: manifest.flow_hash }
}

/// A function that has started and is in no fleet yet.
pub(crate) struct StartedFunction {
    guest: Box<dyn Guest>,
    factory: Factory,
    image: Image,
    queue: usize,
}

impl StartedFunction {
    /// Freezes it before it has done anything: it will be paused from its beginning.
    ///
    /// # Errors
    /// Why it cannot be frozen.
    pub(crate) fn frozen(self) -> Result<StartedFunction, String> {
        match self.guest.freeze() {
            Ok(frozen) => Ok(StartedFunction { guest: Box::new(Cold::new(frozen)), ..self }),
            Err(NotFrozen { error, .. }) => Err(error.to_string()),
        }
    }

    /// Whether it may take over what an instance of a program knows: both are of one function, and of such as
    /// hand over.
    pub(crate) fn can_follow(&self, before: &Program) -> bool {
        let mine = &self.factory.program;
        mine.facts().name == before.facts().name && mine.hands_over() && before.hands_over()
    }

    /// Whether it has state to hand over, as it is before it has seen anything.
    pub(crate) fn offers_state(&mut self, limit: Nanos) -> bool {
        matches!(self.guest.hand_out(limit), Ok(Some(_)))
    }

    /// With another setting of [`InstanceSettings::resident`] for the guests that its factory starts from now
    /// on.
    pub(crate) fn restarting_with(mut self, resident: Option<u64>) -> StartedFunction {
        self.factory.settings.resident = resident;
        self
    }

    /// What it has said that an operator should read.
    pub(crate) fn warnings(&mut self) -> impl Iterator<Item = String> + use<> {
        let lines = self.guest.kept_mut().take_log().into_iter();
        lines.filter(|line| line.severity <= nf_abi::stream::LOG_WARNING).map(|line| line.text)
    }

    /// Where its memory is, and how much of it there is.
    pub(crate) fn memory(&mut self) -> (usize, usize) {
        (self.guest.memory_place(), self.guest.memory())
    }

    /// What takes over in an instance that goes on.
    pub(crate) fn taking_over(self) -> GuestSetup {
        guest_setup(&self.image, Some(self.guest), Box::new(self.factory))
    }

    /// What a fleet makes an instance of.
    pub(crate) fn setup(
        self,
        name: &str,
        instance: &Instance,
        tenant: TenantId,
        pool: PoolId,
    ) -> (InstanceSetup, Box<dyn Guest>) {
        let manifest = self.image.manifest();
        let Policies { fail, restart, .. } = policies(instance, &self.factory.pool);
        let setup = InstanceSetup {
            name: name.to_owned(),
            pool,
            tenant,
            owner: instance.payer().to_owned(),
            claim: instance.cpu.claim(),
            interfaces: instance.interfaces,
            flow_hash: manifest.flow_hash,
            drop_reasons: manifest.drop_reasons.clone(),
            counters: manifest.counters.clone(),
            factory: Box::new(self.factory),
            fail,
            restart,
            queue: self.queue,
        };
        (setup, self.guest)
    }
}
