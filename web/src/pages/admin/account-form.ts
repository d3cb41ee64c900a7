/** What stands in the form of an account, and what of it is sent. */

import type { Schema } from "../../api/client";
import { wholeNumber } from "../account/key-form";

export type Listed = Schema<"ListedAccount">;
export type Adjustment = Schema<"AccountAdjustment">;

export const PLANS = ["free", "pro", "business", "enterprise"] as const;
/** The most credits that one change adds or takes. */
export const MOST_CREDITS = 1_000_000_000;
/** The longest note, in characters. */
export const MOST_NOTE = 500;

export interface AccountForm {
  plan: string;
  isActive: boolean;
  /** Whether credits are taken instead of added. */
  isTaken: boolean;
  credits: string;
  note: string;
}

/** What is wrong with a control. */
export interface AccountFaults {
  /** No number, or more than the account has. */
  credits?: "number" | "balance";
  note?: true;
}

export function formOf(account: Pick<Listed, "plan" | "is_plan_active">): AccountForm {
  return { plan: account.plan, isActive: account.is_plan_active, isTaken: false, credits: "", note: "" };
}

/** The form with another plan: whoever gets a paid one is to have it in force. */
export function withPlan(form: AccountForm, plan: string): AccountForm {
  return { ...form, plan, isActive: plan !== "free" && form.plan === "free" ? true : form.isActive };
}

/** The balance with what the form adds or takes; null where that is no number. */
export function balanceAfter(account: Pick<Listed, "credits">, form: AccountForm): number | null {
  const amount = wholeNumber(form.credits, 0, MOST_CREDITS);
  if (amount === null) return account.credits;
  return Number.isNaN(amount) ? null : account.credits + (form.isTaken ? -amount : amount);
}

/** The body of `PATCH /v1/admin/accounts/{id}`: only what differs, null where nothing does; or what is wrong. */
export function accountChange(account: Pick<Listed, "plan" | "is_plan_active" | "credits">, form: AccountForm): { body: Adjustment | null } | { faults: AccountFaults } {
  const faults: AccountFaults = {};
  const after = balanceAfter(account, form);
  const note = form.note.trim();
  if (after === null) faults.credits = "number";
  else if (after < 0) faults.credits = "balance";
  if ([...note].length > MOST_NOTE) faults.note = true;
  if (after === null || Object.keys(faults).length > 0) return { faults };
  const body: Adjustment = {};
  if (form.plan !== account.plan) body.plan = form.plan;
  if (form.isActive !== account.is_plan_active) body.is_plan_active = form.isActive;
  if (after !== account.credits) {
    body.credits = after - account.credits;
    // A note without credits would be kept nowhere.
    if (note) body.note = note;
  }
  return { body: Object.keys(body).length > 0 ? body : null };
}
