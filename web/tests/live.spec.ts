/** Live sessions with a microphone that plays a recording: text as it is spoken, through a connection that breaks, and captions. */

import { expect, test, type Page } from "@playwright/test";
import { readFile } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { baseURL, expectAccessible, expectNoSidewaysScroll, recording, signedIn, watch } from "./app";

const MICROPHONE = { permissions: ["microphone"] };

async function start(page: Page): Promise<void> {
  const raw = page.getByLabel("Take the sound as it is");
  if (await raw.isVisible()) await raw.check();
  await page.getByLabel("Spoken language").selectOption("en");
  await page.getByLabel("Model").selectOption("whisper-tiny");
  await page.getByRole("button", { name: "Start listening" }).click();
  await expect(status(page)).toHaveText("Listening", { timeout: 60_000 });
}

function status(page: Page) {
  return page.getByRole("status", { name: "State of the session" });
}

/** What is shown, final or not. */
function words(page: Page) {
  return page.locator(".live-paragraph").filter({ visible: true });
}

async function stop(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(page.getByRole("heading", { name: "Finished" })).toBeFocused({ timeout: 90_000 });
}

test("what is said appears while it is said, in captions, too, and is stored", async ({ browser }) => {
  const context = await signedIn(browser, "ann@example.com", MICROPHONE);
  const page = await context.newPage();
  const complaints = watch(page);
  await page.goto("/live");
  await start(page);
  await expect(words(page).last()).toContainText(/going/i, { timeout: 30_000 });
  await expect(page.getByRole("meter", { name: "Sound level" })).toBeVisible();
  await expectAccessible(page);

  const opened = page.waitForEvent("popup");
  await page.getByRole("button", { name: "Captions" }).click();
  const captions = await opened;
  await expect(captions.getByRole("banner")).toHaveCount(0);
  await expect(captions.locator(".captions-lines")).toContainText(/going/i);
  const size = () => captions.locator(".captions-view").evaluate((view) => Number.parseFloat(getComputedStyle(view).fontSize));
  const before = await size();
  await captions.keyboard.press("+");
  expect(await size()).toBeGreaterThan(before);
  await captions.keyboard.press("-");
  expect(await size()).toBe(before);
  await captions.getByLabel("Colours").selectOption("Yellow on black");
  await expectAccessible(captions);

  await page.bringToFront();
  await expect(words(page).last()).toContainText(/bread/i, { timeout: 30_000 });
  await stop(page);
  await expect(captions.getByText("The session has ended.")).toBeVisible();
  await expect(captions.locator(".captions-lines")).toContainText(/bread/i);
  await captions.close();
  await expectAccessible(page);

  const link = page.getByRole("link", { name: "Open the transcript" });
  const id = /\/t\/(\d+)$/.exec((await link.getAttribute("href")) ?? "")?.[1];
  const stored = (await (await context.request.get(`/v1/transcripts/${id}`)).json()) as { status: string; text: string };
  expect(stored.status).toBe("completed");
  expect(stored.text).toMatch(/market/i);
  await link.click();
  await expect(page).toHaveURL(new RegExp(`/t/${id}$`));
  expect(complaints).toEqual([]);
  await context.close();
});

test("a broken connection loses no sound", async ({ browser }) => {
  const context = await signedIn(browser, "bob@example.com", MICROPHONE);
  const line = await Line.listen(new URL(baseURL));
  try {
    const page = await context.newPage();
    // What each connection carried, and from where on the server wanted it.
    const connections: { sound: Buffer[]; received: number }[] = [];
    page.on("websocket", (socket) => {
      if (!socket.url().endsWith("/v1/stream")) return;
      const connection = { sound: [] as Buffer[], received: -1 };
      socket.on("framesent", ({ payload }) => {
        if (typeof payload !== "string") connection.sound.push(payload);
      });
      socket.on("framereceived", ({ payload }) => {
        const message = JSON.parse(payload.toString()) as { status?: string; received?: number };
        if (message.status !== "ready") return;
        connection.received = Math.round((message.received ?? 0) * 32_000);
        connections.push(connection);
      });
    });
    await page.goto(`${line.url}/live`);
    await start(page);
    await expect(words(page).last()).toContainText(/going/i, { timeout: 30_000 });
    line.cut();
    await expect(status(page)).toHaveText("Connection lost. Sound is kept and sent when it is back.");
    await page.waitForTimeout(2500);
    line.mend();
    await expect(status(page)).toHaveText("Listening", { timeout: 30_000 });
    // Said while nobody heard it.
    await expect(words(page).last()).toContainText(/bread/i, { timeout: 30_000 });
    await stop(page);
    await expect(page.getByText("were lost")).toHaveCount(0);

    expect(connections).toHaveLength(2);
    const [before, after] = connections.map(({ sound }) => Buffer.concat(sound)) as [Buffer, Buffer];
    const resumedAt = connections[1]?.received ?? -1;
    const again = before.subarray(resumedAt);
    expect(after.subarray(0, again.length).equals(again), "the second connection begins where the first was last heard").toBe(true);
    const href = await page.getByRole("link", { name: "Open the transcript" }).getAttribute("href");
    const stored = (await (await context.request.get(`/v1/transcripts${href?.slice(2)}`)).json()) as { duration_seconds: number; text: string };
    // Durations are stored in milliseconds.
    expect(Math.abs(stored.duration_seconds * 32_000 - (resumedAt + after.length))).toBeLessThan(40);
    expect(stored.text).toMatch(/bread/i);
  } finally {
    await context.close();
    line.close();
  }
});

test("without an account a recording is played as if live, and its text is saved by hand", async ({ page }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto("/live");
  await page.getByText("A recording, as if live").click();
  await page.locator('input[type="file"]').setInputFiles(recording("market.wav"));
  await page.getByLabel("Play it aloud").uncheck();
  await start(page);
  await expectNoSidewaysScroll(page);

  // Leaving asks; staying keeps the session.
  page.once("dialog", (dialog) => void dialog.dismiss());
  await page.getByRole("navigation").getByRole("link", { name: "Transcribe" }).click();
  await expect(page).toHaveURL(/\/live$/);

  // It ends with the recording.
  await expect(page.getByRole("heading", { name: "Finished" })).toBeVisible({ timeout: 60_000 });
  await expect(words(page).last()).toContainText(/bread/i);
  await expect(page.getByText("This text is nowhere else")).toBeVisible();
  await expectNoSidewaysScroll(page);
  for (const [label, pattern] of [
    ["Save as text", /apples and bread/i],
    ["Save subtitles", /^1\n00:00:0\d,\d{3} --> 00:00:/],
  ] as const) {
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: label }).click();
    expect(await readFile(await (await saved).path(), "utf8")).toMatch(pattern);
  }
  await page.getByRole("button", { name: "Start another" }).click();
  await expect(page.getByRole("button", { name: "Start listening" })).toBeVisible();
});

test("a pause sends nothing and keeps the session", async ({ browser }) => {
  const context = await signedIn(browser, "ann@example.com", MICROPHONE);
  const page = await context.newPage();
  await page.goto("/live");
  await start(page);
  await page.waitForTimeout(2000);
  await page.getByRole("button", { name: "Pause" }).click();
  await expect(status(page)).toContainText("Paused");
  const time = await page.getByRole("timer").innerText();
  await page.waitForTimeout(2500);
  expect(await page.getByRole("timer").innerText()).toBe(time);
  await page.getByRole("button", { name: "Go on" }).click();
  await expect(page.getByRole("timer")).not.toHaveText(time);
  await stop(page);
  await context.close();
});

test("captions wait for a session and say so", async ({ page }) => {
  await page.goto("/captions");
  await expect(page.getByText("Waiting for a live session")).toBeVisible();
  await page.keyboard.press("h");
  await expect(page.getByLabel("Colours")).toHaveCount(0);
  await page.getByRole("button", { name: "Show the settings (H)" }).click();
  await expect(page.getByLabel("Colours")).toBeVisible();
  await expectAccessible(page);
});

/** A way to the server that can be cut: whoever comes through it is gone at once, and nobody gets through until it is mended. */
class Line {
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(
    readonly server: Server,
    readonly url: string,
  ) {}

  static async listen(to: URL): Promise<Line> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const line = new Line(server, `http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}`);
    server.on("connection", (near) => {
      if (line.#isCut) {
        near.destroy();
        return;
      }
      const far = connect(Number(to.port || 80), to.hostname);
      for (const socket of [near, far]) {
        line.#sockets.add(socket);
        socket.on("error", () => socket.destroy());
        socket.on("close", () => {
          line.#sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.pipe(far);
      far.pipe(near);
    });
    return line;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#isCut = false;
  }

  close(): void {
    this.cut();
    this.server.close();
  }
}
