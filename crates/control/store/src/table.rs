//! The table on disk: the only module that knows SQLite.
//!
//! One row per object, one row that sums all of them up, and both are written in one transaction. SQLite sees
//! to it that a transaction is whole or not there. What it does not see (a bit that turned over in a row, a
//! page that went missing with everything on it) the sums do: each row bears a checksum, and the last row the
//! number of all rows and the sum of their checksums. All rows are read once, when the store is opened, and
//! compared.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, ffi, params};
use twox_hash::XxHash3_64;

use crate::error::OpenError;
use crate::folder::io_error;
use crate::index::{Entry, Index};
use crate::object::Revision;
use crate::settings::{KIND_MAX, LOG_CARRY, NAME_MAX, VALUE_MAX};

/// The version of the layout.
pub(crate) const FORMAT: u32 = 1;
/// `SFST`: what tells a store from other databases of SQLite.
const APPLICATION: u32 = 0x5346_5354;
const PAGE: u64 = 2_048;
/// Pages of a transaction beside those of its values: the row that sums up, and the row's own leaf.
const PAGES_BESIDE: u64 = 2;
/// Revisions are kept well below the end of the database's integers.
const REVISION_MAX: u64 = 1 << 62;

const SCHEMA: [(&str, &str); 2] = [
    (
        "object",
        "CREATE TABLE object (slot INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, checksum INTEGER NOT NULL, value BLOB NOT NULL)",
    ),
    (
        "total",
        "CREATE TABLE total (one INTEGER PRIMARY KEY, revision INTEGER NOT NULL, objects INTEGER NOT NULL, sum INTEGER NOT NULL, checksum INTEGER NOT NULL)",
    ),
];
const PUT: &str = "INSERT OR REPLACE INTO object (slot, kind, name, revision, checksum, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const DELETE: &str = "DELETE FROM object WHERE slot = ?1";
const TOTAL: &str =
    "INSERT OR REPLACE INTO total (one, revision, objects, sum, checksum) VALUES (1, ?1, ?2, ?3, ?4)";

/// What a commit does to a row.
#[derive(Debug)]
pub(crate) enum RowWrite<'a> {
    Put { slot: i64, kind: &'a str, name: &'a str, revision: Revision, checksum: u64, value: &'a [u8] },
    Delete { slot: i64 },
}

/// The row that sums up all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    /// The last commit.
    pub revision: Revision,
    /// Rows.
    pub objects: u64,
    /// The sum of the rows' checksums, wrapping.
    pub sum: u64,
}

impl Total {
    fn checksum(self) -> u64 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.revision.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.objects.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sum.to_le_bytes());
        XxHash3_64::oneshot(&bytes)
    }
}

/// The checksum of a row. `scratch` saves an allocation.
pub(crate) fn checksum(
    kind: &str,
    name: &str,
    revision: Revision,
    value: &[u8],
    scratch: &mut Vec<u8>,
) -> u64 {
    scratch.clear();
    scratch.extend_from_slice(&revision.0.to_le_bytes());
    scratch.extend_from_slice(&(kind.len() as u64).to_le_bytes());
    scratch.extend_from_slice(kind.as_bytes());
    scratch.extend_from_slice(&(name.len() as u64).to_le_bytes());
    scratch.extend_from_slice(name.as_bytes());
    scratch.extend_from_slice(value);
    XxHash3_64::oneshot(scratch)
}

/// What the log grows by, about, with a row of a value of so many bytes.
pub(crate) fn log_growth(rows: &[RowWrite<'_>]) -> u64 {
    let of = |row: &RowWrite<'_>| match row {
        RowWrite::Put { name, value, .. } => 1 + (value.len() + name.len()) as u64 / PAGE,
        RowWrite::Delete { .. } => 1,
    };
    (PAGES_BESIDE + rows.iter().map(of).sum::<u64>()) * (PAGE + 24)
}

/// How a transaction failed.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    DiskFull(String),
    Other(String),
}

/// How far the log was carried over into the main file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// All of it: the next transaction begins the log anew.
    pub whole: bool,
    /// Bytes of it.
    pub log: u64,
}

/// Why it was not carried over.
#[derive(Debug)]
pub(crate) enum CarryFailure {
    /// A write to disk failed that the system had accepted.
    NotDurable(String),
    /// Anything else; trying again may help.
    Other(String),
}

/// A connection to the table.
#[derive(Debug)]
pub(crate) struct Table {
    connection: Connection,
    file: PathBuf,
}

impl Table {
    /// Makes a new, empty table in a file of its own that is on disk when this returns.
    pub fn create(file: &Path) -> Result<(), OpenError> {
        let make = || -> rusqlite::Result<()> {
            let connection = Connection::open_with_flags(
                file,
                OpenFlags::SQLITE_OPEN_READ_WRITE
                    | OpenFlags::SQLITE_OPEN_CREATE
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            connection.pragma_update(None, "page_size", PAGE.cast_signed())?;
            connection.pragma_update(None, "application_id", APPLICATION)?;
            connection.pragma_update(None, "user_version", FORMAT)?;
            for (_, sql) in SCHEMA {
                connection.execute(sql, [])?;
            }
            let total = Total::default();
            connection.execute(TOTAL, params![0, 0, 0, total.checksum().cast_signed()])?;
            Self::use_log(connection)
        };
        make().map_err(|error| open_error(file, &error))?;
        File::open(file).and_then(|file| file.sync_all()).map_err(io_error(file))
    }

    /// Says in the main file that there is a log, and closes the connection.
    fn use_log(connection: Connection) -> rusqlite::Result<()> {
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
        connection.close().map_err(|(_, error)| error)
    }

    /// Opens the table in a file that is there. Nothing is read yet but the beginning of the file.
    pub fn open(file: &Path) -> Result<Self, OpenError> {
        check_header(file)?;
        let open = || -> rusqlite::Result<Self> {
            let connection = Connection::open_with_flags(
                file,
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            // A log that turns out to be damaged stays as it is, so that it can be looked into.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
            connection.busy_timeout(Duration::from_secs(5))?;
            connection.pragma_update(None, "cell_size_check", true)?;
            // In this mode SQLite waits for the disk where the order of writes matters, and not after each
            // transaction.
            connection.pragma_update(None, "synchronous", "normal")?;
            connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
            connection.pragma_update_and_check(
                None,
                "journal_size_limit",
                LOG_CARRY.cast_signed(),
                |_| Ok(()),
            )?;
            Ok(Self { connection, file: file.to_owned() })
        };
        open().map_err(|error| open_error(file, &error))
    }

    /// Reads and checks everything. Objects that take more than `max_bytes` in memory are an error.
    pub fn load(&self, max_bytes: u64) -> Result<(Index, Total, i64), OpenError> {
        let damaged = |what: String| OpenError::Damaged { file: self.file.clone(), what };
        self.check_schema().map_err(|error| open_error(&self.file, &error))?.map_err(damaged)?;
        let total = self.total().map_err(|error| open_error(&self.file, &error))?.map_err(damaged)?;
        let read = || -> rusqlite::Result<Result<(Index, Total, i64), OpenError>> {
            let mut statement =
                self.connection.prepare("SELECT slot, kind, name, revision, checksum, value FROM object")?;
            let mut rows = statement.query([])?;
            let (mut index, mut slots, mut scratch) = (Index::default(), 0, Vec::new());
            let mut found = Total { revision: total.revision, ..Total::default() };
            while let Some(row) = rows.next()? {
                let (kind, name, entry) = match entry(row, total.revision, &mut scratch) {
                    Ok(read) => read,
                    Err(what) => return Ok(Err(damaged(what))),
                };
                found.sum = found.sum.wrapping_add(entry.checksum);
                found.objects += 1;
                slots = slots.max(entry.slot);
                if index.put(&kind, &name, entry).is_some() {
                    return Ok(Err(damaged(format!("{kind} {name} is there twice"))));
                }
                if index.bytes() > max_bytes {
                    let folder = self.file.parent().unwrap_or(&self.file).to_owned();
                    return Ok(Err(OpenError::TooLarge { folder, found: index.bytes(), allowed: max_bytes }));
                }
            }
            if found != total {
                let what = format!(
                    "{} objects with the sum {:x}, where {} with the sum {:x} should be",
                    found.objects, found.sum, total.objects, total.sum
                );
                return Ok(Err(damaged(what)));
            }
            Ok(Ok((index, total, slots)))
        };
        read().map_err(|error| open_error(&self.file, &error))?
    }

    /// Compares the structure with the one that is written here. Each answer is an error of the database, or
    /// in words.
    fn check_schema(&self) -> rusqlite::Result<Result<(), String>> {
        let found: String = self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Ok(Err(found.replace('\n', ": ")));
        }
        let mut statement =
            self.connection.prepare("SELECT type, name, ifnull(sql, '') FROM sqlite_schema ORDER BY name")?;
        let found = statement
            .query_map([], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let same = found.len() == SCHEMA.len()
            && found
                .iter()
                .zip(SCHEMA)
                .all(|(found, (name, sql))| found.0 == "table" && found.1 == name && found.2 == sql);
        Ok(if same { Ok(()) } else { Err("its tables are not those of a store".into()) })
    }

    fn total(&self) -> rusqlite::Result<Result<Total, String>> {
        let mut statement = self.connection.prepare("SELECT revision, objects, sum, checksum FROM total")?;
        let rows = statement
            .query_map([], |row| {
                let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
                Ok((
                    Total { revision: Revision(number(0)?), objects: number(1)?, sum: number(2)? },
                    number(3)?,
                ))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(match rows[..] {
            [(total, checksum)] if total.checksum() == checksum && total.revision.0 <= REVISION_MAX => {
                Ok(total)
            }
            [_] => Err("the row that sums up all others has a wrong checksum".into()),
            _ => Err(format!("{} rows that sum up all others, where 1 should be", rows.len())),
        })
    }

    /// Writes rows and the row that sums up in one transaction, or nothing.
    pub fn commit(&self, rows: &[RowWrite<'_>], total: Total) -> Result<(), WriteFailure> {
        let written = self.write(rows, total);
        if written.is_err() && !self.connection.is_autocommit() {
            // Nothing of the transaction counts before its last page is in the log, so that taking it back
            // needs no disk; were it to fail all the same, the next one would, too.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        written.map_err(|error| failure(&error))
    }

    fn write(&self, rows: &[RowWrite<'_>], total: Total) -> rusqlite::Result<()> {
        let run = |sql, parameters: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<()> {
            self.connection.prepare_cached(sql)?.execute(parameters).map(drop)
        };
        run("BEGIN IMMEDIATE", &[])?;
        for row in rows {
            match row {
                RowWrite::Put { slot, kind, name, revision, checksum, value } => {
                    run(
                        PUT,
                        params![slot, kind, name, revision.0.cast_signed(), checksum.cast_signed(), value],
                    )?;
                }
                RowWrite::Delete { slot } => run(DELETE, params![slot])?,
            }
        }
        let numbers = [total.revision.0, total.objects, total.sum, total.checksum()].map(u64::cast_signed);
        run(TOTAL, params![numbers[0], numbers[1], numbers[2], numbers[3]])?;
        run("COMMIT", &[])
    }

    /// Carries the log over into the main file as far as that goes without waiting for readers.
    pub fn carry_log(&self) -> Result<Carried, CarryFailure> {
        let carry = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        match carry {
            Ok((busy, log, carried)) => Ok(Carried {
                whole: busy == 0 && log == carried,
                log: u64::try_from(log).unwrap_or(0) * (PAGE + 24),
            }),
            Err(error) => match error.sqlite_extended_error_code() {
                Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => {
                    Err(CarryFailure::NotDurable(words(&error)))
                }
                _ => Err(CarryFailure::Other(words(&error))),
            },
        }
    }

    /// Writes a copy of the table as it is now to a new file that is on disk when this returns.
    pub fn copy_to(&self, file: &str) -> Result<(), WriteFailure> {
        let copy = || -> rusqlite::Result<()> {
            self.connection.execute("VACUUM INTO ?1", [file])?;
            let copy = Connection::open_with_flags(
                file,
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            Self::use_log(copy)
        };
        copy().map_err(|error| failure(&error))?;
        File::open(file).and_then(|file| file.sync_all()).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => WriteFailure::DiskFull(error.to_string()),
            _ => WriteFailure::Other(error.to_string()),
        })
    }
}

fn failure(error: &rusqlite::Error) -> WriteFailure {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => WriteFailure::DiskFull(words(error)),
        _ => WriteFailure::Other(words(error)),
    }
}

/// Looks at what identifies a store before SQLite does: it would take a file that is empty for a new
/// database, and one whose beginning is damaged for one without a log.
fn check_header(file: &Path) -> Result<(), OpenError> {
    let damaged = |what: String| Err(OpenError::Damaged { file: file.to_owned(), what });
    let mut header = Vec::with_capacity(100);
    local_file::open(file)
        .and_then(|file| file.take(100).read_to_end(&mut header))
        .map_err(io_error(file))?;
    let Ok(header) = <[u8; 100]>::try_from(header.as_slice()) else {
        return damaged(format!("{} bytes, where 100 at least should be", header.len()));
    };
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if header[..16] != *b"SQLite format 3\0" || word(68) != APPLICATION {
        return damaged("it does not begin as a store does".into());
    }
    let page = u64::from(u16::from_be_bytes([header[16], header[17]]));
    match word(60) {
        FORMAT if header[18..20] == [2, 2] && page == PAGE => Ok(()),
        FORMAT | 0 => damaged("it does not begin as a store of this version does".into()),
        found => Err(OpenError::Newer { file: file.to_owned(), found, newest: FORMAT }),
    }
}

/// A row as an entry, with its kind and name; else what is wrong with it.
fn entry(
    row: &Row<'_>,
    newest: Revision,
    scratch: &mut Vec<u8>,
) -> Result<(Arc<str>, Arc<str>, Entry), String> {
    let column = |at| row.get_ref(at).map_err(|error| error.to_string());
    let slot = column(0)?.as_i64().map_err(|error| error.to_string())?;
    let (ValueRef::Text(kind), ValueRef::Text(name), ValueRef::Integer(version), ValueRef::Integer(sum)) =
        (column(1)?, column(2)?, column(3)?, column(4)?)
    else {
        return Err(format!("row {slot} has columns of wrong types"));
    };
    let (Ok(kind), Ok(name), ValueRef::Blob(value)) =
        (str::from_utf8(kind), str::from_utf8(name), column(5)?)
    else {
        return Err(format!("row {slot} has columns of wrong types"));
    };
    let version = Revision(version.cast_unsigned());
    let lengths = kind.len() <= KIND_MAX && name.len() <= NAME_MAX && value.len() <= VALUE_MAX;
    if !lengths || version > newest || checksum(kind, name, version, value, scratch) != sum.cast_unsigned() {
        return Err(format!("row {slot} ({kind:.64} {name:.64}) has a wrong checksum"));
    }
    let entry = Entry { version, value: value.into(), slot, checksum: sum.cast_unsigned() };
    Ok((kind.into(), name.into(), entry))
}

/// What an error means while a store is opened: what the system refused is not the file's fault, anything
/// else is.
fn open_error(file: &Path, error: &rusqlite::Error) -> OpenError {
    let (file, what) = (file.to_owned(), words(error));
    match error.sqlite_error_code() {
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OutOfMemory,
        ) => OpenError::Database { file, what },
        _ => OpenError::Damaged { file, what },
    }
}

fn words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(code, Some(message)) => {
            format!("{} (SQLite's code {})", message.replace('\n', " "), code.extended_code)
        }
        error => error.to_string().replace('\n', " "),
    }
}
