//! A family and where its values are found.

use crate::Family;
use crate::text::{Labels, Samples, Text, Value};
use telemetry::clock::Clock;

/// What takes the values of a family that has several for each row, with what its own label says.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&str, Value);

/// Where a row has a family's values.
pub(crate) enum Read<T> {
    /// One for each row.
    One(fn(&T, &Clock) -> Value),
    /// Several, with this label; values beside it are told apart by what it says.
    Each(&'static str, fn(&T, &Clock, Take<'_>)),
}

/// See the module's documentation.
pub(crate) struct Column<T> {
    pub family: Family,
    pub read: Read<T>,
}

impl<T> Column<T> {
    pub const fn one(family: Family, read: fn(&T, &Clock) -> Value) -> Column<T> {
        Column { family, read: Read::One(read) }
    }

    pub const fn each(family: Family, label: &'static str, read: fn(&T, &Clock, Take<'_>)) -> Column<T> {
        Column { family, read: Read::Each(label, read) }
    }
}

/// Writes the families of all columns, with a sample, or several, for each row.
pub(crate) fn write<T>(
    columns: &[Column<T>],
    rows: &[T],
    labels: &Labels,
    clock: &Clock,
    text: &mut Text<'_>,
) {
    write_with(columns, rows, labels, clock, text, |_, _| ());
}

/// The same; `more` adds to each family what rows of another kind have of it, whose labels are behind those
/// of the rows.
pub(crate) fn write_with<T>(
    columns: &[Column<T>],
    rows: &[T],
    labels: &Labels,
    clock: &Clock,
    text: &mut Text<'_>,
    more: impl Fn(&Family, &mut Samples<'_>),
) {
    for column in columns {
        let mut samples = text.family(&column.family, labels);
        match column.read {
            Read::One(read) => {
                rows.iter().enumerate().for_each(|(n, row)| samples.one(n, read(row, clock)));
            }
            Read::Each(label, read) => {
                for (n, row) in rows.iter().enumerate() {
                    read(row, clock, &mut |of, value| samples.more(n, (label, of), value));
                }
            }
        }
        more(&column.family, &mut samples);
    }
}

/// Columns of a [`Ledger`](telemetry::Ledger): a family for each way in which packets come to be and cease to
/// be, so that none mixes what comes with what goes, and one for the drops. `ends` are those at ports,
/// `others` the rest.
macro_rules! ledger_columns {
    (ends, $prefix:literal, $labels:expr, $ledger:expr) => {
        [
            ledger_columns!(@ $prefix, "received", $labels, full, $ledger, received, "Packets taken from a port."),
            ledger_columns!(@ $prefix, "delivered", $labels, full, $ledger, delivered, "Packets handed to a port and completed by it."),
        ]
    };
    (others, $prefix:literal, $labels:expr, $drop_labels:expr, $some:ident, $ledger:expr) => {
        [
            ledger_columns!(@ $prefix, "generated", $labels, $some, $ledger, generated, "Packets made by a function or by a generator."),
            ledger_columns!(@ $prefix, "copied", $labels, $some, $ledger, copied, "Packets made by copying another: between tenants, for an observer, in a switch."),
            ledger_columns!(@ $prefix, "split", $labels, $some, $ledger, split, "Packets made by cutting one into several."),
            ledger_columns!(@ $prefix, "consumed", $labels, $some, $ledger, consumed, "Packets taken in by a function that they were meant for, or copied to another tenant."),
            ledger_columns!(@ $prefix, "merged", $labels, $some, $ledger, merged, "Packets that ceased to be by joining another."),
            Column::each(
                $some(Family::counter(
                    concat!($prefix, "drops"),
                    "packets",
                    $drop_labels,
                    "Packets lost, by reason; each has one.",
                )),
                "reason",
                |row, _, take| {
                    let ledger: &Ledger = $ledger(row);
                    for reason in DropReason::ALL {
                        take(reason.name(), Value::Count(ledger.dropped[*reason]));
                    }
                },
            ),
        ]
    };
    (@ $prefix:literal, $name:literal, $labels:expr, $some:ident, $ledger:expr, $field:ident, $help:literal) => {
        Column::one(
            $some(Family::counter(concat!($prefix, $name, "_packets"), "packets", $labels, $help)),
            |row, _| {
                let ledger: &Ledger = $ledger(row);
                Value::Count(ledger.$field)
            },
        )
    };
}
pub(crate) use ledger_columns;

/// A family with a sample for everything.
pub(crate) const fn full(family: Family) -> Family {
    family
}

/// A family without samples of 0.
pub(crate) const fn sparse(family: Family) -> Family {
    family.sparse()
}
