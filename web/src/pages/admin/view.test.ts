import { describe, expect, it } from "vitest";
import { unreachable, viewOf } from "./view";

const health = {
  status: "ok",
  version: "0.1.0",
  gpu: { status: "cpu", queue_length: 0, gpu_memory_free_mb: 0 },
  gpu_available: false,
  gpu_name: "Some processor",
  gpu_memory_mb: 0,
};
const passed = { status: "ready", checks: { models: "ok", database: "ok", novelty: "ok", disk: "ok" } };

describe("the view of health", () => {
  it("is ok when both are, with checks in order", () => {
    const view = viewOf({ ok: true, body: health }, { ok: true, body: passed });
    expect(view.state).toBe("ok");
    expect(view.checks.map((check) => check.name)).toEqual(["database", "disk", "models", "novelty"]);
    expect(view.trouble).toBeNull();
  });

  it("is degraded when something is missing", () => {
    const failed = { error: "not ready: models", status: "unready", checks: { models: "failed", database: "ok" } };
    const view = viewOf({ ok: true, body: { ...health, status: "degraded" } }, { ok: false, body: failed });
    expect(view.state).toBe("degraded");
    expect(view.checks).toEqual([
      { name: "database", passed: true },
      { name: "models", passed: false },
    ]);
    expect(viewOf({ ok: true, body: health }, { ok: false, body: failed }).state).toBe("degraded");
  });

  it("is down when the server says so", () => {
    const view = viewOf({ ok: false, body: { error: "the server is going down" } }, { ok: false, body: { error: "the server is going down" } });
    expect(view).toEqual({ state: "down", health: null, checks: [], trouble: "the server is going down" });
    expect(viewOf({ ok: false, body: null }, { ok: false, body: "x" }).state).toBe("down");
    expect(viewOf({ ok: true, body: { ...health, status: "draining" } }, { ok: false, body: null }).state).toBe("down");
  });

  it("keeps what is known when nobody answers", () => {
    const before = viewOf({ ok: true, body: health }, { ok: true, body: passed });
    expect(unreachable(before)).toEqual({ ...before, state: "unreachable" });
    expect(unreachable(null)).toEqual({ state: "unreachable", health: null, checks: [], trouble: null });
  });
});
