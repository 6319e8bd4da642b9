// Walks the page in Chromium, against a daemon that is not there (mock/): each view, what it does, and what it says when things go wrong.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { stands } from "../browser.mjs";
import { report } from "./report.mjs";
import { browser, text, visit } from "./visit.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds on the page. */
async function axe(page) {
  // Evaluated by the test's own channel, which the page's policy does not hold back.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
  return violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.html.slice(0, 120)} ${node.any.map((check) => check.message).join("; ")}`).slice(0, 3).join(" | ")}`);
}

test("a link logs in once, and leaves no secret in the address", async () => {
  await visit(10, async ({ page, served }) => {
    assert.doesNotMatch(page.url(), /sfl_/);
    assert.match(await text(page, ".top"), /administrator/);
    const link = served.link();
    const used = await browser.it.newContext();
    const other = await used.newPage();
    await other.goto(link);
    await stands(other);
    const again = await (await browser.it.newContext()).newPage();
    await again.goto(link);
    await again.waitForSelector("dialog");
    assert.match(await text(again, "dialog"), /was used/);
    // Another link can be typed there.
    await again.fill("dialog input", served.link());
    await again.click("dialog button:has-text('Log in')");
    await stands(again);
    await used.close();
    await again.context().close();
  });
});

test("log out ends the session", async () => {
  await visit(10, async ({ page, served }) => {
    await page.click("button:has-text('Log out')");
    await page.waitForSelector("dialog");
    assert.equal(served.mock.sessions.size, 0);
    assert.equal(await page.evaluate(() => sessionStorage.getItem("superfluid-session")), null);
  });
});

test("a dropping firewall is found, its reason seen, its rule changed, and packets pass", async () => {
  await visit(10, async ({ page }) => {
    await page.waitForSelector(".side.right >> text=Where packets are lost");
    await page.click(".side.right .ranking button:has-text('edge_firewall')");
    await page.waitForSelector(".side.right >> text=/Lost for: .*function/", { timeout: 12_000 });
    await page.click(".side.right a:has-text('Open')");
    await page.waitForSelector("textarea");
    // The last minute: how long packets took, and the reasons of those that were lost.
    await page.waitForSelector(".card:has-text('Latency, the last minute') .uplot");
    assert.match(await text(page, ".card:has-text('Latency, the last minute')"), /[\d.]+ M packets, by how long they took/);
    assert.match(await text(page, ".card:has-text('Lost, the last minute')"), /function\s+[\d.]+ M/);
    const spec = await page.inputValue("textarea");
    await page.fill("textarea", spec.replace('"default_action": "drop"', '"default_action": "acept"'));
    await page.waitForSelector('.faults >> text=found the text "acept"');
    assert.match(await text(page, ".faults"), /^4:\d+ config\.default_action/);
    assert.ok(await page.isDisabled("section[aria-label=Spec] button.first"));
    await page.fill("textarea", spec.replace('"default_action": "drop"', '"default_action": "accept"'));
    await page.waitForFunction(() => !document.querySelector("section[aria-label=Spec] button.first").disabled);
    assert.match(await text(page, ".diff"), /− +"default_action": "drop",\s*\+ +"default_action": "accept"/);
    await page.click("section[aria-label=Spec] button.first");
    await page.waitForSelector(".waterfall >> text=hand-over");
    assert.match(await text(page, "section[aria-label='How long it took']"), /1\.56 ms in the daemon/);
    await page.evaluate(() => (location.hash = "#/wiring"));
    await page.waitForFunction(() => [...document.querySelectorAll(".outline li")].some((line) => /edge_firewall/.test(line.textContent) && !/▼/.test(line.textContent)), null, { timeout: 8000 });
  });
});

test("two editors of one object: the second sees both versions, and each way out", async () => {
  await visit(10, async ({ page, go, control, served }) => {
    await go("#/objects/function/fair");
    await page.waitForSelector("textarea");
    const spec = await page.inputValue("textarea");
    await page.fill("textarea", spec.replace("100pps", "250pps"));
    await page.waitForSelector(".diff");
    await control({ touch: ["function", "fair"] });
    await page.waitForSelector("text=It was changed meanwhile");
    await page.click("section[aria-label=Spec] button.first");
    await page.waitForSelector("dialog");
    const dialog = await text(page, "dialog");
    assert.match(dialog, /What the other changed[\s\S]*\+ +"max_call": "7ms"/);
    assert.match(dialog, /What yours would change of theirs[\s\S]*− +"max_call": "7ms"[\s\S]*/);
    await page.click("dialog button:has-text('Go on editing')");
    assert.match(await page.inputValue("textarea"), /250pps/);
    await page.waitForFunction(() => !document.querySelector("section[aria-label=Spec] button.first").disabled);
    await page.click("section[aria-label=Spec] button.first");
    await page.waitForSelector(".waterfall");
    assert.equal(served.mock.host.objects.get("function").get("fair").spec.config.policers[0].packet_rate, "250pps");
  });
});

test("a session that ends returns to the login, and what was typed is still there", async () => {
  await visit(10, async ({ page, go, control, served }) => {
    await go("#/objects/function/fair");
    await page.waitForSelector("textarea");
    const typed = (await page.inputValue("textarea")).replace("100pps", "777pps");
    await page.fill("textarea", typed);
    await control({ expire: true });
    await page.waitForSelector("dialog >> text=this session has ended");
    await page.fill("dialog input", served.link());
    await page.click("dialog button:has-text('Log in')");
    await page.waitForSelector("dialog", { state: "detached" });
    assert.equal(await page.inputValue("textarea"), typed);
    await page.reload();
    await page.waitForSelector("textarea");
    assert.equal(await page.inputValue("textarea"), typed, "and over a reload of the tab");
  });
});

test("a daemon that ends, or hangs: since when, the last values marked old, and back by itself", async () => {
  await visit(10, async ({ page, control }) => {
    for (const way of ["away", "hang"]) {
      await control({ [way]: true });
      await page.waitForSelector(".banner >> text=/has not answered since \\d\\d:\\d\\d:\\d\\d/", { timeout: 12_000 });
      assert.match(await text(page, ".banner"), /Values are of \d\d:\d\d:\d\d/);
      assert.match(await text(page, ".time .when"), /^Last/);
      assert.match(await text(page, ".outline"), /kpps/);
      await control({ [way]: false });
      await page.waitForSelector(".banner", { state: "detached", timeout: 12_000 });
    }
  });
});

test("a daemon that was started anew: its history begins there, and the page says so", async () => {
  await visit(10, async ({ page, control }) => {
    await control({ restart: true });
    await page.waitForSelector(".banner.note >> text=started anew");
  });
});

test("markup and direction marks from guests, names and messages are shown as text", async () => {
  const evil = `<img src=x onerror="window.hit=1"><script>window.hit=1</script>\u202egnp.exe`;
  await visit(10, async ({ page, go, control }) => {
    await control({ alerts: [evil], logs: [evil], notice: { kind: "function", name: "fair", what: "fault", text: evil } });
    await go("#/events");
    await page.waitForSelector("text=<img src=x");
    assert.match(await text(page, "main table"), /\\u202egnp\.exe/);
    await go("#/objects/function/fair");
    await page.waitForSelector(".lines-view >> text=<script>");
    await page.click("button[role=tab]:has-text('Log')");
    await page.waitForSelector(".lines-view >> text=<script>");
    await go(`#/objects/function/${encodeURIComponent(evil)}`);
    await page.waitForSelector("text=There is no function");
    assert.equal(await page.evaluate(() => window.hit), undefined);
    assert.equal(await page.locator("main img, main script").count(), 0);
  });
});

test("a function is made, upgraded, saved, restored, paused, restarted and deleted", async () => {
  await visit(10, async ({ page, go, served }) => {
    const { host } = served.mock;
    await go("#/objects/function/+");
    await page.fill("label:has-text('Name') input", "probe");
    await page.waitForFunction(() => !document.querySelector("section[aria-label=Spec] button.first").disabled);
    await page.click("button:has-text('Create')");
    await page.waitForSelector("h1:has-text('probe')");
    await page.click("button:has-text('Upgrade…')");
    await page.fill("dialog input", "missing");
    await page.click("dialog button.first");
    await page.waitForSelector("dialog >> text=found `missing`");
    await page.fill("dialog input", "firewall");
    // It is compiled first, which takes its time.
    served.mock.slow = true;
    await page.click("dialog button.first");
    await page.waitForSelector("dialog [role=status] >> text=/running: compiling firewall, [\\d.]+ s/");
    assert.match(await text(page, "dialog"), /Close, it goes on/);
    served.mock.slow = false;
    await page.waitForSelector("text=Upgraded.");
    assert.match(await text(page, ".waterfall"), /compiling firewall/);
    assert.equal(host.objects.get("function").get("probe").spec.image, "firewall");
    await page.click("button:has-text('Snapshot…')");
    await page.fill("dialog input", "before-lunch");
    await page.click("dialog button.first");
    await page.waitForSelector("section[aria-label=Actions] td:has-text('before-lunch')");
    await page.click("button:has-text('Pause')");
    await page.waitForSelector("h1 ~ .tag:has-text('paused')");
    await page.click("button:has-text('Resume')");
    await page.waitForSelector("h1 ~ .tag:has-text('running')");
    await page.click("button:has-text('Restore…')");
    assert.match(await text(page, "dialog"), /probe is replaced, and loses what it knows/);
    await page.fill("dialog input", "probe2");
    await page.click("dialog button.first");
    await page.waitForSelector("text=Restored.");
    assert.ok(host.objects.get("function").has("probe2"));
    await page.click("button:has-text('Restart…')");
    assert.match(await text(page, "dialog"), /loses what it knows/);
    await page.click("dialog button:has-text('Cancel')");
    await page.click("section[aria-label=Actions] > .row button:has-text('Delete…')");
    assert.match(await text(page, "dialog"), /with it what it knows/);
    await page.click("dialog button.danger");
    await page.waitForFunction(() => location.hash === "#/objects/function");
    assert.equal(host.objects.get("function").has("probe"), false);
    // What the host has of images and snapshots, and services in the wiring.
    await go("#/objects/images");
    await page.waitForSelector("tr:has-text('firewall') >> text=The stock image firewall.");
    await go("#/objects/snapshots");
    await page.waitForSelector("tr:has-text('before-lunch') >> text=probe");
    await go("#/wiring");
    await page.click(".outline button:has-text('red:7')");
    await page.waitForSelector(".side.right >> text=/service of tenant red/");
    assert.match(await text(page, ".side.right"), /Joined to\s+gateway\s+leads/);
    // What is needed elsewhere is in the way, and is told.
    await go("#/objects/function/fair");
    await page.click("section[aria-label=Actions] > .row button:has-text('Delete…')");
    await page.click("dialog button.danger");
    await page.waitForSelector("dialog >> text=chains.edge");
  });
});

test("a change that would lose what a function knows asks first", async () => {
  await visit(10, async ({ page, go, served }) => {
    await go("#/objects/function/fair");
    await page.waitForSelector("textarea");
    await page.fill("textarea", '{"image": "forgetful"}');
    await page.waitForFunction(() => !document.querySelector("section[aria-label=Spec] button.first").disabled);
    await page.click("section[aria-label=Spec] button.first");
    await page.waitForSelector("text=it would begin anew and lose what it knows");
    assert.equal(served.mock.host.objects.get("function").get("fair").spec.image, "policer");
    await page.click("button:has-text('Apply, and lose what it knows')");
    await page.waitForSelector(".waterfall");
    assert.equal(served.mock.host.objects.get("function").get("fair").spec.image, "forgetful");
  });
});

test("the editor suggests what the daemon allows, keys and values", async () => {
  await visit(10, async ({ page, go }) => {
    await go("#/objects/function/+");
    await page.waitForSelector("textarea");
    await page.fill("textarea", '{"image": "monitor", "max_');
    await page.locator("textarea").press("End");
    await page.locator("textarea").press("Control+Space");
    await page.waitForSelector(".suggestions >> text=max_call");
    await page.locator("textarea").press("Enter");
    assert.match(await page.inputValue("textarea"), /"max_call": $/);
    await page.fill("textarea", '{"image": "firewall", "config": {"default_action": "d');
    await page.waitForSelector(".suggestions >> text=drop");
    await page.locator("textarea").press("Tab");
    assert.match(await page.inputValue("textarea"), /"default_action": "drop"$/);
  });
});

test("a packet's way: verdicts, what changed in its headers, the reason of its drop, a crossing of tenants", async () => {
  await visit(10, async ({ page, go }) => {
    await go("#/packets?at=lan");
    await page.waitForSelector("h1:has-text('Packets')");
    assert.equal(await page.inputValue("label:has-text('At') input"), "lan");
    await page.click("button.first");
    await page.waitForSelector("text=/10 packets were followed/");
    const way = await text(page, "section[aria-label='The way of packet 1']");
    assert.match(way, /edge_firewall function called at inside · verdict interface outside/);
    assert.match(way, /612 cycles, in a batch of 32/);
    assert.match(way, /IPv4 source\s+192\.168\.1\.10\s+198\.51\.100\.7/);
    assert.match(way, /Crosses from tenant default to tenant red/);
    assert.match(way, /VXLAN network\s+was not there\s+7/);
    await page.click("button[aria-label='Packet 2']");
    assert.match(await text(page, "section[aria-label='The way of packet 2']"), /Lost: function/);
    await page.click("summary:has-text('Inject')");
    await page.fill("details input", "udp:10.1.0.5:40000-10.2.0.1");
    await page.click("button.first");
    await page.waitForSelector("text=/The packet to inject: found/");
    await page.fill("details input", "udp:10.1.0.5:40000-10.2.0.1:53");
    await page.click("button.first");
    await page.waitForSelector("text=/1 packets were followed/");
  });
});

test("a capture is shown as it comes, and downloaded whole", async () => {
  await visit(10, async ({ page }) => {
    await page.click(".outline button:has-text('edge_firewall')");
    await page.evaluate(() => (location.hash = "#/packets?tab=capture&at=lan~edge_firewall%3Ainside"));
    await page.waitForSelector("button.first:has-text('Capture')");
    assert.equal(await page.inputValue("label:has-text('At') input"), "lan~edge_firewall:inside");
    await page.click("button.first");
    await page.waitForSelector("a[download]");
    assert.match(await text(page, "form [role=status]"), /60 packets, .* 2 came too fast/);
    await page.click("button[aria-label='Packet 4']");
    assert.match(await text(page, "section[aria-label='Packet 4']"), /VXLAN network\s+7/);
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("a[download]")]);
    assert.match(download.suggestedFilename(), /^lan-edge_firewall-inside-.*\.pcapng$/);
    const bytes = readFileSync(await download.path());
    assert.equal(bytes.readUInt32LE(0), 0x0a0d0d0a);
    assert.ok(bytes.length > 5000);
  });
});

test("the slider moves the whole page back, events stand on the line, and Now comes back", async () => {
  await visit(10, async ({ page, go, served }) => {
    const slider = page.locator("input[type=range]");
    await slider.evaluate((element) => {
      element.value = String(Number(element.max) - 1500);
      element.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.waitForSelector(".time.past");
    assert.match(await text(page, ".time .when"), /25 min [0-9] s ago/);
    const step = Number(await slider.inputValue());
    const packets = served.mock.host.work("detection", step).packets;
    const shown = `${(packets / 1000).toPrecision(3)} kpps`;
    await page.waitForSelector(`.outline li:has-text("detection") >> text=${shown}`);
    await go("#/objects/function");
    await page.waitForSelector(`tr:has-text("detection") >> text=${shown}`);
    await page.click(".time button:has-text('Now')");
    await page.waitForSelector(".time.past", { state: "detached" });
  });
});

test("a thousand functions: twenty chains stand folded, one opens, search finds, keys walk", async () => {
  await visit(1000, async ({ page }) => {
    assert.equal(await page.getAttribute("canvas", "data-stands"), "20");
    const canvas = page.locator(".picture canvas");
    await page.click(".outline button:has-text('c03')");
    await page.waitForSelector("canvas[data-stands='72']");
    assert.ok(await page.evaluate(() => performance.getEntriesByName("superfluid:chain-open").length === 1));
    await page.fill("#search", "c07-f4 gold");
    assert.match(await text(page, ".side.left [role=status]"), /^10 found/);
    await page.click(".outline button:has-text('c07-f42')");
    await page.waitForSelector("canvas[data-stands='124']");
    assert.match(await text(page, ".side.right"), /c07-f42[\s\S]*in chain c07/);
    await page.fill("#search", "");
    await canvas.focus();
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction(() => !/c07-f42/.test(document.querySelector(".side.right h2").textContent));
    for (const key of ["+", "-", "0", "Shift+ArrowDown", "Escape"]) await page.keyboard.press(key);
    await page.waitForSelector(".side.right h2:has-text('The host')");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.id), "search");
    const updates = await page.evaluate(() => performance.getEntriesByName("superfluid:update").length);
    assert.ok(updates > 0);
  });
});

test("pressed with a pointer, a chain opens and folds; dragged and turned, the picture moves", async () => {
  await visit(1000, async ({ page }) => {
    const box = await page.locator(".picture canvas").boundingBox();
    // Chains stand in rows: the first is up and to the left of the middle.
    let opened = false;
    for (let x = 60; x < box.width && !opened; x += 60) {
      await page.mouse.click(box.x + x, box.y + 110);
      await page.waitForTimeout(60);
      opened = (await page.getAttribute("canvas", "data-stands")) !== "20";
    }
    assert.ok(opened);
    await page.mouse.move(box.x + 300, box.y + 300);
    await page.mouse.down();
    await page.mouse.move(box.x + 360, box.y + 340, { steps: 4 });
    await page.mouse.up();
    await page.mouse.wheel(0, -300);
    assert.equal(await page.getAttribute("canvas", "data-stands"), "72", "a drag presses nothing");
  });
});

test("workers as lanes: who shares a core, and how long it slept", async () => {
  await visit(10, async ({ page, go }) => {
    await go("#/workers");
    await page.waitForSelector("section[aria-label='Worker 0']");
    assert.match(await text(page, "section[aria-label='Worker 0']"), /asleep \d+/);
    assert.ok((await page.locator(".lane button[aria-label*='promised']").count()) >= 6);
  });
});

test("two reports side by side", async () => {
  await visit(10, async ({ page, go }) => {
    await go("#/reports");
    const files = page.locator("input[type=file][multiple]");
    await files.nth(0).setInputFiles({ name: "fig-6b.jsonl", mimeType: "application/jsonl", buffer: Buffer.from(report(1)) });
    await files.nth(1).setInputFiles({ name: "fig-6b.jsonl", mimeType: "application/jsonl", buffer: Buffer.from(report(1.5)) });
    await page.waitForSelector("text=B over A");
    assert.match(await text(page, "section[aria-label=Results]"), /models\/worst-ratio\s+at least 1\s+1\.2 ratio ✓\s+1\.8 ratio ✓\s+1\.500/);
    await page.waitForSelector(".uplot");
    await page.click("summary:has-text('Data')");
    assert.match(await text(page, "details table"), /64\s+4\.1 4 to 4\.3\s+2\.1[\s\S]*6\.15/);
    await files.nth(1).setInputFiles({ name: "bad.jsonl", mimeType: "application/jsonl", buffer: Buffer.from("<html>") });
    await page.waitForSelector("text=bad.jsonl:1: found what is no JSON");
  });
});

test("a tenant that reads sees no button that changes", async () => {
  const rights = { rights: "tenant", tenant: "red", token: "ci", read_only: true };
  await visit(
    10,
    async ({ page, go }) => {
      assert.match(await text(page, ".top"), /tenant red, reading/);
      await go("#/objects/function/fair");
      await page.waitForSelector("textarea");
      assert.ok(await page.locator("textarea").evaluate((area) => area.readOnly));
      assert.equal(await page.locator("section[aria-label=Actions]").count(), 0);
      assert.equal(await page.locator("button:has-text('Apply')").count(), 0);
    },
    { serve: { rights } },
  );
});

const PLACES = ["#/wiring", "#/workers", "#/objects/function", "#/objects/images", "#/objects/snapshots", "#/objects/function/edge_firewall", "#/objects/function/+", "#/packets", "#/packets?tab=capture", "#/events", "#/reports"];

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing, ${colorScheme}`, async () => {
    await visit(
      10,
      async ({ page, go, control }) => {
        const found = {};
        for (const place of PLACES) {
          await go(place);
          await page.waitForTimeout(900);
          if (place === "#/packets") {
            await page.click("button.first");
            await page.waitForSelector(".way");
          }
          const violations = await axe(page);
          if (violations.length) found[place] = violations;
        }
        // What is only there after a while: a selected node, faults and suggestions, dialogs, the past, old values.
        const look = async (name) => {
          const violations = await axe(page);
          if (violations.length) found[name] = violations;
        };
        // Events of another day show their day, in what is read out as well.
        await page.evaluate(() => {
          window.today = Date.now;
          Date.now = () => window.today() + 86_400_000;
        });
        await go("#/events");
        await page.waitForSelector("td button.plain");
        assert.match(await page.locator("td button.plain").first().innerText(), /^\d{4}-\d\d-\d\d /);
        await look("events of another day");
        await page.evaluate(() => (Date.now = window.today));
        await go("#/wiring");
        await page.click(".outline button:has-text('edge_firewall')");
        await page.waitForSelector(".uplot");
        await look("selected");
        await page.fill("#search", "edge");
        await look("searched");
        await page.locator("input[type=range]").evaluate((element) => {
          element.value = String(Number(element.max) - 900);
          element.dispatchEvent(new Event("input", { bubbles: true }));
        });
        await page.waitForSelector(".time.past");
        await look("past");
        await page.click(".time button:has-text('Now')");
        await go("#/objects/function/edge_firewall");
        await page.waitForSelector("textarea");
        const spec = await page.inputValue("textarea");
        await page.fill("textarea", spec.replace('"drop"', '"dr"'));
        await page.waitForSelector(".faults button");
        await look("faults");
        for (const button of ["Restart…", "Upgrade…", "Snapshot…", "Restore…"]) {
          await page.click(`section[aria-label=Actions] button:has-text("${button}")`);
          await page.waitForSelector("dialog");
          await look(button);
          await page.click("dialog button:has-text('Cancel')");
        }
        await page.fill("textarea", spec.replace('"drop"', '"accept"'));
        await page.waitForFunction(() => !document.querySelector("section[aria-label=Spec] button.first").disabled);
        await control({ touch: ["function", "edge_firewall"] });
        await page.click("section[aria-label=Spec] button.first");
        await page.waitForSelector("dialog");
        await look("conflict");
        await page.click("dialog button:has-text('Take theirs')");
        await control({ away: true });
        await page.waitForSelector(".banner");
        await look("away");
        await control({ away: false });
        await page.waitForSelector(".banner", { state: "detached" });
        await page.click("button:has-text('Log out')");
        await page.waitForSelector("dialog");
        await look("login");
        assert.deepEqual(found, {});
      },
      { context: { colorScheme } },
    );
  });
}

test("on a phone nothing is wider than the screen", async () => {
  await visit(
    10,
    async ({ page, go }) => {
      for (const place of PLACES) {
        await go(place);
        await page.waitForTimeout(700);
        const wide = await page.evaluate(() => {
          const main = document.querySelector("main");
          return Math.max(document.documentElement.scrollWidth, main.scrollWidth) - innerWidth;
        });
        assert.ok(wide <= 0, `${place} is ${wide} wider`);
      }
    },
    { context: { viewport: { width: 375, height: 740 }, hasTouch: true, isMobile: true } },
  );
});

test("a first visit loads little, and nothing from elsewhere", async () => {
  await visit(1000, async ({ page, served }) => {
    const asked = await page.evaluate(() => performance.getEntriesByType("resource").map((entry) => entry.name));
    assert.deepEqual(asked.filter((address) => !address.startsWith(served.address)), []);
    assert.equal(asked.some((address) => /elk-/.test(address)), false, "lines need no ELK");
  });
  await visit(10, async ({ page }) => {
    await page.waitForFunction(() => performance.getEntriesByType("resource").some((entry) => /elk-/.test(entry.name)));
    const bytes = await page.evaluate(() => [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")].filter((entry) => !/\/v1\//.test(entry.name)).reduce((sum, entry) => sum + entry.transferSize, 0));
    assert.ok(bytes > 0 && bytes <= 700 * 1024, `${bytes} bytes`);
  });
});
