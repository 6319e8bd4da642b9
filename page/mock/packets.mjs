// Packets of a host that is not there: traces with bytes, and a capture.

const hex = (text) => text.replace(/\s/g, "");
/** From 192.168.1.10 to 203.0.113.5, TCP to port 80, before and after translation; then with a VXLAN tunnel around it. */
const BEFORE = hex("020000000002 020000000001 0800 4500002c1a2b40004006e4c1c0a8010acb007105 c35000500000000100000000600 2faf0a1b20000 020405b4");
const AFTER = hex("0200000000b2 0200000000a1 0800 4500002c1a2b40003f06a3c4c6336407cb007105 9c4000500000000100000000600 2faf0c8d10000 020405b4");
const TUNNEL = hex("02000000ff02 02000000ff01 0800 4500005e000000004011a0b2c00002fec00002fd c00012b5004a0000 0800000000000700") + AFTER;

function words(bytes) {
  return bytes === BEFORE ? "TCP 192.168.1.10:50000 > 203.0.113.5:80 [SYN]" : "UDP 10.0.0.9:5353 > 10.0.0.1:53";
}

export function trace(number, at) {
  const dropped = number % 3 === 2;
  const head = BEFORE;
  const hops = [
    { at: "port/lan", what: "received", out: "inside", after_ns: 0 },
    { at: "function/edge_firewall", what: "called", in: "inside", verdict: dropped ? "drop" : "interface", ...(dropped ? { reason: "function" } : { out: "outside" }), after_ns: 2100, waited_ns: 1400, cycles: 612, batch: 32 },
  ];
  if (!dropped) {
    hops.push(
      { at: "function/gateway", what: "called", in: "inside", verdict: "interface", out: "outside", after_ns: 5200, waited_ns: 2200, cycles: 310, batch: 32, head: AFTER },
      { at: "function/red_forwarder", what: "called", in: "left", verdict: "interface", out: "right", after_ns: 7600, waited_ns: 900, cycles: 95, batch: 32, head: TUNNEL },
      { at: "port/wan", what: "transmitted", after_ns: 9100 },
    );
  }
  return { trace: "packet", packet: number, time: new Date().toISOString(), length: head.length / 2, what: words(head), head, hops, end: dropped ? "dropped" : "transmitted", took_ns: dropped ? 2900 : 9100, at };
}

const bytesOf = (text) => Buffer.from(text.length % 2 ? text.slice(0, -1) : text, "hex");

function block(kind, body) {
  const padded = Buffer.concat([body, Buffer.alloc((4 - (body.length % 4)) % 4)]);
  const head = Buffer.alloc(8);
  head.writeUInt32LE(kind, 0);
  head.writeUInt32LE(padded.length + 12, 4);
  const tail = Buffer.alloc(4);
  tail.writeUInt32LE(padded.length + 12, 0);
  return Buffer.concat([head, padded, tail]);
}

function option(code, value) {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(code, 0);
  head.writeUInt16LE(value.length, 2);
  return Buffer.concat([head, value, Buffer.alloc((4 - (value.length % 4)) % 4)]);
}

/** The beginning of a capture: a section, and an interface that counts nanoseconds. */
export function captureHead() {
  const section = Buffer.alloc(16);
  section.writeUInt32LE(0x1a2b3c4d, 0);
  section.writeUInt16LE(1, 4);
  section.writeBigInt64LE(-1n, 8);
  const link = Buffer.alloc(8);
  link.writeUInt16LE(1, 0);
  link.writeUInt32LE(0, 4);
  return Buffer.concat([block(0x0a0d0d0a, section), block(1, Buffer.concat([link, option(9, Buffer.from([9])), option(0, Buffer.alloc(0))]))]);
}

/** A packet; before it some were lost. */
export function captured(number, comment, lost = 0) {
  const bytes = bytesOf(number % 4 === 3 ? TUNNEL : number % 2 ? AFTER : BEFORE);
  const head = Buffer.alloc(20);
  const time = BigInt(Date.now()) * 1_000_000n;
  head.writeUInt32LE(0, 0);
  head.writeUInt32LE(Number(time >> 32n), 4);
  head.writeUInt32LE(Number(time & 0xffffffffn), 8);
  head.writeUInt32LE(bytes.length, 12);
  head.writeUInt32LE(bytes.length, 16);
  const padded = Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
  const dropped = Buffer.alloc(8);
  dropped.writeBigUInt64LE(BigInt(lost));
  return block(6, Buffer.concat([head, padded, ...(lost ? [option(4, dropped)] : []), option(1, Buffer.from(comment)), option(0, Buffer.alloc(0))]));
}

export function captureEnd(lost) {
  const head = Buffer.alloc(12);
  const count = Buffer.alloc(8);
  count.writeBigUInt64LE(BigInt(lost));
  return block(5, Buffer.concat([head, option(7, count), option(0, Buffer.alloc(0))]));
}
