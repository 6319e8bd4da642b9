/** Packets to inject, made of a line: `udp:10.1.0.5:40000-10.2.0.1:53`, as the command line takes it. */
import { fromHex } from "./decode";

/** Without neighbours of its own a packet is from and to locally administered addresses. */
const FRAME_HEADER = "020000000002020000000001";

/** The frame that a line stands for, or why it stands for none. */
export function build(text: string): { frame: Uint8Array } | { fault: string } {
  const line = text.trim();
  const made = /^(udp|tcp|icmp):(\d+\.\d+\.\d+\.\d+)(?::(\d+))?-(\d+\.\d+\.\d+\.\d+)(?::(\d+))?$/i.exec(line);
  if (!made) {
    const frame = fromHex(line);
    if (frame && frame.length >= 14) return { frame };
    return { fault: "found neither a line such as `udp:10.1.0.5:40000-10.2.0.1:53` nor an Ethernet frame of at least 14 bytes in hexadecimal" };
  }
  const [, protocol, from, fromPort, to, toPort] = made;
  const source = address(from!);
  const destination = address(to!);
  if (!source) return { fault: `found \`${from}\`; allowed: four numbers from 0 to 255` };
  if (!destination) return { fault: `found \`${to}\`; allowed: four numbers from 0 to 255` };
  const ports: number[] = [];
  if (protocol!.toLowerCase() !== "icmp") {
    for (const port of [fromPort, toPort]) {
      const number = Number(port ?? "");
      if (port === undefined || number > 65535) return { fault: `found port \`${port ?? ""}\`; allowed: 0 to 65535` };
      ports.push(number);
    }
  }
  return { frame: packet(protocol!.toLowerCase(), source, destination, ports) };
}

function address(text: string): Uint8Array | null {
  const numbers = text.split(".").map(Number);
  return numbers.length === 4 && numbers.every((number) => number <= 255) ? Uint8Array.from(numbers) : null;
}

function packet(protocol: string, from: Uint8Array, to: Uint8Array, ports: number[]): Uint8Array {
  const number = protocol === "udp" ? 17 : protocol === "tcp" ? 6 : 1;
  const header = protocol === "tcp" ? 20 : 8;
  const payload = 18;
  const transport = new Uint8Array(header + payload);
  const write = new DataView(transport.buffer);
  if (protocol === "icmp") {
    transport[0] = 8;
    write.setUint16(4, 1);
    write.setUint16(6, 1);
  } else {
    write.setUint16(0, ports[0]!);
    write.setUint16(2, ports[1]!);
    if (protocol === "udp") write.setUint16(4, transport.length);
    else {
      write.setUint32(4, 1);
      transport[12] = 0x50;
      transport[13] = 0x02;
      write.setUint16(14, 64240);
    }
  }
  const pseudo = protocol === "icmp" ? [] : [...from, ...to, 0, number, transport.length >> 8, transport.length & 255];
  const sum = checksum(Uint8Array.from([...pseudo, ...transport]));
  // In UDP a sum of 0 would mean that there is none (RFC 768).
  write.setUint16(protocol === "udp" ? 6 : protocol === "tcp" ? 16 : 2, protocol === "udp" && sum === 0 ? 0xffff : sum);
  const ip = new Uint8Array(20);
  const head = new DataView(ip.buffer);
  ip[0] = 0x45;
  head.setUint16(2, 20 + transport.length);
  ip[8] = 64;
  ip[9] = number;
  ip.set(from, 12);
  ip.set(to, 16);
  head.setUint16(10, checksum(ip));
  return Uint8Array.from([...(fromHex(FRAME_HEADER) ?? []), 0x08, 0x00, ...ip, ...transport]);
}

/** The Internet checksum (RFC 1071). */
export function checksum(bytes: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += (bytes[at]! << 8) | (bytes[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
