/** All accounts: found by their address, with their plan and their credits. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, unwrap } from "../../api/client";
import { accountTexts } from "../../i18n/account";
import { adminTexts } from "../../i18n/admin";
import { common } from "../../i18n/common";
import { query, setQuery } from "../../router";
import { loadSession, session } from "../../session";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Check, Select, TextField } from "../../ui/field";
import { date, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, Skeleton } from "../../ui/states";
import { toast } from "../../ui/toast";
import { Fact, focusOn, isolated, pageAsked, Pager, Segments, useFocusWrong, useKept } from "../account/pieces";
import { accountChange, balanceAfter, formOf, MOST_CREDITS, MOST_NOTE, PLANS, withPlan, type AccountFaults, type AccountForm, type Listed } from "./account-form";

const ACCOUNTS = 25;
/** How long typing has to rest before it is searched for, in milliseconds. */
const REST = 300;
/** The longest address, in characters. */
const LONGEST = 254;

export function Accounts() {
  const t = adminTexts().accounts;
  const wanted = query.value.get("q") ?? "";
  const page = pageAsked(query.value.get("page"));
  const list = useLoaded(`${page} ${wanted}`, (signal) => unwrap(api.GET("/v1/admin/accounts", { params: { query: { page, per_page: ACCOUNTS, ...(wanted ? { q: wanted } : {}) } }, signal })));
  const shown = useKept(list);
  const [open, setOpen] = useState<Listed | null>(null);
  const pages = shown ? Math.max(1, Math.ceil(shown.total / ACCOUNTS)) : 0;
  const changed = (email: string) => {
    setOpen(null);
    list.reload();
    toast(t.changed(isolated(email)));
  };
  return (
    <>
      <Search wanted={wanted} />
      <p class="soft small" role="status">
        {shown && !list.isLoading ? (wanted ? t.found(shown.total, number(shown.total)) : t.total(shown.total, number(shown.total))) : "\u00a0"}
      </p>
      <ErrorNotice error={list.error} onRetry={list.reload} />
      {!shown && !list.error && <Skeleton lines={8} height="4.5rem" />}
      {shown && shown.accounts.length === 0 && (
        <Empty icon="account" title={shown.total > 0 ? t.beyond : wanted ? t.none : t.empty}>
          {(wanted || page > 1) && (
            <Button
              onClick={() => {
                setQuery({ q: null, page: null });
                focusOn("account-title");
              }}
            >
              {t.all}
            </Button>
          )}
        </Empty>
      )}
      {shown && shown.accounts.length > 0 && (
        <ul class="admin-accounts" aria-busy={list.isLoading}>
          {shown.accounts.map((account) => (
            <Row key={account.id} account={account} onOpen={() => setOpen(account)} />
          ))}
        </ul>
      )}
      {shown && shown.accounts.length > 0 && <Pager page={page} pages={pages} busy={list.isLoading} label={t.pages} onChange={(to) => setQuery({ page: to > 1 ? String(to) : null })} />}
      {open && <ChangeDialog account={open} onClose={() => setOpen(null)} onChanged={() => changed(open.email)} />}
    </>
  );
}

/** The field above the list. What is typed goes into the address once it rests. */
function Search({ wanted }: { wanted: string }) {
  const t = adminTexts().accounts;
  const [text, setText] = useState(wanted);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const pushed = useRef(wanted);
  const search = (typed: string) => {
    clearTimeout(timer.current);
    const next = typed.trim();
    if (next === pushed.current) return;
    pushed.current = next;
    setQuery({ q: next, page: null });
  };
  // The address changed otherwise: with the back button, or by the way out of an empty list.
  useEffect(() => {
    if (wanted === pushed.current) return;
    pushed.current = wanted;
    setText(wanted);
  }, [wanted]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <search>
      <form
        class="admin-search"
        onSubmit={(event) => {
          event.preventDefault();
          search(text);
        }}
      >
        <TextField
          label={t.search}
          type="search"
          autocomplete="off"
          spellcheck={false}
          maxLength={LONGEST}
          dir="auto"
          value={text}
          onInput={(event) => {
            const typed = event.currentTarget.value;
            setText(typed);
            clearTimeout(timer.current);
            timer.current = setTimeout(() => search(typed), REST);
          }}
        />
      </form>
    </search>
  );
}

function planName(plan: string): string {
  const { plans } = accountTexts().overview;
  return (Object.hasOwn(plans, plan) && plans[plan]) || plan;
}

function Row({ account, onOpen }: { account: Listed; onOpen: () => void }) {
  const t = adminTexts().accounts;
  const isOff = account.plan !== "free" && !account.is_plan_active;
  return (
    <li>
      <div class="admin-account-who">
        <bdi class="account-strong">{account.email}</bdi>
        <span class="soft small account-under">{[t.number(String(account.id)), t.since(date(account.created_at)), t.transcripts(account.transcripts, number(account.transcripts))].join(" · ")}</span>
        {(account.is_admin || !account.is_confirmed) && (
          <span class="row tight admin-account-badges">
            {account.is_admin && (
              <span class="badge accent">
                <Icon name="admin" class="account-badge-icon" />
                {t.admin}
              </span>
            )}
            {!account.is_confirmed && (
              <span class="badge warn">
                <Icon name="warning" class="account-badge-icon" />
                {t.notConfirmed}
              </span>
            )}
          </span>
        )}
      </div>
      <div class="admin-account-plan">
        {planName(account.plan)}
        {isOff && (
          <span class="account-under">
            <span class="badge warn">
              <Icon name="warning" class="account-badge-icon" />
              {t.inactive}
            </span>
          </span>
        )}
      </div>
      <div class="admin-account-credits numeric">{t.credits(account.credits, number(account.credits))}</div>
      <Button small icon="edit" aria-label={t.changeOf(isolated(account.email))} onClick={onOpen}>
        {t.change}
      </Button>
    </li>
  );
}

function ChangeDialog({ account, onClose, onChanged }: { account: Listed; onClose: () => void; onChanged: () => void }) {
  const t = adminTexts().accounts;
  const [form, setForm] = useState<AccountForm>(() => formOf(account));
  const [faults, setFaults] = useState<AccountFaults>({});
  const [round, setRound] = useState(0);
  const [isSaving, setSaving] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const element = useFocusWrong(round);
  const change = (part: Partial<AccountForm>) => {
    setForm((before) => ({ ...before, ...part }));
    setFaults({});
  };
  const save = async (event: Event) => {
    event.preventDefault();
    if (isSaving) return;
    const made = accountChange(account, form);
    setError(null);
    setFaults("faults" in made ? made.faults : {});
    if ("faults" in made) {
      setRound(round + 1);
      return;
    }
    if (!made.body) {
      onClose();
      return;
    }
    setSaving(true);
    try {
      await unwrap(api.PATCH("/v1/admin/accounts/{id}", { params: { path: { id: account.id } }, body: made.body }));
      if (account.id === session.value?.account?.id) void loadSession();
      onChanged();
    } catch (caught) {
      setError(caught);
      setSaving(false);
    }
  };
  const after = balanceAfter(account, form);
  // A plan that this version does not know stays a choice.
  const plans = (PLANS as readonly string[]).includes(account.plan) ? PLANS : [...PLANS, account.plan];
  return (
    <Dialog title={isolated(account.email)} onClose={onClose}>
      <dl class="account-facts">
        <Fact term={t.account}>{number(account.id)}</Fact>
        <Fact term={t.balance}>
          <span class="numeric">{number(account.credits)}</span>
        </Fact>
      </dl>
      <p>
        <a href={`/admin/audit?account=${account.id}`}>{t.audit}</a>
      </p>
      <form class="stack" noValidate ref={element} onSubmit={(event) => void save(event)}>
        <Select label={t.plan} value={form.plan} options={plans.map((plan) => ({ value: plan, label: planName(plan) }))} onChange={(event) => setForm(withPlan(form, event.currentTarget.value))} />
        <Check label={t.active} hint={t.activeHint} checked={form.isActive} onChange={(event) => change({ isActive: event.currentTarget.checked })} />
        <fieldset class="admin-credits stack">
          <legend class="label">{t.adjust}</legend>
          <Segments
            label={t.direction}
            choices={[
              { id: "add", label: t.add },
              { id: "take", label: t.take },
            ]}
            current={form.isTaken ? "take" : "add"}
            onChange={(way) => change({ isTaken: way === "take" })}
          />
          <TextField
            label={t.amount}
            inputMode="numeric"
            autocomplete="off"
            hint={after === null || after < 0 ? t.amountHint : after === account.credits ? t.amountHint : t.after(number(after))}
            value={form.credits}
            wrong={faults.credits === "number" ? t.wrongNumber(number(MOST_CREDITS)) : faults.credits === "balance" ? t.wrongBalance(number(account.credits)) : null}
            onInput={(event) => change({ credits: event.currentTarget.value })}
          />
          <TextField
            label={t.note}
            hint={t.noteHint}
            dir="auto"
            autocomplete="off"
            value={form.note}
            wrong={faults.note ? t.wrongNote(number(MOST_NOTE)) : null}
            onInput={(event) => change({ note: event.currentTarget.value })}
          />
        </fieldset>
        <ErrorNotice error={error} />
        <div class="account-actions">
          <Button onClick={onClose}>{common().cancel}</Button>
          <Button kind="primary" type="submit" busy={isSaving}>
            {t.save}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
