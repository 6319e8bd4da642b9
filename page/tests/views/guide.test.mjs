// The guide, docs/page.md, has the pictures that are taken, and no other; what it says of keys and views is what the page has.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { PICTURES } from "../pictures.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const guide = readFileSync(join(root, "docs/page.md"), "utf8");
const shown = [...guide.matchAll(/!\[[^\]]+\]\(page\/([^)]+)\)/g)].map((match) => match[1]);

test("each picture of the guide is there, and each that is taken is shown", () => {
  const there = readdirSync(join(root, "docs/page"));
  const taken = Object.keys(PICTURES).flatMap((name) => [`${name}-light.png`, `${name}-dark.png`]);
  assert.deepEqual(there.sort(), taken.sort());
  for (const picture of shown) assert.ok(there.includes(picture), picture);
  for (const name of Object.keys(PICTURES)) assert.ok(shown.includes(`${name}-light.png`), name);
});

test("each view of the page has its part of the guide", () => {
  const main = readFileSync(join(root, "page/src/main.tsx"), "utf8");
  const parts = { wiring: "## The wiring", workers: "## Workers", objects: "## An object", packets: "## A packet's way", events: "## Time", reports: "## Experiments" };
  const views = [...main.matchAll(/^  \["(\w+)", "\w+"\],$/gm)].map((match) => match[1]);
  assert.deepEqual(views, Object.keys(parts));
  for (const part of Object.values(parts)) assert.ok(guide.includes(part), part);
});

test("each key that the picture takes is told", () => {
  const view = readFileSync(join(root, "page/src/wiring/view.tsx"), "utf8");
  const table = /const keys: Record<string, \(\) => void> = \{([\s\S]*?)\n    \};/.exec(view)[1];
  const keys = [...table.matchAll(/^      "?([^\s":]+)"?: \(\) =>/gm)].map((match) => match[1]).filter((key) => key !== "=");
  assert.ok(keys.length >= 9, keys.join());
  for (const key of keys) assert.ok(guide.includes(key.startsWith("Arrow") ? "arrows" : key), key);
});

test("links of the guide lead somewhere", () => {
  for (const [, file, anchor] of guide.matchAll(/\]\(([\w./-]+\.md)(?:#([\w-]+))?\)/g)) {
    const path = join(root, "docs", file);
    assert.ok(existsSync(path), file);
    const anchors = [...readFileSync(path, "utf8").matchAll(/^#+ (.+)$/gm)].map((match) => match[1].toLowerCase().replace(/[^\w\s-]/g, "").replace(/\s/g, "-"));
    if (anchor) assert.ok(anchors.includes(anchor), `${file}#${anchor}`);
  }
});
