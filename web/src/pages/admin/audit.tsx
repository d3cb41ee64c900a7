/** What was done in all accounts. */

import { useEffect, useState } from "preact/hooks";
import { api, unwrap } from "../../api/client";
import { adminTexts } from "../../i18n/admin";
import { query, setQuery } from "../../router";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { number } from "../../ui/format";
import { useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, Skeleton } from "../../ui/states";
import { AuditList } from "../account/audit-list";
import { focusOn, Pager } from "../account/pieces";

const EVENTS = 50;

/** The number of an account; null where a text is none. */
function accountNumber(text: string | null): number | null {
  return text && /^\d{1,15}$/.test(text.trim()) && Number(text) > 0 ? Number(text) : null;
}

export function AuditOfAll() {
  const t = adminTexts().audit;
  const account = accountNumber(query.value.get("account"));
  const page = Math.max(1, Math.floor(Number(query.value.get("page")) || 1));
  const log = useLoaded(`${account} ${page}`, (signal) => unwrap(api.GET("/v1/admin/audit", { params: { query: { page, per_page: EVENTS, ...(account ? { account } : {}) } }, signal })));
  const pages = log.value ? Math.max(1, Math.ceil(log.value.total / EVENTS)) : 0;
  return (
    <>
      <p class="soft account-measure">{t.text}</p>
      <Filter account={account} />
      <p class="soft small" role="status">
        {[account ? t.shown(String(account)) : "", log.value ? t.total(number(log.value.total)) : "\u00a0"].filter(Boolean).join(" ")}
      </p>
      <ErrorNotice error={log.error} onRetry={log.reload} />
      {!log.value && !log.error && <Skeleton lines={12} height="3rem" />}
      {log.value?.events.length === 0 && <Empty icon="clock" title={t.empty} />}
      {log.value && log.value.events.length > 0 && (
        <AuditList
          events={log.value.events}
          isOwn={false}
          accountOf={(event) =>
            event.account_id == null ? (
              <span class="account-under soft">{t.noAccount}</span>
            ) : (
              <a class="account-under" href={`/admin/audit?account=${event.account_id}`} aria-label={t.onlyThis(String(event.account_id))}>
                {t.ofAccount(String(event.account_id))}
              </a>
            )
          }
        />
      )}
      {log.value && <Pager page={page} pages={pages} busy={log.isLoading} onChange={(to) => setQuery({ page: to > 1 ? String(to) : null })} />}
    </>
  );
}

function Filter({ account }: { account: number | null }) {
  const t = adminTexts().audit;
  const [text, setText] = useState(account ? String(account) : "");
  const [isWrong, setWrong] = useState(false);
  // A link in the list chooses an account, too.
  useEffect(() => setText(account ? String(account) : ""), [account]);
  const submit = (event: Event) => {
    event.preventDefault();
    const chosen = text.trim() === "" ? null : accountNumber(text);
    setWrong(text.trim() !== "" && chosen === null);
    if (text.trim() === "" || chosen !== null) setQuery({ account: chosen === null ? null : String(chosen), page: null });
  };
  return (
    <form class="admin-filter" noValidate onSubmit={submit}>
      <TextField label={t.account} inputMode="numeric" autocomplete="off" value={text} wrong={isWrong ? t.wrong : null} onInput={(event) => setText(event.currentTarget.value)} />
      <Button type="submit" id="admin-show">
        {t.show}
      </Button>
      {account !== null && (
        <Button
          kind="plain"
          onClick={() => {
            setQuery({ account: null, page: null });
            focusOn("admin-show");
          }}
        >
          {t.all}
        </Button>
      )}
    </form>
  );
}
