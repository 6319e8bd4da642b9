import assert from "node:assert/strict";
import { test } from "node:test";
import { build, checksum } from "../../src/packets/build";
import { changes, decode, fromHex, ipv6, toHex } from "../../src/packets/decode";
import { PcapngReader } from "../../src/packets/pcapng";
import { captureEnd, captureHead, captured } from "../../mock/packets.mjs";

const hex = (text: string): Uint8Array => fromHex(text)!;
const field = (frame: Uint8Array, name: string): string | undefined => decode(frame).fields.find((field) => field.name === name)?.value;

// From RFC 791's and RFC 793's layouts: 192.168.1.10:50000 to 203.0.113.5:80, SYN.
const SYN = hex("020000000002 020000000001 0800 4500002c1a2b40004006e4c1c0a8010acb007105 c3500050000000010000000060 02faf0a1b20000 020405b4");

test("a TCP packet is told by its header fields", () => {
  assert.equal(field(SYN, "Ethernet destination"), "02:00:00:00:00:02");
  assert.equal(field(SYN, "IPv4 source"), "192.168.1.10");
  assert.equal(field(SYN, "IPv4 fragment"), "0, do not fragment");
  assert.equal(field(SYN, "TCP destination port"), "80");
  assert.equal(field(SYN, "TCP flags"), "SYN");
  assert.equal(field(SYN, "TCP window"), String(0xfaf0));
  assert.equal(decode(SYN).summary, "TCP 192.168.1.10:50000 > 203.0.113.5:80 [SYN]");
});

test("fields stand where their bytes stand", () => {
  const source = decode(SYN).fields.find((field) => field.name === "IPv4 source")!;
  assert.deepEqual([...SYN.subarray(source.at, source.at + source.length)], [192, 168, 1, 10]);
});

test("tags, labels and tunnels are decoded to what they carry", () => {
  const inner = toHex(SYN);
  const vxlan = hex(`02000000ff02 02000000ff01 8100 6005 0800 4500005e00000000401100000a0000010a000002 c00012b5004a0000 0800000000000700 ${inner}`);
  assert.equal(field(vxlan, "VLAN ID"), "5");
  assert.equal(field(vxlan, "VLAN priority"), "3");
  assert.equal(field(vxlan, "VXLAN network"), "7");
  assert.equal(field(vxlan, "IPv4 destination"), "10.0.0.2");
  assert.equal(field(vxlan, "IPv4#2 destination"), "203.0.113.5");
  assert.equal(field(vxlan, "Ethernet#2 source"), "02:00:00:00:00:01");
  const mpls = hex(`02000000ff02 02000000ff01 8847 00010140 ${toHex(SYN.subarray(14))}`);
  assert.equal(field(mpls, "MPLS label"), "16");
  assert.equal(field(mpls, "TCP source port"), "50000");
  const gre = hex(`02000000ff02 02000000ff01 0800 45000000000000004 02f0000 0a000001 0a000002 20000800 0000002a ${toHex(SYN.subarray(14))}`.replace(/ /g, ""));
  assert.equal(field(gre, "GRE key"), "42");
  assert.equal(field(gre, "IPv4#2 source"), "192.168.1.10");
});

test("IPv6 addresses are written as RFC 5952 says", () => {
  assert.equal(ipv6(hex("20010db8000000000000000000000001"), 0), "2001:db8::1");
  assert.equal(ipv6(hex("00000000000000000000000000000000"), 0), "::");
  assert.equal(ipv6(hex("20010db8000000010001000100010001"), 0), "2001:db8:0:1:1:1:1:1");
  assert.equal(ipv6(hex("fe800000000000010000000000000002"), 0), "fe80:0:0:1::2");
});

test("IPv6 with extension headers and ICMPv6", () => {
  const frame = hex("3333000000fb 020000000001 86dd 60000000001000ff fe800000000000000000000000000001 ff020000000000000000000000000001 3a000000000000 00 8700abcd00000000");
  const told = decode(hex(toHex(frame).replace("60000000001000ff", "6000000000100001")));
  assert.equal(told.fields.find((field) => field.name === "IPv6 next header")?.value, "hop-by-hop");
  assert.equal(told.fields.find((field) => field.name === "ICMPv6 type")?.value, "neighbour solicitation");
});

test("what is cut off anywhere is told and breaks nothing", () => {
  for (let length = 0; length <= SYN.length; length += 1) {
    const told = decode(SYN.subarray(0, length));
    for (const field of told.fields) assert.ok(field.at + field.length <= length || field.at <= length, `${field.name} at ${field.at} of ${length}`);
  }
  assert.equal(field(SYN.subarray(0, 20), "IPv4 cut off"), "6 of 20 bytes");
});

test("any bytes at all are decoded to an end", () => {
  let seed = 7;
  const next = (): number => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 16;
  for (let run = 0; run < 3000; run += 1) {
    const bytes = Uint8Array.from({ length: next() % 160 }, () => next() & 255);
    // Types that lead on, more often than chance would have it.
    const types = [0x0800, 0x86dd, 0x8100, 0x8847, 0x6558];
    new DataView(bytes.buffer).byteLength > 14 && new DataView(bytes.buffer).setUint16(12, types[next() % types.length]!);
    assert.ok(decode(bytes).fields.length < 400);
  }
});

test("changes name each field before and after, and headers that came and went", () => {
  const after = hex("0200000000b2 0200000000a1 0800 4500002c1a2b40003f06a3c4c6336407cb007105 9c400050000000010000000060 02faf0c8d10000 020405b4");
  const found = new Map(changes(SYN, after).map((change) => [change.name, [change.before, change.after]]));
  assert.deepEqual(found.get("IPv4 source"), ["192.168.1.10", "198.51.100.7"]);
  assert.deepEqual(found.get("IPv4 time to live"), ["64", "63"]);
  assert.deepEqual(found.get("TCP source port"), ["50000", "40000"]);
  assert.equal(found.has("IPv4 destination"), false);
  const tagged = hex(`${toHex(SYN.subarray(0, 12))} 8100 0007 ${toHex(SYN.subarray(12))}`);
  const tags = changes(SYN, tagged);
  assert.ok(tags.some((change) => change.name === "VLAN ID" && change.before === undefined && change.after === "7"));
  assert.ok(changes(tagged, SYN).some((change) => change.name === "VLAN ID" && change.after === undefined));
  assert.deepEqual(changes(SYN, SYN), []);
});

test("a packet to inject has the addresses that were asked for and right checksums", () => {
  for (const line of ["udp:10.1.0.5:40000-10.2.0.1:53", "tcp:10.1.0.5:40000-10.2.0.1:443", "icmp:10.1.0.5-10.2.0.1"]) {
    const made = build(line);
    assert.ok("frame" in made, line);
    const { frame } = made;
    assert.equal(field(frame, "IPv4 source"), "10.1.0.5");
    // A header with its checksum sums to nothing (RFC 1071).
    assert.equal(checksum(frame.subarray(14, 34)), 0);
    const transport = frame.subarray(34);
    const pseudo = line.startsWith("icmp") ? [] : [...frame.subarray(26, 34), 0, frame[23]!, transport.length >> 8, transport.length & 255];
    assert.equal(checksum(Uint8Array.from([...pseudo, ...transport])), 0, line);
  }
});

test("what is no packet is refused with what is allowed", () => {
  for (const line of ["", "udp:10.1.0.5-10.2.0.1:53", "udp:10.1.0.999:1-10.2.0.1:53", "tcp:10.1.0.5:70000-10.2.0.1:53", "0102", "zz"]) {
    const made = build(line);
    assert.ok("fault" in made && /found/.test(made.fault), line);
  }
});

test("captures are read however they are cut into pieces", () => {
  const whole = Buffer.concat([captureHead(), ...Array.from({ length: 7 }, (_, at) => captured(at, `packet ${at}`)), captureEnd(5)]);
  for (const size of [1, 7, 64, whole.length]) {
    const reader = new PcapngReader();
    const found = [];
    for (let at = 0; at < whole.length; at += size) found.push(...reader.push(Uint8Array.from(whole.subarray(at, at + size))));
    assert.equal(found.length, 7);
    assert.deepEqual(found.map((packet) => packet.comment), Array.from({ length: 7 }, (_, at) => `packet ${at}`));
    assert.equal(reader.lost, 5);
    assert.ok(Math.abs(found[0]!.time - Date.now()) < 60_000, "nanoseconds are read by the interface's resolution");
    assert.match(decode(found[0]!.bytes).summary, /^TCP 192\.168\.1\.10:50000/);
  }
});

test("what is lost is told before the capture ends, which one that is stopped does not", () => {
  const reader = new PcapngReader();
  reader.push(Uint8Array.from(Buffer.concat([captureHead(), captured(0, "x"), captured(1, "x", 3), captured(2, "x", 4)])));
  assert.equal(reader.lost, 7);
  reader.push(Uint8Array.from(captureEnd(9)));
  assert.equal(reader.lost, 9);
});

test("a capture that lies about its lengths is refused", () => {
  const wrong = captureHead();
  // The length of the second block, behind the 28 bytes of the first.
  wrong.writeUInt32LE(0xfffffffc, 28 + 4);
  assert.throws(() => new PcapngReader().push(Uint8Array.from(wrong)), /found a block of/);
  const packet = captured(0, "x");
  packet.writeUInt32LE(100_000, 20);
  assert.throws(() => new PcapngReader().push(Uint8Array.from(Buffer.concat([captureHead(), packet]))), /found a packet of 100000 bytes/);
});
