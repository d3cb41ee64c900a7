/** The secret that calls to the account's own servers are signed with, and how to check them. */

import { useState } from "preact/hooks";
import { api, Problem, unwrap, type Schema } from "../../api/client";
import { accountTexts } from "../../i18n/account";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { Select, TextField } from "../../ui/field";
import { dateTime } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, Skeleton } from "../../ui/states";
import { Tabs } from "../../ui/tabs";
import { toast } from "../../ui/toast";
import { CALL, CHECKS, type CheckLanguage } from "./webhook-code";
import { CopyButton, GRACES, Group, type Grace } from "./pieces";

export function Webhooks() {
  const t = accountTexts().webhooks;
  const secret = useLoaded("secret", (signal) => unwrap(api.GET("/v1/webhooks/secret", { signal })));
  const isOff = secret.error instanceof Problem && secret.error.status === 404;
  if (isOff) {
    return (
      <>
        <p class="soft account-measure account-intro">{t.intro}</p>
        <Empty icon="link" title={t.offTitle}>
          <p>{t.offText}</p>
        </Empty>
      </>
    );
  }
  return (
    <>
      <p class="soft account-measure account-intro">{t.intro}</p>
      {secret.error ? <ErrorNotice error={secret.error} onRetry={secret.reload} /> : secret.value ? <Secret secret={secret.value} onChange={secret.set} /> : <Skeleton lines={4} height="2.75rem" />}
      <Check />
    </>
  );
}

function Secret({ secret, onChange }: { secret: Schema<"WebhookSecret">; onChange: (secret: Schema<"WebhookSecret">) => void }) {
  const t = accountTexts();
  const [isShown, setShown] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const until = secret.previous_valid_until;
  return (
    <Group title={t.webhooks.secret} text={t.webhooks.secretText}>
      <TextField
        label={t.webhooks.secret}
        hideLabel
        readOnly
        class="input account-mono"
        spellcheck={false}
        value={isShown ? secret.secret : "•".repeat(32)}
        onFocus={(event) => isShown && event.currentTarget.select()}
      />
      <div class="row tight">
        <Button onClick={() => setShown(!isShown)}>
          {isShown ? t.hide : t.show}
        </Button>
        <CopyButton text={secret.secret} label={t.webhooks.copySecret} />
        <Button icon="retry" onClick={() => setAsking(true)}>
          {t.webhooks.rotate}
        </Button>
      </div>
      {until && new Date(until) > new Date() && (
        <p class="account-line small">
          <Icon name="clock" />
          {t.webhooks.overlap(dateTime(until))}
        </p>
      )}
      {isAsking && (
        <Rotate
          onClose={() => setAsking(false)}
          onRotated={(rotated) => {
            setAsking(false);
            onChange(rotated);
          }}
        />
      )}
    </Group>
  );
}

function Rotate({ onClose, onRotated }: { onClose: () => void; onRotated: (secret: Schema<"WebhookSecret">) => void }) {
  const t = accountTexts().webhooks;
  const [grace, setGrace] = useState<Grace>("d1");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const rotate = async () => {
    setBusy(true);
    setError(null);
    try {
      onRotated(await unwrap(api.POST("/v1/webhooks/secret/rotate", { body: { grace_seconds: GRACES[grace] } })));
      toast(t.rotated);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Confirm title={t.rotateTitle} action={t.rotateAction} danger={false} busy={isBusy} onConfirm={() => void rotate()} onClose={onClose}>
      <p>{t.rotateText}</p>
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

function Check() {
  const t = accountTexts().webhooks;
  const [language, setLanguage] = useState<CheckLanguage>("python");
  const shown = CHECKS[language];
  return (
    <>
      <Group title={t.check} text={t.checkText}>
        <ol class="account-steps">
          {t.steps.map((step) => (
            <li key={step}>{step}</li>
          ))}
        </ol>
        <Tabs label={t.code} current={language} onChange={setLanguage} tabs={(Object.keys(CHECKS) as CheckLanguage[]).map((id) => ({ id, label: CHECKS[id].name }))}>
          <div class="stack tight">
            <Code label={`${t.code} ${shown.name}`} text={shown.code} />
            <div class="row tight">
              <CopyButton text={shown.code} label={t.copyCode} />
            </div>
          </div>
        </Tabs>
      </Group>
      <Group title={t.example}>
        <Code label={t.example} text={CALL} />
      </Group>
      <Group title={t.answers} text={t.answersText} />
    </>
  );
}

/** Code that scrolls by itself; a keyboard can reach it for that. */
function Code({ label, text }: { label: string; text: string }) {
  return (
    <pre class="account-code" tabIndex={0} role="group" aria-label={label} dir="ltr">
      <code>{text}</code>
    </pre>
  );
}
