// A report's data file, as `superfluid bench hypernf --report` writes it, with its values times a factor.

export function report(times) {
  const point = (series, x, y, low, high) => ({ kind: "point", experiment: "fig-6b", figure: 1, series, x, x_unit: "B", y: y * times, low: low * times, high: high * times, y_unit: "Mp/s", missing: null });
  const series = (name) => ({ kind: "series", experiment: "fig-6b", figure: 1, series: name, role: name, shape: "line" });
  const bars = (name, values) => [
    { kind: "series", experiment: "fig-6b", figure: 2, series: name, role: name, shape: "bars" },
    ...Object.entries(values).map(([category, y]) => ({ kind: "bar", experiment: "fig-6b", figure: 2, series: name, category, y: y * times, low: null, high: null, y_unit: "Mp/s", missing: null })),
  ];
  const axis = (label, unit, scale) => ({ label, unit, scale, ticks: [] });
  const lines = [
    { kind: "experiment", superfluid_experiment: 1, experiment: "fig-6b", title: "Fig. 6b: a bridge", question: "Which model forwards most?", setup: ["One core for the function and its I/O."], notes: [] },
    { kind: "figure", experiment: "fig-6b", figure: 1, title: "Throughput of a bridge", x: axis("packet size", "B", "log"), y: axis("throughput", "Mp/s", "linear"), categories: null },
    series("hyper"),
    point("hyper", 64, 4.1, 4, 4.3),
    point("hyper", 512, 3.2, 3.1, 3.3),
    point("hyper", 1500, 2.1, 2, 2.2),
    series("split"),
    point("split", 64, 2.1, 2.1, 2.1),
    point("split", 512, 1.9, 1.9, 1.9),
    point("split", 1500, 1.4, 1.4, 1.4),
    { kind: "figure", experiment: "fig-6b", figure: 2, title: "Models", x: axis("rules", "", "names"), y: axis("throughput", "Mp/s", "linear"), categories: ["10 rules", "50 rules"] },
    ...bars("hyper", { "10 rules": 3.3, "50 rules": 1.4 }),
    ...bars("merge", { "10 rules": 2.1, "50 rules": 1.1 }),
    { kind: "verdict", experiment: "fig-6b", result: "models/worst-ratio", value: 1.2 * times, low: null, high: null, unit: "ratio", missing: null, at_most: null, at_least: 1, holds: true, note: "" },
  ];
  return [...lines, { kind: "end", experiment: "fig-6b", lines: lines.length }].map((line) => JSON.stringify(line)).join("\n");
}
