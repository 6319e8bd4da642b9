/** Light or dark: as the reader's system has it, until it is chosen here. */
import { cell } from "./cell";

export type Theme = "light" | "dark";

const KEY = "superfluid-theme";
const asked = matchMedia("(prefers-color-scheme: dark)");
const chosen = (): Theme | null => {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : null;
};

export const theme = cell<Theme>(chosen() ?? (asked.matches ? "dark" : "light"));

function apply(): void {
  document.documentElement.dataset.theme = theme.get();
}

asked.addEventListener("change", () => {
  if (!chosen()) theme.set(asked.matches ? "dark" : "light");
});
theme.listen(apply);
apply();

export function turn(): void {
  const next: Theme = theme.get() === "dark" ? "light" : "dark";
  localStorage.setItem(KEY, next);
  theme.set(next);
}
