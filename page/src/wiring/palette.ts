/** The colours of the page's variables, for what is drawn on a canvas. */

export interface Palette {
  ground: string;
  card: string;
  line: string;
  text: string;
  dim: string;
  accent: string;
  good: string;
  warn: string;
  bad: string;
  idle: string;
  wire: string;
  font: string;
}

/** Reads the variables of the page as they are now. */
export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    ground: read("--ground"),
    card: read("--card"),
    line: read("--line"),
    text: read("--text"),
    dim: read("--dim"),
    accent: read("--accent"),
    good: read("--good"),
    warn: read("--warn"),
    bad: read("--bad"),
    idle: read("--idle"),
    wire: read("--wire"),
    font: getComputedStyle(document.body).fontFamily,
  };
}
