//! What is written is read again, whatever it is.

mod support;

use nf_abi::PacketRecord;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use snapshot::{
    Global, HostState, Identity, LINE, Line, Memory, PAGE, PacketState, Saved, SavedPacket, Tally, Value,
};

const SIZE: usize = 3 * 65_536;

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u32>().prop_map(Value::I32),
        any::<u64>().prop_map(Value::I64),
        any::<u32>().prop_map(Value::F32),
        any::<u64>().prop_map(Value::F64),
        any::<u128>().prop_map(Value::V128),
    ]
}

/// Memory as a function may leave it: some lines here and there, some whole pages.
fn memory() -> impl Strategy<Value = Vec<u8>> {
    let lines = vec((0..SIZE / LINE, any::<u8>()), 0..60);
    let pages = vec((0..SIZE / PAGE, 1u8..), 0..4);
    (lines, pages).prop_map(|(lines, pages)| {
        let mut memory = vec![0; SIZE];
        for (page, byte) in pages {
            memory[page * PAGE..(page + 1) * PAGE].fill(byte);
        }
        lines.into_iter().for_each(|(line, byte)| memory[line * LINE + usize::from(byte) % LINE] = byte);
        memory
    })
}

fn packet() -> impl Strategy<Value = (Option<u64>, PacketRecord, Vec<u8>)> {
    let numbers = (any::<u32>(), any::<u64>(), any::<u16>(), any::<u8>());
    (option::of(any::<u64>()), numbers, vec(any::<u8>(), 0..200)).prop_map(|(due, (a, b, c, d), bytes)| {
        let record = PacketRecord {
            verdict: a,
            offset: a,
            length: a,
            buffer: a,
            mark: b,
            timestamp: !b,
            flow_hash: !a,
            tunnel_key: a.rotate_left(3),
            nsh_path: a.rotate_left(5),
            service_id: c,
            vlan: !c,
            ingress: c.rotate_left(3),
            flow_class: d,
            hop_budget: !d,
            tunnel_type: d.rotate_left(1),
            offload_flags: d.rotate_left(2),
            gso_type: d.rotate_left(3),
            device_port: d.rotate_left(4),
            gso_size: c.rotate_left(5),
            csum_start: c.rotate_left(6),
            csum_offset: c.rotate_left(7),
            reserved2: c.rotate_left(8),
        };
        (due, record, bytes)
    })
}

prop_compose! {
    fn host()(
        batch in 0u32..((SIZE - 4096) / 64) as u32,
        numbers in any::<[u64; 4]>(),
        deadline in option::of(any::<u64>()),
        counters in vec(any::<u64>(), 0..20),
        log in vec((any::<u32>(), ".{0,40}"), 0..5),
        events in vec(".{0,40}", 0..5),
    ) -> HostState {
        HostState {
            batch: batch * 64,
            now: numbers[0],
            deadline,
            generated: numbers[1],
            counters,
            log: log.into_iter().map(|(severity, text)| Line { severity, text }).collect(),
            lines_lost: numbers[2],
            events,
            events_lost: numbers[3],
        }
    }
}

prop_compose! {
    fn saved()(
        memory in memory(),
        name in "[a-z]{0,12}",
        image in any::<[u8; 32]>(),
        config in vec(any::<u8>(), 0..100),
        globals in btree_map(".{0,20}", value(), 0..8),
        host in host(),
        packets in vec(packet(), 0..6),
        tallies in btree_map("[a-z.]{0,20}", any::<u64>(), 0..6),
    ) -> (Vec<u8>, Saved<'static>) {
        let mut kept = Memory::new(SIZE as u64, 1 << 20);
        kept.keep(0, &memory);
        let place = |(n, (due, record, bytes)): (usize, (Option<u64>, PacketRecord, Vec<u8>))| {
            let place = due.map_or(PacketState::Queued, |due| PacketState::Held { slot: n as u16, due });
            SavedPacket::new(place, &record, bytes)
        };
        let saved = Saved {
            identity: Identity { image, name, abi: 1, config },
            memory: kept,
            globals: globals.into_iter().map(|(name, value)| Global { name, value }).collect(),
            host,
            packets: packets.into_iter().enumerate().map(place).collect(),
            tallies: tallies.into_iter().map(|(name, value)| Tally { name, value }).collect(),
        };
        (memory, saved)
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read((memory, saved) in saved()) {
        let bytes = saved.encode().expect("within limits");
        let again = Saved::decode(&bytes).expect("it was just written");
        prop_assert_eq!(&again, &saved);
        prop_assert_eq!(&again.encode().expect("within limits"), &bytes);
        let mut restored = vec![0; SIZE];
        again.memory.write_to(&mut restored);
        prop_assert_eq!(restored, memory);
    }

    #[test]
    fn pieces_are_the_whole((_, saved) in saved(), most in 1usize..5000) {
        /// Takes little at a time.
        struct Slow(Vec<u8>, usize);
        impl std::io::Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let count = bytes.len().min(self.1);
                self.0.extend_from_slice(&bytes[..count]);
                Ok(count)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let parts = saved.parts().expect("within limits");
        let mut slow = Slow(Vec::new(), most);
        parts.write_to(&mut slow).expect("it takes everything");
        prop_assert_eq!(parts.len(), slow.0.len());
        prop_assert_eq!(slow.0, saved.encode().expect("within limits"));
    }

    #[test]
    fn garbage_is_refused(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(Saved::decode(&bytes).is_err());
        let mut begun = b"\x89SFN\r\n\x1a\n\x01\0\0\0".to_vec();
        begun.extend_from_slice(&bytes);
        prop_assert!(Saved::decode(&begun).is_err());
    }
}

#[test]
fn the_examples_are_read() {
    for saved in [support::full(), support::least()] {
        let bytes = saved.encode().expect("within limits");
        assert_eq!(Saved::decode(&bytes).map(Saved::into_owned), Ok(saved));
    }
}
