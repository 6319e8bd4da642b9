/** The spec of an object: typed, checked while it is typed, compared, and applied to the version that was read. */
import { useEffect, useState } from "preact/hooks";
import { Refused, askJson, objectPath } from "../api/http";
import type { AnyObject } from "../api/types";
import { useCell } from "../ui/cell";
import { draft, keep } from "../ui/draft";
import { duration } from "../ui/format";
import { Dialog, Trouble } from "../ui/parts";
import { go } from "../ui/route";
import { changed } from "../host/follow";
import { type Outcome, type Progress, change } from "./change";
import { useCheck } from "./check";
import { pretty } from "./diff";
import { Diff } from "./diff_view";
import { Editor } from "./editor";
import { parse } from "./json_text";
import { Waterfall } from "./waterfall";

interface Props {
  kind: string;
  /** None of an object that is new. */
  object: AnyObject | null;
  name: string;
  first?: string;
  readOnly: boolean;
  applied: (object: AnyObject) => void;
}

export function Spec({ kind, object, name, first, readOnly, applied }: Props) {
  const key = `spec:${kind}/${object ? name : "+"}`;
  // The draft stands on the version that it was begun with.
  const [base, setBase] = useState<{ version: number; text: string }>(() => {
    const kept = draft(`${key}:base`);
    if (kept && draft(key) !== null) return JSON.parse(kept) as { version: number; text: string };
    return { version: object?.version ?? 0, text: object ? pretty(object.spec) : (first ?? "{}") };
  });
  const [text, setText] = useState(() => draft(key) ?? base.text);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [progress, setProgress] = useState<Progress | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [conflict, setConflict] = useState<AnyObject | null>(null);
  const edited = text !== base.text;
  const checked = useCheck(kind, name, text, !readOnly && (edited || !object));
  const touched = useCell(changed);

  const type = (next: string): void => {
    setText(next);
    setOutcome(null);
    if (next === base.text) {
      keep(key, null);
      keep(`${key}:base`, null);
    } else {
      keep(key, next);
      keep(`${key}:base`, JSON.stringify(base));
    }
  };
  const stand = (on: AnyObject, draftText: string | null): void => {
    const fresh = { version: on.version, text: pretty(on.spec) };
    setBase(fresh);
    setText(draftText ?? fresh.text);
    keep(key, draftText);
    keep(`${key}:base`, draftText === null ? null : JSON.stringify(fresh));
  };
  // Without a draft, what another editor did is shown at once.
  useEffect(() => {
    if (object && object.version !== base.version && !edited) stand(object, null);
  }, [object?.version]);

  const apply = async (version: number, restart: boolean): Promise<void> => {
    const parsed = parse(text);
    if ("broken" in parsed || busy) return;
    setBusy(true);
    setError(null);
    const headers: Record<string, string> = version > 0 ? { "if-match": `"${version}"` } : { "if-none-match": "*" };
    try {
      const done = await change(`${objectPath(kind, name)}${restart ? "?allow_restart=true" : ""}`, { method: "PUT", body: { spec: parsed.value }, headers }, setProgress);
      const now = done.object ?? (await askJson<AnyObject>(objectPath(kind, name)));
      setOutcome(done);
      setConflict(null);
      stand(now, null);
      applied(now);
      if (!object) {
        keep(key, null);
        keep(`${key}:base`, null);
        go("objects", kind, name);
      }
    } catch (failed) {
      if (failed instanceof Refused && failed.status === 412 && object) {
        try {
          setConflict(await askJson<AnyObject>(objectPath(kind, name)));
        } catch {
          setError(failed);
        }
      } else setError(failed);
    } finally {
      setBusy(false);
      setProgress(null);
    }
  };
  const loses = error instanceof Refused && /allow_restart/.test(JSON.stringify(error.problem));
  const begins = checked.report?.difference?.restarted ?? [];
  const other = object && object.version !== base.version && touched !== undefined;
  return (
    <section class="card stack" aria-label="Spec">
      <div class="row spread">
        <h2>Spec</h2>
        <span class="dim" role="status">
          {readOnly ? "for reading" : !edited && object ? `version ${base.version}` : checked.state === "checking" ? "being checked" : checked.faults.length ? `${checked.faults.length} wrong` : "can be applied"}
        </span>
      </div>
      {other && edited && <p class="warn">It was changed meanwhile, to version {object.version}: yours stands on version {base.version}. Applying shows both.</p>}
      <Editor kind={kind} name={name} label={`Spec of ${kind} ${name}`} text={text} change={type} faults={checked.faults} warnings={checked.warnings} readOnly={readOnly} />
      {!readOnly && edited && object && (
        <>
          <h3>What would be different</h3>
          <Diff before={base.text} after={text} label="Difference" />
          {begins.length > 0 && <p class="warn">Begins anew and loses what it knows: {begins.join(", ")}.</p>}
        </>
      )}
      {!readOnly && (
        <div class="row">
          <button type="button" class="first" disabled={busy || (!edited && !!object) || checked.faults.length > 0 || !name} onClick={() => void apply(base.version, false)}>
            {object ? "Apply" : "Create"}
          </button>
          {edited && object && (
            <button type="button" onClick={() => type(base.text)}>
              Discard
            </button>
          )}
          {progress && (
            <span class="dim" role="status">
              {progress.state}: {progress.what}, {duration(Date.now() - progress.since)}
            </span>
          )}
          <span class="dim">Ctrl+Space suggests what may stand there.</span>
        </div>
      )}
      <Trouble error={error} />
      {loses && (
        <div class="row">
          <button type="button" class="danger" disabled={busy} onClick={() => void apply(base.version, true)}>
            Apply, and lose what it knows
          </button>
        </div>
      )}
      {outcome && <Waterfall steps={outcome.steps} took={outcome.took} />}
      {conflict && (
        <Dialog title={`${kind} ${name} was changed meanwhile`} close={() => setConflict(null)} wide>
          <p>
            You began with version {base.version}; it is at version {conflict.version} now.
          </p>
          <div class="cards">
            <section class="stack">
              <h3>What the other changed (version {base.version} to {conflict.version})</h3>
              <Diff before={base.text} after={pretty(conflict.spec)} label="What the other changed" />
            </section>
            <section class="stack">
              <h3>What yours would change of theirs</h3>
              <Diff before={pretty(conflict.spec)} after={text} label="What yours would change" />
            </section>
          </div>
          <div class="row">
            <button
              type="button"
              onClick={() => {
                stand(conflict, text);
                setConflict(null);
              }}
            >
              Go on editing, on theirs
            </button>
            <button
              type="button"
              onClick={() => {
                stand(conflict, null);
                setConflict(null);
              }}
            >
              Take theirs
            </button>
            <button type="button" class="danger" disabled={busy} onClick={() => void apply(conflict.version, false)}>
              Replace theirs with yours
            </button>
          </div>
          <Trouble error={error} />
        </Dialog>
      )}
    </section>
  );
}
