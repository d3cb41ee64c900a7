/**
 * Takes the pictures of docs/images: node tests/screenshots.mjs URL EMAIL PASSWORD TRANSCRIPT FOLDER.
 * The server holds what is to be seen; its transcript is shown on the page of a transcript.
 */

import { launch, signedIn } from "./browser.mjs";

const [url, email, password, transcript, folder] = process.argv.slice(2);
if (!folder) throw new Error("usage: screenshots.mjs URL EMAIL PASSWORD TRANSCRIPT FOLDER");

const browser = await launch();

/** Name, path, width and colours. */
const PICTURES = [
  ["start-light", "/", 1200, "light"],
  ["transcript-light", `/t/${transcript}`, 1200, "light"],
  ["transcript-dark", `/t/${transcript}`, 1200, "dark"],
  ["transcript-phone", `/t/${transcript}`, 360, "light"],
  ["library-light", "/library", 1200, "light"],
  ["library-phone", "/library", 360, "dark"],
  ["live-light", "/live", 1200, "light"],
  ["voice-light", "/voice?part=speak", 1200, "light"],
  ["account-light", "/account", 1200, "light"],
  ["admin-dark", "/admin", 1200, "dark"],
  ["developers-light", "/developers", 1200, "light"],
];

for (const [name, path, width, colorScheme] of PICTURES) {
  const viewport = { width, height: width < 500 ? 740 : 800 };
  const context = await signedIn(browser, url, email, password, { colorScheme, viewport, reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(path);
  await page.locator("h1").first().waitFor({ state: "attached" });
  await page.getByRole("status", { name: "Loading" }).waitFor({ state: "detached" }).catch(() => undefined);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: `${folder}/${name}.jpg`, type: "jpeg", quality: 70 });
  await context.close();
}
await browser.close();
