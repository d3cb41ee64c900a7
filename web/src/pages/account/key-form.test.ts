import { describe, expect, it } from "vitest";
import { addressLines, EMPTY_KEY, endOf, formOf, isNetwork, keyChange, newKey, wholeNumber } from "./key-form";

const now = new Date(2026, 0, 15, 12, 0, 0);
const key = {
  id: 1,
  name: "laptop",
  prefix: "svc_12345678",
  is_active: true,
  rate_limit: 60,
  monthly_limit_minutes: 5000,
  created_at: "2026-01-01T00:00:00Z",
  scopes: ["read" as const],
  allowed_addresses: [],
  spending_limit: 100,
};

describe("a new key", () => {
  it("sends only what was said", () => {
    expect(newKey(EMPTY_KEY, now)).toEqual({ body: { scopes: ["transcribe", "read", "manage"] } });
    const form = { ...EMPTY_KEY, name: " backup ", scopes: ["manage" as const, "read" as const], rate: "10", monthly: "0", spending: "5", addresses: "192.0.2.7\n\n 2001:db8::/48 " };
    expect(newKey(form, now)).toEqual({
      body: { name: "backup", scopes: ["read", "manage"], rate_limit: 10, monthly_limit_minutes: 0, spending_limit: 5, allowed_addresses: ["192.0.2.7", "2001:db8::/48"] },
    });
  });

  it("says what is wrong", () => {
    const form = { ...EMPTY_KEY, name: "x".repeat(201), scopes: [], expiry: "date" as const, date: "", rate: "0", monthly: "1.5", spending: "-1", addresses: "192.0.2.7, home" };
    expect(newKey(form, now)).toEqual({ faults: { name: true, scopes: true, date: true, rate: true, monthly: true, spending: "number", addresses: "home" } });
    expect(newKey({ ...EMPTY_KEY, addresses: Array(101).fill("192.0.2.7").join("\n") }, now)).toEqual({ faults: { addresses: "" } });
  });

  it("ends when it was asked to", () => {
    expect(endOf({ expiry: "never", date: "" }, now)).toBeNull();
    expect(endOf({ expiry: "d30", date: "" }, now)).toEqual(new Date(now.getTime() + 30 * 86_400_000));
    expect(endOf({ expiry: "date", date: "2026-01-15" }, now)).toEqual(new Date(2026, 0, 15, 23, 59, 59));
    expect(endOf({ expiry: "date", date: "2026-01-14" }, now)).toBeUndefined();
    expect(endOf({ expiry: "date", date: "soon" }, now)).toBeUndefined();
  });
});

describe("a change", () => {
  it("holds what differs", () => {
    expect(keyChange(key, formOf(key))).toEqual({ body: null });
    expect(keyChange(key, { ...formOf(key), name: "desk", rate: "7" })).toEqual({ body: { name: "desk", rate_limit: 7 } });
    expect(keyChange({ ...key, spending_limit: null }, { ...formOf(key), spending: "" })).toEqual({ body: null });
  });

  it("can't take a limit away", () => {
    expect(keyChange(key, { ...formOf(key), spending: " " })).toEqual({ faults: { spending: "stays" } });
    expect(keyChange(key, { ...formOf(key), rate: "", monthly: "x" })).toEqual({ faults: { rate: true, monthly: true } });
  });
});

describe("controls", () => {
  it("read whole numbers", () => {
    expect(wholeNumber(" 12 ", 1, 20)).toBe(12);
    expect(wholeNumber("", 1, 20)).toBeNull();
    for (const text of ["0", "21", "1.0", "1e3", "-1", "x"]) expect(wholeNumber(text, 1, 20)).toBeNaN();
  });

  it("read addresses", () => {
    expect(addressLines("a\n b ,c;;\n")).toEqual(["a", "b", "c"]);
    for (const text of ["192.0.2.7", "192.0.2.0/24", "::1", "2001:db8::/48", "::ffff:192.0.2.1"]) expect(isNetwork(text)).toBe(true);
    for (const text of ["", "192.0.2", "256.0.0.1", "192.0.2.0/33", "2001:db8::/129", "a::b::c", "host", "1.2.3.4/5/6", "192.0.2.7/"]) expect(isNetwork(text)).toBe(false);
  });
});
