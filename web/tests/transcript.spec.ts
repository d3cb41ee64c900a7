/** A transcript: heard, corrected, named, searched, exported, shared, summarized, asked, deleted. */

import { readFile } from "node:fs/promises";
import { expect, test, type BrowserContext, type Page } from "@playwright/test";
import { expectAccessible, signedIn, transcribed, watch } from "./app";

let context: BrowserContext;
let page: Page;
let id: number;
let complaints: string[];

test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ browser }) => {
  context = await signedIn(browser, "ann@example.com", { acceptDownloads: true });
  id = await transcribed(context, "market.mp4");
});

test.beforeEach(async () => {
  page = await context.newPage();
  complaints = watch(page);
  await page.goto(`/t/${id}`);
  await expect(page.locator(".transcript-segment").first()).toBeVisible();
});

test.afterEach(async () => {
  expect(complaints).toEqual([]);
  await page.close();
});

test.afterAll(async () => context.close());

test("a word that is clicked is heard, and the keyboard plays and pauses", async () => {
  const text = page.locator(".transcript-segment").first();
  await expect(page.getByRole("button", { name: "Play", exact: true })).toBeEnabled();
  await text.click({ position: { x: 20, y: 8 } });
  await expect.poll(() => page.evaluate(() => document.querySelector("video")?.paused)).toBe(false);
  await expect(page.getByRole("button", { name: "Pause", exact: true })).toBeVisible();
  await page.keyboard.press("Space");
  await expect.poll(() => page.evaluate(() => document.querySelector("video")?.paused)).toBe(true);
  // It had a picture, so it is shown.
  expect(await page.evaluate(() => document.querySelector("video")?.videoWidth)).toBe(160);
});

test("the waveform is drawn from the server's peaks", async () => {
  const answer = await context.request.get(`/v1/transcripts/${id}/waveform?points=200`);
  expect(answer.status()).toBe(200);
  const { peaks } = (await answer.json()) as { peaks: number[] };
  expect(peaks.length).toBe(200);
  expect(Math.max(...peaks)).toBeGreaterThan(20);
  await expect(page.getByRole("slider", { name: "Position in the recording" })).toBeVisible();
});

test("a correction is saved by itself, undone, and there after a reload", async () => {
  await page.locator(".transcript-segment").first().dblclick();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("We are going to the museum.");
  await expect(page.getByText("Saved", { exact: true })).toBeVisible();
  await page.keyboard.press("Escape");
  await page.reload();
  await expect(page.getByText("We are going to the museum.")).toBeVisible();
  await page.locator(".transcript-segment").first().dblclick();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("We are going to the market to buy some apples and bread.");
  await expect(page.getByText("Saved", { exact: true })).toBeVisible();
  await page.keyboard.press("Control+z");
  await expect(page.getByText("We are going to the museum.")).toBeVisible();
  await page.keyboard.press("Control+Shift+z");
  await expect(page.getByText("apples and bread")).toBeVisible();
  await expect(page.getByText("Saved", { exact: true })).toBeVisible();
});

test("words are found and replaced", async () => {
  await page.keyboard.press("Control+f");
  await page.getByLabel("Find", { exact: true }).fill("apples");
  await expect(page.getByText("1 of 1")).toBeVisible();
  await page.getByLabel("Replace with").fill("pears");
  await page.getByRole("button", { name: "Replace all" }).click();
  await expect(page.getByText("some pears and bread")).toBeVisible();
  await expect(page.getByText("Saved", { exact: true })).toBeVisible();
  const kept = (await (await context.request.get(`/v1/transcripts/${id}`)).json()) as { segments: { text: string }[] };
  expect(kept.segments.map((segment) => segment.text).join(" ")).toContain("pears");
});

test("title and speaker are named", async () => {
  await page.getByRole("button", { name: "Change the title" }).click();
  await page.getByLabel("Title", { exact: true }).fill("Market day");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Market day" })).toBeVisible();
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Speakers" }).click();
  const dialog = page.getByRole("dialog", { name: "Speakers" });
  await dialog.getByLabel("Name of Speaker 1").fill("Ann Smith");
  await dialog.getByRole("button", { name: "Save names" }).click();
  await expect(page.locator(".transcript-text").getByText("Ann Smith")).toBeVisible();
});

test("every format is downloaded, named after the title", async () => {
  const dialog = page.getByRole("dialog", { name: "Export" });
  for (const [format, ending, begins] of [
    ["SubRip subtitles", "srt", "1\n00:00:0"],
    ["WebVTT subtitles", "vtt", "WEBVTT"],
    ["Word", "docx", "PK"],
    ["PDF", "pdf", "%PDF"],
  ] as const) {
    await page.getByRole("button", { name: "Export" }).click();
    await dialog.getByRole("radio", { name: new RegExp(`^${format} `) }).check();
    const saved = page.waitForEvent("download");
    await dialog.getByRole("button", { name: "Download" }).or(dialog.getByRole("link", { name: "Download" })).click();
    const file = await saved;
    expect(file.suggestedFilename()).toBe(`Market day.${ending}`);
    expect((await readFile(await file.path())).toString("latin1").startsWith(begins)).toBe(true);
  }
});

test("whoever has the link reads it, until it is taken back", async ({ browser }) => {
  await page.getByRole("button", { name: "Share" }).click();
  const dialog = page.getByRole("dialog", { name: "Share" });
  await dialog.getByLabel("Everybody with the link may read this transcript").check();
  const link = dialog.getByLabel("Link", { exact: true });
  await expect(link).toHaveValue(/\/s\/\S+/);
  const address = new URL(await link.inputValue()).pathname;
  const stranger = await browser.newContext();
  const other = await stranger.newPage();
  await other.goto(address);
  await expect(other.getByText("some pears and bread")).toBeVisible();
  await dialog.getByLabel("Everybody with the link may read this transcript").uncheck();
  await expect.poll(async () => (await stranger.request.get(address)).status()).toBe(404);
  await stranger.close();
});

test("two tabs show the same text", async () => {
  const other = await context.newPage();
  await other.goto(`/t/${id}`);
  await expect(other.getByText("some pears and bread")).toBeVisible();
  await page.bringToFront();
  await page.locator(".transcript-segment").first().dblclick();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("Changed in one tab.");
  await expect(page.getByText("Saved", { exact: true })).toBeVisible();
  await expect(other.getByText("Changed in one tab.")).toBeVisible();
  await other.close();
});

test("what is odd about a recording is told until it was read", async () => {
  const odd = await transcribed(context, "phase.wav");
  await page.goto(`/t/${odd}`);
  const told = page.getByRole("region", { name: "About the recording" });
  await expect(told).toContainText("opposite phase");
  await expectAccessible(page);
  await told.getByRole("button", { name: "Close" }).click();
  await expect(told).toHaveCount(0);
  await page.reload();
  await expect(page.locator(".transcript-segment").first()).toBeVisible();
  await expect(told).toHaveCount(0);
});

test("a summary is made, and a question is answered with its place", async () => {
  test.setTimeout(300_000);
  await page.getByRole("button", { name: "Summarize" }).click();
  await expect(page.getByRole("button", { name: "Make again" })).toBeVisible({ timeout: 240_000 });
  await page.getByRole("tab", { name: "Ask" }).click();
  await page.getByLabel("Your question").fill("What was changed?");
  await page.keyboard.press("Enter");
  // Whatever a small model says, it is an answer from the transcript or that the transcript does not say it.
  await expect(page.getByText("What was changed?")).toBeVisible();
  await expect(page.getByRole("button", { name: "Stop" })).toHaveCount(0, { timeout: 240_000 });
  await expectAccessible(page);
});

test("deleted it is gone from the library, too", async () => {
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete transcript" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(page).toHaveURL(/\/library$/);
  expect((await context.request.get(`/v1/transcripts/${id}`)).status()).toBe(404);
});
