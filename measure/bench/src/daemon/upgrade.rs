//! Another image for a function that works at full load: what is lost, and for how long nothing is done.

use super::pause::host;
use crate::guests::stock;
use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use ::deployment::{Catalog, Host, Succession};
use std::time::Duration;
use wiring::Instance;

/// Flows that the function knows.
const FLOWS: usize = 10_000;
/// Upgrades of one run.
const UPGRADES: usize = 20;

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let document = format!(
        "superfluid: 1\n\
         ports:\n  source: {{type: generator, flows: {FLOWS}, order: random}}\n  sink: {{type: sink}}\n\
         functions:\n  fw:\n    image: firewall\n    config:\n      max_flows: 65536\n      rules: [{{action: accept, protocol: udp}}]\n\
         chains:\n  one: [source, fw, sink]\n"
    );
    let (host, catalog) = host(&document)?;
    std::thread::sleep(Duration::from_millis(500));
    let instance = host.instance("fw").ok_or_else(|| BenchError::Setup("there is no `fw`".to_owned()))?;
    // Another image, which differs in a name that is never read: what changes in code alone is taken over in
    // the same way.
    let path = std::env::temp_dir().join(format!("superfluid-bench-{}.wasm", std::process::id()));
    let mut wasm = stock("firewall")?.wasm().to_vec();
    wasm.extend(b"\x00\x09\x04name\x00\x02\x01n");
    std::fs::write(&path, wasm).map_err(BenchError::setup)?;
    let next = Instance { image: path.display().to_string(), ..instance.clone() };
    let found = measure(&host, &catalog, &instance, &next, &document, progress);
    // What cannot be removed is in the folder for what is temporary.
    let _ = std::fs::remove_file(&path);
    let (alike, others) = found?;
    let account = host.stop().map_err(BenchError::setup)?;
    account.balance().map_err(BenchError::setup)?;
    let lost: u64 = account.ledger.dropped.nonzero().map(|(_, count)| count).sum();
    Ok(vec![
        Measurement::new("lost", "packets", &[lost as f64]),
        Measurement::new("blocked-us", "us", &alike),
        Measurement::new("blocked-layout-us", "us", &others),
    ])
}

/// For how long nothing was done, by run: by images that lay out their memory alike, and by others.
fn measure(
    host: &Host,
    catalog: &Catalog,
    instance: &Instance,
    next: &Instance,
    document: &str,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<f64>, Vec<f64>), BenchError> {
    let (mut alike, mut others) = (Vec::new(), Vec::new());
    let changed = document.replace("max_flows: 65536", "max_flows: 65537");
    if changed == document {
        return Err(BenchError::Setup("there is no other configuration".to_owned()));
    }
    let other = config::check("bench", &changed, catalog);
    let other = other.map_err(|_| BenchError::Setup("the other configuration is refused".to_owned()))?;
    let other = other.wiring.instances.get("fw").cloned();
    let other = other.ok_or_else(|| BenchError::Setup("there is no `fw`".to_owned()))?;
    for run in 0..RUNS {
        progress(run as f64 / RUNS as f64, "upgrades at full load");
        let (mut same, mut different) = (Vec::new(), Vec::new());
        for _ in 0..UPGRADES / 2 {
            for to in [next, instance] {
                same.push(blocked(host, catalog, to, Succession::Moved)?);
            }
            for to in [&other, instance] {
                different.push(blocked(host, catalog, to, Succession::Carried)?);
            }
        }
        alike.push(median(&same));
        others.push(median(&different));
    }
    Ok((alike, others))
}

/// For how long nothing was done while another guest took over, in microseconds.
fn blocked(host: &Host, catalog: &Catalog, instance: &Instance, how: Succession) -> Result<f64, BenchError> {
    let taken = host.take_over("fw", instance, catalog).map_err(BenchError::setup)?;
    if taken.how != how {
        return Err(BenchError::Invalid("the new guest knows nothing".to_owned()));
    }
    std::thread::sleep(Duration::from_millis(2));
    Ok(taken.stood_still.0 as f64 / 1e3)
}
