// Builds the page into dist/: one script, one sheet of styles, parts that are loaded when needed, and ELK's worker. Names have hashes of
// what is in the files, so that browsers keep them for good.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");
const assets = join(dist, "assets");

// Files whose names begin with a dot are the tree's.
mkdirSync(dist, { recursive: true });
for (const name of readdirSync(dist)) if (!name.startsWith(".")) rmSync(join(dist, name), { recursive: true });
mkdirSync(assets);

const hashed = (name, ending, content) => {
  const file = `assets/${name}-${createHash("sha256").update(content).digest("hex").slice(0, 10)}.${ending}`;
  writeFileSync(join(dist, file), content);
  return file;
};

const worker = hashed("elk", "js", readFileSync(join(here, "node_modules/elkjs/lib/elk-worker.min.js")));

const made = await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.tsx" },
  outdir: "dist/assets",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  metafile: true,
  define: { ELK_WORKER: JSON.stringify(worker) },
  logLevel: "warning",
});

const [script, output] = Object.entries(made.metafile.outputs).find(([, one]) => one.entryPoint === "src/main.tsx");
const html = readFileSync(join(here, "src/index.html"), "utf8")
  .replace("{{script}}", script.replace(/^dist\//, ""))
  .replace("{{style}}", output.cssBundle.replace(/^dist\//, ""));
writeFileSync(join(dist, "index.html"), html);
writeFileSync(join(dist, "icon.svg"), readFileSync(join(here, "src/icon.svg")));
if (existsSync(join(here, "LICENSES.md"))) writeFileSync(join(dist, "licenses.txt"), readFileSync(join(here, "LICENSES.md")));

// Everything that a first visit loads, ELK's worker included, as the daemon sends it: with gzip.
const MOST = 700 * 1024;
const files = [join(dist, "index.html"), join(dist, "icon.svg"), ...readdirSync(assets).map((name) => join(assets, name))];
const total = files.reduce((sum, file) => sum + gzipSync(readFileSync(file), { level: 9 }).length, 0);
const plain = files.reduce((sum, file) => sum + statSync(file).size, 0);
console.log(`page: ${files.length} files, ${Math.round(plain / 1024)} KiB, ${Math.round(total / 1024)} KiB compressed`);
if (total > MOST) {
  console.error(`page: found ${total} bytes compressed; allowed: at most ${MOST}`);
  process.exit(1);
}
