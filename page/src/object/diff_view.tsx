/** What differs between two texts. */
import { diffLines, hunks } from "./diff";

export function Diff({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = diffLines(before, after);
  if (lines.every((line) => line.kind === "same")) return <p class="dim">Nothing differs.</p>;
  return (
    <div class="diff" role="region" aria-label={label} tabIndex={0}>
      {hunks(lines).map((line) =>
        line === null ? (
          <div class="gap">⋯</div>
        ) : (
          <div class={line.kind}>
            {line.kind === "added" ? "+ " : line.kind === "removed" ? "− " : "  "}
            {line.text}
          </div>
        ),
      )}
    </div>
  );
}
