//! What can be set.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How the server is set up. [`Settings::new`] gives the usual.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The UNIX socket.
    pub socket: Socket,
    /// A second one, on which no client is served without a token.
    pub tenants: Option<Socket>,
    /// TCP beside them.
    pub tcp: Option<Tcp>,
    /// Plain HTTP on this loopback address, for `GET /metrics` alone.
    pub metrics: Option<SocketAddr>,
    /// The page, for browsers.
    pub page: Option<Page>,
    /// Where changes are written down.
    pub audit: Audit,
    /// What clients can use up at most.
    pub limits: Limits,
    /// Where spans of calls go, if anywhere.
    pub spans: Option<trace_export::Settings>,
    /// What `/v1/health` calls the program's version.
    pub version: String,
}

impl Settings {
    /// A server on a UNIX socket alone, for its own user alone, that writes changes to `audit`.
    pub fn new(socket: impl Into<PathBuf>, audit: impl Into<PathBuf>) -> Settings {
        Settings {
            socket: Socket { path: socket.into(), mode: 0o600, owner: None, group: None },
            tenants: None,
            tcp: None,
            metrics: None,
            page: None,
            audit: Audit { file: audit.into(), bytes: 16 << 20, kept: 8, required: true },
            limits: Limits::default(),
            spans: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// The UNIX socket.
#[derive(Clone, Debug)]
pub struct Socket {
    /// Its path; at most 107 bytes, which is what the kernel takes.
    pub path: PathBuf,
    /// Which users may connect: the file's permissions, such as `0o660`.
    pub mode: u32,
    /// The user that owns it, by number; else the daemon's own.
    pub owner: Option<u32>,
    /// Its group, by number; else the daemon's own.
    pub group: Option<u32>,
}

/// TCP, for clients that show a certificate.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The server's certificate and those between it and the root, as PEM.
    pub certificate: PathBuf,
    /// The key of it, as PEM.
    pub key: PathBuf,
    /// The authority that signs clients' certificates, as PEM.
    pub client_ca: PathBuf,
    /// Whose certificates are administrators'; the others need a token. Empty: all.
    pub administrators: Vec<Administrator>,
}

/// A certificate that makes an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Administrator {
    /// One that is for this DNS name.
    Name(String),
    /// The one with this SHA-256, 64 hexadecimal digits in lower case.
    Sha256(String),
}

impl std::str::FromStr for Administrator {
    type Err = String;

    /// `ops.example` or `sha256:` and 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Administrator, String> {
        let wrong = || {
            let found = yaml_document::spelling::shown(text);
            format!(
                "`{found}` names no certificate; allowed: a DNS name, or `sha256:` and 64 hexadecimal digits"
            )
        };
        if let Some(digits) = text.strip_prefix("sha256:") {
            let digits = digits.to_ascii_lowercase();
            let fits = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            return if fits { Ok(Administrator::Sha256(digits)) } else { Err(wrong()) };
        }
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'*');
        let fits = (1..=253).contains(&text.len()) && text.bytes().all(of_name);
        if fits { Ok(Administrator::Name(text.to_ascii_lowercase())) } else { Err(wrong()) }
    }
}

impl Tcp {
    /// Whether a certificate that was accepted is an administrator's.
    pub(crate) fn is_administrator(&self, sha256: &str, names: &[String]) -> bool {
        self.administrators.is_empty()
            || self.administrators.iter().any(|one| match one {
                Administrator::Name(name) => names.iter().any(|of| of.eq_ignore_ascii_case(name)),
                Administrator::Sha256(of) => of == sha256,
            })
    }
}

/// The page: the host in a browser.
#[derive(Clone, Debug)]
pub struct Page {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The server's certificate, with those between it and the root, and its key, as PEM. Needed off
    /// loopback; on it nothing is encrypted.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// What it consists of; without `index.html` it is said that there is no page.
    pub files: &'static [PageFile],
    /// For how long a link may be opened.
    pub link_time: Duration,
    /// For how long a session may rest.
    pub idle: Duration,
    /// For how long a session lasts at most.
    pub longest: Duration,
}

impl Page {
    /// A page with the usual times.
    #[must_use]
    pub fn new(listen: SocketAddr, tls: Option<(PathBuf, PathBuf)>, files: &'static [PageFile]) -> Page {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        Page { listen, tls, files, link_time: Duration::from_secs(60), idle: hours(1), longest: hours(12) }
    }
}

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// Its path below the page's folder, such as `assets/page-0a1b2c.js`.
    pub path: &'static str,
    /// Its content type.
    pub content_type: &'static str,
    /// Its bytes, compressed with gzip.
    pub gzip: &'static [u8],
    /// Its entity tag, with the quotation marks.
    pub tag: &'static str,
}

/// The audit log.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The file; older ones have `.1`, `.2` and so on behind their name.
    pub file: PathBuf,
    /// From this size on a new file is begun.
    pub bytes: u64,
    /// Older files that are kept.
    pub kept: u32,
    /// What cannot be logged is not done; else it is done, and what is missing is counted.
    pub required: bool,
}

/// What clients can use up at most.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time by the administrators' socket, and as many of administrators by TLS. For the
    /// next one the connection goes that has rested for longest; if none rests, it is told so and closed.
    pub connections: usize,
    /// Bytes of a request's line and headers.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of all bodies of administrators that are being received or worked on.
    pub all_bodies_bytes: usize,
    /// The same of each tenant.
    pub tenant_bodies_bytes: usize,
    /// Bytes of answers of each tenant that its clients have not read yet; one that has more by itself is
    /// given alone.
    pub tenant_answers_bytes: usize,
    /// The same of readers of the host, together.
    pub readers_answers_bytes: usize,
    /// Bytes of the objects of one part of a list, from which on it ends.
    pub list_bytes: usize,
    /// Time for a request's headers to come, and for which a connection may rest between requests.
    pub header_time: Duration,
    /// Time for a body to come, and for which a request waits until others are done.
    pub body_time: Duration,
    /// Time in which a client must take some of what it is sent.
    pub write_time: Duration,
    /// Time for which a request waits for an operation that it began, before it is answered with the
    /// operation.
    pub default_wait: Duration,
    /// The same with `wait=true`.
    pub longest_wait: Duration,
    /// Operations that are not ended.
    pub operations: usize,
    /// Operations that are worked on at a time.
    pub operations_at_once: usize,
    /// Ended operations of administrators that are kept to be looked at.
    pub operations_kept: usize,
    /// The same of each tenant, and the bytes of their outcomes beyond which the oldest leave earlier.
    pub tenant_operations_kept: usize,
    /// See [`tenant_operations_kept`](Limits::tenant_operations_kept).
    pub tenant_operations_bytes: usize,
    /// Connections that have shown no token yet, and as many whose TLS handshake is not done.
    pub tenants_connections: usize,
    /// Of these, those of one user of this host, or of one address.
    pub unknown_connections: usize,
    /// Time until a connection must have done its handshake, and for which it may rest without having shown a
    /// token.
    pub unknown_time: Duration,
    /// Connections of a tenant.
    pub tenant_connections: usize,
    /// Functions, groups, devices, chains, wires and observers that a tenant can make itself, with those that
    /// it has.
    pub tenant_objects: usize,
    /// Bytes of the specs of all of these.
    pub tenant_bytes: usize,
    /// Devices that a tenant makes itself.
    pub tenant_devices: usize,
    /// Bytes of the `receive` of all of these: each packet at a port may be compared with all of it.
    pub tenant_receive: usize,
    /// Of these, those that have addresses, and interfaces that have addresses of their own at one.
    pub tenant_stations: usize,
    /// Snapshots of a tenant.
    pub tenant_snapshots: usize,
    /// Bytes of all of these, with which its tokens may save one.
    pub tenant_snapshot_bytes: u64,
    /// Bytes of the specs of all of these, which are told in one answer.
    pub tenant_snapshot_specs: usize,
    /// Operations of a tenant that are not ended; those of all tenants are half of all at most.
    pub tenant_operations: usize,
    /// After how long a stream on which nothing happens says that it is alive.
    pub alive: Duration,
    /// Time for requests to come to their end when the server does.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 256,
            header_bytes: 16 << 10,
            headers: 64,
            body_bytes: yaml_document::MAX_TEXT,
            all_bodies_bytes: 64 << 20,
            tenant_bodies_bytes: 8 << 20,
            tenant_answers_bytes: 16 << 20,
            readers_answers_bytes: 64 << 20,
            list_bytes: 4 << 20,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            default_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(600),
            operations: 64,
            operations_at_once: 2,
            operations_kept: 256,
            tenant_operations_kept: 64,
            tenant_operations_bytes: 1 << 20,
            tenants_connections: 256,
            unknown_connections: 64,
            unknown_time: Duration::from_secs(10),
            tenant_connections: 64,
            tenant_objects: 4096,
            tenant_bytes: 64 << 20,
            tenant_devices: 64,
            tenant_receive: 8 << 10,
            tenant_stations: 32,
            tenant_snapshots: 64,
            tenant_snapshot_bytes: 4 << 30,
            tenant_snapshot_specs: 16 << 20,
            tenant_operations: 8,
            alive: Duration::from_secs(15),
            grace: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_of_administrators_are_named_in_two_ways() {
        let hex = "0aB1".repeat(16);
        let read = |text: &str| text.parse::<Administrator>();
        assert_eq!(read(&format!("sha256:{hex}")), Ok(Administrator::Sha256(hex.to_lowercase())));
        assert_eq!(read("Ops.example"), Ok(Administrator::Name("ops.example".into())));
        for wrong in ["", "sha256:", "sha256:00", "a b", &format!("sha256:{hex}0"), &"x".repeat(254)] {
            assert!(read(wrong).expect_err("is none").contains("allowed: a DNS name"), "{wrong}");
        }
        let tcp = |administrators| Tcp {
            listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            client_ca: PathBuf::new(),
            administrators,
        };
        let of = |administrators, name: &str| tcp(administrators).is_administrator("00", &[name.to_owned()]);
        assert!(of(Vec::new(), "any.example"));
        let ops = vec![Administrator::Name("ops.example".into())];
        assert!(of(ops.clone(), "OPS.example") && !of(ops, "ops.example.evil"));
        assert!(
            of(vec![Administrator::Sha256("00".into())], "x")
                && !of(vec![Administrator::Sha256("01".into())], "x")
        );
    }
}
