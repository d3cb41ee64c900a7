/** The models of the server: which there are, and which can be used. */

import type { ComponentChildren } from "preact";
import { api, unwrap, type Schema } from "../../api/client";
import { adminTexts } from "../../i18n/admin";
import { bytes, number } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { useInterval, useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, ProgressBar, Skeleton } from "../../ui/states";
import { Group } from "../account/pieces";

type ModelState = Schema<"ModelState">;

const LOOK: Record<ModelState, { icon: IconName; kind: string }> = {
  loaded: { icon: "check", kind: "good" },
  installed: { icon: "check", kind: "good" },
  remote: { icon: "link", kind: "good" },
  pulling: { icon: "download", kind: "accent" },
  missing: { icon: "close", kind: "" },
  unreachable: { icon: "warning", kind: "bad" },
};

export function Models() {
  const t = adminTexts().models;
  const models = useLoaded("models", (signal) => unwrap(api.GET("/v1/models", { signal })));
  const isPulling = models.value?.text.some((model) => model.state === "pulling") ?? false;
  useInterval(models.error ? null : isPulling ? 3 : 30, models.reload);
  if (!models.value) {
    return models.error ? (
      <ErrorNotice error={models.error} onRetry={models.reload} />
    ) : (
      <>
        <Skeleton lines={4} height="4.5rem" />
        <Skeleton lines={4} height="4.5rem" />
      </>
    );
  }
  const { models: speech, text } = models.value;
  const have = speech.filter((model) => model.installed).length;
  const haveText = text.filter((model) => model.state !== "missing" && model.state !== "pulling").length;
  return (
    <>
      <ErrorNotice error={models.error} onRetry={models.reload} />
      <Group title={t.speech} text={t.speechText} aside={<Count have={have} all={speech.length} />}>
        {speech.length === 0 && <Empty icon="voice" title={t.empty} />}
        <ul class="admin-models">
          {speech.map((model) => (
            <SpeechModel key={model.id} model={model} />
          ))}
        </ul>
      </Group>
      <Group title={t.text} text={t.textText} aside={<Count have={haveText} all={text.length} />}>
        {text.length === 0 && <Empty icon="file" title={t.empty} />}
        <ul class="admin-models">
          {text.map((model) => (
            <TextModel key={model.id} model={model} />
          ))}
        </ul>
      </Group>
      <Group title={t.get} text={t.getText}>
        <pre class="account-code" tabIndex={0} role="group" aria-label={t.get} dir="ltr">
          <code>{`hark models list\nhark models pull large-v3-turbo`}</code>
        </pre>
      </Group>
    </>
  );
}

function Count({ have, all }: { have: number; all: number }) {
  const t = adminTexts().models;
  return <span class="soft small numeric">{t.count(number(have), number(all))}</span>;
}

/** A model in two lines: what it is called and whether it is there, and what is known of it. */
function Row({ name, id, badge, icon, words, about, children }: { name: string; id: string; badge: string; icon: IconName; words: string; about: (string | false | null | undefined)[]; children?: ComponentChildren }) {
  return (
    <li>
      <div class="admin-model-head">
        <h3 class="admin-model-name grow">
          <bdi>{name}</bdi> <code class="soft">{id}</code>
        </h3>
        <span class={`badge ${badge}`}>
          <Icon name={icon} class="account-badge-icon" />
          {words}
        </span>
      </div>
      <p class="soft small">{about.filter(Boolean).join(" · ")}</p>
      {children}
    </li>
  );
}

function SpeechModel({ model }: { model: Schema<"Model"> }) {
  const t = adminTexts().models;
  const look = LOOK[model.installed ? "installed" : "missing"];
  const speed = Object.hasOwn(t.speeds, model.speed) ? t.speeds[model.speed] : model.speed;
  return (
    <Row
      name={model.name}
      id={model.id}
      badge={look.kind}
      icon={look.icon}
      words={model.installed ? t.installed : t.notInstalled}
      about={[model.provider, model.license, t.languages(model.languages, number(model.languages)), speed, model.paid_only && t.forPaid]}
    />
  );
}

function TextModel({ model }: { model: Schema<"TextModel"> }) {
  const t = adminTexts().models;
  const look = LOOK[model.state];
  const { bytes_done: done, bytes_total: all } = model;
  return (
    <Row
      name={model.name}
      id={model.id}
      badge={look.kind}
      icon={look.icon}
      words={t.states[model.state]}
      about={[model.provider, model.license, t.tasks[model.task], model.context != null && t.tokens(number(model.context))]}
    >
      {model.state === "pulling" && (
        <>
          <ProgressBar share={done != null && all ? done / all : null} label={t.fetching(model.name)} />
          {done != null && <p class="soft small numeric">{all ? t.fetched(bytes(done), bytes(all)) : bytes(done)}</p>}
        </>
      )}
    </Row>
  );
}
