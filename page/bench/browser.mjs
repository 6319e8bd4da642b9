// What the page costs in a browser: `superfluid bench page` runs this against a daemon with 1,000 functions in 20 chains of 50.
//
//   node page/bench/browser.mjs URL        each GET of URL answers with a link that works once
//
// Prints one JSON object: `first_view_ms` from the request until the folded chains stand, `open_chain_ms` from the click until the chain's
// functions stand, `update_ms` of main-thread time for a second's update, and `transfer_kib` that a first visit loads, compressed. Ends with 1 and a line
// on standard error where something did not come about.
import { launch } from "../tests/browser.mjs";

/** How often each is measured. */
const ROUNDS = Number(process.env.ROUNDS ?? 10);
/** How long updates are looked at, in milliseconds. */
const UPDATES = Number(process.env.UPDATES_MS ?? 20_000);
const PATIENCE = 30_000;

const [url] = process.argv.slice(2);
if (!url) {
  console.error("browser: found no URL; allowed: an address whose answers are links");
  process.exit(2);
}

const link = async () => (await (await fetch(url)).text()).trim();

/** Waits for a mark of the page; the time since the page was asked for. */
const marked = async (page, name) => {
  const mark = await page.waitForFunction((name) => performance.getEntriesByName(name)[0]?.startTime, name, { timeout: PATIENCE, polling: 20 });
  return mark.jsonValue();
};

const result = { first_view_ms: [], open_chain_ms: [], update_ms: [], transfer_kib: 0 };
const browser = await launch();
try {
  for (let round = 0; round < ROUNDS; round += 1) {
    // A browser that was never here: nothing is in its cache.
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    const network = await context.newCDPSession(page);
    await network.send("Network.enable");
    let received = 0;
    let standing = false;
    network.on("Network.loadingFinished", (event) => {
      if (!standing) received += event.encodedDataLength;
    });
    await page.goto(await link());
    // Times of marks are counted from the request of the page.
    result.first_view_ms.push(await marked(page, "superfluid:graph"));
    standing = true;
    result.transfer_kib = Math.max(result.transfer_kib, received / 1024);
    await marked(page, "superfluid:update");
    const opened = await page.evaluate(async () => {
      const chain = document.querySelector(".outline button[aria-expanded=false]");
      if (!chain) throw new Error("no folded chain is there to be opened");
      performance.clearMarks("superfluid:chain-open");
      const began = performance.now();
      chain.click();
      for (;;) {
        const mark = performance.getEntriesByName("superfluid:chain-open")[0];
        if (mark) return mark.startTime - began;
        if (performance.now() - began > 30_000) throw new Error("the chain did not open within 30 s");
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
    result.open_chain_ms.push(opened);
    if (round === ROUNDS - 1) {
      await page.evaluate(() => performance.clearMeasures());
      await page.waitForTimeout(UPDATES);
      result.update_ms = await page.evaluate(() => performance.getEntriesByName("superfluid:update", "measure").map((entry) => entry.duration));
      if (!result.update_ms.length) throw new Error("the page was not updated");
    }
    await context.close();
  }
  console.log(JSON.stringify(result));
} catch (error) {
  console.error(`browser: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
