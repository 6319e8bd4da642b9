//! TCP in segments of 64 KiB through a stateful firewall between two TAP devices, beside the kernel's bridge
//! between two veth pairs, which looks at no connection. iperf3 runs through one and the other in turns.

use crate::between_hosts::{Allowed, Bridged, Firewalled};
use crate::{BenchError, Measurement, RUNS};
use testbed::{Hosts, Iperf};

/// How long iperf3 sends each time.
const SECONDS: u32 = 2;

/// Bytes that a packet must have on average for "segments of 64 KiB" to be true: acknowledgements count as
/// well.
pub(crate) const SEGMENTS: u64 = 8 << 10;

/// What iperf3 needs.
pub(crate) const ALLOWED: &[Allowed] = &[("tcp", 5201)];

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    progress(0.0, "hosts");
    let bridged = Bridged::open()?;
    progress(0.0, "the program, with a firewall between two TAP devices");
    let firewalled = Firewalled::start(ALLOWED)?;
    let sides = [(&firewalled.hosts, "through the firewall"), (&bridged.hosts, "through the bridge")];
    let [chain, bridge] = in_turns(sides, progress)?;
    firewalled.end()?.expect_segments(SEGMENTS)?;
    let ratios: Vec<f64> = chain.iter().zip(&bridge).map(|(chain, bridge)| chain / bridge).collect();
    Ok(vec![
        Measurement::new("tcp-ratio", "x", &ratios),
        Measurement::new("tcp-firewall", "Gbit/s", &chain),
        Measurement::new("tcp-bridge", "Gbit/s", &bridge),
    ])
}

/// Gbit/s of one TCP connection between each of several pairs of hosts, in turns; the first turn warms up and
/// is not counted.
pub(crate) fn in_turns<const N: usize>(
    sides: [(&Hosts, &str); N],
    progress: &mut dyn FnMut(f64, &str),
) -> Result<[Vec<f64>; N], BenchError> {
    let mut servers = Vec::new();
    for (hosts, _) in sides {
        servers.push(Iperf::serve(&hosts.server).map_err(BenchError::setup)?);
    }
    let mut rates = [const { Vec::new() }; N];
    for turn in 0..=RUNS {
        for (side, (hosts, name)) in sides.into_iter().enumerate() {
            progress((N * turn + side) as f64 / (N * (RUNS + 1)) as f64, name);
            let bits = servers[side].measure(&hosts.client, SECONDS, "").map_err(BenchError::setup)?;
            if turn > 0 {
                rates[side].push(bits / 1e9);
            }
        }
    }
    Ok(rates)
}
