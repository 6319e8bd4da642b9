// Debian's Chromium, for tests and for pictures of the page.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

export const CHROMIUM = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync) ?? "/usr/bin/chromium";

/** A browser without a window. As root Chromium needs to be told that it has no sandbox of its own. */
export function launch() {
  return chromium.launch({ executablePath: CHROMIUM, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
}

/** A page in which what scripts complain about is gathered in `complaints`. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`error: ${error.stack ?? error}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(`${message.type()}: ${message.text()}`);
  });
  return { page, context, complaints };
}

/** Waits until the wiring stands and has values. */
export async function stands(page) {
  await page.waitForSelector("canvas[data-stands]", { timeout: 15_000 });
  await page.waitForFunction(() => performance.getEntriesByName("superfluid:update").length > 0, null, { timeout: 15_000 });
}
