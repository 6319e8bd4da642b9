/**
 * The data files of a report of `superfluid bench hypernf`: JSON lines, of which the first says the version and the last the number of
 * lines. A file is a stranger's: what is no such line is refused with its place.
 */

export interface Reading {
  y: number | null;
  low: number | null;
  high: number | null;
  missing: string | null;
}
export interface Series {
  name: string;
  role: string;
  shape: string;
  /** By x of points, by category of bars. */
  readings: Map<number | string, Reading>;
}
export interface Figure {
  number: number;
  title: string;
  x: { label: string; unit: string; scale: string };
  y: { label: string; unit: string; scale: string };
  categories: string[] | null;
  series: Series[];
}
export interface Verdict {
  result: string;
  value: number | null;
  unit: string;
  bound: string;
  /** None where there is no bound. */
  holds: boolean | null;
}
export interface Experiment {
  id: string;
  title: string;
  question: string;
  setup: string[];
  notes: string[];
  figures: Figure[];
  verdicts: Verdict[];
}

/** The version of the format that is read. */
const VERSION = 1;

type Row = Record<string, unknown>;
const text = (row: Row, key: string): string => (typeof row[key] === "string" ? row[key] : "");
const number = (row: Row, key: string): number | null => (typeof row[key] === "number" ? row[key] : null);
const texts = (row: Row, key: string): string[] => (Array.isArray(row[key]) ? row[key].filter((one): one is string => typeof one === "string") : []);
const axis = (value: unknown): Figure["x"] => {
  const row = (typeof value === "object" && value !== null ? value : {}) as Row;
  return { label: text(row, "label"), unit: text(row, "unit"), scale: text(row, "scale") };
};
const reading = (row: Row): Reading => ({ y: number(row, "y"), low: number(row, "low"), high: number(row, "high"), missing: typeof row.missing === "string" ? row.missing : null });

/**
 * An experiment from its file.
 * @throws {Error} that says where the file is wrong.
 */
export function readExperiment(name: string, content: string): Experiment {
  const rows = content.split("\n").filter((line) => line.trim() !== "");
  const wrong = (line: number, what: string): Error => new Error(`${name}:${line + 1}: ${what}`);
  let experiment: Experiment | null = null;
  let ended = false;
  rows.forEach((line, at) => {
    let row: Row;
    try {
      row = JSON.parse(line) as Row;
    } catch {
      throw wrong(at, "found what is no JSON; allowed: a JSON object to a line");
    }
    if (typeof row !== "object" || row === null) throw wrong(at, "found no JSON object");
    const kind = text(row, "kind");
    if (at === 0) {
      if (kind !== "experiment") throw wrong(at, `found \`${kind}\`; allowed: \`experiment\` in the first line`);
      if (row.superfluid_experiment !== VERSION) throw wrong(at, `found version ${JSON.stringify(row.superfluid_experiment)} of the format; allowed: ${VERSION}`);
      experiment = { id: text(row, "experiment"), title: text(row, "title"), question: text(row, "question"), setup: texts(row, "setup"), notes: texts(row, "notes"), figures: [], verdicts: [] };
      return;
    }
    take(experiment!, row, kind);
    if (kind === "end") {
      if (row.lines !== undefined && row.lines !== at) throw wrong(at, `found ${at} lines before it; allowed: the ${String(row.lines)} that it says`);
      ended = true;
    }
  });
  if (!experiment) throw new Error(`${name}: found no line`);
  if (!ended) throw new Error(`${name}: it was cut off: there is no last line`);
  return experiment;
}

function take(experiment: Experiment, row: Row, kind: string): void {
  const figure = experiment.figures.find((one) => one.number === row.figure);
  const series = figure?.series.find((one) => one.name === row.series);
  switch (kind) {
    case "figure":
      experiment.figures.push({ number: number(row, "figure") ?? 0, title: text(row, "title"), x: axis(row.x), y: axis(row.y), categories: Array.isArray(row.categories) ? texts(row, "categories") : null, series: [] });
      break;
    case "series":
      figure?.series.push({ name: text(row, "series"), role: text(row, "role"), shape: text(row, "shape"), readings: new Map() });
      break;
    case "point":
      series?.readings.set(number(row, "x") ?? NaN, reading(row));
      break;
    case "bar":
      series?.readings.set(text(row, "category"), reading(row));
      break;
    case "verdict":
      experiment.verdicts.push({ result: text(row, "result"), value: number(row, "value"), unit: text(row, "unit"), bound: boundOf(row), holds: typeof row.holds === "boolean" ? row.holds : null });
      break;
  }
}

function boundOf(row: Row): string {
  const [most, least] = [number(row, "at_most"), number(row, "at_least")];
  return [most === null ? "" : `at most ${most}`, least === null ? "" : `at least ${least}`].filter(Boolean).join(", ");
}

/** Two values of one result: the second over the first; `null` where one is missing or the first is none. */
export function ratio(a: number | null | undefined, b: number | null | undefined): number | null {
  return typeof a === "number" && typeof b === "number" && a !== 0 && Number.isFinite(b / a) ? b / a : null;
}
