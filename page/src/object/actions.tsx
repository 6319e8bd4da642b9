/** What can be done with a function that runs: each with its steps, and asked before where something is lost. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, askJson, objectPath } from "../api/http";
import type { AnyObject, FunctionStatus, Image, Snapshot } from "../api/types";
import { bytes, count, digest, duration, moment } from "../ui/format";
import { Confirm, Dialog, Trouble } from "../ui/parts";
import { go } from "../ui/route";
import { type Outcome, type Progress, change } from "./change";
import { Waterfall } from "./waterfall";

type Asking = "restart" | "delete" | "snapshot" | "upgrade" | { restore: Snapshot } | { drop: Snapshot } | null;

export function Actions({ object, refresh }: { object: AnyObject; refresh: () => void }) {
  const [asking, setAsking] = useState<Asking>(null);
  const [outcome, setOutcome] = useState<{ what: string; outcome: Outcome } | null>(null);
  const [progress, setProgress] = useState<Progress | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [snapshots, setSnapshots] = useState<Snapshot[]>([]);
  const { name, kind } = object;
  const isFunction = kind === "function";
  // A container, or a program of the host.
  const isContainer = ["container", "program", "vm"].includes((object.spec as { guest?: string } | null)?.guest ?? "");
  const status = object.status as Partial<FunctionStatus> | undefined;
  const path = objectPath(kind, name);
  const loadSnapshots = (): void => {
    if (!isFunction) return;
    void askJson<{ items: Snapshot[] }>("/v1/snapshots").then(
      (all) => setSnapshots(all.items.filter((snapshot) => snapshot.function === name)),
      () => undefined,
    );
  };
  useEffect(loadSnapshots, [name]);

  const run = async (what: string, ask: () => Promise<Outcome>): Promise<void> => {
    setError(null);
    setOutcome(null);
    try {
      setOutcome({ what, outcome: await ask() });
      refresh();
      loadSnapshots();
    } finally {
      setProgress(null);
    }
  };
  const post = (what: string, part: string, body?: unknown) => run(what, () => change(`${path}/${part}`, { method: "POST", body }, setProgress));
  const quickly = (what: string, part: string): void => {
    post(what, part).catch((failed: unknown) => setError(failed));
  };
  const remove = async (): Promise<void> => {
    await ask(path, { method: "DELETE", headers: { "if-match": `"${object.version}"` } });
    go("objects", kind);
  };
  const knows = `what it knows: connections, counters of its own, ${count(status?.queue ?? 0)} packets in its queue`;
  return (
    <section class="card stack" aria-label="Actions">
      <h2>Actions</h2>
      <div class="row">
        {isFunction && !isContainer && status?.state !== "paused" && status?.state !== "frozen" && (
          <button type="button" onClick={() => quickly("Paused", "pause")}>
            Pause
          </button>
        )}
        {isFunction && (status?.state === "paused" || status?.state === "frozen") && (
          <button type="button" class="first" onClick={() => quickly("Resumed", "resume")}>
            Resume
          </button>
        )}
        {isFunction && !isContainer && (
          <button type="button" onClick={() => setAsking("snapshot")}>
            Snapshot…
          </button>
        )}
        {isFunction && !isContainer && (
          <button type="button" onClick={() => setAsking("upgrade")}>
            Upgrade…
          </button>
        )}
        {isFunction && (
          <button type="button" class="danger" onClick={() => setAsking("restart")}>
            Restart…
          </button>
        )}
        <button type="button" class="danger" onClick={() => setAsking("delete")}>
          Delete…
        </button>
      </div>
      {progress && (
        <p class="dim" role="status">
          {progress.state}: {progress.what}, {duration(Date.now() - progress.since)}
        </p>
      )}
      <Trouble error={error} />
      {outcome && (
        <div role="status" class="stack">
          <p class="good">{outcome.what}.</p>
          <Waterfall steps={outcome.outcome.steps} took={outcome.outcome.took} />
        </div>
      )}
      {isFunction && snapshots.length > 0 && (
        <>
          <h3>Snapshots</h3>
          <div class="scroll" tabIndex={0} role="region" aria-label="Snapshots">
            <table>
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Saved</th>
                  <th class="number">Size</th>
                  <th>Image</th>
                  <th>
                    <span class="hidden-text">What can be done</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {snapshots.map((snapshot) => (
                  <tr>
                    <td>
                      {snapshot.name} {snapshot.imported && <span class="tag warn">imported</span>}
                    </td>
                    <td>{moment(Date.parse(snapshot.saved))}</td>
                    <td class="number">{bytes(snapshot.bytes)}</td>
                    <td>
                      <code>{digest(snapshot.image)}</code>
                    </td>
                    <td class="row">
                      <button type="button" onClick={() => setAsking({ restore: snapshot })}>
                        Restore…
                      </button>
                      <button type="button" class="danger" onClick={() => setAsking({ drop: snapshot })}>
                        Delete…
                      </button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {asking === "restart" && (
        <Confirm
          title={`Restart ${name}?`}
          loses={<p>It begins anew from its image and spec, and loses {knows}. Packets that come meanwhile wait in its queue as far as there is room.</p>}
          button="Restart"
          act={() => post("Restarted", "restart")}
          close={() => setAsking(null)}
        />
      )}
      {asking === "delete" && (
        <Confirm
          title={`Delete ${kind} ${name}?`}
          loses={
            <p>
              {isFunction
                ? `It ends, and with it ${knows}. Its events and log go with it; its snapshots stay. Chains and wires that name it are in the way and are told.`
                : kind === "tenant"
                  ? "Its snapshots stay, and are those of the next tenant of this name."
                  : "What is joined by it is joined no more; what still names it is in the way and is told."}{" "}
              Its spec is shown on this page until then.
            </p>
          }
          button="Delete"
          act={remove}
          close={() => setAsking(null)}
        />
      )}
      {asking === "snapshot" && <Ask title={`Save ${name} with what it knows`} label="Name of the snapshot" first={`${name}-${new Date().toISOString().slice(0, 16).replace(/[:T]/g, "-")}`} button="Save" act={(text) => post("Saved", "snapshots", { name: text })} close={() => setAsking(null)} />}
      {asking === "upgrade" && <Upgrade name={name} now={(object.spec as { image?: string })?.image ?? ""} act={(image) => post("Upgraded", "upgrade", { image })} progress={progress} close={() => setAsking(null)} />}
      {asking !== null && typeof asking === "object" && "restore" in asking && (
        <Ask
          title={`Restore ${asking.restore.name}`}
          label="Function that it becomes"
          first={name}
          button="Restore"
          danger={(text) => text === name}
          about={(text) => (text === name ? <p class="warn">{name} is replaced, and loses {knows}: it goes on as it was at {moment(Date.parse(asking.restore.saved))}.</p> : <p>A function of this name is replaced; if there is none, it is made.</p>)}
          act={(text) => run("Restored", () => change(`/v1/snapshots/${encodeURIComponent(asking.restore.name)}/restore`, { method: "POST", body: { function: text } }, setProgress))}
          close={() => setAsking(null)}
        />
      )}
      {asking !== null && typeof asking === "object" && "drop" in asking && (
        <Confirm
          title={`Delete the snapshot ${asking.drop.name}?`}
          loses={<p>What {name} knew at {moment(Date.parse(asking.drop.saved))} is lost, {bytes(asking.drop.bytes)}. The function itself goes on.</p>}
          button="Delete"
          act={async () => {
            await ask(`/v1/snapshots/${encodeURIComponent(asking.drop.name)}`, { method: "DELETE" });
            loadSnapshots();
          }}
          close={() => setAsking(null)}
        />
      )}
    </section>
  );
}

interface AskProps {
  title: string;
  label: string;
  first: string;
  button: string;
  about?: (text: string) => ComponentChildren;
  danger?: (text: string) => boolean;
  act: (text: string) => Promise<void>;
  close: () => void;
}

function Ask({ title, label, first, button, about, danger, act, close }: AskProps) {
  const [text, setText] = useState(first);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await act(text.trim());
      close();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} close={close}>
      <form class="stack" onSubmit={(event) => void run(event)}>
        <label>
          {label}
          <input value={text} spellcheck={false} autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        {about?.(text.trim())}
        <Trouble error={error} />
        <div class="row">
          <button type="submit" class={danger?.(text.trim()) ? "danger" : "first"} disabled={busy || !text.trim()}>
            {button}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Upgrade({ name, now, act, progress, close }: { name: string; now: string; act: (image: string) => Promise<void>; progress: Progress | null; close: () => void }) {
  const [image, setImage] = useState(now.replace(/@sha256:[0-9a-f]+$/, ""));
  const [images, setImages] = useState<Image[]>([]);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    void askJson<{ items: Image[] }>("/v1/images").then(
      (all) => setImages(all.items),
      () => undefined,
    );
  }, []);
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await act(image.trim());
      close();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  const known = images.find((one) => one.reference === image.trim());
  return (
    <Dialog title={`Upgrade ${name}`} close={close}>
      <form class="stack" onSubmit={(event) => void run(event)}>
        <p>
          Another image takes over between two batches, with what {name} knows: its packets wait for at most two seconds, and none is lost. If the image does not take it, nothing changes. Now: <code>{now}</code>
        </p>
        <label>
          Image
          <input list="images" value={image} spellcheck={false} autocomplete="off" onInput={(event) => setImage(event.currentTarget.value)} />
        </label>
        <datalist id="images">
          {images.map((one) => (
            <option value={one.reference}>{one.summary}</option>
          ))}
        </datalist>
        {known && (
          <p class="dim">
            {known.summary} {known.version && `Version ${known.version}, `}
            {bytes(known.bytes)}, {known.compiled ? "compiled for this host" : "to be compiled first"}.
          </p>
        )}
        {busy && progress && (
          <p class="dim" role="status">
            {progress.state}: {progress.what}, {duration(Date.now() - progress.since)}
          </p>
        )}
        <Trouble error={error} />
        <div class="row">
          <button type="submit" class="first" disabled={busy || !image.trim()}>
            {busy ? "Upgrading" : "Upgrade"}
          </button>
          <button type="button" onClick={close}>
            {busy ? "Close, it goes on" : "Cancel"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
