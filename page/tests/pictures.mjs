// Takes the pictures of the guide, docs/page/*.png: each view in light and dark, of hosts that are not there (mock/).
//
//   node tests/pictures.mjs [FOLDER [NAME]]
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "../mock/serve.mjs";
import { launch, open, stands } from "./browser.mjs";
import { report } from "./views/report.mjs";

const here = dirname(fileURLToPath(import.meta.url));

/** Each picture: of how many functions, at which place, after what. */
export const PICTURES = {
  wiring: [10, "#/wiring", async ({ page }) => {
    await page.click(".outline button:has-text('edge_firewall')");
    await page.waitForSelector(".uplot");
    await page.waitForSelector("text=/Lost for/", { timeout: 12_000 });
  }],
  thousand: [1000, "#/wiring", async ({ page }) => {
    await page.click(".outline button:has-text('c03')");
    await page.waitForSelector("canvas[data-stands='72']");
    await page.waitForTimeout(700);
  }],
  workers: [10, "#/workers", async ({ page }) => page.waitForSelector(".lane")],
  object: [10, "#/objects/function/edge_firewall", async ({ page }) => page.waitForFunction(() => document.querySelectorAll(".uplot").length >= 5)],
  editor: [10, "#/objects/function/edge_firewall", async ({ page }) => {
    await page.waitForSelector("textarea");
    const spec = await page.inputValue("textarea");
    await page.fill("textarea", spec.replace('"drop",', '"acept",').replace('"icmp_type": 8', '"icmp_type": 13'));
    await page.waitForSelector(".faults >> text=acept");
    await page.locator("section[aria-label=Spec]").evaluate((section) => section.scrollIntoView());
  }],
  way: [10, "#/packets?at=lan", async ({ page }) => {
    await page.click("button.first");
    await page.waitForSelector("text=/10 packets were followed/");
    await page.locator(".way").evaluate((way) => way.parentElement.scrollIntoView());
  }],
  capture: [10, "#/packets?tab=capture&at=lan", async ({ page }) => {
    await page.click("button.first");
    await page.waitForSelector("a[download]");
    await page.click("button[aria-label='Packet 4']");
  }],
  events: [10, "#/events", async ({ page }) => page.waitForSelector("text=trapped")],
  time: [100, "#/wiring", async ({ page }) => {
    // A moment after a fault.
    await page.locator("input[type=range]").evaluate((element) => {
      element.value = String(Number(element.max) - 1495);
      element.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.waitForSelector(".time.past");
  }],
  reports: [10, "#/reports", async ({ page }) => {
    const files = page.locator("input[type=file][multiple]");
    for (const [at, times] of [[0, 1], [1, 1.1]]) await files.nth(at).setInputFiles({ name: "fig-6b.jsonl", mimeType: "application/jsonl", buffer: Buffer.from(report(times)) });
    await page.waitForSelector(".uplot");
    await page.locator("section[aria-label=Results]").evaluate((results) => results.scrollIntoView());
  }],
  away: [10, "#/wiring", async ({ page, control }) => {
    await control({ away: true });
    await page.waitForSelector(".banner", { timeout: 10_000 });
  }],
};

async function take(folder, only) {
  mkdirSync(folder, { recursive: true });
  const browser = await launch();
  try {
    for (const [name, [functions, place, act]] of Object.entries(PICTURES)) {
      if (only && only !== name) continue;
      for (const colorScheme of ["light", "dark"]) {
        const served = await serve({ functions });
        const { page, context } = await open(browser, { colorScheme, viewport: { width: 1280, height: 760 } });
        const control = (wanted) => fetch(`${served.address}/mock`, { method: "POST", body: JSON.stringify(wanted) });
        await page.goto(served.link());
        await stands(page);
        await page.evaluate((place) => (location.hash = place), place);
        await page.waitForTimeout(300);
        await act({ page, control });
        await page.waitForTimeout(1200);
        await page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`) });
        await context.close();
        await served.close();
      }
    }
  } finally {
    await browser.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder = join(here, "../../docs/page"), only] = process.argv.slice(2);
  await take(folder, only);
}
