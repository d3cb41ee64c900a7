/** Somebody who comes for the first time: a recording in, its words out; an account; the same with an account. */

import { expect, test } from "@playwright/test";
import { expectAccessible, expectNoSidewaysScroll, recording, signedIn, watch } from "./app";
import { MailServer } from "./smtp";

test("a recording is transcribed without an account, and its text can be saved", async ({ page }) => {
  const complaints = watch(page);
  await page.goto("/");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Turn speech into text");
  await expect(page.getByText("transcriptions left today without an account")).toBeVisible();
  await page.getByLabel("Model").selectOption("whisper-tiny");
  await page.locator('input[type="file"]').setInputFiles(recording("market.wav"));
  const card = page.getByRole("article", { name: "market.wav" });
  await expect(card.getByText("Done")).toBeVisible({ timeout: 90_000 });
  await expect(card).toContainText(/going to the market/i);
  const saved = page.waitForEvent("download");
  await card.getByRole("button", { name: "Save subtitles" }).click();
  const file = await saved;
  expect(file.suggestedFilename()).toBe("market.srt");
  const { readFile } = await import("node:fs/promises");
  expect(await readFile(await file.path(), "utf8")).toMatch(/^1\n00:00:0\d,\d{3} --> 00:00:/);
  await expectAccessible(page);
  expect(complaints).toEqual([]);
});

test("what can't be transcribed is refused in words, and nothing else is lost", async ({ browser }) => {
  const context = await signedIn(browser, "ann@example.com");
  const page = await context.newPage();
  await page.goto("/");
  await page.getByLabel("Model").selectOption("whisper-tiny");
  await page.locator('input[type="file"]').setInputFiles([recording("empty.wav"), recording("broken.wav"), recording("market.wav")]);
  await expect(page.getByRole("article", { name: "empty.wav" })).toContainText("This file is empty.");
  await expect(page.getByRole("article", { name: "broken.wav" }).getByRole("alert")).toBeVisible();
  const good = page.getByRole("article", { name: "market.wav" });
  await expect(good.getByText("Done")).toBeVisible({ timeout: 90_000 });
  await good.getByRole("link", { name: "Open market.wav" }).click();
  await expect(page).toHaveURL(/\/t\/\d+$/);
  await context.close();
});

test("an account is made, confirmed by mail, forgotten and found again", async ({ page }) => {
  const mails = await MailServer.listen(Number(process.env["HARK_MAIL_PORT"]));
  try {
    await page.goto("/");
    await page.getByRole("banner").getByRole("link", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "Create an account" }).click();
    await page.getByLabel("Email address").fill("carla@example.com");
    await page.getByLabel("Password", { exact: true }).fill("a good long password");
    await page.getByRole("button", { name: "Create account" }).click();
    await expect(page.getByRole("heading", { name: "Look into your mail" })).toBeVisible();
    await expect.poll(() => mails.textTo("carla@example.com"), { timeout: 15_000 }).toMatch(/\/v1\/auth\/confirm\?token=/);
    const link = /https?:\S+confirm\?token=\S+/.exec(mails.textTo("carla@example.com") ?? "")?.[0] ?? "";
    await page.goto(link);
    await page.goto("/sign-in");
    await page.getByLabel("Email address").fill("carla@example.com");
    await page.getByLabel("Password", { exact: true }).fill("not the password");
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("alert")).toBeVisible();
    await page.getByLabel("Password", { exact: true }).fill("a good long password");
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("button", { name: "Account of carla@example.com" })).toBeVisible();
    await page.getByRole("button", { name: "Account of carla@example.com" }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await expect(page.getByRole("banner").getByRole("link", { name: "Sign in" })).toBeVisible();
    await page.goto("/forgot");
    await page.getByLabel("Email address").fill("carla@example.com");
    await page.getByRole("button", { name: "Send the link" }).click();
    await expect.poll(() => mails.textTo("carla@example.com"), { timeout: 15_000 }).toMatch(/\/v1\/auth\/reset#/);
  } finally {
    mails.close();
  }
});

test("a page for people with an account leads to the sign-in and back", async ({ page }) => {
  await page.goto("/library?q=apples");
  await page.getByRole("main").getByRole("link", { name: "Sign in" }).click();
  await page.getByLabel("Email address").fill("ann@example.com");
  await page.getByLabel("Password", { exact: true }).fill("correct horse battery");
  await page.getByRole("main").getByRole("button", { name: "Sign in" }).click();
  await expect(page).toHaveURL(/\/library\?q=apples$/);
});

test("an address that leads nowhere says so, with status 404", async ({ page }) => {
  const answer = await page.goto("/nothing/here");
  expect(answer?.status()).toBe(404);
  await expect(page.getByRole("heading", { name: "There is nothing here" })).toBeVisible();
  await expectAccessible(page);
});

test("language and theme are remembered", async ({ page }) => {
  await page.goto("/");
  await page.getByRole("button", { name: "Language" }).click();
  await page.getByRole("menuitemradio", { name: "Deutsch" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Aus Sprache wird Text");
  await page.getByRole("button", { name: "Farben" }).click();
  await page.getByRole("menuitemradio", { name: "Dunkel" }).click();
  await page.reload();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Aus Sprache wird Text");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await expect(page.locator("html")).toHaveAttribute("lang", "de");
});

test("a phone has everything within its width", async ({ browser }) => {
  const context = await browser.newContext({ viewport: { width: 360, height: 740 } });
  const page = await context.newPage();
  for (const path of ["/", "/sign-in", "/sign-up", "/live", "/developers"]) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expectNoSidewaysScroll(page);
  }
  await context.close();
});

test("the first load is at most 150 kB compressed, and its files are cached for good", async ({ page }) => {
  let bytes = 0;
  const hashed: string[] = [];
  page.on("response", (response) => {
    const path = new URL(response.url()).pathname;
    if (path.startsWith("/v1/")) return;
    bytes += Number(response.headers()["content-length"] ?? Number.NaN);
    if (path.startsWith("/assets/")) hashed.push(`${response.headers()["content-encoding"] ?? "none"} ${response.headers()["cache-control"] ?? ""}`);
  });
  await page.goto("/");
  await expect(page.getByText("Drop files here")).toBeVisible();
  expect(bytes).toBeGreaterThan(10_000);
  expect(bytes).toBeLessThanOrEqual(150_000);
  expect(hashed.length).toBeGreaterThan(2);
  for (const headers of hashed) expect(headers).toContain("immutable");
});

test("a large recording whose connection breaks goes on where it was", async ({ browser }) => {
  const context = await signedIn(browser, "ann@example.com");
  const page = await context.newPage();
  let parts = 0;
  await page.route("**/v1/uploads/*?offset=*", async (route) => {
    parts += 1;
    if (parts === 1) await route.abort("connectionreset");
    else await route.continue();
  });
  await page.goto("/");
  await page.getByLabel("Model").selectOption("whisper-tiny");
  await page.locator('input[type="file"]').setInputFiles(recording("long.wav"));
  const card = page.getByRole("article", { name: "long.wav" });
  await expect(card.getByText("Done")).toBeVisible({ timeout: 90_000 });
  await expect(card).toContainText(/going to the market/i);
  expect(parts).toBe(2);
  await context.close();
});

test("the sample is transcribed with one click", async ({ browser }) => {
  const context = await signedIn(browser, "bob@example.com");
  const page = await context.newPage();
  await page.goto("/");
  await page.getByLabel("Model").selectOption("whisper-tiny");
  await page.getByRole("button", { name: "Try it with a sample" }).click();
  const card = page.getByRole("article", { name: "sample.wav" });
  await expect(card.getByText("Done")).toBeVisible({ timeout: 90_000 });
  await expect(card).toContainText(/fail/i);
  await context.close();
});
