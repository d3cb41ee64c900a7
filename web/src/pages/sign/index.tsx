/** Signing in and up, and asking for a new password. */

import { useState } from "preact/hooks";
import { Title, type PageProps } from "../../app";
import { api, unwrap } from "../../api/client";
import { language } from "../../i18n";
import { signTexts } from "../../i18n/sign";
import { isPage, navigate, path, query } from "../../router";
import { session, signedIn, tellOtherTabs } from "../../session";
import { Button, LinkButton } from "../../ui/button";
import { TextField } from "../../ui/field";
import { Empty, ErrorNotice, Notice } from "../../ui/states";
import { toast } from "../../ui/toast";

export default function Sign(_: PageProps) {
  const t = signTexts();
  const kind = path.value === "/sign-up" ? "up" : path.value === "/forgot" ? "forgot" : "in";
  const heading = { in: t.signIn, up: t.signUp, forgot: t.forgot }[kind];
  return (
    <div class="page narrow">
      <Title words={heading} />
      <div class="panel stack" key={kind}>
        <Form kind={kind} heading={heading} />
      </div>
    </div>
  );
}

/** Where to go afterwards: a page of this app, whatever the address says. */
export function nextPage(wanted: string | null): string {
  if (!wanted?.startsWith("/") || wanted.startsWith("//") || wanted.includes("\\")) return "/";
  const url = new URL(wanted, location.origin);
  return url.origin === location.origin && isPage(url.pathname) ? url.pathname + url.search : "/";
}

function Form({ kind, heading }: { kind: "in" | "up" | "forgot"; heading: string }) {
  const t = signTexts();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [isShown, setShown] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [sent, setSent] = useState<string | null>(null);
  const onward = query.value.get("next");
  const suffix = onward ? `?next=${encodeURIComponent(onward)}` : "";

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      if (kind === "forgot") {
        await unwrap(api.POST("/v1/auth/reset", { body: { email } }));
        setSent(t.resetSent(email));
        return;
      }
      const answer =
        kind === "in"
          ? await unwrap(api.POST("/v1/auth/signin", { body: { email, password, token: false } }))
          : await unwrap(api.POST("/v1/auth/signup", { body: { email, password, lang: language.value } }));
      if ("account" in answer) {
        signedIn(answer);
        tellOtherTabs();
        toast(t.welcome);
        navigate(nextPage(onward), { replace: true });
      } else setSent(t.confirmSent(email));
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  }

  if (sent) {
    return (
      <Empty icon="check" title={t.checkMail} isPage>
        <p dir="auto">{sent}</p>
        <LinkButton href="/sign-in">{t.back}</LinkButton>
      </Empty>
    );
  }
  const isClosed = kind === "up" && session.value?.sign_up === false;
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      <h1>{heading}</h1>
      {isClosed && <Notice icon="info">{t.closed}</Notice>}
      <TextField label={t.email} type="email" autoComplete="username" required maxLength={254} value={email} onInput={(event) => setEmail(event.currentTarget.value)} />
      {kind !== "forgot" && (
        <div class="stack tight">
          <TextField
            label={t.password}
            type={isShown ? "text" : "password"}
            autoComplete={kind === "in" ? "current-password" : "new-password"}
            required
            minLength={kind === "up" ? 8 : undefined}
            maxLength={256}
            hint={kind === "up" ? t.newPasswordHint : undefined}
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
          <div class="row between">
            <Button small kind="plain" onClick={() => setShown(!isShown)}>
              {isShown ? t.hide : t.show}
            </Button>
            {kind === "in" && <a href="/forgot">{t.toForgot}</a>}
          </div>
        </div>
      )}
      <ErrorNotice error={error} />
      <Button type="submit" kind="primary" busy={busy} disabled={isClosed}>
        {{ in: t.doSignIn, up: t.doSignUp, forgot: t.doForgot }[kind]}
      </Button>
      {kind === "in" && session.value?.sign_up && (
        <p class="small">
          {t.toSignUp} <a href={`/sign-up${suffix}`}>{t.signUp}</a>
        </p>
      )}
      {kind !== "in" && (
        <p class="small">
          {kind === "up" ? `${t.toSignIn} ` : ""}
          <a href={`/sign-in${suffix}`}>{kind === "up" ? t.signIn : t.back}</a>
        </p>
      )}
    </form>
  );
}
