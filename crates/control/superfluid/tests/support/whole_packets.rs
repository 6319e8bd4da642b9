//! Packets that are still to be segmented, counted at a port.

use serde_json::Value;

/// That what iperf3 sent, so many bytes each way, passed a port, most of it in packets that no link takes,
/// none of which was cut.
pub fn passed(account: &Value, port: &str, each_way: u64) {
    let port = &account["ports"][port];
    let packets = &port["packets"];
    let of = |value: &Value| value.as_u64().unwrap_or_default();
    let [(sent, bytes_sent), (taken, bytes_taken)] =
        [("delivered", "delivered_bytes"), ("received", "received_bytes")]
            .map(|(count, bytes)| (of(&packets[count]), of(&port[bytes])));
    // iperf3 ends before the last of what it has sent is there.
    assert!(bytes_sent.min(bytes_taken) > each_way / 4 * 3, "{port}");
    assert!(bytes_sent / sent > 4_000 && bytes_taken / taken > 4_000, "{port}");
    assert_eq!(of(&packets["split"]), 0, "{port}");
}
