/** Numbers, times and names as people read them. */

const PREFIXES = ["", "k", "M", "G", "T", "P"];

/** Three digits and a prefix of a thousand: `12.3 k`. */
export function scaled(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const sign = value < 0 ? "−" : "";
  let rest = Math.abs(value);
  let power = 0;
  // 999.5 would be written as 1000.
  while (rest >= 999.5 && power < PREFIXES.length - 1) {
    rest /= 1000;
    power += 1;
  }
  const digits = rest >= 99.95 || rest === 0 ? 0 : rest >= 9.995 ? 1 : 2;
  const text = power === 0 && Number.isInteger(rest) ? String(rest) : rest.toFixed(power === 0 && rest >= 10 ? 0 : digits);
  return `${sign}${text}${PREFIXES[power] === "" ? "" : ` ${PREFIXES[power]}`}`;
}

function unit(value: number | null | undefined, name: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const text = scaled(value);
  return text.includes(" ") ? `${text}${name}` : `${text} ${name}`;
}

/** Packets per second: `1.24 Mpps`. */
export const packetRate = (value: number | null | undefined): string => unit(value, "pps");
/** Bits per second: `9.87 Gb/s`. */
export const bitRate = (value: number | null | undefined): string => unit(value, "b/s");
/** A number of things. */
export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? "–" : value < 1e6 ? group(value) : scaled(value);

/** A number with thin spaces between thousands: `12 345`. */
export function group(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** A share of a core, 0 to 1: `37 %`, `0.4 %`. */
export function share(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const percent = value * 100;
  if (percent > 0 && percent < 0.05) return "<0.1\u202f%";
  const digits = percent !== 0 && Math.abs(percent) < 9.95 ? 1 : 0;
  return `${percent.toFixed(digits)}\u202f%`;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes by powers of 1,024: `1.5 MiB`. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let rest = value;
  let power = 0;
  while (rest >= 1023.5 && power < SIZES.length - 1) {
    rest /= 1024;
    power += 1;
  }
  return `${power === 0 || rest >= 99.95 ? rest.toFixed(0) : rest.toFixed(1)} ${SIZES[power]}`;
}

/** A length of time in nanoseconds: `1.50 ms`. */
export function nanoseconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value < 999.5) return `${value.toFixed(0)} ns`;
  if (value < 999_500) return `${(value / 1e3).toPrecision(3)} µs`;
  if (value < 999_500_000) return `${(value / 1e6).toPrecision(3)} ms`;
  return duration(value / 1e6);
}

/** A length of time in milliseconds, in its two greatest units: `2 min 5 s`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** The time of day of the reader's clock: `14:03:59`. */
export function clock(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return "–";
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The same with the day, where that is not today. */
export function moment(ms: number, now = Date.now()): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return "–";
  if (date.toDateString() === new Date(now).toDateString()) return clock(ms);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(ms)}`;
}

/** The start of a digest that tells images apart: `sha256:1f2e3d4c…`. */
export function digest(text: string): string {
  return text.startsWith("sha256:") && text.length > 19 ? `${text.slice(0, 15)}…` : text;
}

/**
 * Text from packets, guests and peers: characters that are not shown, and those that turn the direction of what follows,
 * are written as escapes, so that a line reads as it was sent.
 */
export function printable(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu,
    (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}
