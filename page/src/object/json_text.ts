/** JSON as it is typed: its tokens, where it is broken, and which key a place is below. */

export interface Token {
  kind: "key" | "string" | "literal" | "mark" | "space" | "wrong";
  text: string;
  at: number;
}

const PATTERN = /("(?:[^"\\\n]|\\.)*")(\s*:)?|("(?:[^"\\\n]|\\.)*)|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true\b|false\b|null\b)|([{}[\],:])|(\s+)|([^\s"{}[\],:]+)/g;

/** The tokens of a text, all of it. */
export function tokens(text: string): Token[] {
  const found: Token[] = [];
  for (const match of text.matchAll(PATTERN)) {
    const [whole, string, colon, open, literal, mark, space] = match;
    const at = match.index;
    if (string !== undefined) {
      found.push({ kind: colon === undefined ? "string" : "key", text: string, at });
      if (colon !== undefined) found.push({ kind: "mark", text: colon, at: at + string.length });
    } else if (open !== undefined) found.push({ kind: "wrong", text: whole, at });
    else if (literal !== undefined) found.push({ kind: "literal", text: whole, at });
    else if (mark !== undefined) found.push({ kind: "mark", text: whole, at });
    else if (space !== undefined) found.push({ kind: "space", text: whole, at });
    else found.push({ kind: "wrong", text: whole, at });
  }
  return found;
}

export interface Broken {
  message: string;
  line: number;
  column: number;
}

/** The value of a text, or where it is no JSON. */
export function parse(text: string): { value: unknown } | { broken: Broken } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const told = /position (\d+)/.exec(message);
    const { line, column } = lineOf(text, told ? Number(told[1]) : /end of JSON|Unexpected end/i.test(message) ? text.length : firstWrong(text));
    return { broken: { message: message.replace(/^JSON\.parse: /, "").replace(/ in JSON at position \d+.*$| \(line .*\)$/, ""), line, column } };
  }
}

/** Where a text first has what no JSON has: browsers do not all say where. */
function firstWrong(text: string): number {
  return tokens(text).find((token) => token.kind === "wrong")?.at ?? text.length;
}

/** Line and column of a place, from 1. */
export function lineOf(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at);
  const line = before.split("\n").length;
  return { line, column: at - before.lastIndexOf("\n") };
}

/** The keys down to a place, and the word that is being typed there as a key; `null` if none can stand there. */
export function keyAt(text: string, at: number): { path: string[]; word: string; from: number; present: string[] } | null {
  const stack: { kind: "{" | "["; key: string; index: number; keys: string[] }[] = [];
  let pending = "";
  let word: { text: string; from: number } | null = null;
  let value = false;
  for (const token of tokens(text)) {
    if (token.at >= at) break;
    const end = token.at + token.text.length;
    if (token.kind === "space") continue;
    const inside = end >= at && token.at < at;
    if (token.kind === "mark") {
      const mark = token.text.trim();
      word = null;
      if (mark === "{" || mark === "[") {
        const above = stack.at(-1);
        stack.push({ kind: mark, key: above?.kind === "[" ? String(above.index) : pending, index: 0, keys: [] });
        pending = "";
        value = false;
      } else if (mark === "}" || mark === "]") {
        stack.pop();
        value = true;
      } else if (mark === ",") {
        const top = stack.at(-1);
        if (top) top.index += 1;
        value = false;
      } else value = true;
    } else if (token.kind === "key") {
      pending = token.text.slice(1, -1);
      stack.at(-1)?.keys.push(pending);
      word = inside ? { text: token.text.slice(1, at - token.at), from: token.at } : null;
      if (inside) stack.at(-1)?.keys.pop();
      value = false;
    } else {
      word = !value && inside ? { text: token.text.replace(/^"/, "").slice(0, at - token.at), from: token.at } : null;
      if (!inside) value = true;
    }
  }
  const top = stack.at(-1);
  if (top?.kind !== "{" || value) return null;
  return { path: stack.slice(1).map((level) => level.key), word: word?.text ?? "", from: word?.from ?? at, present: top.keys };
}
