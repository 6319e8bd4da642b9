//! Weights, caps, reserves, and which reserves can be kept.

use super::*;
use ::cpu_share::{Cap, Weight};
use schema::{Kind, Presence, Value};
use wiring::Cpu;

/// A file of functions, each described by what follows its name, with `head` in line 2 and the first function
/// in line 4.
fn functions(head: &str, described: &[&str]) -> String {
    let mut text = format!("superfluid: 1\n{head}\nfunctions:\n");
    for (n, description) in described.iter().enumerate() {
        text.push_str(&format!("  f{n}: {{image: monitor, {description}}}\n"));
    }
    text
}

fn share(percent: u32) -> Option<Cap> {
    Cap::from_millionths(percent * 10_000)
}

#[test]
fn the_schema_has_the_schedulers_bounds() {
    let weight = cpu_schema().key("weight").unwrap();
    let (min, max) = (i64::from(Weight::MIN.get()), i64::from(Weight::MAX.get()));
    assert_eq!(weight.kind, Kind::Integer { min, max });
    assert_eq!(weight.presence, Presence::Default(Value::Integer(i64::from(Weight::DEFAULT.get()))));
}

#[test]
fn shares_are_read_for_functions_and_tenants() {
    let text = functions(
        "tenants: {red: {cpu: {weight: 10000, cap: 50%, reserve: 0.1%}}, default: {}}",
        &["tenant: red, cpu: {weight: 1, cap: 1250ppm}", "cpu: {}", "preemptible: true"],
    );
    let Configuration { wiring, warnings } = good(&text);
    assert!(warnings.iter().all(|warning| !warning.message.contains("cpu")), "{}", lines(&warnings));
    let red = wiring.tenants["red"].cpu;
    assert_eq!((red.weight, red.cap, red.reserve), (Weight::MAX, share(50), Cap::from_millionths(1000)));
    let cpu = wiring.instances["f0"].cpu;
    assert_eq!((cpu.weight, cpu.cap, cpu.reserve), (Weight::MIN, Cap::from_millionths(1250), None));
    assert_eq!(wiring.instances["f1"].cpu, Cpu::default());
    assert_eq!(wiring.tenants["default"].cpu, Cpu::default());
    assert!(wiring.instances["f2"].preemptible && !wiring.instances["f1"].preemptible);
}

#[test]
fn pauses_follow_one_another() {
    let text = functions("", &["pauses: [{from: 1s, to: 2s}, {from: 2s, to: 2500ms}]"]);
    let pauses = good(&text).wiring.instances["f0"].pauses.clone();
    let spans: Vec<_> =
        pauses.iter().map(|pause| (pause.from.0 / 1_000_000, pause.to.0 / 1_000_000)).collect();
    assert_eq!(spans, [(1000, 2000), (2000, 2500)]);
    for wrong in ["[{from: 2s, to: 1s}]", "[{from: 1s, to: 1s}]", "[{from: 1s, to: 3s}, {from: 2s, to: 4s}]"]
    {
        let faults = check("f.yaml", &functions("", &[&format!("pauses: {wrong}")]), &shelf());
        let faults = faults.expect_err(wrong);
        assert!(faults.len() == 1 && faults[0].message.contains("allowed: spans that end"), "{faults:?}");
    }
}

#[test]
fn shares_that_cannot_be_had() {
    bad(
        &functions(
            "tenants: {default: {cpu: {wieght: 5}}}",
            &[
                "cpu: {weight: 0}",
                "cpu: {weight: 10001}",
                "cpu: {cap: 0%}",
                "cpu: {cap: 101%}",
                "cpu: {cap: 0.35}",
                "cpu: {cap: 1500ppb}",
                "cpu: {reserve: 999ppm}",
                "cpu: 35%",
                "preemptible: yes",
            ],
        ),
        "\
f.yaml:2:27: tenants.default.cpu.wieght: unknown key `wieght`; allowed: weight, cap, reserve; did you mean `weight`?
f.yaml:4:38: functions.f0.cpu.weight: found `0`; allowed: an integer from 1 to 10000
f.yaml:5:38: functions.f1.cpu.weight: found `10001`; allowed: an integer from 1 to 10000
f.yaml:6:35: functions.f2.cpu.cap: found `0%`; allowed: a fraction from 0.0001% to 100%, such as `0.5%` (units: %, ppm, ppb)
f.yaml:7:35: functions.f3.cpu.cap: found `101%`; allowed: a fraction from 0.0001% to 100%, such as `0.5%` (units: %, ppm, ppb)
f.yaml:8:35: functions.f4.cpu.cap: found `0.35`; allowed: a fraction from 1ppm to 100%, such as `0.5%` (units: %, ppm, ppb)
f.yaml:9:35: functions.f5.cpu.cap: found `1500ppb`; allowed: a whole number of ppm, such as `35%` or `1250ppm`
f.yaml:10:39: functions.f6.cpu.reserve: found `999ppm`; allowed: a fraction from 1000ppm to 100%, such as `0.5%` (units: %, ppm, ppb)
f.yaml:11:29: functions.f7.cpu: found `35%`; allowed: a map of these keys: weight, cap, reserve
f.yaml:12:37: functions.f8.preemptible: found `yes`; allowed: true or false; did you mean `true`?
",
    );
}

#[test]
fn what_is_reserved_and_given_is_accepted() {
    // Two of equal weight have half each, also if that is all there is.
    good(&functions("", &["cpu: {reserve: 50%}", "cpu: {reserve: 50%}"]));
    // A third of the core is not a whole number of anything.
    good(&functions("", &["cpu: {reserve: 33.3333%}", "", ""]));
    // What another may not have is given as well.
    good(&functions("", &["cpu: {reserve: 80%}", "cpu: {cap: 20%}"]));
    // A tenant's part holds what its functions are given.
    let tenants = "tenants: {red: {cpu: {weight: 300, reserve: 75%}}, default: {}}";
    good(&functions(tenants, &["tenant: red, cpu: {reserve: 50%, weight: 200}", "tenant: red", ""]));
    // A function that stays on another worker takes nothing.
    good(&functions("workers: 2", &["cpu: {reserve: 100%}, worker: 0", "cpu: {reserve: 100%}, worker: 1"]));
}

#[test]
fn reserves_above_caps() {
    bad(
        &functions(
            "tenants: {default: {cpu: {cap: 40%, reserve: 41%}}}",
            &["cpu: {cap: 30%, reserve: 31%}", "cpu: {reserve: 45%}"],
        ),
        "\
f.yaml:2:46: tenants.default.cpu.reserve: found `41%`; allowed: at most 40%, its own `cap`
f.yaml:4:49: functions.f0.cpu.reserve: found `31%`; allowed: at most 30%, its own `cap`
f.yaml:5:39: functions.f1.cpu.reserve: found `45%`; allowed: at most 40%, the `cap` of its tenant `default`
",
    );
}

#[test]
fn reserves_of_more_than_a_core() {
    bad(
        &functions("", &["cpu: {reserve: 60%}", "cpu: {reserve: 40%}", "cpu: {reserve: 0.5%}"]),
        "f.yaml:6:39: functions.f2.cpu.reserve: found `0.5%`; allowed: at most 100% in all on worker 0, where 100.5% are reserved\n",
    );
    // What a tenant reserves for itself holds what it reserves for its functions.
    bad(
        &functions(
            "tenants: {red: {cpu: {reserve: 60%, weight: 300}}, default: {}}",
            &["tenant: red, cpu: {reserve: 55%}", "cpu: {reserve: 41%}"],
        ),
        "f.yaml:5:39: functions.f1.cpu.reserve: found `41%`; allowed: at most 100% in all on worker 0, where 101% are reserved\n",
    );
    // Functions that stay nowhere may meet.
    bad(
        &functions("workers: 2", &["cpu: {reserve: 60%}", "worker: 1, cpu: {reserve: 60%}"]),
        "f.yaml:5:50: functions.f1.cpu.reserve: found `60%`; allowed: at most 100% in all on worker 1, where 120% are reserved \
         (functions without a `worker` count on each)\n",
    );
}

#[test]
fn weights_that_do_not_give_what_is_reserved() {
    let text = |weight: u32| functions("", &[&format!("cpu: {{weight: {weight}, reserve: 60%}}"), "", ""]);
    bad(
        &text(100),
        "f.yaml:4:52: functions.f0.cpu.reserve: found `60%`; allowed: at most 33.3333%, which is what weights and caps give it on \
         worker 0 when all there want all they may have, or a `weight` of at least 300\n",
    );
    // What it says helps, and nothing less does.
    good(&text(300));
    assert!(check("f", &text(299), &shelf()).is_err());
}

#[test]
fn tenants_weights_that_do_not_give_what_is_reserved() {
    let text = |weight: u32| {
        functions(
            &format!("tenants: {{red: {{cpu: {{weight: {weight}}}}}, default: {{}}}}"),
            &["tenant: red, cpu: {reserve: 60%}", "", ""],
        )
    };
    bad(
        &text(100),
        "f.yaml:4:52: functions.f0.cpu.reserve: found `60%`; allowed: at most 50%, which is what weights and caps give it on \
         worker 0 when all there want all they may have, or a `weight` of at least 150 for its tenant `red`\n",
    );
    good(&text(150));
    assert!(check("f", &text(149), &shelf()).is_err());
    // The same for what a tenant reserves for itself.
    let text = |weight: u32| {
        functions(
            &format!("tenants: {{red: {{cpu: {{weight: {weight}, reserve: 60%}}}}, default: {{}}}}"),
            &["tenant: red", ""],
        )
    };
    bad(
        &text(100),
        "f.yaml:2:45: tenants.red.cpu.reserve: found `60%`; allowed: at most 50%, which is what weights and caps give it on worker \
         0 when all there want all they may have, or a `weight` of at least 150\n",
    );
    good(&text(150));
}

#[test]
fn each_remedy_is_found_with_the_weights_of_the_file() {
    let given = "found `40%`; allowed: at most 33.3333%, which is what weights and caps give it on worker 0 when all there want all \
                 they may have, or a `weight` of at least 134";
    bad(
        &functions("", &["cpu: {reserve: 40%}", "cpu: {reserve: 40%}", ""]),
        &format!(
            "f.yaml:4:39: functions.f0.cpu.reserve: {given}\nf.yaml:5:39: functions.f1.cpu.reserve: {given}\n"
        ),
    );
    bad(
        &functions(
            "tenants: {a: {cpu: {reserve: 40%}}, b: {cpu: {reserve: 40%}}, c: {}}",
            &["tenant: a", "tenant: b", "tenant: c"],
        ),
        &format!(
            "f.yaml:2:30: tenants.a.cpu.reserve: {given}\nf.yaml:2:56: tenants.b.cpu.reserve: {given}\n"
        ),
    );
}

#[test]
fn caps_that_no_weight_makes_up_for() {
    // Two functions of a tenant that may have a tenth of the core each do not use a quarter.
    bad(
        &functions(
            "tenants: {red: {cpu: {reserve: 25%}}, default: {}}",
            &["tenant: red, cpu: {cap: 10%}", "tenant: red, cpu: {cap: 10%}"],
        ),
        "f.yaml:2:32: tenants.red.cpu.reserve: found `25%`; allowed: at most 20%, which is what weights and caps give it on worker \
         0 when all there want all they may have\n",
    );
}

#[test]
fn functions_that_stay_nowhere_count_everywhere() {
    bad(
        &functions("workers: 2", &["worker: 1, cpu: {reserve: 60%}", "worker: 0", ""]),
        "f.yaml:4:50: functions.f0.cpu.reserve: found `60%`; allowed: at most 50%, which is what weights and caps give it on \
         worker 1 when all there want all they may have, or a `weight` of at least 150 (functions without a `worker` count on each)\n",
    );
}

#[test]
fn many_reserves_are_checked_quickly() {
    let mut text = String::from("superfluid: 1\nfunctions:\n");
    for n in 0..10_000 {
        // Of different weights, which are looked at one by one, and some nine hundred of them with a reserve.
        let reserve = if n % 11 == 0 { ", reserve: 0.1%" } else { "" };
        let weight = if n % 11 == 0 { 9_000 + n / 11 } else { 1 };
        text.push_str(&format!("  f{n}: {{image: monitor, cpu: {{cap: 20%, weight: {weight}{reserve}}}}}\n"));
    }
    assert_eq!(good(&text).wiring.instances.len(), 10_000);
}
