//! Targets of requests as servers see them.

use alloc::vec::Vec;

/// A target's host with its port, if it has one, and what is behind it.
pub fn split(target: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(colon) = target.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'+') else {
        return (None, target);
    };
    let Some(rest) = target[colon..].strip_prefix(b"://").filter(|_| colon > 0) else {
        return (None, target);
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // A name and password before the host.
    let host = authority.iter().rposition(|byte| *byte == b'@').map_or(authority, |at| &authority[at + 1..]);
    (Some(host), path)
}

/// A host without its port.
pub fn without_port(host: &[u8]) -> &[u8] {
    let start = host.iter().position(|byte| *byte == b']').unwrap_or(0);
    let colon = host[start..].iter().position(|byte| *byte == b':');
    let host = colon.map_or(host, |colon| &host[..start + colon]);
    host.strip_suffix(b".").unwrap_or(host)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The byte that stands at the beginning, unescaped, and how many bytes it takes.
fn unescape(text: &[u8], has_unicode: bool) -> Option<(u8, usize)> {
    match *text {
        [b'%', b'u' | b'U', a, b, c, d, ..] if has_unicode => {
            let (high, low) = (digit(a)? << 4 | digit(b)?, digit(c)? << 4 | digit(d)?);
            // Wide forms of ASCII are what they look like.
            let byte = match high {
                0 => low,
                0xff if (0x01..=0x5e).contains(&low) => low + 0x20,
                _ => b'?',
            };
            Some((byte, 6))
        }
        [b'%', a, b, ..] => Some((digit(a)? << 4 | digit(b)?, 3)),
        _ => None,
    }
}

/// Appends a target without its host: unescaped, and its path without detours.
pub fn normalise(target: &[u8], out: &mut Vec<u8>) {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(target.len());
    let start = out.len();
    let mut rest = &target[..end];
    // What stands between stays as it is.
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'%' | b'\\' | b'/')) {
        out.extend_from_slice(&rest[..at]);
        let (byte, taken) = unescape(&rest[at..], true).unwrap_or((rest[at], 1));
        rest = rest.get(at + taken..).unwrap_or_default();
        let byte = if byte == b'\\' { b'/' } else { byte };
        if byte == b'/' && out.len() > start && out.last() == Some(&b'/') {
            continue;
        }
        out.push(byte);
    }
    out.extend_from_slice(rest);
    without_detours(out, start);
    let mut rest = &target[end..];
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let (byte, taken) = unescape(&rest[at..], false).unwrap_or((b'%', 1));
        out.push(byte);
        rest = rest.get(at + taken..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// Takes `.` and `..` out of a path, which begins at `start` (RFC 3986 section 5.2.4).
fn without_detours(path: &mut Vec<u8>, start: usize) {
    if !path[start..].windows(2).any(|two| two == b"/.") && !path[start..].starts_with(b".") {
        return;
    }
    let mut to = start;
    let mut at = start;
    while at < path.len() {
        let slash = usize::from(path[at] == b'/');
        let end = path[at + slash..].iter().position(|byte| *byte == b'/');
        let end = end.map_or(path.len(), |end| at + slash + end);
        let is_last = end == path.len();
        match &path[at + slash..end] {
            // Before anything else they are nothing, with the slash behind them.
            b"." | b".." if slash == 0 => {
                at = (end + 1).min(path.len());
                continue;
            }
            b"." => {
                if is_last {
                    path[to] = b'/';
                    to += 1;
                }
            }
            b".." => {
                while to > start && path[to - 1] != b'/' {
                    to -= 1;
                }
                to = to.saturating_sub(1).max(start);
                if is_last {
                    path[to] = b'/';
                    to += 1;
                }
            }
            _ => {
                path.copy_within(at..end, to);
                to += end - at;
            }
        }
        at = end;
    }
    path.truncate(to);
}
