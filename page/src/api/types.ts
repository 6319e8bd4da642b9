/** Names for the types of the daemon's interface, which `schema.ts` has from its OpenAPI document. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Graph = Schemas["Graph"];
export type GraphNode = Schemas["GraphNode"];
export type GraphEdge = Schemas["GraphEdge"];
export type Problem = Schemas["Problem"];
export type CheckReport = Schemas["CheckReport"];
export type PlacedFault = Schemas["PlacedFault"];
export type Difference = Schemas["Difference"];
export type FunctionStatus = Schemas["FunctionStatus"];
export type FunctionEvent = Schemas["FunctionEvent"];
export type LogLine = Schemas["LogLine"];
export type Snapshot = Schemas["Snapshot"];
export type Image = Schemas["Image"];
export type Operation = Schemas["Operation"];
export type HostEvent = Schemas["Event"];
export type PastEvents = Schemas["PastEvents"];
export type TracedPacket = Schemas["TracedPacket"];
export type TraceHop = Schemas["TraceHop"];
/** The tag stands beside a reference in the document, which the generator of types passes over. */
export type TraceLine = ({ trace: "packet" } & TracedPacket) | { trace: "alive" } | ({ trace: "ended" } & Schemas["TraceEnd"]);
export type Health = Schemas["Health"];

export const KINDS = ["function", "port", "chain", "device", "switch", "group", "wire", "observer", "service", "tenant", "workers"] as const;
export type Kind = (typeof KINDS)[number];

/** An object of any kind. */
export interface AnyObject {
  kind: Kind;
  name: string;
  version: number;
  spec: unknown;
  status?: Record<string, unknown>;
}

/** All objects at one step of the history: columns beside names. */
export type HistoryStep = Schemas["HistoryMoment"];
export type HistoryColumns = Schemas["HistoryObjects"];
/** One object over time. */
export type HistoryOf = Schemas["HistoryLine"];
export type HistoryPart = Schemas["HistorySpan"];
