/** Reports of `superfluid bench hypernf`: opened from files, and two runs side by side. */
import { useState } from "preact/hooks";
import { useCell, cell } from "../ui/cell";
import { Chart, type Line } from "../ui/chart";
import { printable, scaled } from "../ui/format";
import { type Experiment, type Figure, type Reading, type Series, ratio, readExperiment } from "./read";

/** A file of a report is not longer. */
const LONGEST = 64 * 1024 * 1024;

interface Run {
  name: string;
  experiments: Experiment[];
  troubles: string[];
}

/** The two runs that are open; they outlive a change of the view. */
const runs = [cell<Run | null>(null), cell<Run | null>(null)] as const;

const COLOURS: Record<string, string> = { hyper: "--accent", split: "--bad", merge: "--warn", mix: "--good", offered: "--idle" };
const OTHERS = ["--accent", "--good", "--warn", "--bad", "--idle"];

async function open(files: File[]): Promise<Run> {
  const run: Run = { name: "", experiments: [], troubles: [] };
  const data = files.filter((file) => file.name.endsWith(".jsonl"));
  const folder = data[0]?.webkitRelativePath.split("/")[0];
  run.name = folder || (data.length === 1 ? data[0]!.name : `${data.length} files`);
  if (!data.length) run.troubles.push("Found no file that ends with .jsonl; allowed: the files in `data` of a report, or the report's folder.");
  for (const file of data) {
    try {
      if (file.size > LONGEST) throw new Error(`${file.name}: found ${file.size} bytes; allowed: at most ${LONGEST}`);
      run.experiments.push(readExperiment(file.name, await file.text()));
    } catch (error) {
      run.troubles.push(error instanceof Error ? error.message : String(error));
    }
  }
  run.experiments.sort((a, b) => (a.id < b.id ? -1 : 1));
  return run;
}

function Opener({ of, label }: { of: 0 | 1; label: string }) {
  const run = useCell(runs[of]);
  const take = (files: FileList | null): void => {
    if (files?.length) void open([...files]).then((run) => runs[of].set(run));
  };
  return (
    <section
      class="card stack"
      aria-label={label}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        take(event.dataTransfer?.files ?? null);
      }}
    >
      <h2>
        {label} {run && <span class="dim">{printable(run.name)}, {run.experiments.length} experiments</span>}
      </h2>
      <div class="fields">
        <label>
          The report's folder
          <input type="file" ref={(input) => input?.setAttribute("webkitdirectory", "")} onChange={(event) => take(event.currentTarget.files)} />
        </label>
        <label>
          or files of its data folder
          <input type="file" multiple accept=".jsonl" onChange={(event) => take(event.currentTarget.files)} />
        </label>
      </div>
      {run?.troubles.map((trouble) => <p class="bad">{printable(trouble)}</p>)}
    </section>
  );
}

export function Reports() {
  const [a, b] = [useCell(runs[0]), useCell(runs[1])];
  const ids = [...new Set([...(a?.experiments ?? []), ...(b?.experiments ?? [])].map((experiment) => experiment.id))].sort();
  const [chosen, setChosen] = useState<string | null>(null);
  const id = chosen !== null && ids.includes(chosen) ? chosen : (ids[0] ?? null);
  const of = (run: Run | null): Experiment | undefined => run?.experiments.find((experiment) => experiment.id === id);
  return (
    <div class="view">
      <h1>Reports</h1>
      <p class="dim">
        <code>superfluid bench hypernf --report DIR</code> writes a report; its numbers are read here, in this tab, and go nowhere. Figures of one run were measured in turns; those of two runs, let alone of two machines, say less.
      </p>
      <div class="cards">
        <Opener of={0} label="Run A" />
        <Opener of={1} label="Run B" />
      </div>
      {ids.length > 0 && <Verdicts a={a} b={b} choose={setChosen} />}
      {ids.length > 0 && (
        <label>
          Experiment
          <select value={id ?? ""} onChange={(event) => setChosen(event.currentTarget.value)}>
            {ids.map((one) => (
              <option value={one}>{[a, b].map((run) => run?.experiments.find((experiment) => experiment.id === one)?.title).find(Boolean) ?? one}</option>
            ))}
          </select>
        </label>
      )}
      {id !== null && <Compared a={of(a)} b={of(b)} />}
    </div>
  );
}

const written = (value: number | null | undefined, unit: string): string => (value === null || value === undefined ? "–" : `${Math.abs(value) >= 1000 ? scaled(value) : Number(value.toPrecision(4))} ${unit}`.trim());

function Verdicts({ a, b, choose }: { a: Run | null; b: Run | null; choose: (id: string) => void }) {
  const rows = new Map<string, { id: string; a?: Experiment["verdicts"][0]; b?: Experiment["verdicts"][0] }>();
  for (const [run, key] of [
    [a, "a"],
    [b, "b"],
  ] as const) {
    for (const experiment of run?.experiments ?? []) {
      for (const verdict of experiment.verdicts) rows.set(verdict.result, { ...rows.get(verdict.result), id: experiment.id, [key]: verdict });
    }
  }
  const cellOf = (verdict: Experiment["verdicts"][0] | undefined) => (
    <td class={`number ${verdict?.holds === false ? "bad" : ""}`}>
      {verdict ? written(verdict.value, verdict.unit) : ""}
      {verdict?.holds === false ? " ✗" : verdict?.holds ? " ✓" : ""}
    </td>
  );
  return (
    <section class="card scroll" tabIndex={0} role="region" aria-label="Results">
      <table>
        <caption>Results, and whether each keeps its bound</caption>
        <thead>
          <tr>
            <th>Result</th>
            <th>Bound</th>
            <th class="number">Run A</th>
            {b && <th class="number">Run B</th>}
            {b && <th class="number">B over A</th>}
          </tr>
        </thead>
        <tbody>
          {[...rows].sort((x, y) => (x[0] < y[0] ? -1 : 1)).map(([result, row]) => {
            const over = ratio(row.a?.value, row.b?.value);
            return (
              <tr>
                <td>
                  <button type="button" class="plain" onClick={() => choose(row.id)}>
                    {printable(result)}
                  </button>
                </td>
                <td class="dim">{(row.a ?? row.b)?.bound}</td>
                {cellOf(row.a)}
                {b && cellOf(row.b)}
                {b && <td class="number">{over === null ? "–" : over.toFixed(3)}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function Compared({ a, b }: { a: Experiment | undefined; b: Experiment | undefined }) {
  const experiment = a ?? b;
  if (!experiment) return null;
  const numbers = [...new Set([...(a?.figures ?? []), ...(b?.figures ?? [])].map((figure) => figure.number))];
  return (
    <section class="stack" aria-label={experiment.title}>
      <h2>{printable(experiment.title)}</h2>
      <p>{printable(experiment.question)}</p>
      {experiment.setup.map((line) => (
        <p class="dim">{printable(line)}</p>
      ))}
      <div class="cards">
        {numbers.map((number) => (
          <Plots a={a?.figures.find((figure) => figure.number === number)} b={b?.figures.find((figure) => figure.number === number)} />
        ))}
      </div>
    </section>
  );
}

function Plots({ a, b }: { a: Figure | undefined; b: Figure | undefined }) {
  const figure = (a ?? b)!;
  const bars = figure.categories;
  const keys = bars ?? [...new Set([a, b].flatMap((one) => one?.series.flatMap((series) => [...series.readings.keys()]) ?? []).filter((key): key is number => typeof key === "number"))].sort((x, y) => x - y);
  const lines: Line[] = [];
  const rows: { name: string; readings: (Reading | undefined)[] }[] = [];
  const add = (from: Figure | undefined, suffix: string, dash: boolean): void => {
    from?.series.forEach((series: Series, at) => {
      const readings = keys.map((key) => series.readings.get(key));
      const name = `${series.name}${suffix}`;
      lines.push({ name, colour: COLOURS[series.role.replace(/^second-/, "")] ?? OTHERS[at % OTHERS.length]!, values: readings.map((reading) => reading?.y ?? null), dash, bars: bars !== null && lines.length === 0 && !b });
      rows.push({ name, readings });
    });
  };
  add(a, b ? " A" : "", false);
  add(b, a ? " B" : "", true);
  const unit = figure.y.unit;
  const x = bars ? keys.map((_, at) => at) : (keys as number[]);
  return (
    <figure class="card stack">
      <figcaption>
        <h3>{printable(figure.title)}</h3>
        <span class="dim">
          {printable(figure.y.label)} ({printable(unit)}) by {printable(figure.x.label)} {figure.x.unit && `(${printable(figure.x.unit)})`}
        </span>
      </figcaption>
      <Chart
        label={figure.title}
        x={x}
        lines={lines}
        names={bars ? (keys as string[]) : undefined}
        logX={figure.x.scale === "log" && !bars}
        log={figure.y.scale === "log"}
        value={(value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(4))))}
        xValue={(value) => String(Number(value.toPrecision(4)))}
        height={240}
      />
      <details>
        <summary>Data</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label="Data">
          <table>
            <thead>
              <tr>
                <th>{printable(figure.x.label)}</th>
                {rows.map((row) => (
                  <th class="number">{printable(row.name)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {keys.map((key, at) => (
                <tr>
                  <td>{printable(String(key))}</td>
                  {rows.map(({ readings }) => {
                    const reading = readings[at];
                    return (
                      <td class="number">
                        {reading?.y === null && reading.missing ? printable(reading.missing) : written(reading?.y, "")}
                        {reading && reading.low !== null && reading.high !== null && reading.low !== reading.high ? <span class="dim"> {written(reading.low, "")} to {written(reading.high, "")}</span> : null}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}
