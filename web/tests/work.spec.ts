/** The library, keys, and what an account can see of itself. */

import { readFile } from "node:fs/promises";
import { expect, test } from "@playwright/test";
import { baseURL, expectAccessible, signedIn, transcribed, watch } from "./app";

test("the library finds what was said, saves several as a ZIP, and deletes them", async ({ browser }) => {
  test.setTimeout(300_000);
  const context = await signedIn(browser, "ann@example.com", { acceptDownloads: true });
  const first = await transcribed(context);
  const second = await transcribed(context);
  const page = await context.newPage();
  const complaints = watch(page);
  await page.goto("/library");
  await expect(page.getByRole("link", { name: /market/ }).first()).toBeVisible();
  await page.getByLabel("Search all transcripts").fill('"going to the market"');
  await page.keyboard.press("Enter");
  const hit = page.getByRole("link", { name: /at 0:0\d/ }).first();
  await expect(async () => {
    await page.reload();
    await expect(hit).toBeVisible({ timeout: 3_000 });
  }).toPass({ timeout: 60_000 });
  await expectAccessible(page);
  await hit.click();
  await expect(page).toHaveURL(/\/t\/\d+\?at=/);
  await page.goto("/library");
  await page.getByRole("checkbox", { name: "Select this page" }).check();
  await page.getByRole("button", { name: "Export" }).click();
  const dialog = page.getByRole("dialog");
  const saved = page.waitForEvent("download");
  await dialog.getByRole("button", { name: "Export", exact: true }).click();
  const file = await saved;
  expect(file.suggestedFilename()).toMatch(/^hark transcripts .*\.zip$/);
  const bytes = await readFile(await file.path());
  expect(bytes.subarray(0, 4)).toEqual(Buffer.from("PK\u0003\u0004", "latin1"));
  expect(bytes.toString("latin1")).toMatch(/market/);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  for (const id of [first, second]) await expect.poll(async () => (await context.request.get(`/v1/transcripts/${id}`)).status()).toBe(404);
  expect(complaints).toEqual([]);
  await context.close();
});

test("subtitles are three clicks away, with the speakers as the page names them", async ({ browser }) => {
  const context = await signedIn(browser, "ann@example.com", { acceptDownloads: true });
  const id = await transcribed(context, "call.wav");
  const page = await context.newPage();
  const complaints = watch(page);
  await page.goto("/");
  let clicks = 0;
  await page.exposeFunction("clicked", () => (clicks += 1));
  await page.evaluate(() => addEventListener("click", () => void (globalThis as unknown as { clicked(): void }).clicked(), true));
  await page.getByRole("banner").getByRole("link", { name: "Library" }).click();
  const row = page.getByRole("listitem").filter({ has: page.locator(`a[href="/t/${id}"]`) });
  await row.getByRole("button", { name: /^Actions for/ }).click();
  const saved = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Download subtitles" }).click();
  const file = await saved;
  expect(clicks).toBeLessThanOrEqual(3);
  expect(file.suggestedFilename()).toBe("call.srt");
  const text = await readFile(await file.path(), "utf8");
  expect(text).toMatch(/^1\n00:00:\d\d,\d{3} --> /);
  // Programs get the labels.
  const shown = ["Speaker 1", "Speaker 2"];
  for (const name of shown) expect(text).toContain(`${name}: `);
  expect(text).not.toContain("SPEAKER_");
  const json = await (await context.request.get(`/v1/transcripts/${id}/export/json`)).text();
  expect(json).toContain('"SPEAKER_01"');
  await page.goto(`/t/${id}`);
  for (const name of shown) await expect(page.locator(".transcript-text").getByText(name, { exact: true }).first()).toBeVisible();
  expect(complaints).toEqual([]);
  await context.close();
});

test("a key is made, shown once, works, and is revoked", async ({ browser }) => {
  const context = await signedIn(browser, "bob@example.com");
  const page = await context.newPage();
  const complaints = watch(page);
  await page.goto("/account/keys");
  await page.getByRole("button", { name: "New key" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("backup script");
  await dialog.getByRole("button", { name: "Make key" }).click();
  const secret = page.getByLabel("Secret", { exact: true });
  await expect(secret).toBeVisible();
  const key = (await secret.inputValue().catch(async () => (await secret.textContent()) ?? "")).trim();
  expect(key).toMatch(/^svc_[0-9a-f]{64}$/);
  const anybody = await browser.newContext();
  const call = () => anybody.request.get(`${baseURL}/v1/account`, { headers: { Authorization: `Bearer ${key}` } });
  expect((await call()).status()).toBe(200);
  await page.getByRole("button", { name: "I have it" }).click();
  await expect(page.getByText(key)).toHaveCount(0);
  await page.getByRole("button", { name: /Actions for .?backup script/ }).click();
  await page.getByRole("menuitem", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await expect.poll(async () => (await call()).status()).toBe(401);
  expect(complaints).toEqual([]);
  await anybody.close();
  await context.close();
});

test("somebody who manages nobody is shown nothing of the administration", async ({ browser }) => {
  const context = await signedIn(browser, "bob@example.com");
  const page = await context.newPage();
  await page.goto("/admin");
  await expect(page.getByRole("heading", { level: 1 }).or(page.getByRole("heading", { level: 2 })).first()).toBeVisible();
  await expect(page.getByRole("banner").getByRole("link", { name: "Admin" })).toHaveCount(0);
  expect((await context.request.get("/v1/admin/audit")).status()).toBe(403);
  await context.close();
});
