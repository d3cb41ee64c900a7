/** The balance, and where credits came from and went. */

import { api, unwrap, type Schema } from "../../api/client";
import { accountTexts } from "../../i18n/account";
import { locale } from "../../i18n";
import { query, setQuery } from "../../router";
import { Button, LinkButton } from "../../ui/button";
import { dateTime, duration, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, Skeleton } from "../../ui/states";
import { entryAbout, entryName, isPassing, type LedgerEntry } from "./ledger";
import { focusOn, Group, pageAsked, Pager, useKept } from "./pieces";

const ENTRIES = 25;

export function Credits() {
  const t = accountTexts().credits;
  const page = pageAsked(query.value.get("page"));
  const account = useLoaded("account", (signal) => unwrap(api.GET("/v1/account", { signal })));
  const ledger = useLoaded(String(page), (signal) => unwrap(api.GET("/v1/account/ledger", { params: { query: { page, per_page: ENTRIES } }, signal })));
  const shown = useKept(ledger);
  const pages = shown ? Math.max(1, Math.ceil(shown.total / ENTRIES)) : 0;
  return (
    <>
      {account.error ? <ErrorNotice error={account.error} onRetry={account.reload} /> : <Balance account={account.value} />}
      <Group title={t.ledger} text={t.ledgerText}>
        <ErrorNotice error={ledger.error} onRetry={ledger.reload} />
        {!shown && !ledger.error && <Skeleton lines={10} height="3.25rem" />}
        {shown && shown.total === 0 && (
          <Empty icon="clock" title={t.emptyTitle}>
            <p>{t.emptyText}</p>
            <LinkButton href="/">{t.toStart}</LinkButton>
          </Empty>
        )}
        {shown && shown.total > 0 && shown.entries.length === 0 && (
          <Empty icon="clock" title={t.beyond}>
            <Button
              onClick={() => {
                setQuery({ page: null });
                focusOn("account-title");
              }}
            >
              {t.first}
            </Button>
          </Empty>
        )}
        {shown && shown.entries.length > 0 && <Ledger entries={shown.entries} busy={ledger.isLoading} />}
        {shown && shown.entries.length > 0 && <Pager page={page} pages={pages} busy={ledger.isLoading} label={t.pages} onChange={(to) => setQuery({ page: to > 1 ? String(to) : null })} />}
      </Group>
    </>
  );
}

function Balance({ account }: { account: Schema<"Account"> | null }) {
  const t = accountTexts().overview;
  const wait = <span class="skeleton account-figure-wait" />;
  const isActive = account ? account.plan === "free" || account.is_plan_active : true;
  return (
    <dl class="account-tiles" aria-busy={!account}>
      <div class="panel account-tile">
        <dt>{t.credits}</dt>
        <dd class="account-figure numeric">{account ? number(account.credits) : wait}</dd>
        <dd class="soft small numeric">{!account ? "\u00a0" : account.credits > 0 ? t.creditsTime(duration(account.credits * 60)) : t.creditsNone}</dd>
      </div>
      <div class="panel account-tile">
        <dt>{t.plan}</dt>
        <dd class="account-figure">{!account ? wait : Object.hasOwn(t.plans, account.plan) ? t.plans[account.plan] : account.plan}</dd>
        <dd class="soft small">
          {!account ? "\u00a0" : isActive ? t.planActive : (
            <span class="badge warn">
              <Icon name="warning" class="account-badge-icon" />
              {t.planInactive}
            </span>
          )}
        </dd>
      </div>
    </dl>
  );
}

function Ledger({ entries, busy }: { entries: LedgerEntry[]; busy: boolean }) {
  const t = accountTexts().credits;
  const format = new Intl.NumberFormat(locale.value, { signDisplay: "exceptZero" });
  // A minus as wide as the plus, which is read as one, too.
  const signed = (amount: number) => format.format(amount).replace("-", "\u2212");
  return (
    <table class="table account-ledger" aria-busy={busy}>
      <caption class="visually-hidden">{t.ledger}</caption>
      <thead>
        <tr>
          <th scope="col">{t.date}</th>
          <th scope="col">{t.what}</th>
          <th scope="col" class="number">
            {t.amount}
          </th>
        </tr>
      </thead>
      <tbody>
        {entries.map((entry) => (
          <tr key={entry.id}>
            <td class="soft small numeric account-ledger-date">
              <time dateTime={entry.at}>{dateTime(entry.at)}</time>
            </td>
            <td>
              <span class={isPassing(entry) ? "" : "account-strong"}>{entryName(entry, t)}</span>
              {entryAbout(entry, t).map((piece, index) => (
                <span key={index} class="soft small account-under" dir="auto">
                  {piece.href ? <a href={piece.href}>{piece.text}</a> : piece.text}
                </span>
              ))}
            </td>
            <td class={`number ${isPassing(entry) ? "soft" : entry.amount > 0 ? "account-more-credits" : ""}`}>{signed(entry.amount)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
