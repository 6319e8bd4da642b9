//! Where everything is found.

use crate::Kind;

/// The document that describes the interface.
pub const OPENAPI: &str = "/v1/openapi.json";
/// How the daemon is.
pub const HEALTH: &str = "/v1/health";
/// A whole document is applied here.
pub const APPLY: &str = "/v1/apply";
/// A whole document is checked here, and nothing comes of it.
pub const CHECK: &str = "/v1/check";
/// What happens.
pub const EVENTS: &str = "/v1/events";
/// What happened in the last hour.
pub const PAST_EVENTS: &str = "/v1/past-events";
/// Work that takes longer than a request should.
pub const OPERATIONS: &str = "/v1/operations";
/// Functions saved with what they know.
pub const SNAPSHOTS: &str = "/v1/snapshots";
/// Keys that seal snapshots: a new one is made here.
pub const SNAPSHOT_KEYS: &str = "/v1/snapshot-keys";
/// Images on this host.
pub const IMAGES: &str = "/v1/images";
/// Where the host's memory goes.
pub const MEMORY: &str = "/v1/memory";
/// What is wired to what.
pub const GRAPH: &str = "/v1/graph";
/// What passed in the last hour.
pub const HISTORY: &str = "/v1/history";
/// Packets are followed from here.
pub const TRACES: &str = "/v1/traces";
/// Packets are captured from here.
pub const CAPTURES: &str = "/v1/captures";
/// A backup is written from here.
pub const BACKUPS: &str = "/v1/backups";
/// The account of every packet.
pub const ACCOUNT: &str = "/v1/account";
/// Tokens, each with the rights of a tenant.
pub const TOKENS: &str = "/v1/tokens";
/// Links to the page, each for one browser.
pub const PAGE_LINKS: &str = "/v1/page-links";
/// Logins of tenants at registries.
pub const REGISTRY_LOGINS: &str = "/v1/registry-logins";
/// Counters for Prometheus.
pub const METRICS: &str = "/metrics";

/// All objects of a kind: `/v1/functions`.
pub fn objects(kind: Kind) -> String {
    format!("/v1/{}", kind.plural())
}

/// One object: `/v1/functions/fw`.
pub fn object(kind: Kind, name: &str) -> String {
    format!("/v1/{}/{}", kind.plural(), escaped(name))
}

/// What a function is asked to do, or has: `/v1/functions/fw/pause`. Parts: `pause`, `resume`, `restart`,
/// `upgrade`, `snapshots`, `logs`, `events`, `report`.
pub fn of_function(name: &str, part: &str) -> String {
    format!("/v1/functions/{}/{part}", escaped(name))
}

/// The neighbours of a device: `/v1/devices/bridge0/neighbours`.
pub fn neighbours(device: &str) -> String {
    format!("/v1/devices/{}/neighbours", escaped(device))
}

/// One operation.
pub fn operation(id: &str) -> String {
    format!("{OPERATIONS}/{}", escaped(id))
}

/// One snapshot.
pub fn snapshot(name: &str) -> String {
    format!("{SNAPSHOTS}/{}", escaped(name))
}

/// Where an imported snapshot is given to a tenant.
pub fn adopt(name: &str) -> String {
    format!("{SNAPSHOTS}/{}/adopt", escaped(name))
}

/// One token.
pub fn token(name: &str) -> String {
    format!("{TOKENS}/{}", escaped(name))
}

/// Where a snapshot becomes a function.
pub fn restore(name: &str) -> String {
    format!("{SNAPSHOTS}/{}/restore", escaped(name))
}

/// A segment of a path, with what may not stand there written as `%2F` (RFC 3986, section 2.1).
pub fn escaped(segment: &str) -> String {
    let mut escaped = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                escaped.push(byte as char)
            }
            _ => {
                escaped.push('%');
                for half in [byte >> 4, byte & 15] {
                    escaped.extend(char::from_digit(half.into(), 16).map(|digit| digit.to_ascii_uppercase()));
                }
            }
        }
    }
    escaped
}

/// A segment of a path or a part of a query as it was meant; `None` when it is not escaped as it should be,
/// or not UTF-8.
pub fn unescaped(segment: &str) -> Option<String> {
    if !segment.contains('%') {
        return Some(segment.to_owned());
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return None };
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        bytes.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}
