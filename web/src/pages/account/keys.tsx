/** API keys: make, change, give a new secret, revoke. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, unwrap, type Schema } from "../../api/client";
import { accountTexts } from "../../i18n/account";
import { common } from "../../i18n/common";
import { Button, LinkButton } from "../../ui/button";
import { Confirm, Dialog } from "../../ui/dialog";
import { Check, Select, TextArea, TextField } from "../../ui/field";
import { date, dateTime, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { Menu, MenuItem } from "../../ui/menu";
import { Empty, ErrorNotice, Skeleton } from "../../ui/states";
import { toast } from "../../ui/toast";
import { EMPTY_KEY, formOf, keyChange, MOST_NUMBER, MOST_RATE, newKey, SCOPES, type Expiry, type KeyFaults, type KeyForm } from "./key-form";
import { Ago, CopyButton, Fact, focusOn, GRACES, isolated, useFocusWrong, type Grace } from "./pieces";

type Key = Schema<"Key">;
type Open = { kind: "new" } | { kind: "change" | "roll" | "revoke"; key: Key };

/** A secret that is shown this once. */
interface Made {
  created: Schema<"CreatedKey">;
  isRolled: boolean;
}

export function Keys() {
  const t = accountTexts().keys;
  const keys = useLoaded("keys", async (signal) => (await unwrap(api.GET("/v1/keys", { signal }))).keys);
  const [open, setOpen] = useState<Open | null>(null);
  const [made, setMade] = useState<Made | null>(null);
  const close = () => setOpen(null);
  const finish = (created: Made | null) => {
    close();
    if (created) setMade(created);
    keys.reload();
  };
  const revoked = () => {
    finish(null);
    focusOn("account-title");
  };
  const putAway = () => {
    setMade(null);
    focusOn("account-title");
  };
  const active = keys.value?.filter((key) => key.is_active) ?? [];
  const old = keys.value?.filter((key) => !key.is_active) ?? [];
  return (
    <>
      <div class="row between">
        <p class="soft account-measure grow account-intro">{t.intro}</p>
        <Button kind="primary" icon="plus" onClick={() => setOpen({ kind: "new" })}>
          {t.create}
        </Button>
      </div>
      {made && <Secret key={made.created.key} made={made} onDone={putAway} />}
      <ErrorNotice error={keys.error} onRetry={keys.reload} />
      {!keys.value && !keys.error && <Skeleton lines={3} height="8rem" />}
      {keys.value && active.length === 0 && (
        <Empty icon="key" title={t.emptyTitle}>
          <p>{t.emptyText}</p>
          <LinkButton href="/developers">{t.guide}</LinkButton>
        </Empty>
      )}
      {active.length > 0 && (
        <ul class="account-list">
          {active.map((key) => (
            <OneKey key={key.id} shown={key} onOpen={setOpen} />
          ))}
        </ul>
      )}
      {old.length > 0 && (
        <details class="account-more">
          <summary>{t.old(old.length)}</summary>
          <ul class="account-list">
            {old.map((key) => (
              <OldKey key={key.id} shown={key} />
            ))}
          </ul>
        </details>
      )}
      {open?.kind === "new" && <NewKeyDialog onClose={close} onMade={(created) => finish({ created, isRolled: false })} />}
      {open?.kind === "change" && <ChangeDialog shown={open.key} onClose={close} onChanged={() => finish(null)} />}
      {open?.kind === "roll" && <RollDialog shown={open.key} onClose={close} onRolled={(created) => finish({ created, isRolled: true })} />}
      {open?.kind === "revoke" && <RevokeDialog shown={open.key} onClose={close} onRevoked={revoked} />}
    </>
  );
}

/** A key's name inside a sentence. */
function nameOf(key: { name: string }, unnamed: string): string {
  return key.name.trim() ? isolated(key.name) : unnamed;
}

function OneKey({ shown, onOpen }: { shown: Key; onOpen: (open: Open) => void }) {
  const t = accountTexts().keys;
  return (
    <li class="panel account-key">
      <div class="account-key-head">
        <div class="grow">
          <h2 class="account-key-name" dir="auto">
            {shown.name.trim() || t.unnamed}
          </h2>
          <code class="soft">{shown.prefix}…</code>
        </div>
        <Menu
          label={t.actions(nameOf(shown, t.unnamed))}
          trigger={(attributes) => (
            <button type="button" class="button plain icon" aria-label={t.actions(nameOf(shown, t.unnamed))} {...attributes}>
              <Icon name="more" />
            </button>
          )}
        >
          <MenuItem onClick={() => onOpen({ kind: "change", key: shown })}>
            <Icon name="edit" />
            {t.change}
          </MenuItem>
          <MenuItem onClick={() => onOpen({ kind: "roll", key: shown })}>
            <Icon name="retry" />
            {t.roll}
          </MenuItem>
          <MenuItem danger onClick={() => onOpen({ kind: "revoke", key: shown })}>
            <Icon name="trash" />
            {t.revoke}
          </MenuItem>
        </Menu>
      </div>
      <dl class="account-facts">
        <Fact term={t.may}>
          <span class="row tight">
            {shown.scopes.map((scope) => (
              <span key={scope} class="badge">
                {t.scopes[scope]}
              </span>
            ))}
          </span>
        </Fact>
        <Fact term={t.lastUsed}>{shown.last_used ? <Ago at={shown.last_used} /> : t.notUsed}</Fact>
        <Fact term={t.made}>
          <time dateTime={shown.created_at}>{date(shown.created_at)}</time>
        </Fact>
        {shown.expires_at && (
          <Fact term={t.ends}>
            <time dateTime={shown.expires_at}>{dateTime(shown.expires_at)}</time>
          </Fact>
        )}
        <Fact term={t.rate}>
          <span class="numeric">{number(shown.rate_limit)}</span>
        </Fact>
        <Fact term={t.monthly}>
          <span class="numeric">{number(shown.monthly_limit_minutes)}</span>
        </Fact>
        <Fact term={t.spending}>
          <span class="numeric">{shown.spending_limit == null ? t.unlimited : number(shown.spending_limit)}</span>
        </Fact>
        {shown.allowed_addresses.length > 0 && (
          <Fact term={t.onlyFrom}>
            <code>{shown.allowed_addresses.slice(0, 5).join(", ")}</code>
            {shown.allowed_addresses.length > 5 && <span title={shown.allowed_addresses.join(", ")}> +{number(shown.allowed_addresses.length - 5)}</span>}
          </Fact>
        )}
      </dl>
      {shown.previous_valid_until && (
        <p class="account-line small">
          <Icon name="clock" />
          {t.overlap(dateTime(shown.previous_valid_until))}
        </p>
      )}
    </li>
  );
}

function OldKey({ shown }: { shown: Key }) {
  const t = accountTexts().keys;
  const isExpired = shown.expires_at != null && new Date(shown.expires_at) <= new Date();
  return (
    <li class="account-old">
      <span class="grow">
        <bdi>{shown.name.trim() || t.unnamed}</bdi> <code class="soft">{shown.prefix}…</code>
      </span>
      <span class="soft small">
        {t.made} {date(shown.created_at)}
      </span>
      <span class="badge">{isExpired ? t.expired : t.revoked}</span>
    </li>
  );
}

/** The secret of a key that was just made. It stays until it is put away: a click beside it must not lose it. */
function Secret({ made, onDone }: { made: Made; onDone: () => void }) {
  const t = accountTexts().keys;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    heading.current?.focus();
    heading.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const until = made.created.previous_valid_until;
  return (
    <section class="panel account-secret" aria-label={t.secretTitle(nameOf(made.created, t.unnamed))}>
      <h2 ref={heading} tabIndex={-1}>
        {t.secretTitle(nameOf(made.created, t.unnamed))}
      </h2>
      <p>{t.secretText}</p>
      <TextField label={t.secretLabel} hideLabel readOnly class="input account-mono" value={made.created.key} spellcheck={false} onFocus={(event) => event.currentTarget.select()} />
      {made.isRolled && <p class="soft small">{until && new Date(until) > new Date() ? t.secretOverlap(dateTime(until)) : t.secretOldGone}</p>}
      <div class="row tight">
        <CopyButton text={made.created.key} label={t.copySecret} primary />
        <Button onClick={onDone}>{t.secretDone}</Button>
      </div>
    </section>
  );
}

/** What is said about the controls that both dialogs have. */
function useFaultWords(faults: KeyFaults) {
  const { wrong } = accountTexts().keys;
  const range = (least: number, most: number) => wrong.number(number(least), number(most));
  return {
    name: faults.name && wrong.name,
    scopes: faults.scopes && wrong.scopes,
    date: faults.date && wrong.date,
    rate: faults.rate && range(1, MOST_RATE),
    monthly: faults.monthly && range(0, MOST_NUMBER),
    spending: faults.spending === "stays" ? wrong.limitStays : faults.spending && range(0, MOST_NUMBER),
    addresses: faults.addresses === undefined ? undefined : faults.addresses === "" ? wrong.addresses : wrong.address(isolated(faults.addresses)),
  };
}

function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function NewKeyDialog({ onClose, onMade }: { onClose: () => void; onMade: (created: Schema<"CreatedKey">) => void }) {
  const t = accountTexts().keys;
  const c = common();
  const [form, setForm] = useState<KeyForm>(EMPTY_KEY);
  const [faults, setFaults] = useState<KeyFaults>({});
  const [round, setRound] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [isLimited, setLimited] = useState(false);
  const element = useFocusWrong(round);
  // Whether an answer was lost or not: the same form makes one key.
  const sent = useRef<{ body: string; id: string } | null>(null);
  const wrong = useFaultWords(faults);
  const set = (values: Partial<KeyForm>) => setForm((before) => ({ ...before, ...values }));

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const read = newKey(form, new Date());
    setError(null);
    if ("faults" in read) {
      setFaults(read.faults);
      if (read.faults.rate || read.faults.monthly || read.faults.spending || read.faults.addresses !== undefined) setLimited(true);
      setRound((before) => before + 1);
      return;
    }
    setFaults({});
    setBusy(true);
    const words = JSON.stringify(form);
    if (sent.current?.body !== words) sent.current = { body: words, id: randomId() };
    try {
      onMade(await unwrap(api.POST("/v1/keys", { body: read.body, params: { header: { "Idempotency-Key": sent.current.id } } })));
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };

  return (
    <Dialog title={t.newTitle} onClose={onClose}>
      <form class="stack" noValidate ref={element} onSubmit={(event) => void submit(event)}>
        <TextField label={t.name} hint={t.nameHint} wrong={wrong.name} value={form.name} dir="auto" autocomplete="off" onInput={(event) => set({ name: event.currentTarget.value })} />
        <fieldset class="stack tight">
          <legend class="label">{t.scopesLabel}</legend>
          {SCOPES.map((scope) => (
            <Check
              key={scope}
              label={t.scopes[scope]}
              hint={t.scopesText[scope]}
              checked={form.scopes.includes(scope)}
              aria-invalid={wrong.scopes ? true : undefined}
              onChange={(event) => set({ scopes: event.currentTarget.checked ? [...form.scopes, scope] : form.scopes.filter((other) => other !== scope) })}
            />
          ))}
          {wrong.scopes && (
            <span class="account-wrong" role="alert">
              {wrong.scopes}
            </span>
          )}
        </fieldset>
        <div class="account-pair">
          <Select
            label={t.expiry}
            value={form.expiry}
            options={(["never", "d30", "d90", "d365", "date"] as Expiry[]).map((value) => ({ value, label: t.expiryChoices[value] }))}
            onChange={(event) => set({ expiry: event.currentTarget.value as Expiry })}
          />
          {form.expiry === "date" && <TextField type="date" label={t.expiryDate} wrong={wrong.date} value={form.date} onInput={(event) => set({ date: event.currentTarget.value })} />}
        </div>
        <details class="account-more" open={isLimited} onToggle={(event) => setLimited(event.currentTarget.open)}>
          <summary>{t.limits}</summary>
          <div class="stack">
            <p class="soft small">{t.limitsText}</p>
            <LimitFields form={form} set={set} wrong={wrong} isNew />
            <TextArea label={t.addresses} hint={t.addressesHint} wrong={wrong.addresses} class="input account-mono account-short" spellcheck={false} value={form.addresses} onInput={(event) => set({ addresses: event.currentTarget.value })} />
          </div>
        </details>
        <ErrorNotice error={error} />
        <div class="account-actions">
          <Button onClick={onClose}>{c.cancel}</Button>
          <Button kind="primary" type="submit" busy={isBusy}>
            {t.make}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function LimitFields({ form, set, wrong, isNew }: { form: KeyForm; set: (values: Partial<KeyForm>) => void; wrong: ReturnType<typeof useFaultWords>; isNew?: boolean }) {
  const t = accountTexts().keys;
  return (
    <>
      <TextField label={t.rate} hint={isNew ? t.rateHint : undefined} wrong={wrong.rate} inputMode="numeric" autocomplete="off" value={form.rate} onInput={(event) => set({ rate: event.currentTarget.value })} />
      <TextField label={t.monthly} hint={isNew ? t.monthlyHint : undefined} wrong={wrong.monthly} inputMode="numeric" autocomplete="off" value={form.monthly} onInput={(event) => set({ monthly: event.currentTarget.value })} />
      <TextField
        label={t.spending}
        hint={isNew ? t.spendingHint : t.spendingChangeHint}
        wrong={wrong.spending}
        inputMode="numeric"
        autocomplete="off"
        value={form.spending}
        onInput={(event) => set({ spending: event.currentTarget.value })}
      />
    </>
  );
}

function ChangeDialog({ shown, onClose, onChanged }: { shown: Key; onClose: () => void; onChanged: () => void }) {
  const t = accountTexts().keys;
  const c = common();
  const [form, setForm] = useState(() => formOf(shown));
  const [faults, setFaults] = useState<KeyFaults>({});
  const [round, setRound] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const element = useFocusWrong(round);
  const wrong = useFaultWords(faults);
  const set = (values: Partial<KeyForm>) => setForm((before) => ({ ...before, ...values }));

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const read = keyChange(shown, form);
    setError(null);
    if ("faults" in read) {
      setFaults(read.faults);
      setRound((before) => before + 1);
      return;
    }
    setFaults({});
    if (!read.body) {
      onClose();
      return;
    }
    setBusy(true);
    try {
      await unwrap(api.PATCH("/v1/keys/{id}", { params: { path: { id: shown.id } }, body: read.body }));
      toast(t.changedToast);
      onChanged();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };

  return (
    <Dialog title={t.changeTitle(nameOf(shown, t.unnamed))} onClose={onClose}>
      <form class="stack" noValidate ref={element} onSubmit={(event) => void submit(event)}>
        <TextField label={t.name} wrong={wrong.name} value={form.name} dir="auto" autocomplete="off" onInput={(event) => set({ name: event.currentTarget.value })} />
        <LimitFields form={form} set={set} wrong={wrong} />
        <ErrorNotice error={error} />
        <div class="account-actions">
          <Button onClick={onClose}>{c.cancel}</Button>
          <Button kind="primary" type="submit" busy={isBusy}>
            {c.save}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function RollDialog({ shown, onClose, onRolled }: { shown: Key; onClose: () => void; onRolled: (created: Schema<"CreatedKey">) => void }) {
  const t = accountTexts().keys;
  const [grace, setGrace] = useState<Grace>("d1");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const roll = async () => {
    setBusy(true);
    setError(null);
    try {
      onRolled(await unwrap(api.POST("/v1/keys/{id}/roll", { params: { path: { id: shown.id } }, body: { grace_seconds: GRACES[grace] } })));
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title={t.rollTitle(nameOf(shown, t.unnamed))} action={t.rollAction} danger={false} busy={isBusy} onConfirm={() => void roll()} onClose={onClose}>
      <p>{t.rollText}</p>
      <Select
        label={t.grace}
        value={grace}
        options={(Object.keys(GRACES) as Grace[]).map((value) => ({ value, label: t.graces[value] }))}
        onChange={(event) => setGrace(event.currentTarget.value as Grace)}
      />
      <ErrorNotice error={error} />
    </Confirm>
  );
}

function RevokeDialog({ shown, onClose, onRevoked }: { shown: Key; onClose: () => void; onRevoked: () => void }) {
  const t = accountTexts().keys;
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const revoke = async () => {
    setBusy(true);
    setError(null);
    try {
      await unwrap(api.DELETE("/v1/keys/{id}", { params: { path: { id: shown.id } } }));
      toast(t.revokedToast);
      onRevoked();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title={t.revokeTitle(nameOf(shown, t.unnamed))} action={t.revoke} busy={isBusy} onConfirm={() => void revoke()} onClose={onClose}>
      <p>{t.revokeText}</p>
      <ErrorNotice error={error} />
    </Confirm>
  );
}
