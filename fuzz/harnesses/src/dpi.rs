//! Any frames get one counted verdict and stay as they are, any state is taken or refused, and what is
//! exported is taken.

use crate::configuration::Configuration;
use dpi::Dpi;
use nf_sdk::native::{Runner, Script, Step, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::sync::LazyLock;

const RULES: &str = r#"
alert tcp any any -> any any (content:"ab"; content:"ba"; distance:0; within:9; sid:1;)
alert tcp any any -> any 80 (content:"abcdefgh"; nocase; flow:established; sid:2;)
drop udp any any -> any 1:9 (content:"a"; dsize:>3; sid:3;)
alert tcp any any -> any any (content:"GET"; depth:9; pcre:"/a+b/R"; sid:4;)
alert icmp any any -> any any (itype:8; threshold:type both, track by_src, count 2, seconds 9; sid:5;)
pass ip any any <> 10.0.0.2 any (content:!"x"; content:"zz"; endswith; sid:6;)
drop ip [10.9.0.0/16,::1] any -> any any (sid:7;)
alert http any any -> any any (http.uri; content:"/a"; pcre:"/(.)b\1/"; http.header; content:"b"; sid:8;)
alert tcp any any -> any any (file_data; content:"ab"; byte_extract:1,0,n,relative; content:"z"; distance:n; sid:9;)
alert dns any any -> any any (dns.query; content:"a"; nocase; flowbits:set,x; sid:10;)
alert tls any any -> any any (tls.sni; content:"a"; endswith; tls.version:1.2; sid:11;)
alert tcp any any -> any any (content:"a"; byte_jump:1,0,relative,from_end; flowbits:isset,x; xbits:toggle,y,track ip_src; sid:12;)
"#;

/// What the configurations have in common: little memory.
const COMMON: &str = "
rules: rules
drop_scope: packet
min_ttl: 2
fragment_memory: 64KiB
max_flows: 40
stream_window: 64
stream_memory: 64KiB
message_memory: 64KiB
body_limit: 4KiB
reorder_limit: 1000
max_thresholds: 8
";

/// Configurations: with and without picking up, dropping and not.
static CONFIGS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/dpi/function.yaml"));
    let differences = [
        "overload: drop\nmalformed: drop\nignored: drop\npick_up: true\nchecksums: verify\noverlap: windows\nsuspicious: copies",
        "pick_up: false\nchecksums: ignore\noverlap: last",
    ];
    differences.map(|text| configuration.read(&format!("{text}{COMMON}"), RULES))
});

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    let config = &CONFIGS[usize::from(mode) % CONFIGS.len()];
    let mut runner = Runner::<Dpi>::new(config).expect("in range");
    let (state, frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);

    let (mut now, mut seen) = (Nanos(1 << 60), 0u64);
    // The choice: an interface.
    for Step { frame, choice: [ingress], now: at, .. } in Script::new(frames, 28) {
        now = at;
        let out = runner.run(&[TestPacket::new(frame.to_vec(), u16::from(ingress))], now);
        let onward = Verdict::Interface(1 - u16::from(ingress & 1));
        let verdict = out[0].verdict.expect("a verdict");
        assert!(verdict == onward || matches!(verdict, Verdict::Drop(0..=6)), "{verdict:?}");
        assert_eq!(out[0].bytes.as_deref(), Some(frame));
        runner.timer_if_due(now);
        seen += 1;
    }
    assert_eq!((0..8).map(|counter| runner.host().counter(counter)).sum::<u64>(), seen);
    for event in runner.host().events() {
        serde_json::from_str::<serde_json::Value>(event).expect("JSON");
    }
    let report: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    assert!(report["flows"]["now"].as_u64() <= Some(40));
    let state = runner.export_state().expect("offered");
    assert!(Runner::<Dpi>::new(config).expect("in range").import_state(&state));
}
