//! Mistakes in rule files: each with its place, and none applied.

use super::frames::config;
use crate::Dpi;
use crate::rules::Rules;
use crate::rules::network::Variables;
use crate::rules::parse::Unsupported;
use nf_sdk::native::Runner;

fn lines(rules: &str) -> Vec<String> {
    match Runner::<Dpi>::new(&config(rules, &[])) {
        Ok(_) => vec![],
        Err(error) => error.message().lines().map(str::to_owned).collect(),
    }
}

/// The one fault of a rule file.
fn fault(rules: &str) -> String {
    let lines = lines(rules);
    assert_eq!(lines.len(), 1, "{rules}: {lines:#?}");
    lines[0].clone()
}

/// A rule with these options is refused at this column with these words.
#[track_caller]
fn refused(options: &str, column: usize, words: &str) {
    let rule = format!("alert tcp any any -> any any ({options} sid:1;)\n");
    let line = fault(&rule);
    let wanted = format!("test.rules:1:{column}: ");
    assert!(line.starts_with(&wanted) && line.contains(words), "{rule}{line}");
    assert!(line.contains("; allowed: "), "{line}");
}

/// Where options begin.
const FIRST: usize = 31;

#[test]
fn options() {
    refused("content:\"\";", FIRST + 9, "empty content");
    refused("content:\"a|zz|\";", FIRST + 11, "`z` between bars");
    refused("content:\"a|4|\";", FIRST + 12, "`|` between bars");
    refused("content:\"a|41\";", FIRST + 10, "`|` without a second one");
    refused("content:\"a\\n\";", FIRST + 10, "`\\n` is no escape");
    refused("content:abc;", FIRST + 8, "`abc`");
    refused(&format!("content:\"{}\";", "a".repeat(256)), FIRST + 9 + 256, "more than 255");
    refused("nocase;", FIRST, "no content before it");
    refused("content:\"a\"; depth:0;", FIRST + 19, "`0`");
    refused("content:\"abc\"; depth:2;", FIRST, "shorter than the content");
    refused("content:\"abc\"; content:\"def\"; within:2;", FIRST + 37, "shorter than the content");
    refused("content:\"a\"; offset:1; distance:1;", FIRST + 23, "beside distance");
    refused("content:\"a\"; isdataat:1,beyond;", FIRST + 22, "`beyond`");
    refused("dsize:1<>2;", FIRST + 6, "`1<>2`");
    refused("flags:SX;", FIRST + 6, "`SX`");
    refused("flow:to_server,from_server;", FIRST + 15, "`from_server` contradicts");
    refused("flow:to_sever;", FIRST + 5, "`to_sever`");
    refused("classtype:trojan-activty;", FIRST + 10, "did you mean `trojan-activity`?");
    refused("threshold:type limit, track by_flow, count 1, seconds 1;", FIRST + 21, "`track by_flow`");
    refused("detection_filter:track by_src, count 1;", FIRST + 17, "all three");
    refused("threshold:type limit, count 1;", FIRST + 10, "all four");
    refused("contnet:\"a\";", FIRST, "did you mean `content`?");
    refused("http.ur; content:\"a\";", FIRST, "`http.ur` is an option that this function does not have");
    refused("tls.cert_subject; content:\"a\";", FIRST, "does not have");
    refused("flowbits:put,x;", FIRST + 9, "`put,x`");
    refused("flowbits:set,a|b;", FIRST + 9, "isset and isnotset alone");
    refused("xbits:set,x,track ip_pair;", FIRST + 6, "`track ip_pair`");
    refused("http_uri;", FIRST, "no content before it");
    refused("http.uri; content:\"a\"; http_header;", FIRST + 23, "one of the two spellings");
    refused("content:\"a\"; http_uri; content:\"b\"; http_stat_code;", FIRST + 23, "other direction");
    refused("flow:to_client; content:\"a\"; http_uri;", FIRST + 16, "other direction");
    refused("http.uri; content:\"a\"; tls.sni; content:\"b\";", FIRST + 32, "two protocols");
    refused("byte_test:9,>,1,0;", FIRST + 10, "9 bytes");
    refused("byte_test:4,~,1,0;", FIRST + 10, "`~`");
    refused("byte_test:4,>,len,0;", FIRST + 10, "`len`");
    refused("byte_test:4,>,1,0,dce;", FIRST + 10, "DCE/RPC");
    refused("byte_jump:4,0,sideways;", FIRST + 10, "`sideways`");
    refused("byte_extract:4,0,9;", FIRST + 13, "`9`");
    refused("urilen:5,odd;", FIRST + 9, "`odd`");
    refused("bsize:5;", FIRST, "no sticky buffer");
    refused("tls.version:1.9;", FIRST + 12, "`1.9`");
    refused("app-layer-protocol:smb;", FIRST + 19, "`smb`");
    refused("itype:8;", FIRST - 1, "not for icmp");
    refused("msg:\"a\"; msg:\"b\";", FIRST + 9, "a second time");
    refused("priority:0;", FIRST + 9, "1 to 255");
    refused("pcre:\"/(?<=a*)(b/\";", FIRST + 7, "look-around that cannot be read");
    refused("pcre:\"/a/UH\";", FIRST + 10, "another buffer");
    refused("http.uri; pcre:\"/a/H\";", FIRST + 16, "another buffer");
    refused("pcre:\"/a/q\";", FIRST + 9, "no flag of pcre");
    refused("pcre:\"/(a{1000}){1000}/\";", FIRST + 7, "automaton is larger");
    refused("pcre:\"a\";", FIRST + 6, "/EXPRESSION/FLAGS");
}

#[test]
fn headers() {
    let cases = [
        ("alrt tcp any any -> any any (sid:1;)", 1, "did you mean `alert`?"),
        ("reject tcp any any -> any any (sid:1;)", 1, "`reject`"),
        ("alert smb any any -> any any (sid:1;)", 7, "`smb`"),
        ("alert htp any any -> any any (sid:1;)", 7, "did you mean `http`?"),
        ("alert tcp any any => any any (sid:1;)", 19, "`=>`"),
        ("alert tcp any any -> any (sid:1;)", 26, "seven words"),
        ("alert tcp $HOME any -> any any (sid:1;)", 11, "unknown variable `$HOME`"),
        ("alert tcp [10.0.0.1,10.0.0.256] any -> any any (sid:1;)", 21, "`10.0.0.256`"),
        ("alert tcp any [80,81 -> any any (sid:1;)", 33, "seven words"),
        ("alert tcp any 81:80 -> any any (sid:1;)", 15, "`81:80`"),
        ("alert tcp !any any -> any any (sid:1;)", 11, "matches nothing"),
        ("alert icmp any 80 -> any any (sid:1;)", 16, "ports in a rule for icmp"),
        ("alert tcp any any -> any any", 29, "no options"),
        ("alert tcp any any -> any any (sid:1;", 37, "options that do not end"),
        ("alert tcp any any -> any any (sid:1)", 36, "no `;` behind `sid`"),
        ("alert tcp any any -> any any (msg:\"a\";)", 1, "without sid"),
    ];
    for (rule, column, words) in cases {
        let line = fault(&format!("# a comment\n\n{rule}\n"));
        assert!(
            line.starts_with(&format!("test.rules:3:{column}: ")) && line.contains(words),
            "{rule}\n{line}"
        );
    }
}

#[test]
fn all_faults_are_told_with_their_places() {
    let rules = "alert tcp any any -> any any (msg:\"fine\"; sid:1;)\n\
                 alert tcp any 99999 -> any any (dsize:x; \\\n  ttl:300; sid:2;)\n\
                 alert udp any any -> any any (content:\"\u{e9}\u{e9}|0\"; sid:1;)\n";
    let places: Vec<String> =
        lines(rules).iter().map(|line| line.split(": ").next().expect("a place").to_owned()).collect();
    assert_eq!(
        places,
        ["test.rules:2:15", "test.rules:2:39", "test.rules:3:7", "test.rules:4:42", "test.rules:4:47"]
    );
}

#[test]
fn many_faults_are_counted() {
    let rules: String = (0..1000).map(|_| "alert tcp any any -> any any (foo;)\n").collect();
    let lines = lines(&rules);
    assert_eq!(lines.len(), 2001);
    assert!(lines.iter().all(|line| line.len() <= 1024));
    assert_eq!(lines[60], "test.rules: 1940 more faults");
    assert!(lines[2000].starts_with("test.rules:1000:"), "{}", lines[2000]);
}

#[test]
fn of_more_faults_than_are_kept_the_rest_is_counted() {
    let rules: String = (0..10_000).map(|_| "alert tcp any any -> any any (foo;)\n").collect();
    let lines = lines(&rules);
    assert_eq!(lines.len(), 16_386);
    assert_eq!(lines[60], "test.rules: 19940 more faults");
    assert_eq!(lines[16_385], "test.rules: 3616 faults are not listed");
}

#[test]
fn a_sid_is_there_once_in_a_generator() {
    assert!(
        lines("alert ip any any -> any any (sid:7;)\nalert ip any any -> any any (gid:2; sid:7;)").is_empty()
    );
    let line = fault("alert ip any any -> any any (sid:7;)\nalert ip any any -> any any (sid:7; rev:2;)");
    assert!(line.starts_with("test.rules:2:30: sid 7 is that of the rule in line 1"), "{line}");
}

/// Whatever the README says is lacking is left out for want of that, in some form of rule, and is no mistake.
#[test]
fn what_the_readme_calls_lacking_is_left_out() {
    let readme = include_str!("../../README.md");
    let list = readme.split("What is lacking:").nth(1).and_then(|rest| rest.split("\n\n").next());
    let names: Vec<&str> = list.expect("the list").split('`').skip(1).step_by(2).collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let rule = |action: &str, protocol: &str, option: &str| {
            format!("{action} {protocol} any any -> any any (content:\"a\"; {option} sid:1;)\n")
        };
        let option = name.replace("cert_*", "cert_subject").replace("base64_*", "base64_decode");
        let value = if name == "xbits" { "set,x,track ip_pair" } else { "1" };
        let forms = [
            rule("alert", "tcp", &format!("{option};")),
            rule("alert", "tcp", &format!("{option}:{value};")),
            rule("alert", name, ""),
            rule(name, "tcp", ""),
        ];
        let is_left_out = forms.iter().any(|rule| {
            let rules = Rules::parse_with(rule.as_bytes(), &Variables::new(), Unsupported::Skip);
            rules.is_ok_and(|rules| rules.skipped.reasons.keys().any(|lacks| lacks.contains(&option)))
        });
        assert!(is_left_out, "`{name}`");
    }
}
