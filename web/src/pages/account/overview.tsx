/** What the account is, what is left of its credits, and which mails it gets. */

import { useState } from "preact/hooks";
import { api, unwrap, type Schema } from "../../api/client";
import { isAdmin } from "../../app";
import { accountTexts } from "../../i18n/account";
import { LinkButton } from "../../ui/button";
import { Check } from "../../ui/field";
import { date, duration, languageName, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { ErrorNotice, Notice, Skeleton } from "../../ui/states";
import { Fact, Group } from "./pieces";

type Mails = Schema<"EmailPreferences">;

/** Servers of the account's own; none where its plan has none. */
async function ownServers(signal: AbortSignal): Promise<Schema<"CloudInstance">[]> {
  const { data } = await api.GET("/v1/cloud", { signal });
  return data?.instances ?? [];
}

export function Overview() {
  const account = useLoaded("account", (signal) => unwrap(api.GET("/v1/account", { signal })));
  const isActive = account.value?.is_plan_active ?? false;
  // Servers of one's own are paid for: others need not ask.
  const servers = useLoaded(`servers ${isActive}`, (signal) => (isActive ? ownServers(signal) : Promise.resolve([])));
  if (account.error && !account.value) return <ErrorNotice error={account.error} onRetry={account.reload} />;
  if (!account.value) return <Loading />;
  return (
    <>
      <About account={account.value} />
      {servers.value && servers.value.length > 0 && <Servers servers={servers.value} />}
      <MailChoices initial={account.value.email_preferences} />
    </>
  );
}

function Loading() {
  return (
    <>
      <div class="account-cards">
        {[0, 1].map((card) => (
          <div key={card} class="panel account-card">
            <Skeleton lines={4} height="1.5rem" />
          </div>
        ))}
      </div>
      <Skeleton lines={5} height="2rem" />
    </>
  );
}

function About({ account }: { account: Schema<"Account"> }) {
  const t = accountTexts().overview;
  const isPaid = account.plan !== "free";
  return (
    <>
      {!account.is_confirmed && (
        <Notice kind="warn" icon="warning">
          {t.notConfirmedText}
        </Notice>
      )}
      <div class="account-cards">
        <section class="panel account-card" aria-label={t.credits}>
          <h2 class="account-card-title">{t.credits}</h2>
          <p class="account-figure numeric">{number(account.credits)}</p>
          {account.credits > 0 ? <p class="soft numeric">{t.creditsTime(duration(account.credits * 60))}</p> : <p>{t.creditsNone}</p>}
          <p class="soft small">{t.creditsText}</p>
          <p class="row">
            <a href="/account/usage">{t.toUsage}</a>
            <a href="/account/credits">{t.toLedger}</a>
          </p>
        </section>
        <section class="panel account-card" aria-label={t.plan}>
          <h2 class="account-card-title">{t.plan}</h2>
          <p class="account-figure">{Object.hasOwn(t.plans, account.plan) ? t.plans[account.plan] : account.plan}</p>
          {isPaid &&
            (account.is_plan_active ? (
              <p>
                <span class="badge good">
                  <Icon name="check" class="account-badge-icon" />
                  {t.planActive}
                </span>
              </p>
            ) : (
              <>
                <p>
                  <span class="badge warn">
                    <Icon name="warning" class="account-badge-icon" />
                    {t.planInactive}
                  </span>
                </p>
                <p class="soft small">{t.planInactiveText}</p>
              </>
            ))}
          {account.next_billing_date && <p class="soft">{t.nextBilling(date(account.next_billing_date))}</p>}
          <p class="soft">
            {t.since} <time dateTime={account.created_at}>{date(account.created_at)}</time>
          </p>
          {isAdmin(account) && (
            <p class="account-card-end">
              <LinkButton small icon="admin" href="/admin">
                {t.toAdmin}
              </LinkButton>
            </p>
          )}
        </section>
      </div>
      <dl class="account-facts">
        <Fact term={t.email}>
          <span class="row tight">
            <bdi>{account.email}</bdi>
            <span class={`badge ${account.is_confirmed ? "good" : "warn"}`}>
              <Icon name={account.is_confirmed ? "check" : "warning"} class="account-badge-icon" />
              {account.is_confirmed ? t.confirmed : t.notConfirmed}
            </span>
          </span>
        </Fact>
        <Fact term={t.language}>{languageName(account.lang)}</Fact>
        {isAdmin(account) && <Fact term={t.role}>{t.admin}</Fact>}
      </dl>
    </>
  );
}

function Servers({ servers }: { servers: Schema<"CloudInstance">[] }) {
  const t = accountTexts().overview;
  return (
    <Group title={t.servers}>
      <ul class="account-list">
        {servers.map((server) => (
          <li key={server.id} class="panel stack">
            <h3 dir="auto">{server.name}</h3>
            <dl class="account-facts">
              <Fact term={t.status}>{server.status}</Fact>
              <Fact term={t.region}>{server.region}</Fact>
              <Fact term={t.computes}>{server.gpu}</Fact>
            </dl>
            <p class="small">
              <code>{server.base_url}</code>
            </p>
          </li>
        ))}
      </ul>
    </Group>
  );
}

function MailChoices({ initial }: { initial: Mails }) {
  const t = accountTexts().overview;
  const [mails, setMails] = useState(initial);
  const [state, setState] = useState<"idle" | "saving" | "saved">("idle");
  const [error, setError] = useState<unknown>(null);
  const choices: { name: keyof Mails; label: string; hint: string }[] = [
    { name: "usage_alerts", label: t.usageAlerts, hint: t.usageAlertsText },
    { name: "product_updates", label: t.productUpdates, hint: t.productUpdatesText },
    { name: "newsletter", label: t.newsletter, hint: t.newsletterText },
    { name: "marketing", label: t.marketing, hint: t.marketingText },
  ];
  const change = async (name: keyof Mails, wanted: boolean) => {
    setMails((before) => ({ ...before, [name]: wanted }));
    setState("saving");
    setError(null);
    try {
      await unwrap(api.PUT("/v1/account", { body: { email_preferences: { [name]: wanted } } }));
      setState("saved");
    } catch (failure) {
      setMails((before) => ({ ...before, [name]: !wanted }));
      setState("idle");
      setError(failure);
    }
  };
  return (
    <Group
      title={t.mails}
      text={t.mailsText}
      aside={
        <span class="soft small" role="status">
          {state === "saving" ? t.saving : state === "saved" ? t.saved : ""}
        </span>
      }
    >
      <div class="account-choices">
        {choices.map((choice) => (
          <Check key={choice.name} label={choice.label} hint={choice.hint} checked={mails[choice.name]} onChange={(event) => void change(choice.name, event.currentTarget.checked)} />
        ))}
      </div>
      <ErrorNotice error={error} />
    </Group>
  );
}
