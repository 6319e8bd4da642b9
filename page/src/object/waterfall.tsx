/** What each step of a change took, one below the other, as the daemon measured them. */
import { Fragment } from "preact";
import { nanoseconds } from "../ui/format";
import type { Step } from "./change";

export function Waterfall({ steps, took }: { steps: Step[]; took: number }) {
  const total = steps.find((step) => step.name === "total")?.ms ?? steps.reduce((sum, step) => sum + step.ms, 0);
  const parts = steps.filter((step) => step.name !== "total");
  if (!parts.length) return <p class="dim">It took {nanoseconds(took * 1e6)} from here and back.</p>;
  const whole = Math.max(total, parts.reduce((sum, step) => sum + step.ms, 0), 1e-6);
  let begun = 0;
  return (
    <section class="stack" aria-label="How long it took">
      <h3>
        It took {nanoseconds(total * 1e6)} in the daemon, {nanoseconds(took * 1e6)} from here and back
      </h3>
      <div class="waterfall">
        {parts.map((step) => {
          const from = begun;
          begun += step.ms;
          return (
            <Fragment>
              <span>{step.name}</span>
              <span class="track" aria-hidden="true">
                <span
                  class="step"
                  ref={(bar) => {
                    bar?.style.setProperty("left", `${(Math.min(0.99, from / whole) * 100).toFixed(2)}%`);
                    bar?.style.setProperty("width", `${(Math.min(1, step.ms / whole) * 100).toFixed(2)}%`);
                  }}
                />
              </span>
              <span class="number">{nanoseconds(step.ms * 1e6)}</span>
            </Fragment>
          );
        })}
      </div>
    </section>
  );
}
