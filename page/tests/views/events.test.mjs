// Events of the hour, containers, long names and clocks that jump, against a daemon that is not there (mock/).
import assert from "node:assert/strict";
import { test } from "node:test";
import { stands } from "../browser.mjs";
import { text, visit } from "./visit.mjs";

test("what happened before the page was opened is listed and stands on the line, and is told once", async () => {
  await visit(10, async ({ page, go, control }) => {
    await go("#/events");
    await page.waitForSelector("tr:has-text('function/detection') >> text=trapped");
    assert.match(await text(page, "main .dim"), /^\d+ events\. All since [\d: -]+ are here, when the daemon was started/);
    const rows = (words) => page.locator(`main tbody tr:has-text("${words}")`).count();
    assert.equal(await rows("flows moved to worker"), 3);
    assert.equal(await rows("port/wan"), 3, "made, down and up");
    // What comes while it is looked at is not told again to a page that reads the past anew.
    await control({ notice: { kind: "function", name: "fair", what: "fault", text: "only once" } });
    await page.waitForSelector("text=only once");
    await control({ away: true });
    await page.waitForSelector(".banner");
    await control({ away: false });
    await page.waitForSelector(".banner", { state: "detached" });
    await page.waitForTimeout(1800);
    assert.equal(await rows("only once"), 1);
    assert.equal(await rows("flows moved to worker"), 3);
    // A press on the time takes the page back to it.
    await page.click("tr:has-text('trapped') button");
    await page.waitForSelector(".time.past");
    assert.match(await text(page, ".time .when"), /(24 min 5\d|25 min \d) s ago/);
    assert.match(await text(page, ".time"), /function\/detection fault/);
    await page.click(".time button:has-text('Now')");
    await go("#/workers");
    await page.waitForSelector("section[aria-label='Moves of the last hour'] >> text=flows moved to worker 1");
  });
});

test("another reader of the same tab is shown nothing of what the one before saw", async () => {
  await visit(10, async ({ page, go, served }) => {
    await go("#/events");
    await page.waitForSelector("text=trapped");
    await page.click("button:has-text('Log out')");
    await page.waitForSelector("dialog");
    Object.assign(served.mock.rights, { rights: "tenant", tenant: "red", token: "ci" });
    served.mock.host.notices.length = 0;
    await page.fill("dialog input", served.link());
    await page.click("dialog button:has-text('Log in')");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.waitForSelector("main tbody tr:has-text('function/fair')");
    assert.equal(await page.locator("text=trapped").count(), 0);
  });
});

test("a container has its numbers, and what can be done with it", async () => {
  await visit(10, async ({ page, go }) => {
    await page.click(".outline button:has-text('proxy')");
    await page.waitForSelector(".side.right h2:has-text('proxy')");
    assert.match(await text(page, ".side.right"), /Processor\s+[\d.]+\s*%\s+Promised\s+–/);
    await go("#/objects/function/proxy");
    await page.waitForFunction(() => document.querySelectorAll(".uplot").length >= 5);
    assert.match(await text(page, "section[aria-label='How it is']"), /Worker\s+–/);
    const buttons = await page.locator("section[aria-label=Actions] > .row button").allInnerTexts();
    assert.deepEqual(buttons, ["Restart…", "Delete…"]);
  });
});

test("names of full length and text from right to left: nothing breaks, on a phone neither", async () => {
  const name = "W".repeat(32);
  const words = "\u05e9\u05dc\u05d5\u05dd \u0627\u0644\u0639\u0627\u0644\u0645 (x) 1 > 2";
  await visit(
    10,
    async ({ page, go, served }) => {
      const { host } = served.mock;
      for (const end of ["", "X"]) host.put("port", `${name.slice(1)}${end || "P"}`, { type: "sink" });
      host.put("function", name, { image: "monitor", config: { note: words } });
      host.put("chain", `${name.slice(1)}C`, [`${name.slice(1)}P`, name, `${name.slice(1)}X`]);
      host.wire();
      host.notice({ kind: "function", name, what: "fault", text: words });
      served.mock.alerts = [words];
      await page.reload();
      await stands(page);
      await page.waitForSelector(`.outline >> text=${name}`);
      for (const place of ["#/wiring", "#/events", "#/workers", "#/objects/function", `#/objects/function/${name}`, `#/packets?at=${name}`]) {
        await go(place);
        await page.waitForTimeout(700);
        const wide = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.querySelector("main").scrollWidth) - innerWidth);
        assert.ok(wide <= 0, `${place} is ${wide} wider`);
      }
      await go("#/events");
      // Each text is on its own: what stands beside it keeps its order.
      assert.equal(await page.locator(`main td bdi:text-is("${words}")`).count(), 1);
      await go(`#/objects/function/${name}`);
      await page.waitForSelector(".lines-view >> text=/1 > 2/");
      assert.equal(await page.locator(".lines-view .grow").first().evaluate((line) => getComputedStyle(line).unicodeBidi), "isolate");
    },
    { context: { viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true } },
  );
});

test("events by the thousand, and a clock that jumps, break nothing", async () => {
  await visit(10, async ({ page, go, served }) => {
    const { host } = served.mock;
    for (let at = 0; at < 12_000; at += 1) {
      host.revision += 1;
      host.events.push({ event: "changed", revision: host.revision, kind: "function", name: `f${at % 50}`, happened: "put" });
    }
    await go("#/events");
    await page.waitForSelector("text=the last 2000", { timeout: 10_000 });
    assert.ok((await page.locator("main tbody tr").count()) <= 300);
    host.startMs -= 86_400_000;
    await page.waitForTimeout(2200);
    host.startMs += 2 * 86_400_000;
    await page.waitForTimeout(2200);
    await go("#/wiring");
    await stands(page);
    assert.match(await text(page, ".outline"), /detection/);
  });
});
