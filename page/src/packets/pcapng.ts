/** Packets of a capture as it comes, for the lines beside the download (pcapng, draft-ietf-opsawg-pcapng). */

export interface Captured {
  /** When, in milliseconds since the Unix epoch. */
  time: number;
  /** Its length on the wire. */
  length: number;
  bytes: Uint8Array;
  /** What the daemon says of it: the verdict, where it came from. */
  comment?: string;
}

/** No block of a capture is longer: a packet of 64 KiB with its options. */
const LONGEST_BLOCK = 1 << 20;
const SECTION = 0x0a0d0d0a;

export class PcapngReader {
  private rest = new Uint8Array(0);
  private little = true;
  /** Ticks of a second, by interface. */
  private resolution: number[] = [];
  /** What was lost: as each packet says it of what was before it, and then as the last block says it of all. */
  lost = 0;

  /**
   * The packets that are whole with these bytes.
   * @throws {Error} where the bytes are no capture.
   */
  push(more: Uint8Array): Captured[] {
    const bytes = new Uint8Array(this.rest.length + more.length);
    bytes.set(this.rest);
    bytes.set(more, this.rest.length);
    const view = new DataView(bytes.buffer);
    const packets: Captured[] = [];
    let at = 0;
    while (bytes.length - at >= 12) {
      if (view.getUint32(at, true) === SECTION) this.little = view.getUint32(at + 8, true) === 0x1a2b3c4d;
      const kind = view.getUint32(at, this.little);
      const length = view.getUint32(at + 4, this.little);
      if (length < 12 || length % 4 !== 0 || length > LONGEST_BLOCK) throw new Error(`capture: found a block of ${length} bytes; allowed: 12 to ${LONGEST_BLOCK}, in fours`);
      if (bytes.length - at < length) break;
      this.block(kind, new DataView(bytes.buffer, at, length), packets);
      at += length;
    }
    this.rest = bytes.slice(at);
    return packets;
  }

  private block(kind: number, block: DataView, packets: Captured[]): void {
    const end = block.byteLength - 4;
    if (kind === SECTION) this.resolution = [];
    if (kind === 1) {
      const resolution = this.options(block, 16, end).get(9)?.getUint8(0) ?? 6;
      this.resolution.push(resolution & 0x80 ? 2 ** (resolution & 0x7f) : 10 ** resolution);
    }
    if (kind === 5) this.lost = Number(this.options(block, 20, end).get(7)?.getBigUint64(0, this.little) ?? 0n);
    if (kind !== 6 || end < 28) return;
    const ticks = block.getUint32(12, this.little) * 2 ** 32 + block.getUint32(16, this.little);
    const captured = block.getUint32(20, this.little);
    if (28 + captured > end) throw new Error(`capture: found a packet of ${captured} bytes in a block of ${block.byteLength}`);
    const options = this.options(block, 28 + Math.ceil(captured / 4) * 4, end);
    const comment = options.get(1);
    this.lost += Number(options.get(4)?.getBigUint64(0, this.little) ?? 0n);
    packets.push({
      time: (ticks / (this.resolution[block.getUint32(8, this.little)] ?? 1e6)) * 1000,
      length: block.getUint32(24, this.little),
      bytes: new Uint8Array(block.buffer.slice(block.byteOffset + 28, block.byteOffset + 28 + captured)),
      comment: comment && new TextDecoder().decode(comment),
    });
  }

  private options(block: DataView, from: number, end: number): Map<number, DataView> {
    const found = new Map<number, DataView>();
    let at = from;
    while (at + 4 <= end) {
      const code = block.getUint16(at, this.little);
      const length = block.getUint16(at + 2, this.little);
      if (code === 0 || at + 4 + length > end) break;
      found.set(code, new DataView(block.buffer, block.byteOffset + at + 4, length));
      at += 4 + Math.ceil(length / 4) * 4;
    }
    return found;
  }
}
