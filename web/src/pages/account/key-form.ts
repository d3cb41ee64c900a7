/** What stands in the form of a key, and what of it is sent. */

import type { Schema } from "../../api/client";

export type Scope = Schema<"KeyScope">;
export type Expiry = "never" | "d30" | "d90" | "d365" | "date";

export const SCOPES: Scope[] = ["transcribe", "read", "manage"];
export const MOST_RATE = 10_000_000;
export const MOST_NUMBER = 1_000_000_000;
const MOST_NAME = 200;
const MOST_ADDRESSES = 100;

/** The texts of the controls. */
export interface KeyForm {
  name: string;
  scopes: Scope[];
  expiry: Expiry;
  /** `2026-01-31`, the last day. */
  date: string;
  rate: string;
  monthly: string;
  spending: string;
  addresses: string;
}

/** What is wrong with a control; numbers come with their bounds. */
export interface KeyFaults {
  name?: true;
  scopes?: true;
  date?: true;
  rate?: true;
  monthly?: true;
  spending?: "number" | "stays";
  /** The line that is no address; empty where there are too many. */
  addresses?: string;
}

export const EMPTY_KEY: KeyForm = { name: "", scopes: [...SCOPES], expiry: "never", date: "", rate: "", monthly: "", spending: "", addresses: "" };

/** The number of a control; null where it is empty, NaN where it is none between the bounds. */
export function wholeNumber(text: string, least: number, most: number): number | null {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  if (!/^\d+$/.test(trimmed)) return Number.NaN;
  const value = Number(trimmed);
  return value >= least && value <= most ? value : Number.NaN;
}

/** Addresses and networks, one per line or with commas between them. */
export function addressLines(text: string): string[] {
  return text.split(/[\n,;]+/).map((line) => line.trim()).filter((line) => line !== "");
}

/** Whether a text is an address or a network, as far as can be said here; the server says the rest. */
export function isNetwork(text: string): boolean {
  const [address = "", bits, more] = text.split("/");
  if (more !== undefined) return false;
  const isFour = /^\d{1,3}(\.\d{1,3}){3}$/.test(address) && address.split(".").every((part) => Number(part) <= 255);
  const isSix = !isFour && /^[0-9a-f:.]+$/i.test(address) && address.split(":").length > 2 && address.split("::").length <= 2;
  if (!isFour && !isSix) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (isFour ? 32 : 128));
}

/** When a key of the form ends: the end of the chosen day where the reader is. Null for never, undefined where no day is chosen. */
export function endOf(form: Pick<KeyForm, "expiry" | "date">, now: Date): Date | null | undefined {
  if (form.expiry === "never") return null;
  if (form.expiry !== "date") return new Date(now.getTime() + Number(form.expiry.slice(1)) * 86_400_000);
  const found = /^(\d{4})-(\d{2})-(\d{2})$/.exec(form.date);
  if (!found) return undefined;
  const end = new Date(Number(found[1]), Number(found[2]) - 1, Number(found[3]), 23, 59, 59);
  return end > now ? end : undefined;
}

/** The body of `POST /v1/keys`, or what is wrong. */
export function newKey(form: KeyForm, now: Date): { body: Schema<"NewKey"> } | { faults: KeyFaults } {
  const { faults, rate, monthly, spending } = numbers(form);
  const end = endOf(form, now);
  const addresses = addressLines(form.addresses);
  const odd = addresses.find((address) => !isNetwork(address));
  if (form.scopes.length === 0) faults.scopes = true;
  if (end === undefined) faults.date = true;
  if (addresses.length > MOST_ADDRESSES) faults.addresses = "";
  else if (odd !== undefined) faults.addresses = odd;
  if (Object.keys(faults).length > 0) return { faults };
  const body: Schema<"NewKey"> = { scopes: SCOPES.filter((scope) => form.scopes.includes(scope)) };
  if (form.name.trim()) body.name = form.name.trim();
  if (end) body.expires_at = end.toISOString();
  if (rate !== null) body.rate_limit = rate;
  if (monthly !== null) body.monthly_limit_minutes = monthly;
  if (spending !== null) body.spending_limit = spending;
  if (addresses.length > 0) body.allowed_addresses = addresses;
  return { body };
}

/** The form for a key that is there. */
export function formOf(key: Schema<"Key">): KeyForm {
  return { ...EMPTY_KEY, name: key.name, rate: String(key.rate_limit), monthly: String(key.monthly_limit_minutes), spending: key.spending_limit == null ? "" : String(key.spending_limit) };
}

/** The body of `PATCH /v1/keys/{id}`: only what differs; null where nothing does. */
export function keyChange(key: Schema<"Key">, form: KeyForm): { body: Schema<"KeyUpdate"> | null } | { faults: KeyFaults } {
  const { faults, rate, monthly, spending } = numbers(form);
  // The server has no way to take a limit away.
  if (spending === null && key.spending_limit != null) faults.spending = "stays";
  if (rate === null) faults.rate = true;
  if (monthly === null) faults.monthly = true;
  if (Object.keys(faults).length > 0) return { faults };
  const body: Schema<"KeyUpdate"> = {};
  if (form.name.trim() !== key.name) body.name = form.name.trim();
  if (rate !== key.rate_limit) body.rate_limit = rate;
  if (monthly !== key.monthly_limit_minutes) body.monthly_limit_minutes = monthly;
  if (spending !== null && spending !== key.spending_limit) body.spending_limit = spending;
  return { body: Object.keys(body).length > 0 ? body : null };
}

function numbers(form: KeyForm) {
  const faults: KeyFaults = {};
  const rate = wholeNumber(form.rate, 1, MOST_RATE);
  const monthly = wholeNumber(form.monthly, 0, MOST_NUMBER);
  const spending = wholeNumber(form.spending, 0, MOST_NUMBER);
  if ([...form.name.trim()].length > MOST_NAME) faults.name = true;
  if (Number.isNaN(rate)) faults.rate = true;
  if (Number.isNaN(monthly)) faults.monthly = true;
  if (Number.isNaN(spending)) faults.spending = "number";
  return { faults, rate, monthly, spending };
}
