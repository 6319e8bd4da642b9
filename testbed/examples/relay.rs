//! Stands in for `superfluid run FILE` where only the ports are to be looked at: moves packets between
//! `sf-lan` and `sf-wan` until it is interrupted, and reads no file.
//!
//! `cargo run --release -p testbed --example relay -- run FILE`

use packet_memory::{BufferSize, Pool, PoolConfig};
use port_af_packet::Settings;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use testbed::{Relay, TestbedError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let relay = open()?;
    println!("running a relay between sf-lan and sf-wan");
    let account = relay.run(&stop);
    for (name, counters) in ["sf-lan", "sf-wan"].iter().zip(&account.ports) {
        let ledger = &counters.ledger;
        print!("{name}: received {} delivered {}", ledger.received, ledger.delivered);
        for (reason, count) in ledger.dropped.nonzero() {
            print!(" {reason} {count}");
        }
        println!(" lost by the kernel {}", counters.kernel_lost);
    }
    println!("longest packet {} bytes, {} to be segmented", account.longest, account.segmented);
    Ok(())
}

fn open() -> Result<Relay, TestbedError> {
    let config = PoolConfig { buffers: 1024, buffer_size: BufferSize::LARGEST, ..PoolConfig::default() };
    Relay::open(Pool::new("relay", config)?, Settings::new("sf-lan"), Settings::new("sf-wan"))
}
