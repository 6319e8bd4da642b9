// Walks the page with a real daemon and real traffic: generated packets through functions that run.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open, stands } from "../browser.mjs";
import { daemon, files } from "./daemon.mjs";

const HOST = `superfluid: 1
workers: 1
tenants: {default: {}, blue: {pool: {buffers: 1024}}, red: {pool: {buffers: 1024}}}
ports:
  source: {type: generator, flows: 64, rate: 2kpps}
  end: {type: sink}
  inner: {type: generator, flows: 16, rate: 1kpps}
  outer: {type: sink, check: checksums}
  bluesource: {type: generator, tenant: blue, flows: 16, rate: 1kpps}
  redend: {type: sink, tenant: red}
functions:
  gate: {image: firewall, max_call: 2s, config: {stateful: false, default_action: drop}}
  home: {image: nat, max_call: 2s, config: {pool: [198.51.100.7/32]}}
  blueone: {image: forwarder, tenant: blue, max_call: 2s}
  redone: {image: forwarder, tenant: red, max_call: 2s}
  redown: {image: monitor, tenant: red, max_call: 2s}
chains:
  main: [source, gate, end]
  nat: [inner, home, outer]
  handover: [bluesource, blueone, redone, redend]
`;
const PATIENCE = { timeout: 20_000 };
let host;
let browser;

before(async () => {
  browser = await launch();
  host = await daemon(HOST);
});
after(async () => {
  await browser?.close();
  await host?.close();
});

/** A page of the host, logged in by a link. */
async function visit(act, { token, path = "#/wiring" } = {}) {
  const opened = await open(browser);
  const { page, context } = opened;
  await files(context);
  try {
    await page.goto(host.link(token));
    await stands(page);
    await page.evaluate((path) => (location.hash = path), path);
    await act(opened);
    const refused = opened.complaints.filter((one) => /Content Security|Refused to|^error: (Type|Reference|Range|Syntax)Error/i.test(one));
    assert.deepEqual(refused, []);
  } finally {
    await context.close();
  }
}

const text = (page, selector) => page.locator(selector).first().innerText();
const ready = (page) => page.waitForFunction(() => !document.querySelector("section[aria-label=Spec] button.first").disabled, null, PATIENCE);

test("a dropping firewall is found, its reason seen, its rule changed, and packets pass", async () => {
  await visit(async ({ page }) => {
    await page.waitForSelector(".side.right .ranking >> text=/kpps denied/", PATIENCE);
    await page.click(".side.right .ranking button:has-text('gate')");
    await page.click(".side.right a:has-text('Open')");
    await page.waitForSelector("textarea");
    const spec = await page.inputValue("textarea");
    await page.fill("textarea", spec.replace('"drop"', '"dorp"'));
    await page.waitForSelector(".faults >> text=/^\\d+:\\d+ config\\.default_action: found the text \"dorp\"; allowed: one of accept, drop/", PATIENCE);
    await page.fill("textarea", spec.replace('"drop"', '"accept"'));
    await ready(page);
    await page.click("section[aria-label=Spec] button.first");
    await page.waitForSelector(".waterfall >> text=hand-over", PATIENCE);
    await page.evaluate(() => (location.hash = "#/wiring"));
    await page.waitForFunction(() => [...document.querySelectorAll(".outline li")].some((line) => /^gate/.test(line.textContent) && !/▼/.test(line.textContent)), null, PATIENCE);
    // The sink gets them now.
    await page.waitForFunction(() => [...document.querySelectorAll(".outline li")].some((line) => /^end\s*\d.* kpps/.test(line.textContent)), null, PATIENCE);
    assert.equal(host.get("function", "gate").spec.config.default_action, "accept");
  });
});

test("a function is made with what the daemon suggests, upgraded, saved, paused, and deleted", async () => {
  await visit(
    async ({ page }) => {
      await page.fill("label:has-text('Name') input", "probe");
      await page.fill("textarea", '{"image": "firewall", "config": {"default_');
      await page.locator("textarea").press("Control+Space");
      await page.waitForSelector(".suggestions >> text=default_action", PATIENCE);
      await page.locator("textarea").press("Enter");
      await page.keyboard.type('"ac');
      await page.waitForSelector(".suggestions >> text=accept", PATIENCE);
      await page.keyboard.press("Enter");
      await page.keyboard.type("}}");
      await ready(page);
      await page.click("button:has-text('Create')");
      await page.waitForSelector("h1:has-text('probe')", PATIENCE);
      await page.waitForSelector("section[aria-label=Actions]", PATIENCE);
      await page.click("button:has-text('Upgrade…')");
      await page.fill("dialog input", "no-such-image");
      await page.click("dialog button.first");
      await page.waitForSelector("dialog [role=alert]", PATIENCE);
      await page.fill("dialog input", "firewall");
      await page.click("dialog button.first");
      await page.waitForSelector("text=Upgraded.", PATIENCE);
      await page.click("button:has-text('Snapshot…')");
      await page.fill("dialog input", "kept");
      await page.click("dialog button.first");
      await page.waitForSelector("section[aria-label=Actions] td:has-text('kept')", PATIENCE);
      await page.click("button:has-text('Pause')");
      await page.waitForSelector("h1 ~ .tag:has-text('paused')", PATIENCE);
      await page.click("button:has-text('Resume')");
      await page.waitForSelector("h1 ~ .tag:has-text('running')", PATIENCE);
      await page.click("section[aria-label=Actions] > .row button:has-text('Delete…')");
      await page.click("dialog button.danger");
      await page.waitForFunction(() => location.hash === "#/objects/function", null, PATIENCE);
      assert.throws(() => host.get("function", "probe"));
    },
    { path: "#/objects/function/+" },
  );
});

test("a packet is followed: what the translation changed, and where it crosses to another tenant", async () => {
  await visit(
    async ({ page }) => {
      await page.click("button.first");
      await page.waitForSelector("text=/\\d+ packets were followed/", PATIENCE);
      assert.match(await text(page, ".way"), /home function called[\s\S]*IPv4 source\s+[\d.]+\s+198\.51\.100\.7[\s\S]*outer port transmitted/);
      await page.fill("label:has-text('At') input", "bluesource");
      await page.click("button.first");
      await page.waitForSelector(".way >> text=Crosses from tenant blue to tenant red", PATIENCE);
    },
    { path: "#/packets?at=home" },
  );
});

test("a packet that is injected is followed to its end", async () => {
  await visit(
    async ({ page }) => {
      await page.click("summary:has-text('Inject')");
      await page.fill("details input", "udp:10.1.0.5:40000-10.2.0.1:53");
      await page.click("button.first");
      await page.waitForSelector(".way >> text=injected", PATIENCE);
      assert.match(await text(page, ".way"), /redown|gate/);
    },
    { path: "#/packets?at=gate%3Ainside" },
  );
});

test("a capture from a wire is downloaded as pcapng", async () => {
  await visit(
    async ({ page }) => {
      await page.fill("label:has-text('How many') input", "50");
      await page.click("button.first");
      await page.waitForSelector("a[download]", PATIENCE);
      assert.match(await text(page, "form [role=status]"), /^50 packets/);
      const [download] = await Promise.all([page.waitForEvent("download"), page.click("a[download]")]);
      assert.equal(readFileSync(await download.path()).readUInt32LE(0), 0x0a0d0d0a);
    },
    { path: "#/packets?tab=capture&at=inner~home%3Ainside" },
  );
});

test("a tenant sees what is the tenant's, and nothing else; its token's end is the session's", async () => {
  const secret = host.run("token", "create", "ci", "--tenant", "red").match(/sft_[0-9a-f]+/)[0];
  const token = join(host.folder, "red.token");
  writeFileSync(token, secret, { mode: 0o600 });
  await visit(
    async ({ page }) => {
      const outline = await text(page, ".outline");
      assert.match(outline, /redone[\s\S]*redown|redown[\s\S]*redone/);
      assert.doesNotMatch(outline, /blueone|gate|home|source/);
      assert.match(await text(page, ".top"), /tenant red/);
      await page.evaluate(() => (location.hash = "#/objects/function/gate"));
      await page.waitForSelector("text=There is no function gate", PATIENCE);
      await page.evaluate(() => (location.hash = "#/objects/function/redown"));
      await page.waitForSelector("textarea", PATIENCE);
      const typed = (await page.inputValue("textarea")).replace('"monitor"', '"monitor",\n  "quota": 77');
      await page.fill("textarea", typed);
      host.run("token", "delete", "ci");
      await page.waitForSelector("dialog >> text=Log in", PATIENCE);
      assert.equal(await page.inputValue("textarea"), typed);
    },
    { token },
  );
});

test("two editors of one object: the second sees both versions", async () => {
  await visit(
    async ({ page }) => {
      await page.waitForSelector("textarea");
      const spec = await page.inputValue("textarea");
      await page.fill("textarea", spec.replace('"2s"', '"3s"'));
      await ready(page);
      const file = join(host.folder, "other.yaml");
      writeFileSync(file, "superfluid: 1\nfunctions: {home: {image: nat, max_call: 4s, config: {pool: [198.51.100.7/32]}}}\n");
      host.run("apply", "-f", file);
      await page.click("section[aria-label=Spec] button.first");
      await page.waitForSelector("dialog >> text=/was changed meanwhile/", PATIENCE);
      assert.match(await text(page, "dialog"), /\+ +"max_call": "4s"/);
      await page.click("dialog button:has-text('Replace theirs')");
      await page.waitForSelector(".waterfall", PATIENCE);
      assert.equal(host.get("function", "home").spec.max_call, "3s");
    },
    { path: "#/objects/function/home" },
  );
});

test("the slider shows a second before, with its numbers", async () => {
  await visit(async ({ page }) => {
    await page.waitForFunction(() => Number(document.querySelector("input[type=range]").max) > 8, null, PATIENCE);
    await page.locator("input[type=range]").evaluate((element) => {
      element.value = String(Number(element.max) - 4);
      element.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.waitForSelector(".time.past", PATIENCE);
    await page.waitForFunction(() => /\d kpps/.test(document.querySelector(".outline").textContent), null, PATIENCE);
    await page.click(".time button:has-text('Now')");
    await page.waitForSelector(".time.past", { state: "detached", timeout: 10_000 });
  });
});

test("what happened before the page was opened is in its events, to a tenant what was the tenant's", async () => {
  const file = join(host.folder, "late.yaml");
  writeFileSync(file, "superfluid: 1\nfunctions: {redlate: {image: monitor, tenant: red, max_call: 2s}, bluelate: {image: monitor, tenant: blue, max_call: 2s}}\n");
  host.run("apply", "-f", file);
  for (const name of ["redlate", "bluelate"]) host.run("delete", `function/${name}`);
  const secret = host.run("token", "create", "late", "--tenant", "red").match(/sft_[0-9a-f]+/)[0];
  const token = join(host.folder, "late.token");
  writeFileSync(token, secret, { mode: 0o600 });
  const deleted = (name) => `tr:has-text("function/${name}") >> text=deleted`;
  await visit(
    async ({ page }) => {
      for (const name of ["redlate", "bluelate"]) await page.waitForSelector(deleted(name), PATIENCE);
      assert.match(await text(page, "main .dim"), /All since .* are here, when the daemon was started/);
    },
    { path: "#/events" },
  );
  await visit(
    async ({ page }) => {
      await page.waitForSelector(deleted("redlate"), PATIENCE);
      assert.doesNotMatch(await text(page, "main"), /blue|gate|home/);
    },
    { token, path: "#/events" },
  );
});
