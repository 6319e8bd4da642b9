/**
 * What may stand at a place of a spec: the daemon is asked to check the text up to there with a word that is certainly wrong, and its
 * fault says what is allowed, of an image's own `config` too.
 */
import { askJson } from "../api/http";
import type { CheckReport } from "../api/types";
import { documentOf } from "./check";
import { type Place, placeAt } from "./json_text";

/** No key and no value is called so. */
export const PROBE = "zz-which";

/** The text up to a place with the word that is wrong, closed to be a whole. */
export function probed(place: Place): string {
  return `${place.before}${place.kind === "key" ? `"${PROBE}": 0` : `"${PROBE}"`}${place.closers}`;
}

/** What a fault about the word allows, as single words; nothing where it allows what is no list. */
export function allowedBy(message: string): string[] {
  if (!message.includes(PROBE)) return [];
  const list = /; allowed: (?:one of )?([^;]+)/.exec(message)?.[1];
  if (!list) return [];
  const words = list.split(/, | or /).map((word) => word.trim().replace(/^`(.*)`$/, "$1"));
  return words.every((word) => /^[\w.~-]+$/.test(word)) ? words : [];
}

/** Those that begin with what is typed come first, and those that are there already are left out. */
export function ranked(words: string[], place: Place): string[] {
  const typed = place.word.toLowerCase();
  return words
    .filter((word) => !place.present.includes(word) && word.toLowerCase().includes(typed))
    .sort((a, b) => Number(b.toLowerCase().startsWith(typed)) - Number(a.toLowerCase().startsWith(typed)));
}

/** Suggestions at a place; nothing where the daemon has none. */
export async function suggest(kind: string, name: string, text: string, at: number, signal: AbortSignal): Promise<{ place: Place; words: string[] } | null> {
  const place = placeAt(text, at);
  if (!place) return null;
  const body = documentOf(kind, name || "new", probed(place)).text;
  const report = await askJson<CheckReport>("/v1/check", { method: "POST", text: { type: "application/yaml", body }, signal });
  const words = report.faults.flatMap((fault) => allowedBy(fault.message));
  return { place, words: ranked(words, place).slice(0, 14) };
}
