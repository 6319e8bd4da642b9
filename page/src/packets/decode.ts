/**
 * An Ethernet frame as its header fields. What is cut off or makes no sense ends the list with a note: bytes are a stranger's.
 */

/** A field of a header. */
export interface Field {
  /** The header and the field, such as `IPv4 source`; of a second one of its kind `IPv4#2 source`. */
  name: string;
  value: string;
  /** Where it stands in the frame, in bytes, and how many bytes it has parts of. */
  at: number;
  length: number;
}

export interface Decoded {
  fields: Field[];
  /** One line that tells the packet from others. */
  summary: string;
  /** Where the payload of the last known header begins. */
  payload: number;
}

const ETHERTYPES: Record<number, string> = {
  0x0800: "IPv4",
  0x0806: "ARP",
  0x86dd: "IPv6",
  0x8100: "VLAN",
  0x88a8: "VLAN (802.1ad)",
  0x8847: "MPLS",
  0x6558: "Ethernet",
};
const PROTOCOLS: Record<number, string> = {
  0: "hop-by-hop", 1: "ICMP", 2: "IGMP", 4: "IPv4", 6: "TCP", 17: "UDP", 41: "IPv6", 43: "routing", 44: "fragment", 47: "GRE", 50: "ESP", 58: "ICMPv6", 60: "destination options", 132: "SCTP",
};
const TCP_FLAGS = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
/** Headers within headers: as many as a device takes off, and some more. */
const DEEPEST = 8;

class Reader {
  readonly fields: Field[] = [];
  readonly seen = new Map<string, number>();
  summary = "";
  at = 0;
  constructor(readonly bytes: Uint8Array) {}

  left(): number {
    return this.bytes.length - this.at;
  }
  u8(at: number): number {
    return this.bytes[at] ?? 0;
  }
  u16(at: number): number {
    return (this.u8(at) << 8) | this.u8(at + 1);
  }
  u32(at: number): number {
    return this.u16(at) * 65536 + this.u16(at + 2);
  }
  /** A header of this kind begins: its name, with its number if there were others. */
  header(kind: string): string {
    const number = (this.seen.get(kind) ?? 0) + 1;
    this.seen.set(kind, number);
    return number === 1 ? kind : `${kind}#${number}`;
  }
  field(header: string, name: string, value: string | number, at: number, length: number): void {
    this.fields.push({ name: `${header} ${name}`, value: String(value), at, length });
  }
  /** Whether so many bytes are there; if not, says so. */
  has(header: string, length: number): boolean {
    if (this.left() >= length) return true;
    this.field(header, "cut off", `${this.left()} of ${length} bytes`, this.at, this.left());
    this.at = this.bytes.length;
    return false;
  }
}

const hex = (value: number, digits: number): string => `0x${value.toString(16).padStart(digits, "0")}`;

export function mac(bytes: Uint8Array, at: number): string {
  return Array.from(bytes.subarray(at, at + 6), (byte) => byte.toString(16).padStart(2, "0")).join(":");
}

export function ipv4(bytes: Uint8Array, at: number): string {
  return Array.from(bytes.subarray(at, at + 4)).join(".");
}

/** An IPv6 address as RFC 5952 writes it. */
export function ipv6(bytes: Uint8Array, at: number): string {
  const groups: number[] = [];
  for (let group = 0; group < 8; group += 1) groups.push(((bytes[at + 2 * group] ?? 0) << 8) | (bytes[at + 2 * group + 1] ?? 0));
  let best = { start: -1, length: 1 };
  for (let start = 0; start < 8; start += 1) {
    let length = 0;
    while (start + length < 8 && groups[start + length] === 0) length += 1;
    if (length > best.length) best = { start, length };
  }
  const text = groups.map((group) => group.toString(16));
  if (best.start < 0) return text.join(":");
  return `${text.slice(0, best.start).join(":")}::${text.slice(best.start + best.length).join(":")}`;
}

/** The fields of an Ethernet frame, of tunnels too. */
export function decode(bytes: Uint8Array): Decoded {
  const reader = new Reader(bytes);
  ethernet(reader, 0);
  return { fields: reader.fields, summary: reader.summary || `${bytes.length} bytes`, payload: reader.at };
}

function ethernet(reader: Reader, depth: number): void {
  const name = reader.header("Ethernet");
  if (!reader.has(name, 14)) return;
  const { at, bytes } = reader;
  reader.field(name, "destination", mac(bytes, at), at, 6);
  reader.field(name, "source", mac(bytes, at + 6), at + 6, 6);
  reader.at += 12;
  reader.summary = `${mac(bytes, at + 6)} > ${mac(bytes, at)}`;
  ethertype(reader, name, depth);
}

function ethertype(reader: Reader, header: string, depth: number): void {
  const type = reader.u16(reader.at);
  reader.field(header, "type", type < 1536 ? `${type} bytes (802.3)` : (ETHERTYPES[type] ?? hex(type, 4)), reader.at, 2);
  reader.at += 2;
  if (depth >= DEEPEST) return;
  next(reader, type, depth);
}

function next(reader: Reader, type: number, depth: number): void {
  switch (type) {
    case 0x8100:
    case 0x88a8: {
      const name = reader.header("VLAN");
      if (!reader.has(name, 4)) return;
      const tag = reader.u16(reader.at);
      reader.field(name, "ID", tag & 0xfff, reader.at, 2);
      reader.field(name, "priority", tag >> 13, reader.at, 1);
      reader.at += 2;
      return ethertype(reader, name, depth + 1);
    }
    case 0x8847: {
      const name = reader.header("MPLS");
      if (!reader.has(name, 4)) return;
      const entry = reader.u32(reader.at);
      const last = (Math.floor(entry / 256) & 1) === 1;
      reader.field(name, "label", Math.floor(entry / 4096), reader.at, 3);
      reader.field(name, "time to live", entry % 256, reader.at + 3, 1);
      reader.at += 4;
      if (depth >= DEEPEST) return;
      if (!last) return next(reader, 0x8847, depth + 1);
      const version = reader.u8(reader.at) >> 4;
      if (version === 4) return next(reader, 0x0800, depth + 1);
      if (version === 6) return next(reader, 0x86dd, depth + 1);
      return;
    }
    case 0x0800:
      return internet4(reader, depth);
    case 0x86dd:
      return internet6(reader, depth);
    case 0x0806:
      return arp(reader);
    case 0x6558:
      return ethernet(reader, depth + 1);
  }
}

function arp(reader: Reader): void {
  const name = reader.header("ARP");
  if (!reader.has(name, 28)) return;
  const { at, bytes } = reader;
  const operation = reader.u16(at + 6);
  reader.field(name, "operation", operation === 1 ? "request" : operation === 2 ? "reply" : operation, at + 6, 2);
  reader.field(name, "sender MAC", mac(bytes, at + 8), at + 8, 6);
  reader.field(name, "sender address", ipv4(bytes, at + 14), at + 14, 4);
  reader.field(name, "target MAC", mac(bytes, at + 18), at + 18, 6);
  reader.field(name, "target address", ipv4(bytes, at + 24), at + 24, 4);
  reader.summary =
    operation === 1 ? `ARP who has ${ipv4(bytes, at + 24)}? tell ${ipv4(bytes, at + 14)}` : `ARP ${ipv4(bytes, at + 14)} is at ${mac(bytes, at + 8)}`;
  reader.at += 28;
}

function internet4(reader: Reader, depth: number): void {
  const name = reader.header("IPv4");
  if (!reader.has(name, 20)) return;
  const { at, bytes } = reader;
  const length = (reader.u8(at) & 15) * 4;
  if (reader.u8(at) >> 4 !== 4 || length < 20) {
    reader.field(name, "malformed", `version ${reader.u8(at) >> 4}, header of ${length} bytes`, at, 1);
    return;
  }
  const fragment = reader.u16(at + 6);
  const protocol = reader.u8(at + 9);
  reader.field(name, "DSCP", reader.u8(at + 1) >> 2, at + 1, 1);
  reader.field(name, "ECN", reader.u8(at + 1) & 3, at + 1, 1);
  reader.field(name, "length", reader.u16(at + 2), at + 2, 2);
  reader.field(name, "identification", reader.u16(at + 4), at + 4, 2);
  reader.field(name, "fragment", `${(fragment & 0x1fff) * 8}${fragment & 0x4000 ? ", do not fragment" : ""}${fragment & 0x2000 ? ", more follow" : ""}`, at + 6, 2);
  reader.field(name, "time to live", reader.u8(at + 8), at + 8, 1);
  reader.field(name, "protocol", PROTOCOLS[protocol] ?? protocol, at + 9, 1);
  reader.field(name, "checksum", hex(reader.u16(at + 10), 4), at + 10, 2);
  const [from, to] = [ipv4(bytes, at + 12), ipv4(bytes, at + 16)];
  reader.field(name, "source", from, at + 12, 4);
  reader.field(name, "destination", to, at + 16, 4);
  if (!reader.has(name, length)) return;
  reader.at += length;
  reader.summary = `${PROTOCOLS[protocol] ?? `protocol ${protocol}`} ${from} > ${to}`;
  if ((fragment & 0x1fff) !== 0) {
    reader.summary += `, fragment at ${(fragment & 0x1fff) * 8}`;
    return;
  }
  transport(reader, protocol, from, to, depth);
}

function internet6(reader: Reader, depth: number): void {
  const name = reader.header("IPv6");
  if (!reader.has(name, 40)) return;
  const { at, bytes } = reader;
  let protocol = reader.u8(at + 6);
  reader.field(name, "traffic class", (reader.u16(at) >> 4) & 0xff, at, 2);
  reader.field(name, "flow label", hex(reader.u32(at) % 0x100000, 5), at + 1, 3);
  reader.field(name, "length", reader.u16(at + 4), at + 4, 2);
  reader.field(name, "next header", PROTOCOLS[protocol] ?? protocol, at + 6, 1);
  reader.field(name, "hop limit", reader.u8(at + 7), at + 7, 1);
  const [from, to] = [ipv6(bytes, at + 8), ipv6(bytes, at + 24)];
  reader.field(name, "source", from, at + 8, 16);
  reader.field(name, "destination", to, at + 24, 16);
  reader.at += 40;
  for (let extensions = 0; extensions < DEEPEST && [0, 43, 44, 60].includes(protocol); extensions += 1) {
    if (!reader.has(name, 8)) return;
    const here = reader.at;
    const following = reader.u8(here);
    if (protocol === 44) {
      const offset = reader.u16(here + 2) & 0xfff8;
      reader.field(name, "fragment", `${offset}${reader.u8(here + 3) & 1 ? ", more follow" : ""}`, here + 2, 2);
      if (offset !== 0) {
        reader.summary = `IPv6 ${from} > ${to}, fragment at ${offset}`;
        return;
      }
      reader.at += 8;
    } else {
      const length = (reader.u8(here + 1) + 1) * 8;
      reader.field(name, "extension", `${PROTOCOLS[protocol]}, ${length} bytes`, here, length);
      if (!reader.has(name, length)) return;
      reader.at += length;
    }
    protocol = following;
  }
  reader.summary = `${PROTOCOLS[protocol] ?? `protocol ${protocol}`} ${from} > ${to}`;
  transport(reader, protocol, from, to, depth);
}

function transport(reader: Reader, protocol: number, from: string, to: string, depth: number): void {
  const { at } = reader;
  const wrapped = (address: string): string => (address.includes(":") ? `[${address}]` : address);
  const ends = (name: string): [number, number] => {
    const [source, destination] = [reader.u16(at), reader.u16(at + 2)];
    reader.field(name, "source port", source, at, 2);
    reader.field(name, "destination port", destination, at + 2, 2);
    return [source, destination];
  };
  switch (protocol) {
    case 6: {
      const name = reader.header("TCP");
      if (!reader.has(name, 20)) return;
      const [source, destination] = ends(name);
      const flags = TCP_FLAGS.filter((_, bit) => reader.u8(at + 13) & (1 << bit)).join(" ");
      reader.field(name, "sequence", reader.u32(at + 4), at + 4, 4);
      reader.field(name, "acknowledgement", reader.u32(at + 8), at + 8, 4);
      reader.field(name, "flags", flags || "none", at + 13, 1);
      reader.field(name, "window", reader.u16(at + 14), at + 14, 2);
      reader.field(name, "checksum", hex(reader.u16(at + 16), 4), at + 16, 2);
      reader.summary = `TCP ${wrapped(from)}:${source} > ${wrapped(to)}:${destination}${flags ? ` [${flags}]` : ""}`;
      const length = (reader.u8(at + 12) >> 4) * 4;
      reader.at = Math.min(reader.bytes.length, at + Math.max(20, length));
      return;
    }
    case 17: {
      const name = reader.header("UDP");
      if (!reader.has(name, 8)) return;
      const [source, destination] = ends(name);
      reader.field(name, "length", reader.u16(at + 4), at + 4, 2);
      reader.field(name, "checksum", hex(reader.u16(at + 6), 4), at + 6, 2);
      reader.at += 8;
      reader.summary = `UDP ${wrapped(from)}:${source} > ${wrapped(to)}:${destination}`;
      if (depth >= DEEPEST) return;
      if (destination === 4789) return vxlan(reader, depth);
      if (destination === 6081) return geneve(reader, depth);
      return;
    }
    case 1:
    case 58: {
      const name = reader.header(protocol === 1 ? "ICMP" : "ICMPv6");
      if (!reader.has(name, 8)) return;
      const type = reader.u8(at);
      reader.field(name, "type", icmpType(protocol, type), at, 1);
      reader.field(name, "code", reader.u8(at + 1), at + 1, 1);
      reader.field(name, "checksum", hex(reader.u16(at + 2), 4), at + 2, 2);
      const echo = protocol === 1 ? type === 0 || type === 8 : type === 128 || type === 129;
      if (echo) {
        reader.field(name, "identifier", reader.u16(at + 4), at + 4, 2);
        reader.field(name, "sequence", reader.u16(at + 6), at + 6, 2);
      }
      reader.at += 8;
      reader.summary = `${protocol === 1 ? "ICMP" : "ICMPv6"} ${icmpType(protocol, type)} ${from} > ${to}`;
      return;
    }
    case 47: {
      const name = reader.header("GRE");
      if (!reader.has(name, 4)) return;
      const flags = reader.u16(at);
      const type = reader.u16(at + 2);
      reader.field(name, "protocol", ETHERTYPES[type] ?? hex(type, 4), at + 2, 2);
      let length = 4 + (flags & 0x8000 ? 4 : 0);
      if (flags & 0x2000) {
        reader.field(name, "key", reader.u32(at + length), at + length, 4);
        length += 4;
      }
      if (flags & 0x1000) length += 4;
      if (!reader.has(name, length)) return;
      reader.at += length;
      if (depth < DEEPEST) next(reader, type, depth + 1);
      return;
    }
    case 4:
      return depth < DEEPEST ? internet4(reader, depth + 1) : undefined;
    case 41:
      return depth < DEEPEST ? internet6(reader, depth + 1) : undefined;
  }
}

function icmpType(protocol: number, type: number): string {
  const known: Record<number, string> =
    protocol === 1
      ? { 0: "echo reply", 3: "destination unreachable", 5: "redirect", 8: "echo request", 11: "time exceeded", 12: "parameter problem" }
      : { 1: "destination unreachable", 2: "packet too big", 3: "time exceeded", 128: "echo request", 129: "echo reply", 133: "router solicitation", 134: "router advertisement", 135: "neighbour solicitation", 136: "neighbour advertisement" };
  return known[type] ?? String(type);
}

function vxlan(reader: Reader, depth: number): void {
  const name = reader.header("VXLAN");
  if (!reader.has(name, 8)) return;
  reader.field(name, "network", Math.floor(reader.u32(reader.at + 4) / 256), reader.at + 4, 3);
  reader.at += 8;
  ethernet(reader, depth + 1);
}

function geneve(reader: Reader, depth: number): void {
  const name = reader.header("Geneve");
  if (!reader.has(name, 8)) return;
  const { at } = reader;
  const options = (reader.u8(at) & 0x3f) * 4;
  const type = reader.u16(at + 2);
  reader.field(name, "network", Math.floor(reader.u32(at + 4) / 256), at + 4, 3);
  if (options) reader.field(name, "options", `${options} bytes`, at + 8, options);
  if (!reader.has(name, 8 + options)) return;
  reader.at += 8 + options;
  next(reader, type, depth + 1);
}

/** A header field that is not as it was. */
export interface Change {
  name: string;
  /** As it was; none of a field that is new. */
  before?: string;
  /** As it is; none of a field that is there no more. */
  after?: string;
}

/** Which header fields differ between two frames: first those of headers that both have, then what was added and taken off. */
export function changes(before: Uint8Array, after: Uint8Array): Change[] {
  const was = new Map(decode(before).fields.map((field) => [field.name, field.value]));
  const is = new Map(decode(after).fields.map((field) => [field.name, field.value]));
  const found: Change[] = [];
  for (const [name, value] of was) {
    const now = is.get(name);
    if (now === undefined) found.push({ name, before: value });
    else if (now !== value) found.push({ name, before: value, after: now });
  }
  for (const [name, value] of is) if (!was.has(name)) found.push({ name, after: value });
  return found;
}

/** Bytes from hexadecimal digits, which may be apart by spaces and colons; `null` where there is anything else. */
export function fromHex(text: string): Uint8Array | null {
  const digits = text.replace(/[\s:]/g, "");
  if (digits.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(digits)) return null;
  return Uint8Array.from({ length: digits.length / 2 }, (_, at) => parseInt(digits.slice(2 * at, 2 * at + 2), 16));
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
