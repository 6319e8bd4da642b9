//! What Suricata takes and this function does not have. A rule that asks for it is left out with
//! `unsupported: skip`; a mistake, which Suricata refuses too, refuses the file in any case.

use alloc::vec::Vec;

/// Options of Suricata 6 and 7 that are not known here, sorted by name.
#[rustfmt::skip]
pub static OPTIONS: [&str; 228] = [
    "ack", "app-layer-event", "asn1", "base64_data", "base64_decode", "bypass", "byte_math", "cip_service",
    "compress_whitespace", "config", "datarep", "dataset", "dce_iface", "dce_opnum", "dce_stub_data",
    "dcerpc.iface", "dcerpc.opnum", "dcerpc.stub_data", "decode-event", "dhcp.leasetime",
    "dhcp.rebinding_time", "dhcp.renewal_time", "dnp3.data", "dnp3.func", "dnp3.ind", "dnp3.obj",
    "dnp3_data", "dnp3_func", "dnp3_ind", "dnp3_obj", "dns.opcode", "dotprefix", "engine-event",
    "enip_command", "file.magic", "file.name", "fileext", "filemagic", "filemd5", "filename", "filesha1",
    "filesha256", "filesize", "filestore", "flow.age", "flowint", "flowvar", "fragbits", "fragoffset",
    "frame", "ftpbounce", "ftpdata_command", "geoip", "header_lowercase", "hostbits", "http.request_header",
    "http.response_header", "http.start", "http.uri.normalized", "http2.errorcode", "http2.frametype",
    "http2.header_name", "http2.priority", "http2.settings", "http2.size_update", "http2.window",
    "http_start", "icmp_id", "icmp_seq", "icmpv4-csum", "icmpv4.hdr", "icmpv6-csum", "icmpv6.hdr",
    "icmpv6.mtu", "id", "ike.chosen_sa_attribute", "ike.exchtype", "ike.init_spi",
    "ike.key_exchange_payload", "ike.key_exchange_payload_length", "ike.nonce_payload",
    "ike.nonce_payload_length", "ike.resp_spi", "ike.vendor", "ip.dst", "ip.src", "ipopts", "iprep",
    "ipv4-csum", "ipv4.hdr", "ipv6.hdr", "ja3.hash", "ja3.string", "ja3_hash", "ja3_string", "ja3s.hash",
    "ja3s.string", "ja4.hash", "ja4_hash", "krb5.cname", "krb5.sname", "krb5.ticket_encryption",
    "krb5_cname", "krb5_err_code", "krb5_msg_type", "krb5_sname", "l3_proto", "lua", "luajit", "modbus",
    "mqtt.connack.return_code", "mqtt.connack.session_present", "mqtt.connect.clientid",
    "mqtt.connect.flags", "mqtt.connect.password", "mqtt.connect.username", "mqtt.connect.willmessage",
    "mqtt.connect.willtopic", "mqtt.flags", "mqtt.protocol_version", "mqtt.publish.message",
    "mqtt.publish.topic", "mqtt.qos", "mqtt.reason_code", "mqtt.subscribe.topic", "mqtt.type",
    "mqtt.unsubscribe.topic", "nfq_set_mark", "nfs.version", "nfs_procedure", "nfs_version", "pcrexform",
    "pktvar", "prefilter", "quic.cyu.hash", "quic.cyu.string", "quic.sni", "quic.ua", "quic.version",
    "replace", "requires", "rfb.name", "rfb.secresult", "rfb.sectype", "rpc", "sameip", "seq", "sip.method",
    "sip.protocol", "sip.request_line", "sip.response_line", "sip.stat_code", "sip.stat_msg", "sip.uri",
    "smb.named_pipe", "smb.ntlmssp_domain", "smb.ntlmssp_user", "smb.share", "smb_named_pipe", "smb_share",
    "snmp.community", "snmp.pdu_type", "snmp.usm", "snmp.version", "ssh-hassh", "ssh-hassh-server",
    "ssh-hassh-server-string", "ssh-hassh-string", "ssh.hassh", "ssh.hassh.server",
    "ssh.hassh.server.string", "ssh.hassh.string", "ssh.proto", "ssh.protoversion", "ssh.software",
    "ssh.softwareversion", "ssh_proto", "ssh_software", "ssl_state", "ssl_version", "stream-event",
    "stream_size", "strip_pseudo_headers", "strip_whitespace", "tag", "tcp.ack", "tcp.hdr", "tcp.mss",
    "tcp.seq", "tcp.window", "tcpv4-csum", "tcpv6-csum", "template", "template2", "tls.cert_chain_len",
    "tls.cert_fingerprint", "tls.cert_issuer", "tls.cert_serial", "tls.cert_subject", "tls.certs",
    "tls.fingerprint", "tls.issuerdn", "tls.random", "tls.random_bytes", "tls.random_time", "tls.store",
    "tls.subject", "tls_cert_expired", "tls_cert_fingerprint", "tls_cert_issuer", "tls_cert_notafter",
    "tls_cert_notbefore", "tls_cert_serial", "tls_cert_subject", "tls_cert_valid", "tls_store",
    "to_lowercase", "to_md5", "to_sha1", "to_sha256", "to_uppercase", "tos", "udp.hdr", "udpv4-csum",
    "udpv6-csum", "url_decode", "window", "xor",
];

/// Options of other versions, and of Snort.
#[rustfmt::skip]
static OTHERS: [&str; 19] = [
    "activates", "arp.opcode", "cvs", "datajson", "detection-event", "email.from", "entropy", "from_base64",
    "gunzip", "igmp.type", "ldap.request.operation", "logto", "luaxform", "mdns.queries.rrname",
    "pgsql.query", "sdp.origin", "subslice", "vlan.id", "zlib_deflate",
];

/// Beginnings of options that look into an application's protocol. Newer versions have more of them.
#[rustfmt::skip]
static FAMILIES: [&str; 32] = [
    "http.", "http2.", "http_", "dns.", "tls.", "tls_", "ssl_", "ssh.", "smb.", "smtp.", "email.", "ftp.",
    "file.", "ja3", "ja4", "krb5", "nfs", "snmp.", "sip.", "sdp.", "rfb.", "mqtt.", "quic.", "dcerpc.",
    "dce_", "dnp3", "modbus", "enip", "ike.", "ldap.", "mdns.", "websocket.",
];

/// Protocols in rules that are not told apart here.
#[rustfmt::skip]
static PROTOCOLS: [&str; 43] = [
    "arp", "bittorrent-dht", "bittorrent_dht", "dcerpc", "decoder", "dhcp", "dnp3", "doh2", "enip", "ether",
    "ftp", "ftp-data", "http2", "icmpv4", "icmpv6", "ike", "imap", "ip4", "ip6", "ipv4", "ipv6", "krb5",
    "ldap", "mdns", "modbus", "mqtt", "nfs", "ntp", "pgsql", "pkthdr", "pop3", "quic", "rdp", "rfb", "sctp",
    "sip", "smb", "smtp", "snmp", "ssh", "telnet", "tftp", "websocket",
];

/// Protocols over IP by names that are not known here.
#[rustfmt::skip]
static IP_PROTOCOLS: [&str; 42] = [
    "ax.25", "cphb", "dccp", "ddp", "egp", "eigrp", "encap", "etherip", "fc", "ggp", "hip", "hmp",
    "idpr-cmtp", "idrp", "igp", "ip", "ipcomp", "ipencap", "ipv6-frag", "ipv6-nonxt", "ipv6-opts",
    "ipv6-route", "isis", "iso-tp4", "l2tp", "manet", "mobility-header", "mpls-in-ip", "pup", "rdp", "rohc",
    "rspf", "rsvp", "shim6", "skip", "st", "udplite", "vmtp", "vrrp", "wesp", "xns-idp", "xtp",
];

/// Options that a rule may have more than once.
static REPEATED: [&str; 9] =
    ["classtype", "flags", "flow", "gid", "icode", "itype", "priority", "tls.version", "ttl"];

/// Whether it is an option that this function does not have.
pub fn is_option(name: &str) -> bool {
    OPTIONS.binary_search(&name).is_ok() || OTHERS.contains(&name)
}

/// Whether it may be one of another version.
pub fn is_of_family(name: &str) -> bool {
    FAMILIES.iter().any(|start| name.starts_with(start) && name.len() > start.len())
}

/// Whether it is a protocol that is not told apart here.
pub fn is_protocol(name: &[u8]) -> bool {
    PROTOCOLS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether it is an application's protocol that is not read here.
pub fn is_app(name: &[u8]) -> bool {
    const NONE: [&[u8]; 9] =
        [b"arp", b"decoder", b"ether", b"icmpv4", b"icmpv6", b"ip4", b"ip6", b"ipv4", b"ipv6"];
    name == b"failed" || is_protocol(name) && !NONE.contains(&name)
}

/// Whether Suricata takes an option a second time.
pub fn may_repeat(name: &[u8]) -> bool {
    REPEATED.iter().any(|known| known.as_bytes() == name)
}

/// Digits, or hexadecimal ones behind `0x`, with or without a sign.
fn number(text: &[u8]) -> Option<i64> {
    let text = core::str::from_utf8(text.trim_ascii()).ok()?;
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (digits, base) = digits.strip_prefix("0x").map_or((digits, 10), |digits| (digits, 16));
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
    i64::from_str_radix(digits, base).ok().filter(|_| is_number).map(|number| sign * number)
}

/// Whether Suricata takes a value that an option is refused for here; `taken`: names of numbers that the rule
/// extracts before.
pub fn takes(name: &[u8], value: &[u8], taken: &[Vec<u8>]) -> bool {
    let text = value.trim_ascii();
    let in_range =
        |least: i64, most: i64| number(text).is_some_and(|number| (least..=most).contains(&number));
    let mut words = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_name = |name: &[u8]| (1..=255).contains(&name.len());
    if text.is_empty() {
        return false;
    }
    match name {
        // As C reads numbers.
        b"offset" | b"depth" | b"within" | b"distance" => {
            (text[0] == b'+' || text.starts_with(b"0x")) && in_range(0, 65_535)
        }
        b"isdataat" => {
            let first = words.next().unwrap_or_default();
            let first = first.strip_prefix(b"!").unwrap_or(first).trim_ascii();
            first.starts_with(b"+") && number(first).is_some_and(|number| number <= 65_535)
        }
        b"priority" => text.len() >= 10 && text.iter().all(u8::is_ascii_digit),
        b"content" => is_content(text),
        // Without quotes, with a sign or letter before the expression, or with variables behind it.
        b"pcre" => {
            let unquoted = text.strip_prefix(b"\"").unwrap_or(text);
            let expression = unquoted.strip_prefix(b"!").or_else(|| unquoted.strip_prefix(b"m"));
            let end = text.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            let is_variable = [&b"flow:"[..], b"pkt:"].iter().any(|kind| {
                text[end..].windows(kind.len() + 1).any(|part| part[0] == b',' && part[1..] == **kind)
            });
            let is_other = unquoted.len() == text.len() || expression.is_some() || is_variable;
            let expression = expression.unwrap_or(unquoted);
            is_other && text[0] != b'!' && expression.starts_with(b"/") && expression[1..].contains(&b'/')
        }
        b"urilen" => {
            let digits = words.next().unwrap_or_default();
            let digits =
                digits.split(|byte| matches!(byte, b'<' | b'>' | b':')).find(|part| !part.is_empty());
            digits.and_then(number).is_some_and(|number| (0..=65_535).contains(&number))
        }
        b"flags" | b"tcp.flags" => {
            let is_flag = |byte: &u8| b"FSRPAUECfsrpauec012!+*, ".contains(byte);
            let (asked, ignored) = (words.next().unwrap_or_default(), words.next());
            let is_plain = |words: &[u8]| !words.is_empty() && words.iter().all(u8::is_ascii_alphanumeric);
            text.iter().all(is_flag)
                && asked.iter().any(u8::is_ascii_alphanumeric)
                && ignored.is_none_or(is_plain)
                && words.next().is_none()
        }
        b"ip_proto" => {
            let text = text.strip_prefix(b"!").unwrap_or(text).trim_ascii();
            let quoted = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
            IP_PROTOCOLS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(text))
                || quoted.and_then(number).is_some_and(|number| (0..=255).contains(&number))
        }
        b"flowbits" => {
            let act = words.next().unwrap_or_default();
            let is_act = [&b"set"[..], b"unset", b"toggle", b"isset", b"isnotset"].contains(&act);
            let name = words.next().unwrap_or_default();
            is_act && words.next().is_none() && is_name(name) && !name.iter().any(u8::is_ascii_whitespace)
        }
        b"xbits" => {
            let words: Vec<&[u8]> = words.collect();
            let is_act =
                |word: &&[u8]| [&b"set"[..], b"unset", b"toggle", b"isset", b"isnotset"].contains(word);
            let [act, name, track, rest @ ..] = words.as_slice() else { return false };
            let seconds = rest.first().map(|word| word.strip_prefix(b"expire").and_then(number));
            is_act(act)
                && is_name(name)
                && matches!(
                    track.strip_prefix(b"track").map(<[u8]>::trim_ascii),
                    Some(b"ip_src" | b"ip_dst" | b"ip_pair")
                )
                && seconds
                    .is_none_or(|seconds| seconds.is_some_and(|seconds| (1..1 << 32).contains(&seconds)))
        }
        b"threshold" | b"detection_filter" => {
            let is_filter = name == b"detection_filter";
            let mut kinds = [0; 4];
            let mut others = 0;
            for word in words {
                let mut parts = word.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
                let (name, argument) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let least = i64::from(is_filter);
                let is_count = number(argument).is_some_and(|number| (least..1 << 32).contains(&number));
                let tracks = [&b"by_src"[..], b"by_dst", b"by_both", b"by_rule"];
                match name {
                    b"type" => {
                        kinds[0] += 1 + u32::from(![&b"limit"[..], b"threshold", b"both"].contains(&argument))
                    }
                    b"track" => kinds[1] += 1 + u32::from(!tracks.contains(&argument)),
                    b"count" => kinds[2] += 1 + u32::from(!is_count),
                    b"seconds" => kinds[3] += 1 + u32::from(!is_count),
                    _ => others += 1,
                }
            }
            kinds == [u32::from(!is_filter), 1, 1, 1] && (others == 0 || !is_filter)
        }
        b"byte_test" | b"byte_jump" | b"byte_extract" => is_number(name, &words.collect::<Vec<_>>(), taken),
        b"msg" => text.starts_with(b"\"") && text.ends_with(b"\""),
        b"tls.version" => text
            .strip_prefix(b"0x")
            .is_some_and(|digits| digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit)),
        _ => false,
    }
}

/// Of a content that is longer than those here, or empty but for its bars, or with more than digits in them.
fn is_content(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"!").unwrap_or(text).trim_ascii();
    let Some(inner) = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) else {
        return false;
    };
    let mut parts = inner.split(|byte| *byte == b'|').enumerate();
    let is_part = |(place, part): (usize, &[u8])| {
        let digits = part.iter().filter(|byte| byte.is_ascii_hexdigit()).count();
        let is_hexadecimal = part.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b' ' | b','));
        place % 2 == 0 && !part.contains(&b'\\') || is_hexadecimal && digits % 2 == 0
    };
    let is_whole = inner.iter().filter(|byte| **byte == b'|').count() % 2 == 0;
    inner == b"\\" || !inner.is_empty() && !inner.contains(&b'"') && is_whole && parts.all(is_part)
}

/// Of an option about a number in the payload.
fn is_number(name: &[u8], words: &[&[u8]], taken: &[Vec<u8>]) -> bool {
    let Some((fixed, more)) = words.split_at_checked(match name {
        b"byte_test" => 4,
        b"byte_jump" => 2,
        _ => 3,
    }) else {
        return false;
    };
    let is_string = more.contains(&&b"string"[..]);
    let is_value = |word: &[u8], least: i64, most: i64| {
        taken.iter().any(|name| name == word)
            || number(word).is_some_and(|number| (least..=most).contains(&number))
    };
    let are_fixed = match fixed {
        [_, operator, value, offset] => {
            let operator = operator.strip_prefix(b"!").unwrap_or(operator).trim_ascii();
            let is_large = core::str::from_utf8(value).is_ok_and(|value| value.parse::<u64>().is_ok());
            [&b"<"[..], b">", b"=", b"", b"<=", b">=", b"&", b"^"].contains(&operator)
                && (is_large || is_value(value, 0, i64::MAX))
                && is_value(offset, -(1 << 31), (1 << 31) - 1)
        }
        [_, offset] => is_value(offset, -65_535, 65_535),
        [_, offset, name] => {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            is_value(offset, -65_535, 65_535) && !name.is_empty() && name.iter().all(is_part)
        }
        _ => false,
    };
    let is_word = |word: &&[u8]| {
        let mut parts = word.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
        let (kind, argument) = (parts.next().unwrap_or_default(), parts.next());
        let in_range = |least: i64, most: i64| {
            argument.and_then(number).is_some_and(|number| (least..=most).contains(&number))
        };
        let is_test = name == b"byte_test";
        match kind {
            b"big" | b"little" => is_test || !is_string,
            b"relative" | b"string" | b"dce" => true,
            b"hex" | b"dec" | b"oct" => is_string,
            b"bitmask" => in_range(i64::from(!is_test), 0xffff_ffff),
            b"align" if name == b"byte_extract" => in_range(2, 2) || in_range(4, 4),
            b"align" | b"from_beginning" | b"from_end" => !is_test && argument.is_none(),
            b"multiplier" => !is_test && in_range(1, 65_535),
            b"post_offset" => name == b"byte_jump" && in_range(-65_535, 65_535),
            _ => false,
        }
    };
    are_fixed && is_value(fixed[0], 0, if is_string { 23 } else { 8 }) && more.iter().all(is_word)
}
