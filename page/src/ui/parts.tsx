/** Small parts that every view is made of. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Away, Refused } from "../api/http";
import { printable } from "./format";

/** A state as a coloured dot and a word: colour alone tells nothing. */
export function State({ of }: { of: string }) {
  return (
    <span class="tag">
      <span class={`dot ${of}`} aria-hidden="true" />
      {of}
    </span>
  );
}

/** A number with its name. */
export function Figure({ name, children, long }: { name: string; children: ComponentChildren; long?: boolean }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={long ? "long" : undefined}>{children}</dd>
    </div>
  );
}

/** Text from elsewhere: packets, guests, peers. */
export function Outside({ text }: { text: string }) {
  return <bdi>{printable(text)}</bdi>;
}

/** Why something was not done, with each fault and its place. */
export function Trouble({ error }: { error: unknown }) {
  if (!error) return null;
  const faults = error instanceof Refused ? (error.problem.faults ?? []) : [];
  const text = error instanceof Refused ? error.problem.detail || error.problem.title : error instanceof Away ? `${error.message}; nothing is known of what was asked` : error instanceof Error ? error.message : String(error);
  return (
    <div role="alert" class="bad">
      <p>
        <Outside text={text} />
      </p>
      {faults.length > 0 && !(faults.length === 1 && text.includes(faults[0]!.message)) && (
        <ul>
          {faults.map((fault) => (
            <li>
              {fault.at && <code>{printable(fault.at)}</code>} <Outside text={fault.message} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** A box over the page, which keeps the keyboard while it is open. */
export function Dialog({ title, close, children, wide }: { title: string; close: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "wide" : undefined}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
    >
      <div class="stack">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** Asks before something is lost. `word` has to be typed where a click would be too quick. */
export function Confirm({ title, loses, button, act, close }: { title: string; loses: ComponentChildren; button: string; act: () => Promise<void>; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const run = async (): Promise<void> => {
    setBusy(true);
    try {
      await act();
      close();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} close={close}>
      <div class="stack">{loses}</div>
      <Trouble error={error} />
      <div class="row">
        <button type="button" class="danger" disabled={busy} onClick={() => void run()}>
          {button}
        </button>
        <button type="button" onClick={close} autofocus>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}

/** Tabs: arrows move between them. */
export function Tabs<T extends string>({ label, tabs, chosen, choose }: { label: string; tabs: readonly (readonly [T, string])[]; chosen: T; choose: (tab: T) => void }) {
  const move = (event: KeyboardEvent, at: number): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const next = tabs[(at + step + tabs.length) % tabs.length]!;
    choose(next[0]);
    const list = (event.currentTarget as HTMLElement).parentElement;
    (list?.children[(at + step + tabs.length) % tabs.length] as HTMLElement | undefined)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label}>
      {tabs.map(([tab, name], at) => (
        <button type="button" role="tab" aria-selected={tab === chosen} tabIndex={tab === chosen ? 0 : -1} onClick={() => choose(tab)} onKeyDown={(event) => move(event, at)}>
          {name}
        </button>
      ))}
    </div>
  );
}

/** Where something will stand that has not come yet. */
export function Skeleton({ lines = 3 }: { lines?: number }) {
  return (
    <div class="stack" aria-busy="true">
      <span class="hidden-text">Not here yet</span>
      {Array.from({ length: lines }, () => (
        <div class="skeleton" />
      ))}
    </div>
  );
}
