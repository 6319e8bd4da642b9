/** Packets captured at a place: lines as they come, and a pcapng file of all of them. */
import { useEffect, useState } from "preact/hooks";
import { ask } from "../api/http";
import { useDraft } from "../ui/draft";
import { bytes, clock, count, printable } from "../ui/format";
import { decode } from "./decode";
import { Chosen, Headers, PickForm, picked, usePick, useRun } from "./form";
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
  const pick = usePick("capture", at, "1000");
  const run = useRun();
  const [snap, setSnap] = useDraft("capture-snap", "128");
  const [rows, setRows] = useState<Line[]>([]);
  const [state, setState] = useState({ packets: 0, size: 0, lost: 0 });
  const [file, setFile] = useState<{ address: string; name: string } | null>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  useEffect(() => () => void (file && URL.revokeObjectURL(file.address)), [file]);

  const begin = async (): Promise<void> => {
    const place = pick.place[0];
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
    await run.start(async ({ signal }) => {
      const body = { ...picked(pick), at: place, snap: Math.max(14, Number(snap) || 128) };
      const answer = await ask("/v1/captures", { method: "POST", body, signal });
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
    });
    show();
    if (packets > 0) {
      const name = `${place.replace(/[^A-Za-z0-9_.-]+/g, "-")}-${new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-")}.pcapng`;
      setFile({ address: URL.createObjectURL(new Blob(parts as BlobPart[], { type: "application/x-pcapng" })), name });
    }
  };
  const line = rows.find((row) => row.number === chosen);
  const lost = state.lost ? `; ${count(state.lost)} came too fast` : "";
  return (
    <>
      <PickForm
        pick={pick}
        run={run}
        labels={{ place: "At (also a wire, lan~fw:0)", filter: "Which packets (pcap-filter)", example: "udp and not port 53", start: "Capture" }}
        placed
        begin={() => void begin()}
        said={run.running || state.packets ? `${count(state.packets)} packets, ${bytes(state.size)}${lost}` : ""}
        fields={
          <label>
            Bytes of each
            <input type="number" min="14" value={snap} onInput={(event) => setSnap(event.currentTarget.value)} />
          </label>
        }
        beside={
          file && (
            <a class="button" href={file.address} download={file.name}>
              Download {file.name}
            </a>
          )
        }
      />
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
                    <Chosen number={number} choose={setChosen} />
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
              <Headers of={decode(line.packet.bytes).fields} />
            </section>
          )}
        </div>
      )}
    </>
  );
}
