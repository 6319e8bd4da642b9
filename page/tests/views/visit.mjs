// A browser for the tests of a file, and a page in it of a host that is not there (mock/).
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { serve } from "../../mock/serve.mjs";
import { launch, open, stands } from "../browser.mjs";

/** The browser, which begins and ends with the tests of a file. */
export const browser = { it: null };

before(async () => {
  browser.it = await launch();
});
after(() => browser.it?.close());

/** A page of a host of so many functions, logged in. */
export async function visit(functions, act, options = {}) {
  const served = await serve({ functions, ...options.serve });
  const opened = await open(browser.it, options.context);
  const { page } = opened;
  const go = async (path) => {
    await page.evaluate((path) => (location.hash = path), path);
    await page.waitForTimeout(50);
  };
  const control = (wanted) => fetch(`${served.address}/mock`, { method: "POST", body: JSON.stringify(wanted) });
  try {
    await page.goto(served.link());
    if (!options.unready) await stands(page);
    await act({ page, served, go, control, ...opened });
    const refused = opened.complaints.filter((one) => /Content Security|Refused to|pageerror|^error: (Type|Reference|Range|Syntax)Error/i.test(one));
    assert.deepEqual(refused, []);
  } finally {
    await opened.context.close();
    await served.close();
  }
}

export const text = (page, selector) => page.locator(selector).first().innerText();
