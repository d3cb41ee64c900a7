/**
 * The app in Firefox: node tests/firefox.mjs HARK [FOLDER].
 *
 * Serves with the given binary, its default models and an empty data folder, and walks through every page in light and dark: a recording in, its text
 * heard, corrected and exported, a live session with captions. Fails where something does not work, where the browser complains of an error or a broken
 * policy, where another host is asked, and where a page scrolls sideways. Pictures go into FOLDER. FIREFOX names another browser than Debian's.
 *
 * Firefox plays nothing on a machine without a sound device. This one is as good as a real one:
 * pulseaudio -n --load=module-null-sink --load=module-native-protocol-unix --exit-idle-time=-1 --daemonize
 */

import { spawn, spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, firefox } from "@playwright/test";

const [hark, folder] = process.argv.slice(2);
if (!hark) throw new Error("usage: firefox.mjs HARK [FOLDER]");
if (folder) await mkdir(folder, { recursive: true });

const EMAIL = "admin@example.com";
const PASSWORD = "correct horse battery";
const OPEN = ["/", "/sign-in", "/sign-up", "/forgot", "/live", "/captions", "/developers", "/nothing/here"];
const ACCOUNT = [
  "/",
  "/live",
  "/library",
  "/library?q=fail",
  "/voice",
  "/voice?part=speak",
  "/voice?part=check",
  ...["", "/usage", "/credits", "/keys", "/webhooks", "/voices", "/security", "/data"].map((part) => `/account${part}`),
  ...["", "/nodes", "/accounts", "/queue", "/models", "/audit"].map((part) => `/admin${part}`),
];

/** What the browser complained of, with where it did. */
const complaints = [];
const work = await mkdtemp(join(tmpdir(), "hark-firefox-"));
const downloads = join(work, "downloads");
await mkdir(downloads);
let place = "";
let url = "";
let failures = 0;

async function step(name, run) {
  place = name;
  const before = complaints.length;
  const began = performance.now();
  let fault = "";
  try {
    await run();
  } catch (error) {
    fault = `\n${error.message}`;
  }
  for (const complaint of complaints.slice(before)) fault += `\n  ${complaint}`;
  if (fault) failures += 1;
  console.log(`${fault ? "FAILED" : "ok    "} ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)${fault}`);
}

/** A server with an account that manages others. */
async function serve() {
  const data = join(work, "data");
  const made = spawnSync(hark, ["account", "create", EMAIL, "--data", data, "--plan", "business", "--credits", "10000", "--admin", "--password-stdin"], { input: PASSWORD });
  if (made.status !== 0) throw new Error(`${made.stderr}`);
  const server = spawn(hark, ["serve", "--listen", "127.0.0.1:0", "--data", data], { stdio: ["ignore", "pipe", "ignore"] });
  url = await new Promise((resolve, reject) => {
    server.once("exit", (status) => reject(new Error(`the server ended with ${status}`)));
    server.stdout.on("data", (said) => {
      const found = /listens on (http:\S+)/.exec(said);
      if (found) resolve(found[1]);
    });
  });
  return server;
}

/** A browser in a theme, with a microphone that gives a tone and asks nobody. */
async function launch(theme) {
  const browser = await firefox.launch({
    channel: "moz-firefox",
    executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr",
    downloadsPath: downloads,
    firefoxUserPrefs: {
      "layout.css.prefers-color-scheme.content-override": theme === "dark" ? 0 : 1,
      "media.navigator.streams.fake": true,
      "media.navigator.permission.disabled": true,
      "media.autoplay.default": 0,
      "media.volume_scale": "0.0",
      // Nothing outside this machine.
      "app.update.auto": false,
      "browser.safebrowsing.malware.enabled": false,
      "browser.safebrowsing.phishing.enabled": false,
      "datareporting.policy.dataSubmissionEnabled": false,
      "extensions.update.enabled": false,
      "network.captive-portal-service.enabled": false,
      "network.connectivity-service.enabled": false,
    },
  });
  // Firefox 153 does not know the command by which Playwright sets the theme of each context, and the preferences above do it.
  const session = browser._connection.toImpl(browser)._browserSession;
  const send = session.send.bind(session);
  session.send = async (method, parameters) => (method === "emulation.setMediaFeaturesOverride" ? {} : send(method, parameters));
  return browser;
}

function watch(page) {
  page.on("dialog", (dialog) => void dialog.accept());
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // Answers that are errors are looked at where they are expected.
    if (message.type() === "error" && !/^\[?(GET|POST|HEAD|PATCH)|NetworkError/.test(message.text())) complaints.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const asked = new URL(request.url());
    if (!["blob:", "data:", "about:"].includes(asked.protocol) && asked.host !== new URL(url).host) complaints.push(`request to ${asked.host}`);
  });
}

async function picture(page, name) {
  if (!folder) return;
  const before = complaints.length;
  await page.screenshot({ path: join(folder, `${name}.png`) });
  // The policy of the page stops a style of Playwright's, too.
  const own = complaints.splice(before);
  complaints.push(...own.filter((complaint) => !complaint.includes("style-src-elem")));
}

/** Two clicks as a mouse makes them: Playwright sends them one by one, and Firefox counts anew. */
async function doubleClick(page, passage) {
  const { x, y } = await passage.boundingBox();
  const session = page.context().browser()._connection.toImpl(page).delegate._session;
  const click = [{ type: "pointerDown", button: 0 }, { type: "pointerUp", button: 0 }];
  const actions = [{ type: "pointerMove", x: Math.round(x) + 20, y: Math.round(y) + 8 }, ...click, ...click];
  await session.send("input.performActions", { context: session.sessionId, actions: [{ type: "pointer", id: "mouse", parameters: { pointerType: "mouse" }, actions }] });
  await expect(passage).toHaveAttribute("role", "textbox");
}

async function opened(page, path) {
  await page.goto(url + path);
  await expect(page.locator("h1").first()).toBeAttached();
  await expect(page.getByRole("status", { name: "Loading" })).toHaveCount(0, { timeout: 20_000 });
}

async function look(page, paths, name) {
  for (const path of paths) {
    await step(`${name} ${path}`, async () => {
      await opened(page, path);
      await page.waitForTimeout(300);
      await picture(page, `${name}${path.replaceAll(/[/?=]+/g, "-")}`);
      const [inner, wide] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
      expect(wide, "the page scrolls sideways").toBeLessThanOrEqual(inner);
    });
  }
}

async function signIn(page) {
  await opened(page, "/sign-in");
  await page.getByLabel("Email address").fill(EMAIL);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("main").getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("button", { name: `Account of ${EMAIL}` })).toBeVisible();
  // A page whose code is still loading when it is left would complain.
  await expect(page.locator("h1").first()).toBeVisible();
}

/** The file that is saved by `act`: Firefox 153 gives its downloads no number, without which Playwright tells of none. */
async function saved(act) {
  await act();
  let name = "";
  await expect.poll(async () => (name = (await readdir(downloads)).find((each) => !each.endsWith(".part")) ?? ""), { timeout: 20_000 }).not.toBe("");
  const file = join(downloads, name);
  await expect.poll(async () => (await stat(file)).size).toBeGreaterThan(0);
  const text = await readFile(file, "latin1");
  await rm(file);
  return { name, text };
}

async function anonymous(browser) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, locale: "en-GB" });
  watch(page);
  await look(page, OPEN, "light-anonymous");
  await step("the sample with one click, without an account", async () => {
    await opened(page, "/");
    await page.getByRole("button", { name: "Try it with a sample" }).click();
    const card = page.getByRole("article", { name: "sample.wav" });
    await expect(card.getByText("Done")).toBeVisible({ timeout: 120_000 });
    await expect(card).toContainText(/fail/i);
    const file = await saved(() => card.getByRole("button", { name: "Save subtitles" }).click());
    expect(file.name).toBe("sample.srt");
    expect(file.text).toMatch(/^1\n00:00:0/);
    await picture(page, "light-anonymous-sample");
  });
  await page.context().close();
}

async function transcript(page) {
  let id = 0;
  await step("a recording in, its transcript opened", async () => {
    await opened(page, "/");
    await page.getByRole("button", { name: "Try it with a sample" }).click();
    const card = page.getByRole("article", { name: "sample.wav" });
    await expect(card.getByText("Done")).toBeVisible({ timeout: 120_000 });
    await card.getByRole("link", { name: "Open sample.wav" }).click();
    await expect(page).toHaveURL(/\/t\/\d+$/);
    id = Number(/\d+$/.exec(page.url())?.[0]);
    await expect(page.locator(".transcript-segment").first()).toBeVisible();
    await picture(page, "light-transcript");
  });
  await step("a word that is clicked is heard", async () => {
    await expect(page.getByRole("button", { name: "Play", exact: true })).toBeEnabled();
    await page.locator(".transcript-segment").first().click({ position: { x: 20, y: 8 } });
    await expect.poll(() => page.evaluate(() => document.querySelector("video")?.paused)).toBe(false);
    await expect.poll(() => page.evaluate(() => document.querySelector("video")?.currentTime ?? 0)).toBeGreaterThan(0.3);
    expect(await page.evaluate(() => [...(CSS.highlights?.get("transcript-spoken") ?? [])].length + document.querySelectorAll(".is-spoken").length)).toBeGreaterThan(0);
    await picture(page, "light-transcript-playing");
    await page.keyboard.press("Space");
    await expect.poll(() => page.evaluate(() => document.querySelector("video")?.paused)).toBe(true);
  });
  await step("a correction is saved by itself, undone and redone", async () => {
    await doubleClick(page, page.locator(".transcript-segment").first());
    await page.keyboard.press("Control+a");
    await page.keyboard.type("Words that Firefox wrote.");
    await picture(page, "light-transcript-editing");
    await expect(page.getByText("Saved", { exact: true })).toBeVisible();
    await page.keyboard.press("Control+z");
    await expect(page.getByText("Words that Firefox wrote.")).toHaveCount(0);
    await page.keyboard.press("Control+Shift+z");
    await expect(page.getByText("Words that Firefox wrote.")).toBeVisible();
    await expect(page.getByText("Saved", { exact: true })).toBeVisible();
    await page.keyboard.press("Escape");
    await page.reload();
    await expect(page.getByText("Words that Firefox wrote.")).toBeVisible();
  });
  await step("a line that is pasted stays one passage of plain text", async () => {
    const passage = page.locator(".transcript-segment").first();
    await doubleClick(page, passage);
    await page.keyboard.press("Control+a");
    // As somebody pastes from a web page: through the clipboard, which another field filled.
    await page.evaluate(async () => navigator.clipboard.write([new ClipboardItem({ "text/plain": new Blob(["Pasted <b>words</b>."], { type: "text/plain" }), "text/html": new Blob(["<b>Pasted</b> words."], { type: "text/html" }) })]));
    await page.keyboard.press("Control+v");
    await expect(passage).toHaveText("Pasted <b>words</b>.");
    expect(await passage.evaluate((element) => element.querySelectorAll("br, div, b").length)).toBe(0);
    // Enter ends editing.
    await page.keyboard.press("Enter");
    await expect(passage).not.toHaveAttribute("role", "textbox");
    await expect(page.getByText("Saved", { exact: true })).toBeVisible();
  });
  await step("words are found", async () => {
    await page.keyboard.press("Control+f");
    await page.getByLabel("Find", { exact: true }).fill("pasted");
    await expect(page.getByText(/^1 of \d/)).toBeVisible();
    await picture(page, "light-transcript-found");
    await page.keyboard.press("Escape");
  });
  await step("the waveform has the colours of the theme", async () => {
    const colours = () =>
      page.locator("canvas").evaluate((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, canvas.height / 2, canvas.width, 1);
        return [...new Set(Array.from({ length: data.length / 4 }, (_, at) => (data[4 * at + 3] === 255 ? data.slice(4 * at, 4 * at + 3).join() : "")))].filter(Boolean);
      });
    await expect.poll(colours).toContain("31,95,91");
    await page.getByRole("button", { name: "Theme" }).click();
    await page.getByRole("menuitemradio", { name: "Dark" }).click();
    await expect.poll(colours).toContain("127,207,196");
    await picture(page, "dark-chosen-transcript");
    await page.getByRole("button", { name: "Theme" }).click();
    await page.getByRole("menuitemradio", { name: "As the system" }).click();
  });
  await step("every format is downloaded", async () => {
    const dialog = page.getByRole("dialog", { name: "Export" });
    for (const [format, ending, begins] of [
      ["Text", "txt", ""],
      ["SubRip subtitles", "srt", "1\n00:00:0"],
      ["WebVTT subtitles", "vtt", "WEBVTT"],
      ["Word", "docx", "PK"],
      ["PDF", "pdf", "%PDF"],
    ]) {
      await page.getByRole("button", { name: "Export" }).click();
      await dialog.getByRole("radio", { name: new RegExp(`^${format} `) }).check();
      await page.waitForTimeout(300);
      await picture(page, `light-export-${ending}`);
      const file = await saved(() => dialog.getByRole("button", { name: "Download" }).click());
      expect(file.name).toBe(`sample.${ending}`);
      expect(file.text.startsWith(begins)).toBe(true);
    }
  });
  await step("the other dialogs", async () => {
    await page.getByRole("button", { name: "Share" }).click();
    await page.getByRole("dialog").getByLabel("Everybody with the link may read this transcript").check();
    await expect(page.getByRole("dialog").getByLabel("Link", { exact: true })).toHaveValue(/\/s\/\S+/);
    await picture(page, "light-share");
    await page.keyboard.press("Escape");
    for (const name of ["Speakers", "Keys"]) {
      await page.getByRole("button", { name: "More actions" }).click();
      await page.getByRole("menuitem", { name }).click();
      await expect(page.getByRole("dialog", { name })).toBeVisible();
      await picture(page, `light-${name.toLowerCase()}`);
      await page.keyboard.press("Escape");
      await expect(page.getByRole("dialog")).toHaveCount(0);
    }
  });
  return id;
}

async function microphone(page) {
  await step("the microphone on the start page", async () => {
    await opened(page, "/");
    await page.getByRole("button", { name: "Record", exact: true }).click();
    await expect(page.getByRole("timer")).toContainText("0:02");
    await picture(page, "light-recording");
    await page.getByRole("button", { name: "Stop and transcribe" }).click();
    const card = page.getByRole("article", { name: /^Recording / });
    await expect(card.getByText(/^(Done|Failed)$/)).toHaveText("Done", { timeout: 120_000 });
    await picture(page, "light-recorded");
  });
  await step("a clip of the microphone for a voice", async () => {
    await opened(page, "/account/voices");
    await page.getByRole("button", { name: "Record" }).click();
    await expect(page.getByRole("timer")).toContainText("0:04");
    await picture(page, "light-voices-recording");
    await page.getByRole("button", { name: "Stop" }).click();
    await expect(page.locator("audio")).toBeVisible();
    await expect.poll(() => page.locator("audio").evaluate((audio) => audio.readyState)).toBeGreaterThan(0);
    await picture(page, "light-voices-recorded");
  });
}

async function live(page) {
  await step("a live session, captions in a window, its end", async () => {
    await opened(page, "/live");
    await picture(page, "light-live");
    await page.getByText("A recording, as if live").click();
    const sample = await page.request.get(`${url}/v1/sample`);
    await page.locator('input[type="file"]').setInputFiles({ name: "sample.wav", mimeType: "audio/wav", buffer: await sample.body() });
    await page.getByLabel("Play it aloud").uncheck();
    await page.getByLabel("Spoken language").selectOption("en");
    await page.getByRole("button", { name: "Start listening" }).click();
    await expect(page.getByRole("status", { name: "State of the session" })).toHaveText("Listening", { timeout: 60_000 });
    const popup = page.waitForEvent("popup");
    await page.getByRole("button", { name: "Captions" }).click();
    const captions = await popup;
    watch(captions);
    await expect(captions.locator(".captions-lines")).toContainText(/\w{4}/, { timeout: 60_000 });
    await picture(page, "light-live-running");
    await picture(captions, "light-captions-running");
    await captions.close();
    await expect(page.getByRole("heading", { name: "Finished" })).toBeVisible({ timeout: 120_000 });
    await picture(page, "light-live-over");
    await page.getByRole("link", { name: "Open the transcript" }).click();
    await expect(page.locator(".transcript-segment").first()).toContainText(/\w{4}/);
  });
  await step("a live session with the microphone", async () => {
    await opened(page, "/live");
    await page.getByText("Microphone", { exact: true }).click();
    await page.getByRole("button", { name: "Start listening" }).click();
    await expect(page.getByRole("status", { name: "State of the session" })).toHaveText("Listening", { timeout: 60_000 });
    await expect(page.getByRole("meter", { name: "Sound level" })).toBeVisible();
    await page.waitForTimeout(2000);
    await picture(page, "light-live-microphone");
    await page.getByRole("button", { name: "Stop" }).click();
    await expect(page.getByRole("heading", { name: "Finished" })).toBeVisible({ timeout: 60_000 });
  });
}

async function voice(page) {
  await step("a recording is cleaned", async () => {
    await opened(page, "/voice");
    const sample = await page.request.get(`${url}/v1/sample`);
    await page.locator('input[type="file"]').first().setInputFiles({ name: "sample.wav", mimeType: "audio/wav", buffer: await sample.body() });
    await page.getByRole("button", { name: "Enhance", exact: true }).click();
    await expect(page.getByRole("link", { name: "Download" })).toBeVisible({ timeout: 120_000 });
    // Two waveforms, each with the part that was played.
    await expect(page.locator(".voice-wave path")).toHaveCount(4);
    await picture(page, "light-voice-cleaned");
  });
  await step("a text is spoken", async () => {
    await opened(page, "/voice?part=speak");
    await page.getByRole("textbox").first().fill("Firefox speaks, too.");
    await page.getByRole("button", { name: "Speak", exact: true }).click();
    await expect(page.getByRole("link", { name: "Download" })).toBeVisible({ timeout: 120_000 });
    await picture(page, "light-voice-spoken");
  });
}

const server = await serve();
try {
  const light = await launch("light");
  console.log(`Firefox ${light.version()} and ${url}`);
  await anonymous(light);
  const page = await light.newPage({ viewport: { width: 1280, height: 900 }, locale: "en-GB", acceptDownloads: true });
  watch(page);
  await step("signing in", () => signIn(page));
  const id = await transcript(page);
  await microphone(page);
  await live(page);
  await voice(page);
  await look(page, ACCOUNT, "light");
  await light.close();

  const dark = await launch("dark");
  const phone = await dark.newPage({ viewport: { width: 500, height: 900 }, locale: "en-GB" });
  watch(phone);
  await step("signing in, dark", () => signIn(phone));
  await look(phone, [...ACCOUNT, `/t/${id}`, "/captions", "/developers"], "dark");
  await dark.close();
} finally {
  server.kill();
  await new Promise((resolve) => server.once("exit", resolve));
  await rm(work, { recursive: true, force: true });
}
console.log(failures ? `${failures} steps failed` : "all steps passed");
process.exitCode = failures ? 1 : 0;
