//! Sandboxes to measure: stock images and the modules that exist for measuring alone.

use crate::BenchError;
use engine::{Change, Fleet, FleetError};
use guest::SlotConfig;
use guest_wasm::{InstanceSettings, PreemptibleGuest, Program, Sandbox, Slice, WasmGuest};
use image::{Image, Names};
use packet_memory::{BufferSize, PageKind, Pool, PoolConfig};
use schema::{Files, NoFiles};
use std::sync::Arc;
use telemetry::clock::Nanos;
use yaml_document::{Document, Location, Position};

/// A module of this crate.
pub(crate) fn module(name: &str) -> Result<Image, BenchError> {
    macro_rules! wasm {
        ($name:literal) => {
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm"))
        };
    }
    let (wasm, memory_limit): (&[u8], &str) = match name {
        "burn" => (wasm!("burn"), "64KiB"),
        "call" => (wasm!("call"), "64KiB"),
        "chatty" => (wasm!("chatty"), "64KiB"),
        "empty" => (wasm!("empty"), "64KiB"),
        "hold" => (wasm!("hold"), "64KiB"),
        "slow" => (wasm!("slow"), "64KiB"),
        "slow_export" => (wasm!("slow_export"), "64KiB"),
        "slow_start" => (wasm!("slow_start"), "64KiB"),
        "spin" => (wasm!("spin"), "64KiB"),
        "timer_storm" => (wasm!("timer_storm"), "64KiB"),
        "touch" => (wasm!("touch"), "1GiB"),
        "trap" => (wasm!("trap"), "64KiB"),
        "work" => (wasm!("work"), "64KiB"),
        _ => return Err(BenchError::Setup(format!("there is no module `{name}`"))),
    };
    // What takes part in requests has a specification of any size.
    let config = match name {
        "chatty" => {
            "config:\n  note: {type: string, max_length: 4194304, required: false, help: Text that nothing reads.}\n"
        }
        _ => "",
    };
    let manifest = format!(
        "name: bench-{}\nversion: 1.0.0\nabi: 1\nsummary: Measures the engine.\nlanguage: c\naccess: read\n\
         interfaces: [left, right]\nmemory_limit: {memory_limit}\ncounters: [calls]\n{config}",
        name.replace('_', "-")
    );
    image::assemble(wasm, &manifest, Names::Dropped).map(|(image, _)| image).map_err(BenchError::setup)
}

/// An image that the program brings along.
pub(crate) fn stock(name: &str) -> Result<Image, BenchError> {
    let bytes =
        stock_images::stock(name).ok_or_else(|| BenchError::Setup(format!("no stock image `{name}`")))?;
    Image::load(bytes).map_err(BenchError::setup)
}

/// Compiles an image.
pub(crate) fn program(sandbox: &Sandbox, image: &Image) -> Result<Arc<Program>, BenchError> {
    sandbox.compile(image.wasm(), image.into()).map_err(BenchError::setup)
}

/// An instance with this configuration (YAML; empty for none).
pub(crate) fn instance(
    program: &Arc<Program>,
    image: &Image,
    pool: &Arc<Pool>,
    config: &str,
) -> Result<WasmGuest, BenchError> {
    instance_with(program, pool, configuration(image, config)?)
}

/// The same with a configuration as the guest gets it.
pub(crate) fn instance_with(
    program: &Arc<Program>,
    pool: &Arc<Pool>,
    config: Vec<u8>,
) -> Result<WasmGuest, BenchError> {
    WasmGuest::new(program, pool, settings(config)).map_err(BenchError::setup)
}

/// The same where a call may take a minute: how long it takes is the result, which has a bound of its own,
/// and the default `max_call` would end the very calls that miss it.
pub(crate) fn patient_instance(
    program: &Arc<Program>,
    pool: &Arc<Pool>,
    config: Vec<u8>,
) -> Result<WasmGuest, BenchError> {
    let settings = InstanceSettings { max_call: Nanos::from_millis(60_000), ..settings(config) };
    WasmGuest::new(program, pool, settings).map_err(BenchError::setup)
}

/// The same as a preemptible function: its calls run on a stack of their own, and are switched out after a
/// `slice`.
pub(crate) fn preemptible(
    program: &Arc<Program>,
    image: &Image,
    pool: &Arc<Pool>,
    slice: Nanos,
) -> Result<PreemptibleGuest, BenchError> {
    let settings = settings(configuration(image, "")?);
    PreemptibleGuest::new(program, pool, settings, Slice(slice)).map_err(BenchError::setup)
}

fn settings(config: Vec<u8>) -> InstanceSettings {
    InstanceSettings {
        config,
        slots: SlotConfig { quota: 16, longest_hold: Nanos::from_millis(1000) },
        // Tables are filled alike each time, and as those of the same function natively.
        random: Some([0x5a; nf_abi::RANDOM]),
        ..InstanceSettings::default()
    }
}

/// A configuration as the guest gets it: checked against the image's schema, in CBOR.
pub(crate) fn configuration(image: &Image, config: &str) -> Result<Vec<u8>, BenchError> {
    configuration_with(image, config, &NoFiles)
}

/// The same where the configuration names files.
pub(crate) fn configuration_with(
    image: &Image,
    config: &str,
    files: &dyn Files,
) -> Result<Vec<u8>, BenchError> {
    let document =
        Document::parse("bench", if config.is_empty() { "{}" } else { config }).map_err(BenchError::setup)?;
    let mut faults = Vec::new();
    let place = Location::new("bench", "config", Position::START);
    let value = image.manifest().schema.check_with(&place, Some(document.root()), &[], files, &mut faults);
    match (value, faults.first()) {
        (Some(value), None) => Ok(value.to_cbor()),
        (_, Some(fault)) => Err(BenchError::setup(fault)),
        (None, None) => Err(BenchError::Setup("the configuration has no value".into())),
    }
}

/// Changes a fleet.
pub(crate) fn change<R>(
    fleet: &Fleet,
    deed: impl FnOnce(&mut Change<'_, '_>) -> Result<R, FleetError>,
) -> Result<R, BenchError> {
    fleet.change(deed).map_err(BenchError::setup)?.map_err(BenchError::setup)
}

/// A pool; `pages` as in [`PoolConfig`].
pub(crate) fn pool(buffers: u32, pages: Option<PageKind>) -> Result<Arc<Pool>, BenchError> {
    let config = PoolConfig { buffers, buffer_size: BufferSize::DEFAULT, headroom: 128, pages };
    Pool::new("bench", config).map(Arc::new).map_err(BenchError::setup)
}
