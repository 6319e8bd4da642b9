//! Snapshots to try things with.

use nf_abi::PacketRecord;
use snapshot::{
    Global, HostState, Identity, Line, Memory, PAGE, PacketState, Saved, SavedPacket, Tally, Value,
};

/// Everything that version 1.0 can say. It never changes: `golden/1.0-full.snapshot` is what it was written
/// as.
pub fn full() -> Saved<'static> {
    let mut memory = Memory::new(4 * 65_536, 1 << 20);
    let mut page = [0u8; 3 * PAGE];
    page[0] = 1;
    page[100] = 2;
    page[2 * PAGE..].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n % 251) as u8 + 1);
    memory.keep(0, &page);
    memory.keep(63, &[0xa5; PAGE]);
    let global = |name: &str, value| Global { name: name.to_owned(), value };
    let record = PacketRecord {
        verdict: 7,
        offset: 128,
        length: 9,
        buffer: 0x8000_0000,
        mark: 0x0102_0304_0506_0708,
        timestamp: 1_700_000_000_000_000_000,
        flow_hash: 0xdead_beef,
        tunnel_key: 42,
        nsh_path: 0x0000_01ff,
        service_id: 77,
        vlan: 0x2064,
        ingress: 1,
        flow_class: 3,
        hop_budget: 120,
        tunnel_type: 1,
        offload_flags: 1,
        gso_type: 0x81,
        device_port: 0,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
        reserved2: 0,
    };
    let bytes = |n: u8| (0..n).collect::<Vec<u8>>();
    Saved {
        identity: Identity {
            image: std::array::from_fn(|n| n as u8),
            name: "firewall".to_owned(),
            abi: 1,
            config: vec![0xa1, 0x61, 0x61, 0x01],
        },
        memory,
        globals: vec![
            global("sf_global_0", Value::I32(0x1_0000)),
            global("sf_global_1", Value::I64(u64::MAX)),
            global("sf_global_2", Value::F32(0x7fc0_0001)),
            global("sf_global_3", Value::F64(0x7ff8_0000_0000_0001)),
            global("sf_global_4", Value::V128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)),
        ],
        host: HostState {
            batch: 4096,
            now: 1_700_000_000_123_456_789,
            deadline: Some(1_700_000_001_000_000_000),
            generated: 3,
            counters: vec![0, 1, u64::MAX],
            log: vec![Line { severity: 9, text: "a warning, with \u{fffd}".to_owned() }],
            lines_lost: 2,
            events: vec!["{\"alert\":1}".to_owned(), String::new()],
            events_lost: 5,
        },
        packets: vec![
            SavedPacket::new(PacketState::Queued, &record, bytes(60)),
            SavedPacket::new(
                PacketState::Held { slot: 9, due: 1_700_000_002_000_000_000 },
                &record,
                bytes(14),
            ),
            SavedPacket::new(PacketState::Held { slot: u16::MAX, due: 0 }, &PacketRecord::default(), vec![]),
        ],
        tallies: vec![
            Tally { name: "calls".to_owned(), value: 12 },
            Tally { name: "packets".to_owned(), value: 345 },
        ],
    }
}

/// The least that a snapshot is.
pub fn least() -> Saved<'static> {
    Saved { memory: Memory::new(65_536, 65_536), ..Saved::default() }
}
