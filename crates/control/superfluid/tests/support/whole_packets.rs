//! Packets that are still to be segmented, counted at a port.

use serde_json::Value;

/// That so many bytes passed a port each way or more, most of them in packets that no link takes, none of which
/// was cut.
pub fn passed(account: &Value, port: &str, both_ways: u64) {
    let port = &account["ports"][port];
    let packets = &port["packets"];
    let of = |value: &Value| value.as_u64().unwrap_or_default();
    let [(sent, bytes_sent), (taken, bytes_taken)] =
        [("delivered", "delivered_bytes"), ("received", "received_bytes")]
            .map(|(count, bytes)| (of(&packets[count]), of(&port[bytes])));
    assert!(bytes_sent + bytes_taken > both_ways, "{port}");
    assert!(bytes_sent / sent > 4_000 && bytes_taken / taken > 4_000, "{port}");
    assert_eq!(of(&packets["split"]), 0, "{port}");
}
