// Holds LICENSES.md to package-lock.json: what the page is made of, what builds it, and under which licences.
//
//   node licences.mjs            says what differs, and ends with 1
//   node licences.mjs --write    writes the file
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
/** What may be in the page or build it. */
const ALLOWED = /^(MIT|ISC|Apache-2\.0|BSD-[23]-Clause|0BSD|Python-2\.0|MPL-2\.0|CC0-1\.0|BlueOak-1\.0\.0|EPL-2\.0 OR GPL-3\.0-or-later|\(MIT OR CC0-1\.0\))$/;

const lock = JSON.parse(readFileSync(join(here, "package-lock.json"), "utf8"));
const own = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const faults = [];
const rows = { shipped: [], building: [] };
for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === "") continue;
  const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
  const licence = entry.license ?? "none";
  if (!ALLOWED.test(licence)) faults.push(`${name} ${entry.version}: found the licence \`${licence}\`; allowed: those that licences.mjs lists`);
  if (entry.resolved) faults.push(`${name}: found where it was fetched from; allowed: none in package-lock.json`);
  // Of programs for other machines one line says all.
  if (entry.optional && /^@esbuild\/|^fsevents$/.test(name)) continue;
  (entry.dev ? rows.building : rows.shipped).push([name, entry.version, licence]);
}
const table = (of) => ["| package | version | licence |", "|---|---|---|", ...of.sort((a, b) => (a[0] < b[0] ? -1 : 1)).map((row) => `| ${row.join(" | ")} |`)].join("\n");

/** The texts that have to go with what is shipped. */
function texts() {
  return rows.shipped.map(([name]) => {
    const folder = join(here, "node_modules", name);
    const file = existsSync(folder) && readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    return file ? `## ${name}\n\n\`\`\`text\n${readFileSync(join(folder, file), "utf8").trim()}\n\`\`\`` : null;
  });
}

const head = `# What the page is made of

The page is part of Superfluid, Apache-2.0. In it are, each in the form that its authors published:

${table(rows.shipped)}

ELK (elkjs) is a file of its own, which the page loads as it is: its source is at ${lock.packages["node_modules/elkjs"] ? "github.com/kieler/elkjs" : ""}, under the Eclipse Public License 2.0.

What builds and tests it, and is not in it:

${table(rows.building)}
`;
const whole = texts();
const made = whole.every(Boolean) ? `${head}\n${whole.join("\n\n")}\n` : null;
const file = join(here, "LICENSES.md");
if (process.argv.includes("--write")) {
  if (!made) {
    console.error("licences: node_modules lacks the texts; run `npm ci` first");
    process.exit(1);
  }
  writeFileSync(file, made);
}
const recorded = existsSync(file) ? readFileSync(file, "utf8") : "";
// Without node_modules the tables are compared, which are made of the lock alone.
if (made ? recorded !== made : !recorded.startsWith(head)) faults.push("LICENSES.md is not what package-lock.json comes to; `node licences.mjs --write` writes it");
const direct = Object.keys({ ...own.dependencies }).length;
for (const fault of faults) console.error(`licences: ${fault}`);
if (faults.length) process.exit(1);
console.log(`licences: ${rows.shipped.length} packages in the page (${direct} asked for), ${rows.building.length} that build it`);
