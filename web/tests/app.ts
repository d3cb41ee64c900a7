/** What the specs share: people of the test server, their recordings, and checks of a page. */

import AxeBuilder from "@axe-core/playwright";
import { expect, type Browser, type BrowserContext, type Page } from "@playwright/test";

export const PASSWORD = "correct horse battery";

/** A recording that `tests/run` made. */
export function recording(name: string): string {
  return `${process.env["HARK_RECORDINGS"] ?? "/tmp"}/${name}`;
}

export const baseURL = process.env["HARK_URL"] ?? "http://127.0.0.1:5173";

/** A browser of its own in which somebody is signed in. */
export async function signedIn(browser: Browser, email: string, options: Parameters<Browser["newContext"]>[0] = {}): Promise<BrowserContext> {
  const context = await browser.newContext({ baseURL, locale: "en-GB", ...options });
  const answer = await context.request.post("/v1/auth/signin", { data: { email, password: PASSWORD }, headers: { Origin: baseURL } });
  expect(answer.status(), await answer.text()).toBe(200);
  return context;
}

/** The CSRF token of a context's session. */
export async function csrf(context: BrowserContext): Promise<Record<string, string>> {
  const session = (await (await context.request.get("/v1/auth/session")).json()) as { csrf_token: string };
  return { "X-CSRF-Token": session.csrf_token, Origin: baseURL };
}

/** A transcript of the recording, finished. */
export async function transcribed(context: BrowserContext, name = "market.wav"): Promise<number> {
  const { readFile } = await import("node:fs/promises");
  const answer = await context.request.post("/v1/transcribe", {
    multipart: { model: "whisper-tiny", file: { name, mimeType: "application/octet-stream", buffer: await readFile(recording(name)) } },
    headers: { ...(await csrf(context)), Prefer: "respond-async" },
  });
  expect(answer.status(), await answer.text()).toBe(202);
  const { id } = (await answer.json()) as { id: number };
  await expect
    .poll(async () => ((await (await context.request.get(`/v1/transcripts/${id}/status`)).json()) as { status: string }).status, { timeout: 90_000 })
    .toBe("completed");
  return id;
}

/** Fails where a page breaks a rule of WCAG 2.2 AA or a good practice that axe knows. */
export async function expectAccessible(page: Page): Promise<void> {
  const found = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]).analyze();
  expect(found.violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.target.join(" ")).join(", ")}`)).toEqual([]);
}

/** Collects what the browser complains about: errors, broken policies, requests to other hosts. */
export function watch(page: Page): string[] {
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && /Content Security Policy|Refused/.test(message.text())) complaints.push(message.text());
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (!["blob:", "data:"].includes(url.protocol) && url.host !== new URL(baseURL).host) complaints.push(`request to ${url.host}`);
  });
  return complaints;
}

/** Whether the page is wider than its window. */
export async function expectNoSidewaysScroll(page: Page): Promise<void> {
  const [inner, wide] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth] as const);
  expect(wide, "the page scrolls sideways").toBeLessThanOrEqual(inner);
}
