/** The models of the catalogue: what they do, which are here, and getting others. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, unwrap, type Schema } from "../../api/client";
import { adminTexts } from "../../i18n/admin";
import { Button } from "../../ui/button";
import { bytes, number } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { useInterval, useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, Notice, ProgressBar, Skeleton } from "../../ui/states";
import { focusOn, Group } from "../account/pieces";
import { grouped, pulled, withModel, type CatalogueModel } from "./catalogue";

type TextModel = Schema<"TextModel">;

export function Models() {
  const t = adminTexts().models;
  const catalogue = useLoaded("catalogue", async (signal) => (await unwrap(api.GET("/v1/admin/models", { signal }))).models);
  // Which are in memory, and those that the catalogue does not know: on another server, or from a file.
  const states = useLoaded("states", async (signal) => (await unwrap(api.GET("/v1/models", { signal }))).text);
  const isPulling = catalogue.value?.some((model) => model.pulling) ?? false;
  useInterval(isPulling ? 2 : 30, () => {
    if (!catalogue.isLoading) catalogue.reload();
    if (!isPulling && !states.isLoading) states.reload();
  });
  if (!catalogue.value) {
    return catalogue.error ? (
      <ErrorNotice error={catalogue.error} onRetry={catalogue.reload} />
    ) : (
      <>
        <Skeleton lines={5} height="5rem" />
        <Skeleton lines={4} height="5rem" />
      </>
    );
  }
  const models = catalogue.value;
  const names = new Set(models.map((model) => model.name));
  const loaded = new Set(states.value?.filter((model) => model.state === "loaded").map((model) => model.id));
  const answered = (changed: CatalogueModel) => {
    catalogue.set(withModel(models, changed));
    // A list that was asked for before the pull must not come after its answer.
    catalogue.reload();
  };
  const others = states.value?.filter((model) => !names.has(model.id)) ?? [];
  return (
    <>
      <p class="soft account-measure">{t.text}</p>
      <ErrorNotice error={catalogue.error} onRetry={catalogue.reload} />
      {models.length === 0 && <Empty icon="file" title={t.empty} />}
      {others.length > 0 && (
        <Group title={t.others} text={t.othersText}>
          <ul class="admin-models">
            {others.map((model) => (
              <OtherModel key={model.id} model={model} />
            ))}
          </ul>
        </Group>
      )}
      {grouped(models).map((group) => (
        <Group key={group.id} title={t.groups[group.id]} text={t.groupsText[group.id]} aside={<span class="soft small numeric">{t.count(number(group.installed), number(group.models.length))}</span>}>
          <ul class="admin-models">
            {group.models.map((model) => (
              <OneModel key={model.name} model={model} isLoaded={loaded.has(model.name)} hasRole={group.isMixed || group.id === "other"} onAnswer={answered} />
            ))}
          </ul>
        </Group>
      ))}
      <Group title={t.get} text={t.getText}>
        <pre class="account-code" tabIndex={0} role="group" aria-label={t.get} dir="ltr">
          <code>{`hark models list\nhark models pull large-v3-turbo`}</code>
        </pre>
      </Group>
    </>
  );
}

/** A model: what it is called and whether it is there, and what is known of it. */
function Row({ name, id, look, about, children, action }: { name: string; id: string; look: { kind: string; icon: IconName; words: string }; about: (string | false | null | undefined)[]; children?: ComponentChildren; action?: ComponentChildren }) {
  return (
    <li>
      <div class="admin-model-head">
        <div class="grow">
          <h3 class="admin-model-name" id={`model-${id}`} tabIndex={-1}>
            <bdi>{name}</bdi>
          </h3>
          <p class="soft small">
            <code>{id}</code>
            {about
              .filter(Boolean)
              .map((text) => ` · ${text}`)
              .join("")}
          </p>
        </div>
        <div class="admin-model-state">
          <span class={`badge ${look.kind}`}>
            <Icon name={look.icon} class="account-badge-icon" />
            {look.words}
          </span>
          {action}
        </div>
      </div>
      {children}
    </li>
  );
}

function OneModel({ model, isLoaded, hasRole, onAnswer }: { model: CatalogueModel; isLoaded: boolean; hasRole: boolean; onAnswer: (changed: CatalogueModel) => void }) {
  const t = adminTexts().models;
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const role = Object.hasOwn(t.roles, model.role) ? t.roles[model.role] : model.role;
  const look: { kind: string; icon: IconName; words: string } = model.installed
    ? { kind: "good", icon: "check", words: isLoaded ? t.states.loaded : t.states.installed }
    : model.pulling
      ? { kind: "accent", icon: "download", words: t.states.pulling }
      : model.error
        ? { kind: "bad", icon: "warning", words: t.states.failed }
        : { kind: "", icon: "close", words: t.states.missing };
  const pull = async () => {
    setAsking(true);
    setError(null);
    try {
      onAnswer(await unwrap(api.POST("/v1/admin/models/{name}", { params: { path: { name: model.name } } })));
      // The button is gone: the model keeps the focus.
      focusOn(`model-${model.name}`);
    } catch (caught) {
      setError(caught);
    } finally {
      setAsking(false);
    }
  };
  return (
    <Row
      name={model.title}
      id={model.name}
      look={look}
      about={[hasRole && role, model.bytes > 0 && bytes(model.bytes), model.license, model.is_default && t.standard]}
      action={
        !model.installed &&
        !model.pulling && (
          <Button small icon={model.error ? "retry" : "download"} busy={isAsking} aria-label={model.error ? t.pullAgainOf(model.title) : t.pullOf(model.title)} onClick={() => void pull()}>
            {model.error ? t.pullAgain : t.pull}
          </Button>
        )
      }
    >
      {model.description && <p class="small account-measure">{model.description}</p>}
      {model.license_note && <p class="soft small account-measure">{model.license_note}</p>}
      {model.pulling && (
        <>
          <ProgressBar share={pulled(model)} label={t.fetching(model.title)} />
          <p class="soft small numeric">{model.bytes_done == null ? t.waits : model.bytes_total ? t.fetched(bytes(model.bytes_done), bytes(model.bytes_total)) : bytes(model.bytes_done)}</p>
        </>
      )}
      {model.error && !model.pulling && (
        <Notice kind="bad" icon="warning">
          <p>{t.failed}</p>
          <p class="small" dir="auto">
            {model.error}
          </p>
        </Notice>
      )}
      <ErrorNotice error={error} />
    </Row>
  );
}

const OTHER: Record<Schema<"ModelState">, { icon: IconName; kind: string }> = {
  loaded: { icon: "check", kind: "good" },
  installed: { icon: "check", kind: "good" },
  remote: { icon: "link", kind: "good" },
  pulling: { icon: "download", kind: "accent" },
  missing: { icon: "close", kind: "" },
  unreachable: { icon: "warning", kind: "bad" },
};

function OtherModel({ model }: { model: TextModel }) {
  const t = adminTexts().models;
  return (
    <Row
      name={model.name}
      id={model.id}
      look={{ ...OTHER[model.state], words: t.states[model.state] }}
      about={[model.provider, t.tasks[model.task], model.context != null && t.tokens(number(model.context))]}
    />
  );
}
