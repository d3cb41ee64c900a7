import { describe, expect, it } from "vitest";
import { accountChange, balanceAfter, formOf, withPlan } from "./account-form";

const account = { plan: "pro", is_plan_active: true, credits: 100 };
const form = formOf(account);

describe("the form of an account", () => {
  it("sends nothing where nothing differs, also not a note alone", () => {
    expect(accountChange(account, form)).toEqual({ body: null });
    expect(accountChange(account, { ...form, credits: " 0 ", note: "why" })).toEqual({ body: null });
  });

  it("sends what differs", () => {
    expect(accountChange(account, { ...form, plan: "free" })).toEqual({ body: { plan: "free" } });
    expect(accountChange(account, { ...form, isActive: false })).toEqual({ body: { is_plan_active: false } });
    expect(accountChange(account, { ...form, credits: "50", note: "  workshop " })).toEqual({ body: { credits: 50, note: "workshop" } });
    expect(accountChange(account, { ...form, credits: "100", isTaken: true })).toEqual({ body: { credits: -100 } });
  });

  it("names what is wrong", () => {
    expect(accountChange(account, { ...form, credits: "1.5" })).toEqual({ faults: { credits: "number" } });
    expect(accountChange(account, { ...form, credits: "-5" })).toEqual({ faults: { credits: "number" } });
    expect(accountChange(account, { ...form, credits: "1000000001" })).toEqual({ faults: { credits: "number" } });
    expect(accountChange(account, { ...form, credits: "101", isTaken: true })).toEqual({ faults: { credits: "balance" } });
    expect(accountChange(account, { ...form, note: "x".repeat(501) })).toEqual({ faults: { note: true } });
  });

  it("knows the balance afterwards", () => {
    expect(balanceAfter(account, form)).toBe(100);
    expect(balanceAfter(account, { ...form, credits: "7" })).toBe(107);
    expect(balanceAfter(account, { ...form, credits: "7", isTaken: true })).toBe(93);
    expect(balanceAfter(account, { ...form, credits: "x" })).toBeNull();
  });

  it("puts a paid plan in force for who had none", () => {
    const free = formOf({ plan: "free", is_plan_active: false });
    expect(withPlan(free, "business").isActive).toBe(true);
    expect(withPlan({ ...form, isActive: false }, "business").isActive).toBe(false);
    expect(withPlan(form, "free").isActive).toBe(true);
  });
});
