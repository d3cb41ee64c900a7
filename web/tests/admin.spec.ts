/** What accounts that manage others do: credits and plans of accounts, the queue, models. */

import { expect, test } from "@playwright/test";
import { csrf, expectAccessible, expectNoSidewaysScroll, signedIn, watch } from "./app";

test("credits that are given and taken are in the ledger of who has them", async ({ browser }) => {
  const admin = await signedIn(browser, "admin@example.com");
  const bob = await signedIn(browser, "bob@example.com");
  const balance = async () => ((await (await bob.request.get("/v1/account")).json()) as { credits: number }).credits;
  const before = await balance();
  const note = `workshop ${Date.now()} <b>\u202Eno</b>`;

  const page = await admin.newPage();
  const complaints = watch(page);
  await page.goto("/admin/accounts");
  await page.getByRole("searchbox", { name: "Find by address" }).fill("BOB@");
  await expect(page).toHaveURL(/q=BOB/);
  const row = page.getByRole("listitem").filter({ hasText: "bob@example.com" });
  await expect(page.getByRole("main").getByText("1 account found.")).toBeVisible();
  await row.getByRole("button", { name: /^Change/ }).click();
  const dialog = page.getByRole("dialog");
  await expectAccessible(page);

  await dialog.getByRole("button", { name: "Take", exact: true }).click();
  await dialog.getByLabel("How many").fill("999999999");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog.getByRole("alert")).toContainText("No more can be taken");
  await expect(dialog.getByLabel("How many")).toBeFocused();

  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await dialog.getByLabel("How many").fill("1234");
  await dialog.getByLabel("Why").fill(note);
  await expect(dialog.getByText(/The balance is [\d,]+ then/)).toBeVisible();
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toHaveCount(0);
  expect(await balance()).toBe(before + 1234);
  await expect(row).toContainText(new Intl.NumberFormat("en-GB").format(before + 1234));

  const own = await bob.newPage();
  const owns = watch(own);
  await own.goto("/account/credits");
  const line = own.getByRole("row").filter({ hasText: note });
  await expect(line).toContainText("Credits received");
  await expect(line).toContainText("+1,234");
  await expectAccessible(own);

  await row.getByRole("button", { name: /^Change/ }).click();
  await dialog.getByRole("button", { name: "Take", exact: true }).click();
  await dialog.getByLabel("How many").fill("1234");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toHaveCount(0);
  expect(await balance()).toBe(before);
  await own.reload();
  await expect(own.getByRole("row").nth(1)).toContainText("Credits taken");
  await expect(own.getByRole("row").nth(1)).toContainText("\u22121,234");

  await row.getByRole("button", { name: /^Change/ }).click();
  await dialog.getByRole("link", { name: "What happened in this account" }).click();
  await expect(page).toHaveURL(/\/admin\/audit\?account=\d+/);
  await expect(page.getByText("Credits changed").first()).toBeVisible();
  await expect(page.getByText("An administrator").first()).toBeVisible();
  expect([...complaints, ...owns]).toEqual([]);
  await admin.close();
  await bob.close();
});

test("the plan of an account is changed", async ({ browser }) => {
  const admin = await signedIn(browser, "admin@example.com");
  const bob = await signedIn(browser, "bob@example.com");
  const plan = async () => {
    const { plan, is_plan_active } = (await (await bob.request.get("/v1/account")).json()) as { plan: string; is_plan_active: boolean };
    return `${plan} ${is_plan_active}`;
  };
  const before = await plan();
  const page = await admin.newPage();
  await page.goto("/admin/accounts?q=bob@example.com");
  const row = page.getByRole("listitem").filter({ hasText: "bob@example.com" });
  const dialog = page.getByRole("dialog");
  await row.getByRole("button", { name: /^Change/ }).click();
  await dialog.getByLabel("Plan", { exact: true }).selectOption("enterprise");
  await dialog.getByRole("checkbox", { name: "The plan is active" }).uncheck();
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(row).toContainText("Enterprise");
  await expect(row).toContainText("Not active");
  expect(await plan()).toBe("enterprise false");
  await row.getByRole("button", { name: /^Change/ }).click();
  await dialog.getByLabel("Plan", { exact: true }).selectOption("business");
  await dialog.getByRole("checkbox", { name: "The plan is active" }).check();
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(row).toContainText("Business");
  await expect(row).not.toContainText("Not active");
  expect(await plan()).toBe(before);
  await admin.close();
  await bob.close();
});

test("the queue shows its counts, and failed jobs are retried and dropped after a question", async ({ browser }) => {
  const admin = await signedIn(browser, "admin@example.com");
  const page = await admin.newPage();
  const complaints = watch(page);
  await page.goto("/admin/queue");
  for (const name of ["Waiting", "Running", "Failed", "Longest wait"]) await expect(page.getByRole("term").filter({ hasText: name })).toBeVisible();
  await expect(page.getByRole("main").getByText(/^\d+ waiting, \d+ running, \d+ failed\.$/)).toBeAttached();

  // Jobs fail too seldom to wait for: the page is given one, and what it asks for is looked at.
  let jobs = [7, 8].map((id) => ({ id, kind: "transcribe", state: "failed", account_id: 2, transcript_id: 5, attempts: 3, created_at: new Date().toISOString(), failed_at: new Date().toISOString(), duration: 61, needs: ["model:whisper-tiny"], error_kind: "timeout", error: "W".repeat(4000) }));
  const asked: string[] = [];
  await page.route("**/v1/admin/queue", (route) => route.fulfill({ json: { queued: 0, running: 0, failed: jobs.length, oldest_wait_seconds: null, jobs } }));
  await page.route("**/v1/admin/queue/**", (route) => {
    const request = route.request();
    asked.push(`${request.method()} ${new URL(request.url()).pathname}`);
    jobs = jobs.filter((job) => !request.url().includes(`/queue/${job.id}`));
    return route.fulfill({ json: { ok: true } });
  });
  // It refreshes by itself.
  await expect(page.getByRole("button", { name: "Retry job 7" })).toBeVisible({ timeout: 10_000 });
  await expect(page.getByText("It took too long.").first()).toBeVisible();
  await expectAccessible(page);
  await page.setViewportSize({ width: 360, height: 800 });
  await expectNoSidewaysScroll(page);
  await page.getByRole("button", { name: "Retry job 7" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  expect(asked).toEqual([]);
  await page.getByRole("button", { name: "Retry job 7" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Retry", exact: true }).click();
  await expect(page.getByRole("button", { name: "Retry job 7" })).toHaveCount(0);
  await page.getByRole("button", { name: "Drop job 8" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drop", exact: true }).click();
  await expect(page.getByRole("heading", { name: "Nothing to do" })).toBeVisible();
  await expect(page.getByRole("heading", { name: "Jobs" })).toBeFocused();
  expect(asked).toEqual(["POST /v1/admin/queue/7/retry", "DELETE /v1/admin/queue/8"]);
  expect(complaints).toEqual([]);
  await admin.close();
});

test("the processes of the service are listed with what they do", async ({ browser }) => {
  const admin = await signedIn(browser, "admin@example.com");
  const page = await admin.newPage();
  const complaints = watch(page);
  await page.goto("/admin/nodes");
  const own = page.getByRole("listitem").filter({ hasText: "Answers you" });
  await expect(own).toContainText("Works");
  await expect(own).toContainText(new URL(page.url()).host);
  await expect(own).toContainText(/\d+ of 8 at once/);
  await expect(page.getByRole("main").getByText("1 process, 0 silent.")).toBeAttached();
  await expectAccessible(page);

  // The service of the tests has one process: the page is given two more, one that is silent and one that misses something.
  const { nodes } = (await (await admin.request.get("/v1/admin/nodes")).json()) as { nodes: object[] };
  const silent = { ...nodes[0], id: "a", host: "a-name-without-an-end-".repeat(8), is_current: false, is_responding: false };
  const broken = { ...nodes[0], id: "b", host: "node-b", role: "gpu", is_current: false, failing: ["disk"], models: [{ name: "whisper-tiny", bytes: 150_000_000, is_running: false }] };
  let answer: object = { json: { nodes: [...nodes, silent, broken] } };
  await page.route("**/v1/admin/nodes", (route) => route.fulfill(answer));
  await page.reload();
  await expect(page.getByRole("listitem").filter({ hasText: "a-name-without" })).toContainText("Silent");
  await expect(page.getByRole("listitem").filter({ hasText: "node-b" })).toContainText("These checks failed: Disk space. These models are being loaded again after a fault: whisper-tiny.");
  await expect(page.getByRole("main").getByText("3 processes, 1 silent.")).toBeAttached();
  await expectAccessible(page);
  await page.setViewportSize({ width: 360, height: 800 });
  await expectNoSidewaysScroll(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await expectAccessible(page);

  answer = { status: 503, json: { error: "the database takes no requests at the moment" } };
  await page.reload();
  await expect(page.getByRole("alert")).toContainText("the database takes no requests");
  answer = { json: { nodes: [] } };
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByRole("heading", { name: "No process has reported yet" })).toBeVisible();
  expect(complaints).toEqual([]);
  await admin.close();
});

test("the models of the catalogue are listed, and one is got", async ({ browser }) => {
  const admin = await signedIn(browser, "admin@example.com");
  const page = await admin.newPage();
  const complaints = watch(page);
  await page.goto("/admin/models");
  const speech = page.getByRole("region", { name: "Speech to text" });
  const tiny = speech.getByRole("listitem").filter({ has: page.getByText("whisper-tiny", { exact: true }) });
  await expect(tiny).toContainText("Installed");
  await expect(tiny.getByRole("button")).toHaveCount(0);
  await expect(page.getByRole("region", { name: "Translation" }).getByRole("listitem").first()).toBeVisible();

  // Nothing is downloaded: the page is given what a pull would say.
  const list = (await (await admin.request.get("/v1/admin/models")).json()) as { models: { name: string; title: string; installed: boolean; bytes: number }[] };
  const missing = list.models.find((model) => !model.installed && model.bytes > 0);
  if (missing) {
    let state: object = { pulling: true, bytes_done: 0, bytes_total: missing.bytes };
    await page.route("**/v1/admin/models", (route) => route.fulfill({ json: { models: list.models.map((model) => (model.name === missing.name ? { ...model, ...state } : model)) } }));
    await page.route("**/v1/admin/models/*", (route) => route.fulfill({ status: 202, json: { ...missing, ...state } }));
    const bar = page.getByRole("progressbar", { name: `Fetching ${missing.title}` });
    await page.getByRole("button", { name: `Get ${missing.title}`, exact: true }).click();
    await expect(bar).toHaveAttribute("aria-valuenow", "0");
    state = { pulling: true, bytes_done: Math.round(missing.bytes / 2), bytes_total: missing.bytes };
    await expect(bar).toHaveAttribute("aria-valuenow", "50", { timeout: 10_000 });
    await expectAccessible(page);
    state = { pulling: false, error: "the hash of a file is another" };
    await expect(page.getByRole("alert").filter({ hasText: "the hash of a file is another" })).toBeVisible({ timeout: 10_000 });
    await expect(page.getByRole("button", { name: `Try again to get ${missing.title}`, exact: true })).toBeVisible();
  }
  expect(complaints).toEqual([]);
  await admin.close();
});

test("who manages nobody can change nothing of others", async ({ browser }) => {
  const bob = await signedIn(browser, "bob@example.com");
  const headers = await csrf(bob);
  for (const path of ["accounts", "queue", "models", "nodes"]) expect((await bob.request.get(`/v1/admin/${path}`)).status()).toBe(403);
  expect((await bob.request.patch("/v1/admin/accounts/1", { data: { credits: 5 }, headers })).status()).toBe(403);
  expect((await bob.request.post("/v1/admin/models/whisper-tiny", { headers })).status()).toBe(403);
  await bob.close();
});
