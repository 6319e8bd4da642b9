/** Packets captured at a place: lines as they come, and a pcapng file of all of them. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../api/http";
import { useDraft } from "../ui/draft";
import { bytes, clock, count, printable } from "../ui/format";
import { Trouble } from "../ui/parts";
import { decode } from "./decode";
import { type Captured, PcapngReader } from "./pcapng";

/** The most that is kept in the tab's memory: the capture ends there. */
const MOST = 64 * 1024 * 1024;
/** Lines that are shown: all packets are in the file. */
const SHOWN = 200;

interface Line {
  number: number;
  packet: Captured;
}

export function Capture({ at }: { at: string | null }) {
  const [place, setPlace] = useDraft("capture-at", at ?? "");
  const [filter, setFilter] = useDraft("capture-filter");
  const [number, setNumber] = useDraft("capture-count", "1000");
  const [time, setTime] = useDraft("capture-for", "30s");
  const [snap, setSnap] = useDraft("capture-snap", "128");
  const [rows, setRows] = useState<Line[]>([]);
  const [state, setState] = useState({ packets: 0, size: 0, lost: 0 });
  const [file, setFile] = useState<{ address: string; name: string } | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const stop = useRef<AbortController | null>(null);
  useEffect(() => {
    if (at !== null) setPlace(at);
  }, [at]);
  useEffect(() => () => stop.current?.abort(), []);
  useEffect(() => () => void (file && URL.revokeObjectURL(file.address)), [file]);

  const start = async (): Promise<void> => {
    const leaving = new AbortController();
    stop.current = leaving;
    setRunning(leaving);
    setError(null);
    setRows([]);
    setFile(null);
    setChosen(null);
    setState({ packets: 0, size: 0, lost: 0 });
    const parts: Uint8Array[] = [];
    const reader = new PcapngReader();
    let [size, packets] = [0, 0];
    let waiting: Line[] = [];
    let drawn = 0;
    const show = (): void => {
      drawn = performance.now();
      const more = waiting;
      waiting = [];
      setRows((before) => [...before, ...more].slice(-SHOWN));
      setState({ packets, size, lost: reader.lost });
    };
    try {
      const body: Record<string, unknown> = { at: place, snap: Math.max(14, Number(snap) || 128) };
      if (filter) body.filter = filter;
      if (Number(number) > 0) body.count = Number(number);
      if (time) body.for = time;
      const answer = await ask("/v1/captures", { method: "POST", body, signal: leaving.signal });
      const stream = answer.body!.getReader();
      for (;;) {
        const { value, done } = await stream.read();
        if (done) break;
        parts.push(value);
        size += value.length;
        for (const packet of reader.push(value)) {
          packets += 1;
          waiting.push({ number: packets, packet });
          if (waiting.length > SHOWN) waiting.shift();
        }
        if (performance.now() - drawn > 250) show();
        if (size > MOST) throw new Error(`The capture was ended at ${bytes(MOST)}: fewer bytes of each packet, or \`superfluid capture -w FILE\`, take more packets.`);
      }
    } catch (failed) {
      if (!leaving.signal.aborted) setError(failed);
    } finally {
      leaving.abort();
      show();
      setRunning(null);
      if (packets > 0) {
        const name = `${place.replace(/[^A-Za-z0-9_.-]+/g, "-")}-${new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-")}.pcapng`;
        setFile({ address: URL.createObjectURL(new Blob(parts as BlobPart[], { type: "application/x-pcapng" })), name });
      }
    }
  };
  const line = rows.find((row) => row.number === chosen);
  return (
    <>
      <form
        class="card stack"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <div class="fields">
          <label>
            At (also a wire, lan~fw:0)
            <input list="places" required value={place} spellcheck={false} autocomplete="off" onInput={(event) => setPlace(event.currentTarget.value)} />
          </label>
          <label>
            Which packets
            <input value={filter} placeholder="udp and not port 53" spellcheck={false} autocomplete="off" onInput={(event) => setFilter(event.currentTarget.value)} />
          </label>
          <label>
            How many
            <input type="number" min="1" value={number} onInput={(event) => setNumber(event.currentTarget.value)} />
          </label>
          <label>
            For
            <input value={time} autocomplete="off" onInput={(event) => setTime(event.currentTarget.value)} />
          </label>
          <label>
            Bytes of each
            <input type="number" min="14" value={snap} onInput={(event) => setSnap(event.currentTarget.value)} />
          </label>
        </div>
        <div class="row">
          {running ? (
            <button type="button" onClick={() => running.abort()}>
              Stop
            </button>
          ) : (
            <button type="submit" class="first" disabled={!place}>
              Capture
            </button>
          )}
          {file && (
            <a class="button" href={file.address} download={file.name}>
              Download {file.name}
            </a>
          )}
          <span class="dim" role="status">
            {running || state.packets ? `${count(state.packets)} packets, ${bytes(state.size)}${state.lost ? `; ${count(state.lost)} came too fast` : ""}` : ""}
          </span>
        </div>
        <Trouble error={error} />
      </form>
      {rows.length > 0 && (
        <div class="cards">
          <section class="card scroll" tabIndex={0} role="region" aria-label="Captured packets">
            <table>
              {state.packets > rows.length && <caption>The last {rows.length} of {count(state.packets)}: all are in the file.</caption>}
              <thead>
                <tr>
                  <th class="number">No.</th>
                  <th>Time</th>
                  <th>Packet</th>
                  <th class="number">Bytes</th>
                  <th>Comment</th>
                </tr>
              </thead>
              <tbody>
                {rows.map(({ number, packet }) => (
                  <tr class="choice" aria-selected={number === chosen} onClick={() => setChosen(number)}>
                    <td class="number">
                      <button type="button" class="plain" aria-label={`Packet ${number}`} onClick={() => setChosen(number)}>
                        {number}
                      </button>
                    </td>
                    <td class="mono when">{clock(packet.time)}</td>
                    <td class="wide">{decode(packet.bytes).summary}</td>
                    <td class="number">{packet.length}</td>
                    <td class="dim wide">{packet.comment ? printable(packet.comment) : ""}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
          {line && (
            <section class="card stack" aria-label={`Packet ${line.number}`}>
              <h2>Packet {line.number}</h2>
              <table>
                <tbody>
                  {decode(line.packet.bytes).fields.map((field) => (
                    <tr>
                      <th scope="row">{field.name}</th>
                      <td class="mono">{field.value}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          )}
        </div>
      )}
    </>
  );
}
