/** The last hour on a line: packets and losses of the host, events as marks, and a slider that moves the whole page back. */
import { useEffect, useRef } from "preact/hooks";
import { type Told, ageOf, at, away, events, kept, show, shown } from "../host/follow";
import { useCell } from "../ui/cell";
import { clock, duration } from "../ui/format";
import { theme } from "../ui/theme";
import { column, useHistory } from "./history";
import { entrance } from "../api/session";

const HOUR = 3600;

/** The object whose packets stand for all that the reader sees. */
function wholeOf(): string {
  const door = entrance.get();
  return door.state === "in" && door.session.rights === "tenant" ? `tenant/${door.session.tenant}` : "host/host";
}

export function TimeBar() {
  const door = useCell(entrance);
  const of = useRef("host/host");
  // Under the login it stays as it was.
  if (door.state === "in") of.current = wholeOf();
  return <Bar of={of.current} />;
}

function Bar({ of }: { of: string }) {
  const steps = useCell(kept);
  const place = useCell(at);
  const frame = useCell(shown);
  const happened = useCell(events);
  const dark = useCell(theme);
  const old = useCell(away) !== null;
  // The graph stands first.
  const { history } = useHistory(of, HOUR, frame !== null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const waiting = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const last = steps?.last ?? 0;
  const first = Math.max(steps?.first ?? 0, last - HOUR);
  const start = steps?.startMs ?? 0;

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    const box = canvas.current?.getBoundingClientRect();
    if (!context || !box || !canvas.current || !steps) return;
    canvas.current.width = Math.round(box.width * devicePixelRatio);
    canvas.current.height = Math.round(box.height * devicePixelRatio);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const x = (seconds: number): number => ((seconds - start / 1000 - first) / Math.max(1, last - first)) * box.width;
    const ground = box.height - 9;
    context.fillStyle = colour("--line");
    context.fillRect(0, ground, box.width, 1);
    if (history) {
      const perSecond = (value: number, seconds: number): number => value / seconds;
      const packets = column(history, of === "host/host" ? "received" : "packets", perSecond);
      const drops = column(history, "drops", perSecond);
      const most = packets.values.reduce<number>((most, value) => Math.max(most, value ?? 0), 1);
      area(context, packets, most, x, ground, colour("--accent"));
      // A few losses among millions have to be seen, too.
      const least = (most * 2) / Math.max(1, ground);
      const lost = { x: drops.x, values: drops.values.map((value) => (value ? Math.max(value, least) : value)) };
      if (drops.values.some((value) => value)) area(context, lost, most, x, ground, colour("--bad"));
    }
    // What failed is seen where much else happened.
    const isBad = (event: Told): boolean => event.what === "fault" || event.what === "down";
    for (const bad of [false, true]) {
      context.fillStyle = bad ? colour("--bad") : colour("--dim");
      for (const event of happened) {
        if (isBad(event) !== bad) continue;
        // Where a clock was set, the event stands where it was all the same.
        const place = x(start / 1000 + last - ageOf(event) / 1000);
        if (place < -4 || place > box.width + 4) continue;
        context.beginPath();
        context.arc(Math.max(4, Math.min(box.width - 4, place)), box.height - 4, bad ? 3.5 : 2.5, 0, 7);
        context.fill();
      }
    }
  }, [history, steps, happened, dark]);

  const move = (step: number): void => {
    at.set(step >= last ? null : step);
    clearTimeout(waiting.current);
    waiting.current = setTimeout(() => show(step >= last ? null : step), 60);
  };
  const present = (): void => {
    // A step that still waits would take the page back.
    clearTimeout(waiting.current);
    show(null);
  };
  const near = place === null || !steps ? [] : happened.filter((event) => Math.abs((last - place) * 1000 - ageOf(event)) < 15_000).slice(-3);
  return (
    <footer class={`time ${place === null ? "" : "past"}`} aria-label="Time">
      <span class="when">{place === null ? (frame ? `${old ? "Last" : "Now"}, ${clock(frame.time)}` : "–") : `${clock(start + place * 1000)}, ${duration((last - place) * 1000)} ago`}</span>
      <div class="track">
        <canvas ref={canvas} aria-hidden="true" />
        <input
          type="range"
          aria-label="Time that the page shows"
          aria-valuetext={place === null ? "now" : `${clock(start + place * 1000)}, ${duration((last - place) * 1000)} ago`}
          min={first}
          max={last}
          step={1}
          value={place ?? last}
          disabled={!steps || last === first}
          onInput={(event) => move(Number(event.currentTarget.value))}
        />
      </div>
      <button type="button" disabled={place === null} onClick={present}>
        Now
      </button>
      {near.length > 0 && (
        <span class="dim near">
          {near.map((event) => `${clock(event.time)} ${event.kind}/${event.name} ${event.what}`).join(" · ")}
        </span>
      )}
    </footer>
  );
}

function area(context: CanvasRenderingContext2D, of: { x: number[]; values: (number | null)[] }, most: number, x: (seconds: number) => number, ground: number, colour: string): void {
  context.beginPath();
  let begun = false;
  let lastX = 0;
  of.x.forEach((time, at) => {
    const value = of.values[at] ?? 0;
    const [px, py] = [x(time), ground - (value / most) * (ground - 3)];
    if (!begun) {
      context.moveTo(px, ground);
      begun = true;
    }
    context.lineTo(px, py);
    lastX = px;
  });
  context.lineTo(lastX, ground);
  context.closePath();
  context.globalAlpha = 0.28;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
}
