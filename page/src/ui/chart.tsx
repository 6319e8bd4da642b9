/** A chart of numbers over something, with a legend of its own and its numbers as a table for those who do not see it. */
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { useCell } from "./cell";
import { theme } from "./theme";

export interface Line {
  name: string;
  /** A colour variable of the page: `--accent`. */
  colour: string;
  values: (number | null)[];
  dash?: boolean;
  bars?: boolean;
  fill?: boolean;
}

export interface ChartProps {
  /** What is shown, for screen readers. */
  label: string;
  /** Of times: in seconds since the Unix epoch. */
  x: number[];
  lines: Line[];
  time?: boolean;
  log?: boolean;
  logX?: boolean;
  height?: number;
  /** How a value is written. */
  value: (value: number | null | undefined) => string;
  xValue?: (value: number) => string;
  /** Names under the x axis, where it is no scale: one for each value. */
  names?: string[];
  /** A place that is marked. */
  mark?: number | null;
}

const variable = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart(props: ChartProps) {
  const { label, x, lines, height = 160 } = props;
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const colours = useCell(theme);
  const last = useRef(props);
  last.current = props;
  const shape = `${colours} ${height} ${props.log} ${props.logX} ${props.names?.join("\n")} ${lines.map((line) => `${line.name}${line.colour}${line.dash}${line.bars}`).join()}`;
  useEffect(() => {
    let left = false;
    let stop = (): void => undefined;
    void import("uplot").then(({ default: Plot }) => {
      const box = element.current;
      if (left || !box) return;
      const made = new Plot(options(Plot, last.current, () => last.current.mark, box.clientWidth || 300), data(last.current), box);
      plot.current = made;
      const observer = new ResizeObserver(() => made.setSize({ width: Math.max(120, box.clientWidth), height }));
      observer.observe(box);
      stop = () => {
        observer.disconnect();
        made.destroy();
        plot.current = null;
      };
    });
    return () => {
      left = true;
      stop();
    };
  }, [shape]);
  useEffect(() => {
    plot.current?.setData(data(props));
  }, [x, lines]);
  useEffect(() => plot.current?.redraw(false), [props.mark]);
  return (
    <figure class="chart stack" role="img" aria-label={`${label}. ${summary(props)}`}>
      <div class="legend" aria-hidden="true">
        {lines.map((line) => (
          <span>
            <i class={line.dash ? "dash" : undefined} ref={(swatch) => swatch?.style.setProperty("border-color", `var(${line.colour})`)} />
            {line.name} {!line.bars && <b>{props.value(latest(line.values))}</b>}
          </span>
        ))}
      </div>
      <div class="plot" ref={element} aria-hidden="true" />
    </figure>
  );
}

function latest(values: (number | null)[]): number | null {
  for (let at = values.length - 1; at >= 0; at -= 1) if (values[at] !== null && values[at] !== undefined) return values[at]!;
  return null;
}

function summary(props: ChartProps): string {
  return props.lines
    .map((line) => {
      const values = line.values.filter((value): value is number => value !== null && Number.isFinite(value));
      if (!values.length) return `${line.name}: nothing`;
      let [least, most] = [Infinity, -Infinity];
      for (const value of values) {
        if (value < least) least = value;
        if (value > most) most = value;
      }
      return `${line.name}: ${props.value(least)} to ${props.value(most)}, last ${props.value(values.at(-1))}`;
    })
    .join("; ");
}

function data(props: ChartProps): uPlot.AlignedData {
  // On a scale of logarithms there is no zero.
  const values = (line: Line): (number | null)[] => (props.log ? line.values.map((value) => (value !== null && value > 0 ? value : null)) : line.values);
  return [props.x, ...props.lines.map(values)] as uPlot.AlignedData;
}

function options(Plot: typeof uPlot, props: ChartProps, marked: () => ChartProps["mark"], width: number): uPlot.Options {
  const [dim, grid] = [variable("--dim"), variable("--line")];
  const axis = { stroke: dim, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui, sans-serif" };
  const { names, xValue } = props;
  return {
    width,
    height: props.height ?? 160,
    // A scale of logarithms ends with a number, which is half beside it.
    padding: [8, props.logX ? 24 : 10, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: {
      x: { time: props.time ?? false, ...(props.logX ? { distr: 3 as const } : {}), ...(names ? { range: () => [-0.6, names.length - 0.4] as [number, number] } : {}) },
      y: props.log ? { distr: 3 } : { range: (_plot, _least, most) => [0, most > 0 ? most * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        ...(names ? { splits: () => names.map((_, at) => at), values: (plot: uPlot) => names.map((name, at) => (at % Math.ceil((names.length * 76) / plot.width) === 0 ? name : "")), grid: { show: false } } : {}),
        ...(xValue && !names ? { values: (_plot, splits) => splits.map((split) => (split === null ? "" : xValue(split))) } : {}),
      },
      { ...axis, size: 74, values: (_plot, splits) => splits.map((split) => (split === null ? "" : props.value(split))) },
    ],
    series: [
      {},
      ...props.lines.map((line) => {
        const colour = variable(line.colour);
        return {
          label: line.name,
          stroke: colour,
          width: 1.75,
          dash: line.dash ? [6, 4] : undefined,
          fill: line.fill || line.bars ? `color-mix(in srgb, ${colour} 30%, transparent)` : undefined,
          paths: line.bars ? Plot.paths.bars!({ size: [0.8, 60] }) : undefined,
          points: { show: line.bars ? false : props.x.length < 40, size: 5 },
          spanGaps: false,
        };
      }),
    ],
    hooks: {
      draw: [
        (plot) => {
          const mark = marked();
          if (mark === null || mark === undefined) return;
          const at = plot.valToPos(mark, "x", true);
          plot.ctx.fillStyle = variable("--warn");
          plot.ctx.fillRect(at - 1, plot.bbox.top, 2, plot.bbox.height);
        },
      ],
    },
  };
}
