//! Full tables: connections that both sides have agreed to go on, there are no more than there may be, and
//! others connect while it lasts.

use super::frames::{A, A6, Bench, IN, OUT, drop, to_port};
use nf_sdk::native::frames::{flags, tcp, udp};

/// As the tests' configuration has them, of each family.
const MOST: u64 = 1000;

/// A host somewhere, by number, of the family of `own`.
fn host(own: &str, number: u32) -> String {
    match own.contains(':') {
        true => format!("2001:db8:5::{:x}:{:x}", number >> 16, number & 0xffff),
        false => std::net::Ipv4Addr::from(0xcb00_0000 + number).to_string(),
    }
}

/// A handshake from outside, `between` whose packets something else happens; whether it came about.
fn connects(bench: &mut Bench, own: &str, number: u32, mut between: impl FnMut(&mut Bench)) -> bool {
    let other = host(own, number);
    let ends = |reply: bool| match reply {
        false => [(&other[..], 1024), (own, 443)],
        true => [(own, 443), (&other[..], 1024)],
    };
    let first = bench.outside(tcp(ends(false), flags::SYN, 100, 0, 0));
    between(bench);
    let second = bench.inside(tcp(ends(true), flags::SYN | flags::ACK, 500, 101, 0));
    between(bench);
    let third = bench.outside(tcp(ends(false), flags::ACK, 101, 501, 0));
    [first, second, third] == [IN, OUT, IN]
}

fn goes_on(bench: &mut Bench, own: &str, number: u32) -> bool {
    let other = host(own, number);
    let there = bench.outside(tcp([(&other, 1024), (own, 443)], flags::ACK, 101, 501, 0));
    let back = bench.inside(tcp([(own, 443), (&other, 1024)], flags::ACK, 501, 101, 0));
    (there, back) == (IN, OUT)
}

fn flows(bench: &Bench, own: &str) -> u64 {
    let family = if own.contains(':') { "ipv6" } else { "ipv4" };
    bench.report()["flows"][family].as_u64().expect("a count")
}

/// A guest that opens what it can, and the world that floods it with distinct sources.
#[test]
fn a_full_table_keeps_what_is_agreed_and_lets_others_connect() {
    for own in [A, A6] {
        let rules = vec![to_port("in", "tcp", 443), to_port("out", "udp", 53)];
        let mut bench = Bench::of(rules);
        let established: Vec<u32> = (0..600).collect();
        for number in &established {
            assert!(connects(&mut bench, own, *number, |_| ()), "{own}: {number}");
        }
        let mut forged = 100_000..;
        let mut flood = |bench: &mut Bench, count: usize| {
            for number in forged.by_ref().take(count) {
                // 2,000 in a second, as 300,000 are in a table of usual size.
                bench.now += 0.0005;
                let other = host(own, number);
                match number % 10 {
                    // From inside too: what the guest sends to where nothing answers.
                    0 => assert_eq!(bench.inside(udp(own, 4000, &other, 53)), OUT),
                    _ => {
                        assert_eq!(bench.outside(tcp([(&other, 1024), (own, 443)], flags::SYN, 1, 0, 0)), IN)
                    }
                }
            }
        };
        flood(&mut bench, 5000);
        assert!((850..=MOST).contains(&flows(&bench, own)), "{own}: {}", bench.report());
        let mut honest: Vec<u32> = (5000..5050).collect();
        honest.retain(|number| connects(&mut bench, own, *number, |bench| flood(bench, 50)));
        assert!(honest.len() >= 45, "{own}: {} of 50", honest.len());
        // What waits for an answer for less time goes no earlier for that.
        let asked = (6000..6050u16).filter(|port| {
            let other = host(own, 300_000 + u32::from(*port));
            assert_eq!(bench.inside(udp(own, *port, &other, 53)), OUT);
            flood(&mut bench, 50);
            bench.outside(udp(&other, 53, own, *port)) == IN
        });
        let answered = asked.count();
        assert!(answered >= 38, "{own}: {answered} of 50");
        assert!(flows(&bench, own) <= MOST);
        for number in established.iter().chain(&honest) {
            assert!(goes_on(&mut bench, own, *number), "{own}: {number}");
        }
        // Of agreed ones alone, none gives way.
        let further = (10_000..12_000).filter(|number| connects(&mut bench, own, *number, |_| ()));
        let further: Vec<u32> = further.collect();
        assert!(flows(&bench, own) <= MOST && further.len() < 400, "{own}: {}", further.len());
        let other = host(own, 20_000);
        let full = bench.outside(tcp([(&other, 1024), (own, 443)], flags::SYN, 1, 0, 0));
        assert!([drop::TABLE_FULL, IN].contains(&full), "{own}: {full:?}");
        assert!(bench.report()["packets"]["table-full"].as_u64() > Some(1000), "{own}: {}", bench.report());
        for number in established.iter().chain(&honest).chain(&further) {
            assert!(goes_on(&mut bench, own, *number), "{own}: {number}");
        }
    }
}
