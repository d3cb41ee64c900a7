import { defineConfig } from "vite";

/** The server that the development server passes calls to. */
const server = process.env["HARK_SERVER"] ?? "http://127.0.0.1:8600";

export default defineConfig({
  // Preact without a plugin: the compiler of Vite reads `jsx` of tsconfig.json.
  build: {
    // As docs/users/web.md says; light-dark() needs no replacement there.
    target: ["chrome123", "edge123", "firefox128", "safari17.5"],
    sourcemap: false,
    // No inline images: the policy of the page allows only its own files.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 200,
  },
  server: {
    proxy: {
      "/v1": { target: server, ws: true },
      "^/s/": { target: server },
      "/health": { target: server },
      "/openapi.json": { target: server },
      "/docs": { target: server },
    },
  },
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
