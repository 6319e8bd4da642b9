/** Where the page is: the fragment of its address, `#/objects/function/fw?tab=spec`. */
import { cell } from "./cell";

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

function read(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { parts: parts.length ? parts : ["wiring"], query: new URLSearchParams(query) };
}

export const route = cell<Route>(read());

addEventListener("hashchange", () => route.set(read()));

/** The address of a place of the page. */
export function to(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function go(...parts: string[]): void {
  location.hash = to(...parts);
}
