/** What differs between two texts, by lines (Myers, "An O(ND) difference algorithm and its variations", 1986). */

export interface DiffLine {
  kind: "same" | "added" | "removed";
  text: string;
  /** The line's number in the text before, from 1; none of one that was added. */
  before?: number;
  /** The line's number in the text after, from 1; none of one that was removed. */
  after?: number;
}

/** Most differences that are looked for: beyond that all of it is told as removed and added. */
const MOST = 2000;

export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let endA = a.length;
  let endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  const lines: DiffLine[] = [];
  for (let at = 0; at < start; at += 1) lines.push({ kind: "same", text: a[at]!, before: at + 1, after: at + 1 });
  for (const step of middle(a.slice(start, endA), b.slice(start, endB))) {
    if (step.before !== undefined) step.before += start;
    if (step.after !== undefined) step.after += start;
    lines.push(step);
  }
  for (let at = endA; at < a.length; at += 1) {
    lines.push({ kind: "same", text: a[at]!, before: at + 1, after: at - endA + endB + 1 });
  }
  return lines;
}

function middle(a: string[], b: string[]): DiffLine[] {
  const trail: Int32Array[] = [];
  const most = Math.min(a.length + b.length, MOST);
  const middleAt = most + 1;
  const furthest = new Int32Array(2 * most + 3);
  for (let edits = 0; edits <= most; edits += 1) {
    trail.push(furthest.slice());
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const down = diagonal === -edits || (diagonal !== edits && furthest[middleAt + diagonal - 1]! < furthest[middleAt + diagonal + 1]!);
      let x = down ? furthest[middleAt + diagonal + 1]! : furthest[middleAt + diagonal - 1]! + 1;
      let y = x - diagonal;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      furthest[middleAt + diagonal] = x;
      if (x >= a.length && y >= b.length) return walkBack(a, b, trail, edits, middleAt);
    }
  }
  return [
    ...a.map((text, at): DiffLine => ({ kind: "removed", text, before: at + 1 })),
    ...b.map((text, at): DiffLine => ({ kind: "added", text, after: at + 1 })),
  ];
}

function walkBack(a: string[], b: string[], trail: Int32Array[], edits: number, middleAt: number): DiffLine[] {
  const lines: DiffLine[] = [];
  let x = a.length;
  let y = b.length;
  for (let step = edits; step >= 0; step -= 1) {
    const furthest = trail[step]!;
    const diagonal = x - y;
    const down = diagonal === -step || (diagonal !== step && furthest[middleAt + diagonal - 1]! < furthest[middleAt + diagonal + 1]!);
    const fromDiagonal = down ? diagonal + 1 : diagonal - 1;
    const fromX = step === 0 ? 0 : furthest[middleAt + fromDiagonal]!;
    const fromY = step === 0 ? 0 : fromX - fromDiagonal;
    while (x > fromX && y > fromY && (step === 0 || x > (down ? fromX : fromX + 1) || y > (down ? fromY + 1 : fromY))) {
      x -= 1;
      y -= 1;
      lines.push({ kind: "same", text: a[x]!, before: x + 1, after: y + 1 });
    }
    if (step === 0) break;
    if (down) {
      y -= 1;
      lines.push({ kind: "added", text: b[y]!, after: y + 1 });
    } else {
      x -= 1;
      lines.push({ kind: "removed", text: a[x]!, before: x + 1 });
    }
  }
  return lines.reverse();
}

/** The same without long stretches of lines that are the same: `null` stands for those that are left out. */
export function hunks(lines: DiffLine[], around = 3): (DiffLine | null)[] {
  const shown = new Set<number>();
  lines.forEach((line, at) => {
    if (line.kind === "same") return;
    for (let near = at - around; near <= at + around; near += 1) shown.add(near);
  });
  const kept: (DiffLine | null)[] = [];
  lines.forEach((line, at) => {
    if (shown.has(at)) kept.push(line);
    else if (kept.at(-1) !== null) kept.push(null);
  });
  return kept;
}

/** An object as text, its keys in one order, so that two of them can be compared. */
export function pretty(value: unknown): string {
  return JSON.stringify(value ?? {}, null, 2);
}
