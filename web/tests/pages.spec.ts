/** Every page: rules of accessibility in both themes, within a phone's width, no complaint of the browser, and with hostile texts. */

import { expect, test } from "@playwright/test";
import { csrf, expectAccessible, expectNoSidewaysScroll, signedIn, transcribed, watch } from "./app";

const OPEN = ["/", "/sign-in", "/sign-up", "/forgot", "/live", "/captions", "/developers"];
const ACCOUNT = [
  "/library",
  "/library?q=market",
  "/voice",
  "/voice?part=speak",
  "/voice?part=check",
  "/account",
  "/account/usage",
  "/account/credits",
  "/account/keys",
  "/account/webhooks",
  "/account/voices",
  "/account/security",
  "/account/data",
  "/admin",
  "/admin/nodes",
  "/admin/accounts",
  "/admin/queue",
  "/admin/models",
  "/admin/audit",
];

/** Texts that would run, turn around or stretch a page that is careless with them. */
const HOSTILE = [
  "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
  "\u202Eright to left override and \u2067an isolate that never ends",
  "W".repeat(400),
];

test("every page is accessible in both themes and fits a phone", async ({ browser }) => {
  test.setTimeout(600_000);
  const context = await signedIn(browser, "admin@example.com");
  const id = await transcribed(context);
  const state = await context.storageState();
  await context.close();
  // Colours and widths are each seen once, not all four together: the runs cost minutes.
  for (const [colorScheme, width] of [["light", 1280], ["dark", 360]] as const) {
    const looked = await browser.newContext({ storageState: state, colorScheme, viewport: { width, height: 800 }, locale: "en-GB", reducedMotion: "reduce" });
    const page = await looked.newPage();
    const complaints = watch(page);
    for (const path of [...OPEN, ...ACCOUNT, `/t/${id}`]) {
      await test.step(`${path} ${colorScheme} ${width}`, async () => {
        await page.goto(path);
        await expect(page.locator("h1").first()).toBeAttached();
        await expect(page.getByRole("status", { name: "Loading" })).toHaveCount(0);
        await expectAccessible(page);
        await expectNoSidewaysScroll(page);
      });
    }
    expect(complaints).toEqual([]);
    await looked.close();
  }
});

test("hostile titles and texts are shown, not run", async ({ browser }) => {
  test.setTimeout(300_000);
  const context = await signedIn(browser, "bob@example.com", { viewport: { width: 360, height: 800 } });
  const headers = await csrf(context);
  const ids: number[] = [];
  for (const text of HOSTILE) {
    const id = await transcribed(context);
    const long = text.startsWith("W") ? "W".repeat(10_000) : text;
    const answer = await context.request.patch(`/v1/transcripts/${id}`, {
      data: { title: text, segments: [{ index: 0, text: long }], speaker_names: { SPEAKER_00: text.slice(0, 100) } },
      headers,
    });
    expect(answer.status(), await answer.text()).toBe(200);
    ids.push(id);
  }
  const page = await context.newPage();
  const complaints = watch(page);
  page.on("dialog", () => complaints.push("a dialog opened"));
  for (const path of ["/library", "/library?q=script", ...ids.map((id) => `/t/${id}`)]) {
    await page.goto(path);
    await expect(page.locator("h1").first()).toBeAttached();
    await expect(page.getByRole("status", { name: "Loading" })).toHaveCount(0);
    expect(await page.title()).not.toBe("owned");
    await expectNoSidewaysScroll(page);
  }
  await page.goto("/library");
  await expect(page.getByText("<script>document.title='owned'</script>", { exact: false }).first()).toBeVisible();
  expect(complaints).toEqual([]);
  await context.close();
});
