/** The page: its frame, and the view that the address names. */
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { enter, entrance, leave, linkSecret, redeem, type Session } from "./api/session";
import { Events } from "./host/events";
import { at, away, follow, note, shown, wiring } from "./host/follow";
import { ObjectPage } from "./object/page";
import { Objects } from "./object/list";
import { Packets } from "./packets/view";
import { Reports } from "./reports/view";
import "./style/page.css";
import "./style/parts.css";
import "./style/wiring.css";
import "uplot/dist/uPlot.min.css";
import { TimeBar } from "./time/bar";
import { useCell } from "./ui/cell";
import { useDraft } from "./ui/draft";
import { clock, duration, packetRate } from "./ui/format";
import { Dialog, Trouble } from "./ui/parts";
import { route } from "./ui/route";
import { theme, turn } from "./ui/theme";
import { Workers } from "./wiring/lanes";
import { Wiring } from "./wiring/view";

const VIEWS: [string, string][] = [
  ["wiring", "Wiring"],
  ["workers", "Workers"],
  ["objects", "Objects"],
  ["packets", "Packets"],
  ["events", "Events"],
  ["reports", "Reports"],
];

function View() {
  const { parts } = useCell(route);
  switch (parts[0]) {
    case "workers":
      return <Workers />;
    case "objects":
      return parts[2] !== undefined ? <ObjectPage key={`${parts[1]}/${parts[2]}`} kind={parts[1]!} name={parts[2]} /> : <Objects kind={parts[1] ?? "function"} />;
    case "packets":
      return <Packets />;
    case "events":
      return <Events />;
    case "reports":
      return <Reports />;
    default:
      return <Wiring />;
  }
}

function Summary() {
  const frame = useCell(shown);
  const host = frame?.host;
  if (!host) return null;
  return (
    <span class="row" aria-label="The host">
      <span class="tag">{packetRate(host.pps)} in</span>
      <span class={`tag ${host.dps > 0 ? "bad" : ""}`}>{packetRate(host.dps)} lost</span>
    </span>
  );
}

function Top({ session }: { session: Session | null }) {
  const { parts } = useCell(route);
  const dark = useCell(theme) === "dark";
  const who = !session ? "" : session.rights === "tenant" ? `tenant ${session.tenant}` : session.rights;
  return (
    <header class="top">
      <span class="brand">Superfluid</span>
      <nav aria-label="Views">
        {VIEWS.map(([path, name]) => (
          <a href={`#/${path}`} aria-current={parts[0] === path ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <Summary />
      <span class="row">
        {who && (
          <span class="tag" title={session?.token ? `by the token ${session.token}` : undefined}>
            {who}
            {session?.read_only ? ", reading" : ""}
          </span>
        )}
        <button type="button" class="plain" onClick={turn} aria-label={dark ? "Light colours" : "Dark colours"}>
          {dark ? "☀" : "☾"}
        </button>
        {session && (
          <button type="button" class="plain" onClick={() => void leave()}>
            Log out
          </button>
        )}
      </span>
    </header>
  );
}

function Away() {
  const gone = useCell(away);
  const said = useCell(note);
  const frame = useCell(shown);
  const [, tick] = useState(0);
  useEffect(() => {
    if (!gone) return;
    const timer = setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [gone]);
  return (
    <div aria-live="polite">
      {gone && (
        <p class="banner">
          The daemon has not answered since {clock(gone.since)}, for {duration(Date.now() - gone.since)}. {frame ? `Values are of ${clock(frame.time)}.` : ""} The page goes on asking.
        </p>
      )}
      {!gone && said && (
        <p class="banner note row spread">
          {said}
          <button type="button" class="plain" onClick={() => note.set("")}>
            Close
          </button>
        </p>
      )}
    </div>
  );
}

function Login({ why }: { why: string }) {
  const [text, setText] = useDraft("login");
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const link = linkSecret(text);
    if (!link) {
      setTrouble("Found no link; allowed: what `superfluid page` printed, to its end.");
      return;
    }
    setBusy(true);
    const failed = await redeem(link);
    setBusy(false);
    setText("");
    if (failed) setTrouble(failed);
  };
  return (
    <Dialog title="Log in" close={() => undefined}>
      <form class="stack login" onSubmit={(event) => void submit(event)}>
        {why && <p>{why}</p>}
        <p>
          <code>superfluid page</code> prints a link that works once, within a minute, and gives the rights of the socket or token that it was asked with. Open the link, or paste it here.
          {wiring.get() ? " What you have typed on this page stays." : ""}
        </p>
        <label>
          Link
          <input type="password" autocomplete="off" spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} autofocus />
        </label>
        {trouble && <Trouble error={trouble} />}
        <div class="row">
          <button type="submit" class="first" disabled={busy || !text}>
            Log in
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Page() {
  const door = useCell(entrance);
  const structure = useCell(wiring);
  const past = useCell(at) !== null;
  const old = useCell(away) !== null;
  // What was seen stays under the login, so that nothing that was typed is lost.
  const inside = door.state === "in" || structure !== null;
  return (
    <>
      <Top session={door.state === "in" ? door.session : null} />
      <Away />
      <main class={old ? "old" : past ? "past" : undefined}>{inside && <View />}</main>
      {inside && <TimeBar />}
      {door.state === "out" && <Login why={door.why} />}
    </>
  );
}

const root = document.getElementById("page");
if (root) {
  render(<Page />, root);
  void enter();
  follow();
}
