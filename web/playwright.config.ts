import { defineConfig } from "@playwright/test";

/** What keeps Chromium from looking for anything outside this machine. */
export const CHROMIUM = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const recordings = process.env["HARK_RECORDINGS"] ?? "";

/** The browser of the system: Playwright's own is not downloaded. */
const browser = { executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: CHROMIUM };

export default defineConfig({
  testDir: "tests",
  outputDir: "test-results",
  // One after another: they share a server on two cores.
  workers: 1,
  timeout: 120_000,
  expect: { timeout: 15_000 },
  retries: 0,
  forbidOnly: !!process.env["CI"],
  reporter: [["list"]],
  use: { actionTimeout: 20_000, baseURL: process.env["HARK_URL"] ?? "http://127.0.0.1:5173", launchOptions: browser, locale: "en-GB", trace: "retain-on-failure" },
  projects: [
    { name: "pages", testIgnore: /live\.spec\.ts/ },
    {
      name: "live",
      testMatch: /live\.spec\.ts/,
      use: {
        permissions: ["microphone"],
        launchOptions: {
          ...browser,
          args: [
            ...CHROMIUM,
            "--use-fake-ui-for-media-stream",
            "--use-fake-device-for-media-stream",
            `--use-file-for-fake-audio-capture=${recordings}/market.wav%noloop`,
          ],
        },
      },
    },
  ],
});
