// Runs the tests of the page. Unit tests are TypeScript: they are bundled first, because Node 18 reads none.
//
//   node tests/run.mjs unit
//   node tests/run.mjs views [NAME]        needs Chromium and dist/
//   node tests/run.mjs real                needs Chromium, and SUPERFLUID, the program with its page
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const [what, name = ""] = process.argv.slice(2);
if (!["unit", "views", "real"].includes(what)) {
  console.error(`tests: found \`${what ?? ""}\`; allowed: unit, views, real`);
  process.exit(2);
}
let files;
if (what === "unit") {
  const out = join(here, "../build/tests");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  await build({
    entryPoints: readdirSync(join(here, "unit")).filter((file) => file.endsWith(".test.ts")).map((file) => join(here, "unit", file)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node18",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { ELK_WORKER: '""' },
    external: ["elkjs/*"],
    sourcemap: "inline",
    logLevel: "warning",
  });
  files = readdirSync(out).map((file) => join(out, file));
} else {
  files = readdirSync(join(here, what)).filter((file) => file.endsWith(".test.mjs") && file.includes(name)).map((file) => join(here, what, file));
}
const run = spawnSync(process.execPath, ["--test", "--enable-source-maps", ...files], { stdio: "inherit", timeout: 540_000 });
process.exit(run.status ?? 1);
