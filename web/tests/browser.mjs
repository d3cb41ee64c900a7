/** A browser for the scripts that measure and take pictures. */

import { chromium } from "@playwright/test";

/** Starts the browser of the system, which asks for nothing outside this machine. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** A context in which somebody is signed in. */
export async function signedIn(browser, url, email, password, options) {
  const context = await browser.newContext({ baseURL: url, locale: "en-GB", ...options });
  const answer = await context.request.post("/v1/auth/signin", { data: { email, password }, headers: { Origin: url } });
  if (!answer.ok()) throw new Error(`sign-in: ${answer.status()}`);
  return context;
}
