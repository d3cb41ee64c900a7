/** Password, sessions, and what happened in the account. */

import { useState } from "preact/hooks";
import { api, Problem, unwrap, type Schema } from "../../api/client";
import { accountTexts } from "../../i18n/account";
import { query, setQuery } from "../../router";
import { session, signedIn, tellOtherTabs } from "../../session";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { Check, TextField } from "../../ui/field";
import { date } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, Notice, Skeleton } from "../../ui/states";
import { toast } from "../../ui/toast";
import { agentOf } from "./agent";
import { AuditList } from "./audit-list";
import { Ago, focusOn, Group, isolated, Pager, useFocusWrong } from "./pieces";

type Info = Schema<"SessionInfo">;

const EVENTS = 20;

export function Security() {
  const sessions = useLoaded("sessions", async (signal) => (await unwrap(api.GET("/v1/auth/sessions", { signal }))).sessions);
  return (
    <>
      <Password onChanged={sessions.reload} />
      <Sessions sessions={sessions} />
      <Log />
    </>
  );
}

function Password({ onChanged }: { onChanged: () => void }) {
  const t = accountTexts().security;
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [isShown, setShown] = useState(false);
  const [faults, setFaults] = useState<{ current?: string; next?: string }>({});
  const [round, setRound] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const [isDone, setDone] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const element = useFocusWrong(round);
  const refuse = (found: { current?: string; next?: string }) => {
    setFaults(found);
    setRound((before) => before + 1);
  };

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const found: { current?: string; next?: string } = {};
    const length = [...next].length;
    if (!current) found.current = t.wrong.missing;
    if (length < 8) found.next = t.wrong.short;
    else if (length > 256) found.next = t.wrong.long;
    else if (next === current) found.next = t.wrong.same;
    setDone(false);
    setError(null);
    if (found.current || found.next) {
      refuse(found);
      return;
    }
    setFaults({});
    setBusy(true);
    try {
      signedIn(await unwrap(api.POST("/v1/auth/password", { body: { current_password: current, new_password: next } })));
      tellOtherTabs();
      setCurrent("");
      setNext("");
      setDone(true);
      onChanged();
    } catch (failure) {
      if (failure instanceof Problem && failure.status === 403) refuse({ current: t.wrong.current });
      else setError(failure);
    } finally {
      setBusy(false);
    }
  };

  const type = isShown ? "text" : "password";
  return (
    <Group title={t.password} text={t.changeText}>
      <form class="stack account-narrow" noValidate ref={element} onSubmit={(event) => void submit(event)}>
        {/* So that password managers know whose password it is. */}
        <input type="text" class="visually-hidden" autocomplete="username" tabIndex={-1} aria-hidden="true" readOnly value={session.value?.account?.email ?? ""} />
        <TextField type={type} label={t.current} wrong={faults.current} autocomplete="current-password" value={current} onInput={(event) => setCurrent(event.currentTarget.value)} />
        <TextField type={type} label={t.next} hint={t.nextHint} wrong={faults.next} autocomplete="new-password" value={next} onInput={(event) => setNext(event.currentTarget.value)} />
        <Check label={t.showPasswords} checked={isShown} onChange={(event) => setShown(event.currentTarget.checked)} />
        <ErrorNotice error={error} />
        <div role="status">
          {isDone && (
            <Notice kind="good" icon="check">
              {t.changed}
            </Notice>
          )}
        </div>
        <div class="row tight">
          <Button type="submit" busy={isBusy}>
            {t.change}
          </Button>
        </div>
      </form>
    </Group>
  );
}

/** What a session is called: browser and system where they are known, else what the client called itself. */
function deviceName(info: Info, t: ReturnType<typeof accountTexts>["security"]): string {
  if (info.kind === "token") return t.token;
  const { browser, system } = agentOf(info.user_agent);
  if (browser && system) return t.on(browser, system);
  return browser ?? system ?? (info.user_agent.trim() ? isolated(info.user_agent) : t.unknownDevice);
}

function Sessions({ sessions }: { sessions: ReturnType<typeof useLoaded<Info[]>> }) {
  const t = accountTexts().security;
  const [asked, setAsked] = useState<Info | "others" | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const list = sessions.value ? [...sessions.value].sort((a, b) => Number(b.is_current) - Number(a.is_current)) : null;
  const end = async () => {
    if (!asked) return;
    setBusy(true);
    setError(null);
    try {
      if (asked === "others") await unwrap(api.DELETE("/v1/auth/sessions"));
      else await unwrap(api.DELETE("/v1/auth/sessions/{id}", { params: { path: { id: asked.id } } }));
      toast(asked === "others" ? t.endedOthers : t.ended);
      setAsked(null);
      sessions.reload();
      focusOn("account-sessions");
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const close = () => {
    setAsked(null);
    setError(null);
  };
  return (
    <Group
      id="account-sessions"
      title={t.sessions}
      aside={
        list && list.length > 1 ? (
          <Button small onClick={() => setAsked("others")}>
            {t.endOthers}
          </Button>
        ) : undefined
      }
    >
      <ErrorNotice error={sessions.error} onRetry={sessions.reload} />
      {!list && !sessions.error && <Skeleton lines={2} height="3.5rem" />}
      {list && (
        <ul class="account-rows">
          {list.map((info) => (
            <li key={info.id}>
              <Icon name={info.kind === "token" ? "code" : "screen"} class="soft" />
              <span class="grow">
                <span class="row tight">
                  <bdi class="account-strong" title={info.user_agent.slice(0, 300)}>
                    {deviceName(info, t)}
                  </bdi>
                  {info.is_current && <span class="badge accent">{t.thisOne}</span>}
                </span>
                <span class="soft small account-under">
                  {t.signedIn} <Ago at={info.created_at} />
                  {info.last_used && (
                    <>
                      , {t.used} <Ago at={info.last_used} />
                    </>
                  )}
                  {info.expires_at && `, ${t.ends(date(info.expires_at))}`}
                </span>
              </span>
              {!info.is_current && (
                <Button small aria-label={t.endOf(deviceName(info, t))} onClick={() => setAsked(info)}>
                  {t.end}
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
      {list?.length === 1 && <p class="soft small">{t.onlyThis}</p>}
      {asked && (
        <Confirm title={asked === "others" ? t.endOthersTitle : t.endOf(deviceName(asked, t))} action={asked === "others" ? t.endOthers : t.end} busy={isBusy} onConfirm={() => void end()} onClose={close}>
          {asked === "others" ? (
            <p>{t.endOthersText}</p>
          ) : (
            <p class="soft small" dir="auto">
              {asked.user_agent.slice(0, 300) || t.unknownDevice}
            </p>
          )}
          <ErrorNotice error={error} />
        </Confirm>
      )}
    </Group>
  );
}

function Log() {
  const t = accountTexts().security;
  const page = Math.max(1, Math.floor(Number(query.value.get("page")) || 1));
  const log = useLoaded(`log ${page}`, (signal) => unwrap(api.GET("/v1/audit", { params: { query: { page, per_page: EVENTS } }, signal })));
  // Keys by name where they can be had; a log without them is still a log.
  const keys = useLoaded("keys", async (signal) => (await unwrap(api.GET("/v1/keys", { signal }))).keys);
  const keyName = (id: number) => {
    const key = keys.value?.find((other) => other.id === id);
    return key && (key.name.trim() ? `${isolated(key.name)} (${key.prefix}…)` : `${key.prefix}…`);
  };
  const pages = log.value ? Math.max(1, Math.ceil(log.value.total / EVENTS)) : 0;
  return (
    <Group title={t.log} text={t.logText}>
      <ErrorNotice error={log.error} onRetry={log.reload} />
      {!log.value && !log.error && <Skeleton lines={8} height="3rem" />}
      {log.value?.events.length === 0 && <Empty icon="clock" title={t.logEmpty} />}
      {log.value && log.value.events.length > 0 && <AuditList events={log.value.events} isOwn keyName={keyName} />}
      {log.value && <Pager page={page} pages={pages} busy={log.isLoading} onChange={(to) => setQuery({ page: to > 1 ? String(to) : null })} />}
    </Group>
  );
}
