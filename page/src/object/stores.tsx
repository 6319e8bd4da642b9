/** Images and snapshots on the host. */
import { useEffect, useState } from "preact/hooks";
import { askJson } from "../api/http";
import type { Image, Snapshot } from "../api/types";
import { changed } from "../host/follow";
import { useCell } from "../ui/cell";
import { bytes, count, digest, moment } from "../ui/format";
import { Outside, Skeleton, Trouble } from "../ui/parts";
import { to } from "../ui/route";

function useItems<T>(path: string): { items: T[] | null; error: unknown } {
  const [items, setItems] = useState<T[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const touched = useCell(changed);
  useEffect(() => {
    const leaving = new AbortController();
    askJson<{ items: T[] }>(path, { signal: leaving.signal }).then(
      (all) => setItems(all.items),
      (failed: unknown) => !leaving.signal.aborted && setError(failed),
    );
    return () => leaving.abort();
  }, [path, touched]);
  return { items, error };
}

export function Images() {
  const { items, error } = useItems<Image>("/v1/images");
  if (!items) return error ? <Trouble error={error} /> : <Skeleton lines={5} />;
  return (
    <div class="card scroll" tabIndex={0} role="region" aria-label="Images">
      <table>
        <thead>
          <tr>
            <th>Image</th>
            <th>Digest</th>
            <th class="number">Size</th>
            <th>Version</th>
            <th class="number">Functions</th>
            <th>What it does</th>
          </tr>
        </thead>
        <tbody>
          {items.map((image) => (
            <tr>
              <td>
                <Outside text={image.reference} />
              </td>
              <td>
                <code>{digest(image.digest)}</code>
              </td>
              <td class="number">{bytes(image.bytes)}</td>
              <td>{image.version}</td>
              <td class="number">{count(image.functions)}</td>
              <td class="wide">
                <Outside text={image.summary ?? ""} /> {!image.compiled && <span class="tag">not compiled yet</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Snapshots() {
  const { items, error } = useItems<Snapshot>("/v1/snapshots");
  if (!items) return error ? <Trouble error={error} /> : <Skeleton lines={5} />;
  if (!items.length) return <p class="nothing">There are no snapshots. A function's page saves one.</p>;
  return (
    <div class="card scroll" tabIndex={0} role="region" aria-label="Snapshots">
      <table>
        <thead>
          <tr>
            <th>Snapshot</th>
            <th>Of</th>
            <th>Tenant</th>
            <th>Saved</th>
            <th class="number">Size</th>
            <th>Image</th>
          </tr>
        </thead>
        <tbody>
          {items.map((snapshot) => (
            <tr>
              <td>{snapshot.name}</td>
              <td>
                <a href={to("objects", "function", snapshot.function)}>{snapshot.function}</a>
              </td>
              <td>{snapshot.imported ? <span class="tag warn">imported</span> : snapshot.tenant}</td>
              <td class="when">{moment(Date.parse(snapshot.saved))}</td>
              <td class="number">{bytes(snapshot.bytes)}</td>
              <td>
                <code>{digest(snapshot.image)}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
