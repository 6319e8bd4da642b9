/** Types of the host that is not there, for tests in TypeScript. */
import type { AnyObject, Graph, HistoryStep } from "../src/api/types";

export class Host {
  constructor(size: number, options?: { startMs?: number });
  layout: number;
  objects: Map<string, Map<string, AnyObject>>;
  put(kind: string, name: string, spec: unknown): AnyObject;
  wire(): void;
  graph(): Graph;
  at(step: number, layout: number): HistoryStep;
  work(name: string, step: number): { packets: number; drops: number; cpu: number; bytes: number; queue: number };
}
