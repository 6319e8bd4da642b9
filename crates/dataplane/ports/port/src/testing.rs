//! What the ports' tests share.

use crate::Port;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use telemetry::clock::Nanos;

/// Some time of the day.
pub(crate) const NOW: Nanos = Nanos(1_700_000_000_000_000_000);

/// A pool of 2 KiB buffers on ordinary pages.
pub(crate) fn pool(buffers: u32) -> Pool {
    let pages = Some(PageKind::Ordinary);
    Pool::new("test", PoolConfig { buffers, buffer_size: BufferSize::DEFAULT, headroom: 128, pages })
        .expect("a pool")
}

/// Packets with these bytes.
pub(crate) fn packets<'a>(pool: &Pool, contents: impl IntoIterator<Item = &'a [u8]>) -> Vec<Packet> {
    let fill = |bytes| {
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, bytes).expect("room");
        packet
    };
    contents.into_iter().map(fill).collect()
}

/// Everything that the port gives at this time, in batches of 32.
pub(crate) fn receive_all(port: &mut dyn Port, pool: &Pool, now: Nanos) -> Vec<Packet> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        port.receive(pool, now, 32, &mut all);
        if all.len() == before {
            return all;
        }
    }
}

/// Checks the account: nothing is lost, of packets or of buffers. `outside` packets were made by the test for
/// the port, and `held` are in the test's hands.
pub(crate) fn assert_conserved(port: &dyn Port, pool: &Pool, outside: u64, held: usize) {
    let mut ledger = port.counters().ledger.clone();
    ledger.generated += outside;
    assert_eq!(ledger.balance(port.in_flight() + held as u64), Ok(()));
    assert_eq!(pool.available() + held, pool.config().buffers as usize);
}
