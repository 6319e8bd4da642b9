/** What happens to a packet from hop to hop. */
import type { TraceHop } from "../api/types";
import { type Change, changes, fromHex } from "./decode";

/** A hop, with the packet's first bytes in hexadecimal as they were there, where they are not those of the hop before. */
export type Hop = TraceHop & { head?: string };

export interface Seen {
  hop: Hop;
  changes: Change[];
  /** Whose it is now, where that is another's than before. */
  crossing?: string;
}

/** What changed from hop to hop. A hop without bytes has those of the one before. */
export function hopChanges(packet: { head?: string; hops: Hop[] }, tenantOf: (at: string) => string | undefined): Seen[] {
  let bytes = packet.head ? fromHex(packet.head) : null;
  let tenant: string | undefined;
  return packet.hops.map((hop) => {
    const now = hop.head ? fromHex(hop.head) : null;
    const found = bytes && now ? changes(bytes, now) : [];
    if (now) bytes = now;
    const owner = tenantOf(hop.at);
    const crossing = tenant && owner && owner !== tenant ? `from tenant ${tenant} to tenant ${owner}` : undefined;
    if (owner) tenant = owner;
    return { hop, changes: found, crossing };
  });
}
