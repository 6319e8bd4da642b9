//! Segments that some receivers take and others do not, and what of them the middle cannot know: each hides
//! nothing from either. README.md has the table, with those of `evasion`.

use super::frames::{
    Bench, CLIENT, NONE, SERVER, at, flags, fragments, packet, seal, segment, stamp, tcp, udp,
};
use nf_sdk::Verdict;
use nf_sdk::native::ConfigValue;

const RULE: &str = "alert tcp any any -> any any (content:\"malicious\"; sid:1;)";
const HTTP: &str = "alert http any any -> any any (http.uri; content:\"/evil\"; sid:1;)";
const ON: Verdict = Verdict::Interface(1);

fn text(value: &str) -> ConfigValue {
    ConfigValue::text(value)
}

/// The option with a signature.
fn digest() -> Vec<u8> {
    [&[19, 18][..], &[7; 16], &[1, 1]].concat()
}

fn opened(rules: &str, options: [&[u8]; 2], changes: &[(&str, ConfigValue)]) -> Bench {
    let mut bench = Bench::new(rules, changes);
    bench.sids(segment(CLIENT, flags::SYN, [99, 0], 9000, options[0], &[]));
    bench.show(1, segment(SERVER, flags::SYN | flags::ACK, [499, 100], 9000, options[1], &[]));
    bench.sids(segment(CLIENT, flags::ACK, [100, 500], 9000, &[], &[]));
    bench
}

/// The client's data with options and an acknowledgement, `at` bytes into its stream.
fn data(at: u32, ack: u32, options: &[u8], data: &[u8]) -> Vec<u8> {
    segment(CLIENT, flags::ACK, [100 + at, ack], 9000, options, data)
}

/// The server acknowledges so many bytes: the sids of the alerts.
fn taken(bench: &mut Bench, bytes: u32) -> Vec<u64> {
    bench.show(1, segment(SERVER, flags::ACK, [500, 100 + bytes], 9000, &[], &[])).1
}

/// What stands in the place of the second half hides it from no receiver: neither from one that ignores it,
/// nor from one that takes it.
fn hides_from_none(name: &str, ack: u32, options: &[u8]) {
    let mut bench = opened(RULE, [&[], &[]], &[]);
    assert_eq!(bench.sids(data(0, 500, &[], b"mali")), NONE);
    assert_eq!(bench.sids(data(4, ack, options, b"XXXXX")), NONE);
    assert_eq!(bench.sids(data(4, 500, &[], b"cious")), [1], "{name}, ignored");
    let mut bench = opened(RULE, [&[], &[]], &[]);
    assert_eq!(bench.sids(data(0, 500, &[], b"mali")), NONE);
    assert_eq!(bench.sids(data(4, ack, options, b"cious")), NONE);
    assert_eq!(taken(&mut bench, 9), [1], "{name}, taken");
    assert_eq!(bench.count("ignored-seen"), 1);
    // What is dropped is not waited for.
    let mut bench = opened(RULE, [&[], &[]], &[("ignored", text("drop"))]);
    assert_eq!(bench.show(0, data(0, ack, options, b"malice")).0, Verdict::Drop(5), "{name}");
    assert_eq!(bench.report()["streams"]["held_bytes"], 0);
}

#[test]
fn a_signature_that_was_not_agreed_on() {
    hides_from_none("RFC 2385", 500, &digest());
    hides_from_none("RFC 5925", 500, &[29, 4, 0, 0]);
    // Without: both sides sign, and then what is not signed is ignored.
    let mut bench = opened(RULE, [&digest(), &digest()], &[]);
    bench.sids(data(0, 500, &digest(), b"mali"));
    bench.sids(data(4, 500, &[], b"XXXXX"));
    assert_eq!(bench.sids(data(4, 500, &digest(), b"cious")), [1]);
    // A signed reset ends nothing, and a signed end neither.
    for flags in [flags::RST, flags::RST | flags::ACK, flags::FIN | flags::ACK] {
        let mut bench = opened(RULE, [&[], &[]], &[]);
        bench.sids(data(0, 500, &[], b"mali"));
        bench.sids(segment(CLIENT, flags, [104, 500], 9000, &digest(), &[]));
        bench.show(
            1,
            tcp(SERVER, CLIENT, super::frames::flags::FIN | super::frames::flags::ACK, 500, 104, &[]),
        );
        bench.now += 100.0;
        assert_eq!(bench.sids(data(4, 501, &[], b"cious")), [1], "{flags}");
    }
    // Signed answers to a SYN that is not: the client waits for another one.
    let mut bench = Bench::new(RULE, &[]);
    bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
    bench.show(1, segment(SERVER, flags::SYN | flags::ACK, [8999, 100], 9000, &digest(), &[]));
    bench.show(1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[]));
    bench.sids(tcp(CLIENT, SERVER, flags::ACK, 100, 500, &[]));
    bench.server(0, b"mali");
    assert_eq!(bench.server(4, b"cious"), [1]);
}

/// Linux ignores what acknowledges bytes of before the first one, or of longer ago than the widest window;
/// others do not.
#[test]
fn an_acknowledgement_of_long_ago() {
    hides_from_none("before the first", 499, &[]);
    hides_from_none("long before", 500u32.wrapping_sub(70_000), &[]);
    let far = |ack| {
        let mut bench = opened(RULE, [&[], &[]], &[]);
        bench.server(0, &[b'x'; 1400]);
        bench.server(1400, &[b'x'; 1400]);
        bench.sids(segment(CLIENT, flags::ACK, [100, 3300], 1000, &[], b"mali"));
        bench.sids(segment(CLIENT, flags::ACK, [104, ack], 1000, &[], b"XXXXX"));
        bench.sids(segment(CLIENT, flags::ACK, [104, 3300], 1000, &[], b"cious"))
    };
    // The widest window was 9,000, and that before the first byte.
    assert_eq!((far(499), far(500)), (vec![1], NONE.to_vec()));
}

/// A SYN with the timestamp 0, which is older than no other one.
#[test]
fn timestamps_that_begin_with_nothing() {
    let mut bench = opened(RULE, [&stamp(0), &stamp(7)], &[]);
    let late = stamp(0x9000_0000);
    assert_eq!(bench.sids(data(0, 500, &late, b"mali")), NONE);
    assert_eq!(bench.sids(data(4, 500, &late, b"cious")), [1]);
    // From then on the latest counts.
    let mut bench = opened(RULE, [&stamp(0), &stamp(7)], &[]);
    bench.sids(data(0, 500, &late, b"mali"));
    bench.sids(data(4, 500, &stamp(0x8fff_0000), b"XXXXX"));
    assert_eq!(bench.sids(data(4, 500, &late, b"cious")), [1]);
}

/// A segment that is acknowledged as a whole teaches its receiver no timestamp.
#[test]
fn a_timestamp_of_a_segment_of_long_ago() {
    let mut bench = opened(RULE, [&stamp(1000), &stamp(7)], &[]);
    bench.sids(data(0, 500, &stamp(1001), b"mali"));
    taken(&mut bench, 4);
    for (at, junk) in [(0, &b""[..]), (0, b"mal"), (2, b"")] {
        bench.sids(data(at, 500, &stamp(900_000), junk));
    }
    assert_eq!(bench.sids(data(4, 500, &stamp(1002), b"cious")), [1]);
    // Which of two SYN packets the server has answered, its answer tells.
    let mut bench = Bench::new(RULE, &[]);
    bench.sids(segment(CLIENT, flags::SYN, [99, 0], 9000, &[], &[]));
    bench.sids(segment(CLIENT, flags::SYN, [99, 0], 9000, &stamp(1000), &[]));
    bench.show(1, segment(SERVER, flags::SYN | flags::ACK, [499, 100], 9000, &stamp(7), &[]));
    bench.sids(data(0, 500, &stamp(1000), b"mali"));
    bench.sids(data(4, 500, &stamp(900), b"XXXXX"));
    assert_eq!(bench.sids(data(4, 500, &stamp(1001), b"cious")), [1]);
}

/// A server that answers with a SYN of its own does not become the client.
#[test]
fn a_handshake_in_pieces() {
    let rule = "alert tcp any any -> any any (flow:established,to_client; content:\"malicious\"; sid:1;)";
    for (with_ack, answers) in [(false, false), (true, false), (false, true)] {
        let mut bench = Bench::new(rule, &[]);
        bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
        if with_ack {
            bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 499, 100, &[]));
        }
        bench.show(1, tcp(SERVER, CLIENT, flags::SYN, 499, 0, &[]));
        bench.sids(tcp(CLIENT, SERVER, flags::SYN | flags::ACK, 99, 500, &[]));
        let last = if answers {
            tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[])
        } else {
            tcp(SERVER, CLIENT, flags::ACK, 500, 100, &[])
        };
        bench.show(1, last);
        assert_eq!(bench.server(0, b"mali"), NONE);
        assert_eq!(bench.server(4, b"cious"), [1], "{with_ack}, {answers}");
        assert_eq!(bench.client(0, b"malicious"), NONE);
        assert_eq!(bench.count("ignored-seen"), 0);
    }
}

/// A reset or an end that does not arrive, for a time to live that is too small: what comes all the same is
/// read, messages included.
#[test]
fn ends_that_do_not_arrive() {
    let lost = |flags, seq| {
        let mut frame = tcp(CLIENT, SERVER, flags, seq, 500, &[]);
        frame[22] = 1;
        seal(&mut frame);
        frame
    };
    for end in [flags::RST, flags::FIN | flags::ACK] {
        let mut bench = opened(HTTP, [&[], &[]], &[]);
        assert_eq!(bench.sids(data(0, 500, &[], b"GET /first HTTP/1.1\r\nA: b\r\n\r\n")), NONE);
        bench.sids(lost(end, 129));
        assert_eq!(bench.sids(data(29, 500, &[], b"GET /ev")), NONE);
        bench.now += 50.0;
        assert_eq!(bench.sids(data(36, 500, &[], b"il HTTP/1.1\r\n\r\n")), [1], "{end}");
        // And is not forgotten.
        bench.now += 1000.0;
        for _ in 0..64 {
            bench.runner.timer(at(bench.now));
        }
        assert_eq!(bench.report()["flows"]["now"], 1);
    }
    // A body is looked at when its connection seems to end, and again when there is more of it.
    let rule = "alert http any any -> any any (file_data; content:\"evil\"; sid:1;)\n\
                alert http any any -> any any (file_data; content:\"evil page\"; sid:2;)";
    let mut bench = opened(rule, [&[], &[]], &[]);
    bench.sids(data(0, 500, &[], b"GET /x HTTP/1.1\r\n\r\n"));
    assert_eq!(bench.server(0, b"HTTP/1.1 200 OK\r\n\r\nevil"), NONE);
    assert_eq!(bench.show(1, tcp(SERVER, CLIENT, flags::FIN | flags::ACK, 523, 119, &[])).1, [1]);
    assert_eq!(bench.server(23, b" page"), NONE);
    assert_eq!(bench.show(1, tcp(SERVER, CLIENT, flags::RST, 528, 119, &[])).1, [1, 2]);
    // A little more does not have all of it looked at again before the connection is forgotten.
    assert_eq!(bench.server(28, b"!"), NONE);
    assert_eq!(bench.show(1, tcp(SERVER, CLIENT, flags::RST, 529, 119, &[])).1, NONE);
    bench.now += 1000.0;
    for _ in 0..64 {
        bench.runner.timer(at(bench.now));
    }
    assert_eq!(bench.told().len(), 2);
}

/// Data beyond the window that the server has taken are part of its messages.
#[test]
fn messages_go_on_beyond_the_window() {
    let mut bench = Bench::new(HTTP, &[]);
    bench.sids(tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[]));
    bench.show(1, segment(SERVER, flags::SYN | flags::ACK, [499, 100], 6, &[], &[]));
    bench.sids(tcp(CLIENT, SERVER, flags::ACK, 100, 500, &[]));
    let request = b"GET /evil HTTP/1.1\r\n\r\n";
    assert_eq!(bench.client(0, request), NONE);
    assert_eq!(taken(&mut bench, request.len() as u32), [1]);
    assert_eq!((bench.count("messages-lost"), bench.count("gaps")), (0, 0));
}

/// What is dropped is dropped when it comes again, however it is cut then.
#[test]
fn a_dropped_segment_that_comes_again() {
    let drop = "drop tcp any any -> any any (content:\"malicious\"; sid:1;)";
    let mut bench = Bench::new(drop, &[("drop_scope", text("packet"))]);
    bench.handshake();
    let show = |bench: &mut Bench, at: u32, bytes: &[u8]| bench.show(0, data(at, 500, &[], bytes)).0;
    assert_eq!(show(&mut bench, 0, b"a mali"), ON);
    assert_eq!(show(&mut bench, 6, b"cious text"), Verdict::Drop(0));
    for (at, bytes) in
        [(6, &b"cious text"[..]), (6, b"c"), (8, b"ou"), (15, b"t and more"), (0, b"a malicious")]
    {
        assert_eq!(show(&mut bench, at, bytes), Verdict::Drop(1), "{at}");
    }
    assert_eq!(show(&mut bench, 0, b"a mali"), ON);
    assert_eq!(show(&mut bench, 16, b"harmless"), ON);
    // So is one for which there was not enough work.
    let (dear, bytes) = super::verdicts::too_much();
    let dear = dear.replace("alert udp", "alert tcp");
    let mut bench = Bench::new(&dear, &[("overload", text("drop"))]);
    bench.handshake();
    assert_eq!(show(&mut bench, 0, &bytes), Verdict::Drop(4));
    for again in [0, 700, 1399] {
        assert!(matches!(show(&mut bench, again, &bytes[again as usize..]), Verdict::Drop(1 | 4)), "{again}");
    }
    let mut bench = Bench::new(&dear, &[]);
    bench.handshake();
    assert_eq!((show(&mut bench, 0, &bytes), show(&mut bench, 0, &bytes)), (ON, ON));
}

/// The fragment with which a datagram was dropped does not pass when it comes again: the receiver has the
/// others.
#[test]
fn a_dropped_fragment_that_comes_again() {
    let rule = "drop udp any any -> any any (content:\"malicious\"; sid:1;)";
    for scope in ["flow", "packet"] {
        let mut bench = Bench::new(rule, &[("drop_scope", text(scope))]);
        let parts = fragments(&udp(CLIENT, SERVER, b"malicious datagram"), 7, &[0..8, 8..16, 16..26]);
        assert_eq!(bench.show(0, parts[0].clone()).0, ON);
        assert_eq!(bench.show(0, parts[2].clone()).0, ON);
        assert_eq!(bench.show(0, parts[1].clone()).0, Verdict::Drop(0));
        for part in &parts {
            assert_eq!(bench.show(0, part.clone()).0, Verdict::Drop(1), "{scope}");
        }
        // Another one passes.
        let other = fragments(&udp(("10.0.0.2", 9), SERVER, b"harmless datagram"), 8, &[0..8, 8..25]);
        assert_eq!(other.into_iter().map(|part| bench.show(0, part).0).collect::<Vec<_>>(), [ON, ON]);
        // Receivers have forgotten them.
        bench.now += 32.0;
        assert_eq!(bench.show(0, parts[1].clone()).0, ON);
    }
}

/// Linux takes a UDP length of 0 over IPv6 for all that there is.
#[test]
fn datagrams_whose_length_is_none() {
    let rule = "alert udp any any -> any any (flow:to_server; content:\"malicious\"; sid:1;)";
    let datagram = |from: &str, to: &str| {
        let payload = [&[0x9c, 0x40, 0, 53, 0, 0, 0, 0][..], b"malicious"].concat();
        packet(from, to, 17, &payload)
    };
    let mut bench = Bench::new(rule, &[]);
    assert_eq!(bench.sids(datagram("2001:db8::1", "2001:db8::2")), [1]);
    assert_eq!(bench.count("checksum-errors"), 0);
    bench.sids(datagram("10.0.0.1", "192.0.2.1"));
    assert_eq!(bench.count("checksum-errors"), 1);
}

/// As many extension headers as there is room for, which hosts walk over.
#[test]
fn extension_headers_of_any_number() {
    let rule = "alert tcp any any -> any any (content:\"malicious\"; sid:1;)";
    for count in [1, 8, 9, 170] {
        let inner = tcp(("2001:db8::1", 7), ("2001:db8::2", 80), flags::ACK, 1, 1, b"malicious");
        let mut frame = packet("2001:db8::1", "2001:db8::2", 60, &inner[54..]);
        let mut options = [60, 0, 1, 4, 0, 0, 0, 0].repeat(count);
        options[8 * count - 8] = 6;
        frame.splice(54..54, options);
        let length = (frame.len() - 54) as u16;
        frame[18..20].copy_from_slice(&length.to_be_bytes());
        let mut bench = Bench::new(rule, &[("checksums", text("ignore"))]);
        assert_eq!(bench.sids(frame), [1], "{count}");
        assert_eq!(bench.count("malformed-seen"), 0);
    }
}

/// A byte that comes out of band is no part of what receivers read, unless they ask for it.
#[test]
fn an_urgent_byte() {
    let urgent = |at: u32, pointer: u16, bytes: &[u8]| {
        let mut frame = tcp(CLIENT, SERVER, flags::ACK | flags::URG, 100 + at, 500, bytes);
        frame[52..54].copy_from_slice(&pointer.to_be_bytes());
        seal(&mut frame);
        frame
    };
    let plain = |at: u32, bytes: &[u8]| tcp(CLIENT, SERVER, flags::ACK, 100 + at, 500, bytes);
    let found = |rule: &str, frames: &[Vec<u8>]| -> Vec<u64> {
        let mut bench = Bench::new(rule, &[]);
        bench.handshake();
        frames.iter().flat_map(|frame| bench.sids(frame.clone())).collect()
    };
    for (name, frames) in [
        ("first of its segment", vec![plain(0, b"mali"), urgent(4, 1, b"Xcious")]),
        ("a pointer of 0", vec![plain(0, b"mali"), urgent(4, 0, b"Xcious")]),
        ("in the midst", vec![urgent(0, 5, b"maliXcious")]),
        ("last", vec![urgent(0, 5, b"maliX"), plain(5, b"cious")]),
        ("alone", vec![plain(0, b"mali"), urgent(4, 1, b"X"), plain(5, b"cious")]),
        ("announced before", vec![urgent(0, 5, b"mali"), plain(4, b"Xcious")]),
        ("early", vec![urgent(4, 1, b"Xcious"), plain(0, b"mali")]),
        ("announced early", vec![urgent(2, 3, b"li"), plain(5, b"cious"), plain(0, b"ma"), plain(4, b"X")]),
        // Receivers that ask for it have it in its place.
        ("in band", vec![urgent(0, 4, b"malicious")]),
    ] {
        assert_eq!(found(RULE, &frames), [1], "{name}");
    }
    assert_eq!(found(RULE, &[plain(0, b"mali"), plain(4, b"Xcious")]), NONE);
    // Places are counted without it, and messages are read without it.
    let depth = "alert tcp any any -> any any (content:\"GET\"; depth:3; sid:1;)";
    assert_eq!(found(depth, &[urgent(0, 1, b"X"), plain(1, b"G"), plain(2, b"ET")]), [1]);
    let request = [plain(0, b"GET /ev"), urgent(7, 1, b"X"), plain(8, b"il HTTP/1.1\r\n\r\n")];
    assert_eq!(found(HTTP, &request), [1]);
    let mut bench = Bench::new(RULE, &[("ignored", text("drop"))]);
    bench.handshake();
    assert_eq!(bench.client(0, b"mali"), NONE);
    assert_eq!(bench.show(0, urgent(4, 1, b"Xcious")).0, Verdict::Drop(5));
    assert_eq!((bench.client(4, b"cious"), bench.count("ignored")), (vec![1], 1));
}
