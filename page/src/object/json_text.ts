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

/** A place in a text where something is typed. */
export interface Place {
  /** Whether a key is typed there, or a value. */
  kind: "key" | "value";
  /** The part of the word before the place. */
  word: string;
  /** Where the word begins. */
  from: number;
  /** The text before the word. */
  before: string;
  /** What closes all that is open there. */
  closers: string;
  /** Keys of the same map that stand before it. */
  present: string[];
}

/** What is typed at a place: a key or a value of a map or list; `null` where neither can stand. */
export function placeAt(text: string, at: number): Place | null {
  const open: { mark: "{" | "["; keys: string[] }[] = [];
  let word: { text: string; from: number } | null = null;
  // What the last token lets follow: nothing but a mark, a key, or a value.
  let next: "key" | "value" | "mark" = "value";
  for (const token of tokens(text)) {
    if (token.at >= at) break;
    const inside = token.at + token.text.length >= at && token.kind !== "space" && token.kind !== "mark";
    if (inside) {
      word = { text: token.text.slice(0, at - token.at).replace(/^"/, ""), from: token.at };
      break;
    }
    if (token.kind === "space") continue;
    const mark = token.text.trim();
    if (mark === "{" || mark === "[") {
      open.push({ mark, keys: [] });
      next = mark === "{" ? "key" : "value";
    } else if (mark === "}" || mark === "]") {
      open.pop();
      next = "mark";
    } else if (mark === ",") next = open.at(-1)?.mark === "{" ? "key" : "value";
    else if (mark === ":") next = "value";
    else {
      if (token.kind === "key") open.at(-1)?.keys.push(token.text.slice(1, -1));
      next = "mark";
    }
  }
  const top = open.at(-1);
  if (!top || next === "mark") return null;
  const from = word?.from ?? at;
  const closers = open.map(({ mark }) => (mark === "{" ? "}" : "]")).reverse().join("");
  return { kind: next, word: word?.text ?? "", from, before: text.slice(0, from), closers, present: next === "key" ? top.keys : [] };
}
