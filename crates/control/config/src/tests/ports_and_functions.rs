//! Ports and functions that are not as they may be.

use super::*;

#[test]
fn a_port_whose_type_is_misspelt_is_told_which_key_is_meant() {
    bad(
        "superfluid: 1\nports:\n  a: {tyep: 'null'}\n  b: {interface: x, rate: 1}\n",
        "\
f.yaml:3:6: ports.a.type: the required key `type` is missing; allowed: af_packet, null
f.yaml:3:7: ports.a.tyep: unknown key `tyep`; allowed: type, tenant, io, fault, and those of the driver; did you mean `type`?
f.yaml:4:6: ports.b.type: the required key `type` is missing; allowed: af_packet, null
",
    );
}

#[test]
fn bad_ports_and_functions() {
    bad(
        "\
superfluid: 1
ports:
  a:
  b: {interface: x}
  c: {type: af_packet, interface: 'more than 15 characters', frames: 63}
functions:
  c: {image: firewall}
  d: firewall
  e: {}
  f: {image: ./none.wasm}
  g: {image: policer}
  h: {image: policer, config: [1]}
  i: {image: monitor, quota: 2/1, restart: {first_delay: 10s}, fail: opne, pool: shared}
  j: {image: monitor, configuration: {}, longest_hold: 2h}
  k: {image: monitor, config: {mode: fast}, pool: {buffers: 1, bufer_size: 2KiB}}
  a b: {image: monitor}
",
        "\
f.yaml:3:3: ports.a: found nothing; allowed: a map with the key `type`
f.yaml:4:6: ports.b.type: the required key `type` is missing; allowed: af_packet, null
f.yaml:5:35: ports.c.interface: found the text \"more than 15 characters\"; allowed: text of 1 to 15 characters
f.yaml:5:70: ports.c.frames: found `63`; allowed: an integer from 64 to 65536
f.yaml:7:3: functions.c: `c` is the name of the port in line 5; allowed: a name of its own
f.yaml:8:6: functions.d: found `firewall`; allowed: a map with the key `image`
f.yaml:9:6: functions.e.image: the required key `image` is missing; allowed: text of 1 to 4096 characters
f.yaml:10:14: functions.f.image: the image `./none.wasm` cannot be used: ./none.wasm: No such file or directory (os error 2)
f.yaml:11:6: functions.g.config.rate: the required key `rate` is missing; allowed: a rate, such as `1.5Mpps` (units: pps, kpps, Mpps, Gpps)
f.yaml:12:31: functions.h.config: found a list; allowed: a map of these keys: rate
f.yaml:13:70: functions.i.fail: found `opne`; allowed: one of closed, open; did you mean `open`?
f.yaml:13:82: functions.i.pool: found `shared`; allowed: tenant, own, or a map of these keys: buffers, buffer_size, headroom, pages
f.yaml:14:23: functions.j.configuration: unknown key `configuration`; allowed: pool, cpu, config, attach, image, guest, tenant, max_call, fail, restart, quota, events, memory, resident, longest_hold, worker, preemptible, pauses
f.yaml:14:56: functions.j.longest_hold: found `2h`; allowed: a duration from 1ms to 1h, such as `10s` (units: ns, us, ms, s, m, h, d)
f.yaml:15:32: functions.k.config.mode: unknown key `mode`; allowed: none
f.yaml:15:64: functions.k.pool.bufer_size: unknown key `bufer_size`; allowed: buffers, buffer_size, headroom, pages; did you mean `buffer_size`?
f.yaml:16:3: functions.a b: found the name `a b`; allowed: a letter, then letters, digits, `_` and `-`, 32 characters at most
",
    );
    bad(
        "superfluid: 1\nfunctions:\n  i: {image: monitor, quota: 2/1, restart: {first_delay: 10s}}\n",
        "\
f.yaml:3:30: functions.i.quota: found `2/1`; allowed: a fraction above 0 and up to 1, such as `1/16`
f.yaml:3:44: functions.i.restart: found a `first_delay` of 10s above the `longest_delay` of 5s
",
    );
}
