import assert from "node:assert/strict";
import { test } from "node:test";
import { documentOf, placed } from "../../src/object/check";
import { PROBE, allowedBy, probed, ranked } from "../../src/object/complete";
import { diffLines, hunks } from "../../src/object/diff";
import { parse, placeAt, tokens } from "../../src/object/json_text";
import { linkSecret } from "../../src/api/session";
import { serverTiming } from "../../src/api/http";
import { readExperiment, ratio } from "../../src/reports/read";
import { bitRate, bytes, count, digest, duration, nanoseconds, packetRate, printable, share } from "../../src/ui/format";

test("numbers have three digits and a prefix", () => {
  assert.equal(packetRate(0), "0 pps");
  assert.equal(packetRate(7), "7 pps");
  assert.equal(packetRate(1234), "1.23 kpps");
  assert.equal(packetRate(999_499), "999 kpps");
  assert.equal(packetRate(999_500), "1.00 Mpps");
  assert.equal(bitRate(9_870_000_000), "9.87 Gb/s");
  assert.equal(packetRate(NaN), "–");
  assert.equal(packetRate(undefined), "–");
  assert.equal(share(0.374), "37\u202f%");
  assert.equal(share(0.0042), "0.4\u202f%");
  assert.equal(share(0.0001), "<0.1\u202f%");
  assert.equal(share(0), "0\u202f%");
  assert.equal(bytes(1536), "1.5 KiB");
  assert.equal(nanoseconds(1500), "1.50 µs");
  assert.equal(nanoseconds(2_500_000_000), "2.5 s");
  assert.equal(duration(125_000), "2 min 5 s");
  assert.equal(count(12345), "12\u202f345");
  assert.equal(digest(`sha256:${"ab".repeat(32)}`), "sha256:abababab…");
});

test("characters that are not shown, or turn what follows, are escapes", () => {
  assert.equal(printable("a\u202egnp.exe"), "a\\u202egnp.exe");
  assert.equal(printable("\u0007\u200b\ufeff"), "\\u0007\\u200b\\ufeff");
  assert.equal(printable("\ud800x"), "\\ud800x");
  assert.equal(printable("naïve שלום 日本 😀\n"), "naïve שלום 日本 😀\n");
});

test("a difference brings the one text to the other, and is the shortest of small ones", () => {
  const rebuilt = (before: string, after: string): void => {
    const lines = diffLines(before, after);
    assert.equal(lines.filter((line) => line.kind !== "removed").map((line) => line.text).join("\n"), after);
    assert.equal(lines.filter((line) => line.kind !== "added").map((line) => line.text).join("\n"), before);
    lines.filter((line) => line.before !== undefined).forEach((line, at) => assert.equal(line.before, at + 1));
    lines.filter((line) => line.after !== undefined).forEach((line, at) => assert.equal(line.after, at + 1));
  };
  rebuilt("a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc");
  rebuilt("", "x");
  rebuilt("x", "");
  rebuilt("same\nsame", "same\nsame");
  assert.equal(diffLines("a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc").filter((line) => line.kind !== "same").length, 5);
  let seed = 3;
  const next = (): number => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 16;
  for (let run = 0; run < 300; run += 1) {
    const text = (): string => Array.from({ length: next() % 14 }, () => "abcd"[next() % 4]!).join("\n");
    rebuilt(text(), text());
  }
  const long = Array.from({ length: 6000 }, (_, at) => `line ${at}`);
  rebuilt(long.join("\n"), long.map((line) => `${line}!`).join("\n"));
});

test("long stretches of what is the same are left out of a difference", () => {
  const before = Array.from({ length: 40 }, (_, at) => `line ${at}`).join("\n");
  const shown = hunks(diffLines(before, before.replace("line 20", "other")));
  assert.equal(shown.filter((line) => line === null).length, 2);
  assert.equal(shown.filter((line) => line !== null).length, 8);
});

test("tokens are the whole text", () => {
  for (const text of ['{"a": [1, -2.5e3, true, null], "b": "x\\"y"}', '{"open', "{,]:wrong 12x}", "", "\n\n  {", '{"a": "x\n}']) {
    assert.equal(tokens(text).map((token) => token.text).join(""), text);
  }
});

test("JSON that is broken is told with its place", () => {
  const told = parse('{\n  "a": 1,\n  "b": x\n}');
  assert.ok("broken" in told);
  assert.equal(told.broken.line, 3);
  const open = parse('{\n  "a": 1');
  assert.ok("broken" in open);
  assert.equal(open.broken.line, 2);
  assert.ok("value" in parse('{"a": 1}'));
});

test("what is typed at a place is known in text that is broken", () => {
  const text = '{\n  "image": "firewall",\n  "config": {\n    "rules": [\n      {"name": "a", "ac';
  const place = placeAt(text, text.length)!;
  assert.deepEqual([place.kind, place.word, place.from, place.closers, place.present], ["key", "ac", text.length - 3, "}]}}", ["name"]]);
  assert.deepEqual(JSON.parse(probed(place)), { image: "firewall", config: { rules: [{ name: "a", [PROBE]: 0 }] } });
  const empty = '{"image": "x", ';
  assert.deepEqual(JSON.parse(probed(placeAt(empty, empty.length)!)), { image: "x", [PROBE]: 0 });
  const value = '{"image": "x", "config": {"default_action": "dr"}}';
  const within = placeAt(value, value.indexOf("dr") + 2)!;
  assert.deepEqual([within.kind, within.word], ["value", "dr"]);
  assert.deepEqual(JSON.parse(probed(within)), { image: "x", config: { default_action: PROBE } });
  assert.equal(placeAt('{"a": 1 ', 8), null);
  assert.equal(placeAt("", 0), null);
  for (let at = 0; at <= value.length; at += 1) placeAt(value, at);
});

test("what the daemon allows is suggested, what begins so first, and not what is there", () => {
  const place = placeAt('{"image": "x", "ma', 18)!;
  assert.deepEqual(allowedBy(`unknown key \`${PROBE}\`; allowed: pool, image, quota, max_call, format; did you mean \`x\`?`), ["pool", "image", "quota", "max_call", "format"]);
  assert.deepEqual(ranked(["pool", "image", "format", "max_call"], place), ["max_call", "format"]);
  assert.deepEqual(allowedBy(`found the text "${PROBE}"; allowed: one of accept, drop; did you mean \`drop\`?`), ["accept", "drop"]);
  assert.deepEqual(allowedBy(`found \`${PROBE}\`; allowed: a size such as 64KiB`), []);
  assert.deepEqual(allowedBy("found `other`; allowed: accept"), []);
});

test("faults of a document are told with lines and places of the spec that is typed", () => {
  const { text } = documentOf("function", "fw", '{\n  "image": "x"\n}');
  assert.deepEqual(JSON.parse(text), { superfluid: 1, functions: { fw: { image: "x" } } });
  assert.deepEqual(placed({ at: "functions.fw.image", message: "m", line: 3, column: 12 }, "function", "fw"), { at: "image", message: "m", line: 2, column: 12 });
  assert.deepEqual(JSON.parse(documentOf("workers", "workers", "2").text), { superfluid: 1, workers: 2 });
  assert.deepEqual(JSON.parse(documentOf("wire", "a~b", '["a", "b"]').text), { superfluid: 1, wires: [["a", "b"]] });
});

test("the secret of a link is found in what one pastes, and nothing else is taken for one", () => {
  const secret = `sfl_${"0a".repeat(32)}`;
  assert.equal(linkSecret(`http://127.0.0.1:8800/#link=${secret}`), secret);
  assert.equal(linkSecret(` ${secret} `), secret);
  assert.equal(linkSecret(`#link=${secret.slice(0, -1)}`), null);
  assert.equal(linkSecret("https://elsewhere/"), null);
});

test("steps of a change are read from Server-Timing", () => {
  assert.deepEqual(serverTiming("parse;dur=0.041, hand-over;dur=12.5, total;dur=13"), [
    { name: "parse", ms: 0.041 },
    { name: "hand-over", ms: 12.5 },
    { name: "total", ms: 13 },
  ]);
  assert.deepEqual(serverTiming(null), []);
  assert.deepEqual(serverTiming(";;,dur=3"), []);
});

const LINES = [
  { kind: "experiment", superfluid_experiment: 1, experiment: "fig-6b", title: "Fig. 6b", question: "Which?", setup: ["One core."], notes: [] },
  { kind: "figure", experiment: "fig-6b", figure: 1, title: "T", x: { label: "packet size", unit: "B", scale: "log", ticks: [64] }, y: { label: "throughput", unit: "Mp/s", scale: "linear", ticks: [] }, categories: null },
  { kind: "series", experiment: "fig-6b", figure: 1, series: "hyper", role: "hyper", shape: "line" },
  { kind: "point", experiment: "fig-6b", figure: 1, series: "hyper", x: 64, x_unit: "B", y: 4.1, low: 4, high: 4.3, y_unit: "Mp/s", missing: null },
  { kind: "verdict", experiment: "fig-6b", result: "models/worst-ratio", value: 1.2, low: 1.1, high: 1.3, unit: "ratio", missing: null, at_most: null, at_least: 1, holds: true, note: "" },
];
const file = (lines: object[], end = lines.length): string => [...lines, { kind: "end", experiment: "fig-6b", lines: end }].map((line) => JSON.stringify(line)).join("\n");

test("a report's file is read, and one that is cut off or of another version is refused", () => {
  const read = readExperiment("fig-6b.jsonl", file(LINES));
  assert.equal(read.figures[0]!.series[0]!.readings.get(64)?.y, 4.1);
  assert.deepEqual(read.verdicts[0], { result: "models/worst-ratio", value: 1.2, unit: "ratio", bound: "at least 1", holds: true });
  assert.throws(() => readExperiment("f", LINES.map((line) => JSON.stringify(line)).join("\n")), /cut off/);
  assert.throws(() => readExperiment("f", file(LINES, 9)), /f:6: found 5 lines/);
  assert.throws(() => readExperiment("f", file([{ ...LINES[0]!, superfluid_experiment: 2 }])), /f:1: found version 2/);
  assert.throws(() => readExperiment("f", "<html>"), /f:1: found what is no JSON/);
  assert.throws(() => readExperiment("f", ""), /found no line/);
  assert.equal(ratio(2, 3), 1.5);
  assert.equal(ratio(0, 3), null);
});
