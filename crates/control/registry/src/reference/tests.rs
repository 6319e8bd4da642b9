use super::*;
use proptest::prelude::*;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn fault(text: &str) -> ReferenceFault {
    text.parse::<Reference>().expect_err(text).fault
}

#[test]
fn parts_are_told_apart() {
    let reference: Reference = "registry.example.org:5000/edge/fire_wall:1.2.0".parse().expect("a reference");
    assert_eq!(reference.host(), "registry.example.org:5000");
    assert_eq!(reference.repository(), "edge/fire_wall");
    assert_eq!(reference.tag(), Some("1.2.0"));
    assert_eq!(reference.digest(), None);

    let reference: Reference = format!("[2001:db8::1]:5000/f@sha256:{HEX}").parse().expect("a reference");
    assert_eq!(reference.host(), "[2001:db8::1]:5000");
    assert_eq!(reference.tag(), None);
    assert_eq!(reference.digest().map(|digest| digest.to_string()), Some(format!("sha256:{HEX}")));

    let both: Reference = format!("localhost/f:x@sha256:{HEX}").parse().expect("a reference");
    assert_eq!((both.tag(), both.digest().is_some()), (Some("x"), true));
    assert_eq!("localhost/f".parse::<Reference>().expect("a reference").tag(), Some("latest"));
}

#[test]
fn what_is_wrong_is_named() {
    use ReferenceFault as F;
    for text in ["firewall", "./firewall.wasm", "edge/firewall:1", "", "/f", "../f.wasm"] {
        assert_eq!(fault(text), F::NoHost, "{text}");
    }
    for host in
        ["a..b", "-a.b", "127.1", "0x7f.0.0.1.2", "a_b.c", "[::1", "[::1]x", "[1.2.3.4]", "user@h.x", "a.1"]
    {
        assert!(matches!(fault(&format!("{host}/f")), F::Host { .. }), "{host}");
    }
    for port in ["", "0", "65536", "80a", "080", "+80", "1:2"] {
        assert!(matches!(fault(&format!("a.b:{port}/f")), F::Port { .. }), "{port}");
    }
    for repository in
        ["", "F", "a//b", "a/", "a___b", "a._b", "-a", "a.", "a b", "a%2f", "../a", "a\u{1b}[2J"]
    {
        assert!(matches!(fault(&format!("a.b/{repository}")), F::Repository { .. }), "{repository}");
    }
    for tag in ["", ".a", "-a", "a/b", "a:b", "\u{e4}", &"t".repeat(129)] {
        assert!(matches!(fault(&format!("a.b/f:{tag}")), F::Tag { .. }), "{tag}");
    }
    let short = &HEX[1..];
    let upper = HEX.to_uppercase();
    for digest in
        ["", "sha256:", &format!("sha256:{short}"), &format!("sha256:{upper}"), &format!("sha512:{HEX}")]
    {
        assert!(matches!(fault(&format!("a.b/f@{digest}")), F::Digest { .. }), "{digest}");
    }
    assert_eq!(fault(&format!("a.b/{}", "x".repeat(252))), F::LongName { found: 256 });
    assert_eq!(fault(&"x".repeat(513)), F::Long { found: 513 });
}

#[test]
fn a_fault_cannot_control_a_terminal_and_has_one_line() {
    let error = "a.b/\u{1b}[2J\nx".parse::<Reference>().expect_err("no repository").to_string();
    assert!(!error.contains(['\u{1b}', '\n']), "{error:?}");
}

proptest! {
    #[test]
    fn whatever_is_read_is_shown_as_it_was(
        host in "(localhost|[a-z]{1,8}\\.[a-z]{1,8}|127\\.0\\.0\\.1|\\[::1\\])(:[1-9][0-9]{0,3})?",
        repository in "[a-z0-9]{1,5}((\\.|_|__|-{1,3})[a-z0-9]{1,5}){0,2}(/[a-z0-9]{1,5}){0,2}",
        tag in "[a-zA-Z0-9_][a-zA-Z0-9._-]{0,12}",
        digest in proptest::option::of("[0-9a-f]{64}"),
    ) {
        let digest = digest.map(|hex| format!("@sha256:{hex}")).unwrap_or_default();
        let text = format!("{host}/{repository}:{tag}{digest}");
        let read: Reference = text.parse().expect("a reference");
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        if let Ok(read) = text.parse::<Reference>() {
            prop_assert_eq!(read.to_string().parse::<Reference>().expect("again"), read);
        }
    }
}
