//! What all subjects share: guests written in WAT, and a room in which they run beside a neighbour that must
//! not notice.

pub mod calls;
pub mod smith;
pub mod trial;

use guest::{Guest, GuestFault, SlotConfig};
use guest_wasm::{
    Access, InstanceError, InstanceSettings, Program, ProgramFacts, Sandbox, WasmGuest, watchdog,
};
use nf_abi::Verdict;
use packet_memory::{Packet, PageKind, Pool, PoolConfig};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use telemetry::clock::{Moment, Nanos};

/// Guest address of the first packet buffer.
pub const WINDOW: u64 = nf_abi::WINDOW_BASE as u64;
/// Bytes of a page of a module's memory.
pub const WASM_PAGE: u64 = 64 << 10;
/// Where the guests made by [`module`] have their records.
pub const BATCH: u64 = 1024;
/// Where those guests see the mark of the first record.
pub const MARK: u64 = BATCH + 16;

/// The six host calls, for the beginning of a module.
pub const IMPORTS: &str = r#"
    (import "superfluid_v1" "read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "superfluid_v1" "write" (func $write (param i32 i32 i32) (result i32)))
    (import "superfluid_v1" "counter_add" (func $counter_add (param i32 i64) (result i32)))
    (import "superfluid_v1" "packet_new" (func $packet_new (param i32 i32 i32) (result i32)))
    (import "superfluid_v1" "packet_emit" (func $packet_emit (param i32 i32 i32 i32 i64) (result i32)))
    (import "superfluid_v1" "timer_set" (func $timer_set (param i64) (result i32)))
"#;

/// One for the process, as in the product.
pub fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| Sandbox::new().expect("a processor that compiled code runs on"))
}

pub fn now() -> Moment {
    watchdog::clock().moment()
}

pub fn facts(access: Access) -> ProgramFacts {
    ProgramFacts {
        name: "guest".to_owned(),
        image: [7; 32],
        layout: [7; 32],
        access,
        memory_limit: 1 << 20,
        interfaces: 2,
        drop_reasons: 2,
        counters: 2,
    }
}

/// Time enough for anything that ends by itself.
pub fn patient() -> InstanceSettings {
    InstanceSettings {
        max_call: Nanos::from_millis(60_000),
        max_control_call: Nanos::from_millis(60_000),
        slots: SlotConfig { quota: 4, longest_hold: Nanos::from_millis(1_000) },
        ..InstanceSettings::default()
    }
}

/// Time for nothing that does not end by itself.
pub fn impatient() -> InstanceSettings {
    InstanceSettings {
        max_call: Nanos::from_millis(3),
        max_control_call: Nanos::from_millis(20),
        ..patient()
    }
}

/// A module of two pages that keeps the contract except for what `fields` does.
pub fn module(fields: &str) -> String {
    format!(
        r#"(module {IMPORTS}
            (memory (export "memory") 2)
            (func (export "sf_batch") (result i32) (i32.const {BATCH}))
            (func (export "sf_init") (result i32) (i32.const 0))
            {fields})"#
    )
}

/// A module whose `sf_process` does this. `$a` is the first packet's mark, as an address.
pub fn process(body: &str) -> String {
    module(&format!(
        r#"(func (export "sf_process") (param i32 i64) (local $a i32) (local $r i32)
             (local.set $a (i32.wrap_i64 (i64.load (i32.const {MARK}))))
             {body})"#
    ))
}

pub fn wasm(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).unwrap_or_else(|error| panic!("{error}\n{wat}"))
}

pub fn program_with(wat: &str, facts: ProgramFacts) -> Arc<Program> {
    sandbox().compile(&wasm(wat), facts).unwrap_or_else(|error| panic!("{error}\n{wat}"))
}

pub fn program(wat: &str, access: Access) -> Arc<Program> {
    program_with(wat, facts(access))
}

pub fn pool_of(buffers: u32) -> Arc<Pool> {
    let config = PoolConfig { buffers, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    Arc::new(Pool::new("test", config).expect("a small pool"))
}

/// A tenant whose every buffer is known byte by byte, with a function that goes on working.
pub struct Room {
    pub pool: Arc<Pool>,
    /// All buffers of the pool, in order, each as one packet from its first byte to its last.
    pub packets: Vec<Packet>,
    bystander: WasmGuest,
    calls: u64,
}

fn pattern(at: usize) -> u8 {
    (at * 7 % 251) as u8 // Never 0xff, which is what the guests store.
}

/// Buffers whose bytes are known.
const WATCHED: usize = 16;

impl Room {
    pub fn new() -> Room {
        Room::with_spare(0)
    }

    /// With eight buffers more in the pool, of which nothing is known.
    pub fn roomy() -> Room {
        Room::with_spare(8)
    }

    fn with_spare(spare: u32) -> Room {
        let pool = pool_of(WATCHED as u32 + spare);
        let count = program(
            &process(
                "(i64.store (i32.const 512) (i64.add (i64.load (i32.const 512)) (i64.const 1)))
                 (i64.store (i32.const 1040) (i64.load (i32.const 512)))
                 (i32.store (i32.const 1024) (i32.const 0x102))",
            ),
            Access::Read,
        );
        let bystander = WasmGuest::new(&count, &pool, patient()).expect("a good guest");
        let mut packets = Vec::new();
        pool.allocate_batch(usize::MAX, &mut packets);
        packets.sort_by_key(Packet::buffer);
        pool.free_batch(packets.split_off(WATCHED));
        let mut room = Room { pool, packets, bystander, calls: 0 };
        room.restore();
        room
    }

    /// A packet that is none of the room's own.
    pub fn spare_packet(&self) -> Packet {
        self.pool.allocate().expect("a roomy one has eight")
    }

    /// Bytes of the window.
    pub fn window(&self) -> u64 {
        self.pool.memory().len() as u64
    }

    /// Writes every buffer anew.
    pub fn restore(&mut self) {
        let size = self.pool.buffer_size() as usize;
        for (n, packet) in self.packets.iter_mut().enumerate() {
            let bytes: Vec<u8> = (n * size..(n + 1) * size).map(pattern).collect();
            assert!(packet.set_extent(0, 0, size as u32));
            self.pool.write(packet, &bytes).expect("a whole buffer");
        }
    }

    /// The window's bytes.
    pub fn bytes(&mut self) -> Vec<u8> {
        let size = self.pool.buffer_size();
        for packet in &mut self.packets {
            assert!(packet.set_extent(0, size, size));
        }
        self.packets.iter().flat_map(|packet| self.pool.to_vec(packet)).collect()
    }

    /// Where the window's bytes are not what [`Room::restore`] wrote.
    pub fn changed(&mut self) -> Vec<(usize, u8)> {
        self.bytes().into_iter().enumerate().filter(|(at, byte)| *byte != pattern(*at)).collect()
    }

    pub fn guest(
        &self,
        program: &Arc<Program>,
        settings: InstanceSettings,
    ) -> Result<WasmGuest, InstanceError> {
        WasmGuest::new(program, &self.pool, settings)
    }

    /// Shows the first packet, with this mark, to the guest.
    pub fn show(&mut self, guest: &mut WasmGuest, mark: u64) -> Result<(), GuestFault> {
        self.packets[0].edit(|record| record.mark = mark);
        assert!(guest.process(&mut self.packets[..1], now())?.is_done());
        Ok(())
    }

    /// The same to a new instance.
    pub fn run(&mut self, program: &Arc<Program>, mark: u64) -> Result<(), GuestFault> {
        let mut guest = self.guest(program, patient()).expect("an instance");
        self.show(&mut guest, mark)
    }

    /// The host runs, the other instance works and has its memory, and no packet byte has changed.
    pub fn assert_goes_on(&mut self) {
        self.assert_runs();
        assert_eq!(self.changed(), [], "bytes of packets changed");
    }

    /// The same without looking at the bytes.
    pub fn assert_runs(&mut self) {
        self.calls += 1;
        self.bystander.process(&mut self.packets[..1], now()).expect("the other instance works");
        let record = self.packets[0].record();
        assert_eq!(Verdict::decode(record.verdict), Some(Verdict::Interface(1)));
        assert_eq!(record.mark, self.calls, "the other instance's memory");
    }
}

/// Runs this on a thread of its own and fails, rather than hang, when it does not come back.
pub fn in_time<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = send.send(run());
    });
    match receive.recv_timeout(Duration::from_secs(120)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a guest was never stopped"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

pub fn assert_trap<T: std::fmt::Debug>(result: Result<T, GuestFault>, what: &str) {
    assert!(matches!(result, Err(GuestFault::Trap(_))), "{what}: {result:?}");
}

pub fn assert_timed_out<T: std::fmt::Debug>(result: Result<T, GuestFault>, what: &str) {
    assert!(matches!(result, Err(GuestFault::TimedOut { .. })), "{what}: {result:?}");
}
