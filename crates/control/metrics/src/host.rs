//! A host: what there is one of, and its parts one after the other.

use crate::column::{self, Column, full, ledger_columns};
use crate::container::{self, Container};
use crate::function::{self, Function};
use crate::text::{Labels, Text, Value};
use crate::{
    Family, Memory, Notation, Station, TenantBackground, background, device, memory, pool, port, station,
    switch, worker,
};
use engine::Account;
use telemetry::clock::{Clock, Cycles, Nanos};
use telemetry::{DropReason, Ledger};

/// What is told of a host.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Everything that was counted.
    pub account: &'a Account,
    /// Turns cycles into seconds.
    pub clock: Clock,
    /// Cycles that each worker charged to functions, as [`Fleet::busy`](engine::Fleet::busy) tells; workers
    /// beyond have none told.
    pub busy: &'a [Cycles],
    /// The program's version.
    pub version: &'a str,
    /// When the program was started.
    pub started: Nanos,
    /// What is known of each of the account's instances, in their order; of those beyond nothing is known.
    pub functions: &'a [Function<'a>],
    /// Functions that are containers, which the account has not.
    pub containers: &'a [Container],
    /// What memory is promised.
    pub memory: Memory<'a>,
    /// What is done for tenants beside the workers.
    pub background: &'a [TenantBackground<'a>],
    /// Devices with addresses.
    pub stations: &'a [Station],
}

static BUILD: Family = Family::info("superfluid_build", &["version"], "The program that answers.");

static STARTED: Family = Family::gauge(
    "superfluid_start_time_seconds",
    "seconds",
    &[],
    "When the program was started, since the Unix epoch.",
);

static HOST: [Column<Account>; 4] = [
    Column::one(
        Family::gauge(
            "superfluid_account_time_seconds",
            "seconds",
            &[],
            "When everything was counted, since the Unix epoch: at one moment for all.",
        ),
        |account, _| Value::Time(account.at.nanos),
    ),
    Column::one(
        Family::gauge("superfluid_clock_frequency_hertz", "hertz", &[], "Cycles in a second."),
        |_, clock| Value::Count(clock.cycles(Nanos::from_millis(1000)).0),
    ),
    Column::one(
        Family::gauge(
            "superfluid_balanced",
            "",
            &[],
            "1 when all packets that came to be have ended or are in flight; 0 is a defect of this program.",
        ),
        |account, _| Value::flag(account.balance().is_ok()),
    ),
    Column::one(
        Family::gauge(
            "superfluid_in_flight_packets",
            "packets",
            &[],
            "Packets that an owner has at the moment.",
        ),
        |account, _| Value::Count(account.in_flight),
    ),
];

fn ledger(account: &Account) -> &Ledger {
    &account.ledger
}

static ENDS: [Column<Account>; 2] = ledger_columns!(ends, "superfluid_", &[], ledger);

static PACKETS: [Column<Account>; 6] = ledger_columns!(others, "superfluid_", &[], &["reason"], full, ledger);

fn columns() -> impl Iterator<Item = &'static [Column<Account>]> {
    [&HOST[..], &ENDS, &PACKETS].into_iter()
}

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    [&BUILD, &STARTED]
        .into_iter()
        .chain(columns().flatten().map(|column| &column.family))
        .chain(worker::families())
        .chain(memory::families())
        .chain(background::families())
        .chain(pool::families())
        .chain(port::families())
        .chain(switch::families())
        .chain(device::families())
        .chain(station::families())
        .chain(function::families())
        .chain(container::families())
}

impl Host<'_> {
    /// Appends all families of the host.
    pub fn write(&self, notation: Notation, to: &mut String) {
        let text = &mut Text::new(notation, to);
        let mut version = Labels::default();
        version.push(&[("version", self.version)]);
        text.family(&BUILD, &version).one(0, Value::Count(1));
        let (none, this) = (Labels::none(), std::slice::from_ref(self.account));
        text.family(&STARTED, &none).one(0, Value::Time(self.started));
        columns().for_each(|columns| column::write(columns, this, &none, &self.clock, text));
        worker::write(&self.account.workers, self.busy, &self.clock, text);
        memory::write(&self.memory, &self.clock, text);
        background::write(self.background, &self.clock, text);
        pool::write(&self.account.pools, &self.clock, text);
        port::write(&self.account.ports, &self.clock, text);
        switch::write(&self.account.switches, &self.clock, text);
        device::write(&self.account.devices, &self.account.port_devices, &self.clock, text);
        station::write(self.stations, &self.clock, text);
        function::write(self, text);
        container::write(self.containers, &self.clock, text);
    }
}
