//! What memory tenants and functions may have.

use super::*;
use wiring::TenantMemory;

const POOL: &str = "pool: {buffers: 512, pages: ordinary}";

#[test]
fn memory_is_read_for_functions_and_tenants() {
    let text = format!(
        "superfluid: 1\ntenants: {{default: {{{POOL}, memory: {{limit: 64MiB, reserve: 8MiB}}}}}}\n\
         functions:\n  f: {{image: monitor, memory: 512KiB}}\n  g: {{image: monitor}}\n"
    );
    let wiring = good(&text).wiring;
    let memory = TenantMemory { limit: Some(64 << 20), reserve: 8 << 20 };
    assert_eq!(wiring.tenants["default"].memory, memory);
    assert_eq!((wiring.instances["f"].memory, wiring.instances["g"].memory), (512 << 10, 1 << 20));
}

#[test]
fn what_is_populated_is_chosen_by_operator_or_image_or_left_open() {
    let text = format!(
        "superfluid: 1\ntenants: {{default: {{{POOL}}}}}\nfunctions:\n  f: {{image: monitor, resident: 512KiB}}\n  \
         g: {{image: monitor}}\n  h: {{image: monitor, resident: 0B, memory: 128KiB}}\n"
    );
    let wiring = good(&text).wiring;
    let resident = |name: &str| wiring.instances[name].resident;
    assert_eq!((resident("f"), resident("g"), resident("h")), (Some(512 << 10), None, Some(0)));
    let text = text.replace("resident: 0B", "resident: 129KiB");
    let found = check("f.yaml", &text, &shelf()).expect_err("more than it may have");
    assert_eq!(
        lines(&found).trim_end(),
        "f.yaml:6:33: functions.h.resident: found `129KiB`; allowed: at most 128KiB, its `memory`"
    );
}

#[test]
fn what_cannot_be_promised_is_told_at_its_place() {
    let text = format!(
        "superfluid: 1\n\
         tenants:\n  \
           t: {{{POOL}, memory: {{limit: 3MiB}}}}\n  \
           u: {{{POOL}, memory: {{limit: 512KiB}}}}\n\
         functions:\n  \
           f: {{image: monitor, tenant: t}}\n  \
           g: {{image: monitor, tenant: t, memory: 1MiB}}\n  \
           h: {{image: monitor, tenant: t, memory: 2MiB}}\n"
    );
    let text = text.replace("memory: 2MiB", "memory: 128KiB");
    let more = text.replace("memory: 128KiB", "memory: 2MiB");
    let found = check("f.yaml", &more, &shelf()).expect_err("more than its image allows");
    let last = lines(&found);
    let last = last.lines().last().unwrap_or_default();
    assert_eq!(
        last,
        "f.yaml:8:42: functions.h.memory: found `2MiB`; allowed: at most 1MiB, which its image allows"
    );
    bad(
        &text,
        "\
f.yaml:4:62: tenants.u.memory.limit: found `512KiB`; allowed: at least 1MiB, which its pools, functions and containers are promised
f.yaml:7:42: functions.g.memory: may grow to 1MiB, and 48KiB beside it for its packets and what the host keeps for it; 976KiB of the 3MiB of its tenant `t` are left; allowed: a `memory` of at most 896KiB\n",
    );
}
