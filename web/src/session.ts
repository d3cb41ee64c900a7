/** Who is signed in, as the server tells it. */

import { signal } from "@preact/signals";
import { api, setCsrf, unwrap, whenUnauthorized, type Schema } from "./api/client";

export type Session = Schema<"Session">;
export type Account = Schema<"Account">;

/** The session; null until the server has answered. */
export const session = signal<Session | null>(null);

function set(value: Session): void {
  setCsrf(value.csrf_token ?? null);
  session.value = value;
}

/** Asks the server who is signed in. Answers with the session; where the server can't be reached, with nobody's. */
export async function loadSession(): Promise<Session> {
  try {
    set(await unwrap(api.GET("/v1/auth/session")));
  } catch {
    if (!session.value) set({ signed_in: false, sign_up: false });
  }
  return session.value ?? { signed_in: false, sign_up: false };
}

/** After signing up or in. */
export function signedIn(answer: Schema<"SignedIn">): void {
  set({ signed_in: true, sign_up: session.value?.sign_up ?? false, account: answer.account, ...(answer.csrf_token ? { csrf_token: answer.csrf_token } : {}) });
}

export async function signOut(): Promise<void> {
  await unwrap(api.POST("/v1/auth/signout"));
  await loadSession();
}

let asking = false;
whenUnauthorized(() => {
  // The session may have ended elsewhere: ask once, and the pages show the door.
  if (asking || !session.value?.signed_in) return;
  asking = true;
  void loadSession().finally(() => {
    asking = false;
  });
});

/** Who signs in or out in another tab does so in this one. */
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("hark.session") : null;
channel?.addEventListener("message", () => void loadSession());

/** Tells other tabs that somebody signed in or out. */
export function tellOtherTabs(): void {
  channel?.postMessage("changed");
}
