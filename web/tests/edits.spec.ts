/** One transcript on two devices, and who says what in it. */

import { expect, test, type BrowserContext, type Page } from "@playwright/test";
import { csrf, expectAccessible, expectNoSidewaysScroll, signedIn, transcribed, watch } from "./app";

interface Kept {
  segments: { text: string; speaker: string | null }[];
  num_speakers: number;
}

let context: BrowserContext;
let id: number;

test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ browser }) => {
  context = await signedIn(browser, "ann@example.com");
  id = await transcribed(context, "pause.wav");
  // Sentences with a pause between them are segments of their own.
  const { segments } = await kept();
  expect(segments.length).toBeGreaterThan(1);
});

test.afterAll(async () => {
  await context.request.delete(`/v1/transcripts/${id}`, { headers: await csrf(context) });
  await context.close();
});

async function kept(): Promise<Kept> {
  return (await (await context.request.get(`/v1/transcripts/${id}`)).json()) as Kept;
}

async function opened(device: BrowserContext): Promise<Page> {
  const page = await device.newPage();
  await page.goto(`/t/${id}`);
  await expect(page.locator(".transcript-segment").first()).toBeVisible();
  return page;
}

async function write(page: Page, segment: number, text: string): Promise<void> {
  await page.locator(".transcript-segment").nth(segment).dblclick();
  await page.keyboard.press("Control+a");
  await page.keyboard.type(text);
  await page.keyboard.press("Escape");
}

const saved = (page: Page) => expect(page.getByText("Saved", { exact: true })).toBeVisible();

test("what one device changed is met by another, which loses neither its own change nor the other one", async ({ browser }) => {
  const other = await signedIn(browser, "ann@example.com");
  const [one, two] = [await opened(context), await opened(other)];
  const complaints = [...watch(one), ...watch(two)];
  await write(one, 0, "From the first device.");
  await saved(one);
  // The second device has not heard of it.
  await expect(two.getByText("From the first device.")).toHaveCount(0);
  const refused = two.waitForResponse((answer) => answer.request().method() === "PATCH" && answer.status() === 412);
  await write(two, 1, "From the second device.");
  await refused;
  await expect(two.getByText("Changes that were made elsewhere are shown now.")).toBeVisible();
  await expect(two.getByText("From the first device.")).toBeVisible();
  await saved(two);
  expect((await kept()).segments.slice(0, 2).map(({ text }) => text)).toEqual(["From the first device.", "From the second device."]);

  // Both change the same passage: nothing is overwritten before somebody has decided.
  await write(one, 0, "The first device again.");
  await expect(one.getByText("From the second device.")).toBeVisible();
  await saved(one);
  await write(two, 0, "The second device again.");
  const question = two.getByRole("alert", { name: "Changed in two places" });
  await expect(question).toContainText("The first device again.");
  await expectAccessible(two);
  expect((await kept()).segments[0]?.text).toBe("The first device again.");
  await question.getByRole("button", { name: "Keep this one" }).click();
  await expect(question).toHaveCount(0);
  await expect.poll(async () => (await kept()).segments[0]?.text).toBe("The second device again.");
  expect(complaints).toEqual([]);
  await one.close();
  await other.close();
});

test("a passage is given to a new speaker with the keyboard, and that is undone", async () => {
  // A single voice has no name above it unless it was given one.
  const named = await context.request.patch(`/v1/transcripts/${id}`, { data: { segments: (await kept()).segments.map((_, index) => ({ index, speaker: "Ann Smith" })) }, headers: await csrf(context) });
  expect(named.status()).toBe(200);
  const page = await opened(context);
  const complaints = watch(page);
  const who = async () => (await kept()).segments.map(({ speaker }) => speaker);
  const count = (await who()).length;
  const all = (name: string) => Array.from({ length: count }, () => name);
  const label = page.getByRole("button", { name: "Ann Smith: change the speaker" });
  await label.focus();
  await page.keyboard.press("Enter");
  const menu = page.getByRole("menu", { name: "Ann Smith: change the speaker" });
  await expect(menu.getByRole("menuitem", { name: "Rename…" })).toBeFocused();
  await expect(menu.getByRole("menuitemradio", { name: "Ann Smith" })).toBeChecked();
  await expectAccessible(page);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await expect(menu.getByRole("menuitem", { name: "New speaker" })).toBeFocused();
  await page.keyboard.press("Enter");
  const given = page.getByRole("button", { name: "Speaker 2: change the speaker" });
  await expect(given).toBeFocused();
  expect(await who()).toEqual(all("Speaker 2"));

  await page.keyboard.press("Control+z");
  await expect(label).toBeVisible();
  expect(await who()).toEqual(all("Ann Smith"));
  await page.keyboard.press("Control+Shift+z");
  await expect(given).toBeVisible();
  await page.getByRole("status").getByRole("button", { name: "Undo" }).click();
  await expect(label).toBeVisible();
  expect(complaints).toEqual([]);
  await page.close();
});

test("a part of a passage is given to somebody else, who is named", async () => {
  const page = await opened(context);
  const complaints = watch(page);
  await page.getByRole("button", { name: "Ann Smith: change the speaker" }).click();
  await page.getByRole("menuitem", { name: "Only a part…" }).click();
  const dialog = page.getByRole("dialog", { name: "Who says what" });
  await expect(dialog.getByRole("button", { name: "Save" })).toBeDisabled();
  await dialog.getByRole("checkbox").nth(1).check();
  await dialog.getByLabel("Name", { exact: true }).fill("Ben");
  await expectAccessible(page);
  await page.setViewportSize({ width: 360, height: 800 });
  await expectNoSidewaysScroll(page);
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toHaveCount(0);
  const ben = page.getByRole("button", { name: "Ben: change the speaker" });
  await expect(ben).toBeFocused();
  const { segments, num_speakers } = await kept();
  expect(segments.slice(0, 2).map(({ speaker }) => speaker)).toEqual(["Ann Smith", "Ben"]);
  expect(num_speakers).toBe(2);
  // And back, to one of those who speak.
  await ben.click();
  await page.getByRole("menuitemradio", { name: "Ann Smith" }).click();
  await expect(ben).toHaveCount(0);
  expect((await kept()).num_speakers).toBe(1);
  // A change that the server refuses is told and is no step.
  await page.route(`**/v1/transcripts/${id}`, (route) => (route.request().method() === "PATCH" ? route.fulfill({ status: 503, json: { error: "the service can't do this at the moment" } }) : route.continue()));
  await page.getByRole("button", { name: "Ann Smith: change the speaker" }).click();
  await page.getByRole("menuitem", { name: "New speaker" }).click();
  await expect(page.getByText("the service can't do this at the moment")).toBeVisible();
  await expect(page.getByRole("button", { name: "Ann Smith: change the speaker" })).toBeVisible();
  expect(complaints).toEqual([]);
  await page.close();
});
