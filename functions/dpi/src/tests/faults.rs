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
    refused("classtype:trojan activity;", FIRST + 10, "`trojan activity`");
    refused("threshold:type limit, track by_flow, count 1, seconds 1;", FIRST + 21, "`track by_flow`");
    refused("detection_filter:track by_src, count 1;", FIRST + 17, "all three");
    refused("threshold:type limit, count 1;", FIRST + 10, "all four");
    refused("contnet:\"a\";", FIRST, "did you mean `content`?");
    refused("http.ur; content:\"a\";", FIRST, "did you mean `http.uri`?");
    refused("http.new; content:\"a\";", FIRST, "`http.new` is an option that this function does not have");
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
    refused("msg:\"a\"; msg:\"b\";", FIRST + 9, "a second time");
    refused("priority:-1;", FIRST + 9, "0 to 4294967295");
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
    assert_eq!(lines[0], "test.rules: 2000 faults");
    assert!(lines[2000].starts_with("test.rules:1000:"), "{}", lines[2000]);
}

#[test]
fn of_more_faults_than_are_kept_the_rest_is_counted() {
    let rules: String = (0..10_000).map(|_| "alert tcp any any -> any any (foo;)\n").collect();
    let lines = lines(&rules);
    assert_eq!(lines.len(), 16_386);
    assert_eq!(lines[0], "test.rules: 20000 faults");
    assert_eq!(lines[16_385], "test.rules: 3616 faults are not listed");
}

#[test]
fn a_sid_is_there_once_in_a_generator() {
    assert!(
        lines("alert ip any any -> any any (sid:7;)\nalert ip any any -> any any (gid:2; sid:7;)").is_empty()
    );
    for revisions in [("", ""), ("rev:2;", "rev:2;"), ("rev:3;", "rev:2;")] {
        let rule = |revision: &str| format!("alert ip any any -> any any (sid:7; {revision})\n");
        let line = fault(&(rule(revisions.0) + &rule(revisions.1)));
        assert!(line.starts_with("test.rules:2:30: sid 7 is that of the rule in line 1"), "{line}");
    }
}

/// As Suricata does it: also of a rule that is left out, and by one.
#[test]
fn a_newer_revision_replaces_a_rule() {
    let read = |options: &[&str]| {
        let rule = |options: &&str| format!("alert ip any any -> any any ({options})\n");
        let text: String = options.iter().map(rule).collect();
        let rules = Rules::parse_with(text.as_bytes(), &Variables::new(), Unsupported::Skip).expect("rules");
        let list: Vec<(u32, u32)> = rules.list.iter().map(|rule| (rule.sid, rule.revision)).collect();
        (list, rules.replaced, rules.skipped.total, rules.skipped.reasons.len())
    };
    assert_eq!(
        read(&["sid:7; rev:1;", "sid:8;", "sid:7; rev:3;", "sid:9;"]),
        (vec![(8, 0), (7, 3), (9, 0)], 1, 0, 0)
    );
    assert_eq!(read(&["sid:7; rev:1;", "sid:7; rev:2;", "sid:7; rev:3;"]), (vec![(7, 3)], 2, 0, 0));
    assert_eq!(read(&["sid:7; rev:1; sameip;", "sid:7; rev:2;"]), (vec![(7, 2)], 1, 0, 0));
    assert_eq!(read(&["sid:7; rev:1;", "sid:7; rev:2; sameip;"]), (vec![], 1, 1, 1));
}

/// Rules that Suricata takes, with every option of its own: none is a mistake, and a file with all of them is
/// taken. `tests/suricata` shows them to Suricata.
#[test]
fn what_suricata_takes_refuses_no_file() {
    let text = include_bytes!("../../tests/suricata/accepted.rules");
    let rules = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let variables = Variables::from([
        ("HOME_NET".into(), "[10.0.0.0/8]".into()),
        ("EXTERNAL_NET".into(), "!$HOME_NET".into()),
        ("HTTP_PORTS".into(), "80".into()),
    ]);
    let parse = |text: &[u8]| Rules::parse_with(text, &variables, Unsupported::Skip);
    for rule in rules.clone() {
        let text = String::from_utf8_lossy(rule);
        parse(rule).unwrap_or_else(|faults| panic!("{text}\n{:?}", faults.list));
    }
    let read = parse(text).unwrap_or_else(|faults| panic!("{:?}", faults.list));
    assert_eq!(read.list.len() + read.skipped.total, rules.count() - 1);
    assert!(read.list.len() > 80 && read.skipped.total > 300);
}

#[test]
fn what_suricata_refuses_stays_a_mistake() {
    let text = include_str!("../../tests/suricata/mistakes.rules");
    let rules: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(rules.len() > 150);
    for rule in rules {
        let read = Rules::parse_with(rule.as_bytes(), &Variables::new(), Unsupported::Skip);
        assert!(read.is_err(), "{rule}");
    }
}

/// Every keyword of Suricata is known here or left out, and none is called unknown, in either case.
#[test]
fn every_keyword_of_suricata_is_known() {
    let names =
        include_str!("../../tests/suricata/keywords.txt").lines().filter(|name| !name.starts_with('#'));
    assert!(names.clone().count() > 300);
    for name in names.flat_map(|name| [name.to_owned(), name.to_ascii_uppercase()]) {
        let form = |option: &str| format!("alert ip any any -> any any (content:\"a\"; {option}; sid:1;)\n");
        let forms = [form(&name), form(&format!("{name}:1"))];
        let told = forms.map(|rule| Rules::parse_with(rule.as_bytes(), &Variables::new(), Unsupported::Skip));
        for faults in told.iter().filter_map(|told| told.as_ref().err()) {
            let is_unknown = faults.list.iter().any(|fault| fault.text.contains("unknown option"));
            assert!(!is_unknown, "`{name}`: {:?}", faults.list);
        }
    }
}

/// What limits there are here and not there.
#[test]
fn what_is_too_much_is_left_out() {
    let skipped = |text: &str| {
        let rules = Rules::parse_with(text.as_bytes(), &Variables::new(), Unsupported::Skip);
        let mut skipped = rules.unwrap_or_else(|faults| panic!("{:?}", faults.list)).skipped;
        (skipped.total, skipped.reasons.pop_first().map_or(String::new(), |(name, _)| name))
    };
    let contents = "content:\"a\"; ".repeat(65);
    let many = format!("alert ip any any -> any any ({contents}sid:1;)");
    assert_eq!(skipped(&many), (1, "rules of that many contents".into()));
    let deep = format!("alert ip {}10.0.0.1{} any -> any any (sid:1;)", "[".repeat(20), "]".repeat(20));
    assert_eq!(skipped(&deep), (1, "lists of that size".into()));
    let rules: String =
        (1..=65_540).map(|sid| format!("alert ip any any -> any any (sid:{sid};)\n")).collect();
    assert_eq!(skipped(&rules), (4, "room for more than 65536 rules".into()));
}

/// The README's table of what is lacking: every option is in one line, and the numbers are right. What else
/// it calls lacking is left out, in some form of rule, and is no mistake.
#[test]
fn what_the_readme_calls_lacking_is_left_out() {
    let readme = include_str!("../../README.md");
    let section =
        readme.split("### What is lacking").nth(1).and_then(|rest| rest.split("**Expressions**").next());
    let section = section.expect("the section");
    let names =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let is_of = |option: &str, name: &str| match name.split_once('*') {
        Some((start, end)) => option.starts_with(start) && option.ends_with(end),
        None => option == name,
    };
    let mut options = crate::rules::lacking::OPTIONS.to_vec();
    for line in section.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let before = options.len();
        for name in names(cells[2]) {
            let found = options.len();
            options.retain(|option| !is_of(option, &name));
            assert!(options.len() < found, "`{name}` is no option that is lacking");
        }
        assert_eq!((before - options.len()).to_string(), cells[3], "{line}");
    }
    assert!(options.is_empty(), "{options:?}");
    let rest = section.rsplit("\n\n").find(|part| part.starts_with("Left out as well")).expect("the rest");
    let (protocols, rest) = rest.split_once("...").expect("protocols");
    for name in names(protocols) {
        let rule = format!("alert {name} any any -> any any (sid:1;)\n");
        let rules =
            Rules::parse_with(rule.as_bytes(), &Variables::new(), Unsupported::Skip).expect("left out");
        assert_eq!(rules.skipped.reasons.keys().collect::<Vec<_>>(), [&format!("protocol {name}")]);
    }
    assert!(names(rest).len() > 15);
}

#[test]
fn forms_of_options_are_left_out() {
    let forms = [
        ("tcp", "flow:no_frag;", "flow:no_frag"),
        ("udp", "flow:only_stream;", "flow:only_stream in rules that are not for tcp"),
        ("udp", "http.uri; content:\"a\";", "buffers in rules for another protocol"),
        ("http", "flow:to_server; file.data; content:\"a\";", "bodies of requests as file.data"),
        ("tcp", "ttl:1; ttl:2;", "a second ttl"),
        ("tcp", "byte_test:0,>,1,0;", "that form of byte_test"),
        ("tcp", "byte_test:1,>,1,0,dce;", "dce"),
        ("tcp", "flowbits:set,a|b;", "that form of flowbits"),
        ("tcp", "threshold:type limit, track by_src, count 0, seconds 1;", "that form of threshold"),
        ("tcp", "xbits:set,a,track ip_pair;", "xbits of pairs"),
        ("tcp", "app-layer-protocol:smb;", "app-layer-protocol"),
        ("tcp", "pcre:\"/(?R)/\";", "pcre"),
        ("tcp", "pcre:\"/\\p{L}/\";", "pcre"),
        ("tcp", "pcre:\"/(*UTF8)a/\";", "pcre"),
    ];
    for (protocol, options, lacks) in forms {
        let rule = format!("alert {protocol} any any -> any any ({options} sid:1;)\n");
        let rules = Rules::parse_with(rule.as_bytes(), &Variables::new(), Unsupported::Skip)
            .unwrap_or_else(|faults| panic!("{rule}{:?}", faults.list));
        assert_eq!(rules.skipped.reasons.keys().collect::<Vec<_>>(), [lacks], "{rule}");
    }
}
