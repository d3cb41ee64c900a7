/** The API for programmers: where it is, how to begin, an example for each common task, and all operations. */

import "./developers.css";
import { useMemo, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { Title, type PageProps } from "../../app";
import { throwProblem } from "../../api/client";
import { common } from "../../i18n/common";
import { developersTexts } from "../../i18n/developers";
import { session } from "../../session";
import { Button, IconButton, LinkButton } from "../../ui/button";
import { copyText } from "../../ui/download";
import { TextField } from "../../ui/field";
import { number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { useLoaded } from "../../ui/loaded";
import { remembered } from "../../ui/remembered";
import { ErrorNotice, Skeleton } from "../../ui/states";
import { Tabs } from "../../ui/tabs";
import { toast } from "../../ui/toast";
import { command, example, LANGUAGES, TASKS, type Language, type Task } from "./examples";
import { pieces } from "./highlight";
import { filtered, operations, type Operation, type Parameter } from "./operations";

const stored = remembered("code");
const chosen = signal<Language>(LANGUAGES.find((one) => one === stored.read()) ?? "curl");

function choose(language: Language): void {
  chosen.value = language;
  stored.write(language);
}

export default function Developers(_: PageProps) {
  const t = developersTexts();
  return (
    <div class="page developers">
      <Title words={t.title} />
      <div class="stack loose">
        <header class="developers-head stack">
          <h1>{t.title}</h1>
          <p class="developers-intro">{t.intro}</p>
        </header>
        <Setup />
        <Examples />
        <section class="stack" aria-labelledby="developers-answers">
          <h2 id="developers-answers">{t.answers}</h2>
          <ul class="developers-facts">
            {t.answersText.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </section>
        <Reference />
      </div>
    </div>
  );
}

function Setup() {
  const t = developersTexts();
  const base = location.origin;
  const isSignedIn = session.value?.signed_in === true;
  const environment = `export HARK_URL=${base}\nexport HARK_KEY=svc_…`;
  return (
    <section class="panel stack" aria-labelledby="developers-setup">
      <h2 id="developers-setup">{t.setup}</h2>
      <div class="developers-two">
        <div class="stack tight">
          <h3>{t.baseUrl}</h3>
          <div class="developers-value">
            <code class="grow">{base}</code>
            <CopyIcon text={base} label={t.baseUrl} />
          </div>
        </div>
        <div class="stack tight">
          <h3>{t.key}</h3>
          <p class="soft">{isSignedIn ? t.keyText : t.keySignedOut}</p>
          <div class="row tight">
            <LinkButton icon="key" href={isSignedIn ? "/account/keys" : `/sign-in?next=${encodeURIComponent("/account/keys")}`}>
              {isSignedIn ? t.makeKey : common().signIn}
            </LinkButton>
          </div>
        </div>
      </div>
      <div class="stack tight">
        <p>{t.environment}</p>
        <Code code={environment} language="curl" label={t.shell} />
      </div>
    </section>
  );
}

function CopyIcon({ text, label }: { text: string; label: string }) {
  const copy = async () => toast((await copyText(text)) ? common().copied : common().notCopied);
  return <IconButton icon="copy" label={`${common().copy}: ${label}`} onClick={() => void copy()} />;
}

function Code({ code, language, label }: { code: string; language: Language; label: string }) {
  const found = useMemo(() => pieces(code, language), [code, language]);
  return (
    <figure class="developers-code">
      <pre dir="ltr" tabIndex={0} role="region" aria-label={label}>
        <code>{found.map((piece, at) => (piece.kind === "plain" ? piece.text : <span key={at} class={`developers-${piece.kind}`}>{piece.text}</span>))}</code>
      </pre>
      <CopyIcon text={`${code}\n`} label={label} />
    </figure>
  );
}

function Examples() {
  const t = developersTexts();
  const [task, setTask] = useState<Task>("transcribe");
  const language = chosen.value;
  return (
    <section class="stack" aria-labelledby="developers-examples">
      <div class="stack tight">
        <h2 id="developers-examples">{t.examples}</h2>
        <p class="soft">{t.examplesText}</p>
      </div>
      <div class="developers-examples">
        <ul class="developers-tasks" aria-label={t.examples}>
          {TASKS.map((one) => (
            <li key={one}>
              <button type="button" aria-pressed={one === task} onClick={() => setTask(one)}>
                {t.tasks[one].title}
              </button>
            </li>
          ))}
        </ul>
        <div class="stack">
          <div class="stack tight" role="status">
            <h3>{t.tasks[task].title}</h3>
            <p class="soft">{t.tasks[task].text}</p>
          </div>
          <Tabs label={t.language} tabs={LANGUAGES.map((one) => ({ id: one, label: t.languages[one] }))} current={language} onChange={choose}>
            <Code key={`${language} ${task}`} code={example(language, task)} language={language} label={t.code(t.tasks[task].title, t.languages[language])} />
            <p class="developers-command small">
              <span class="soft">{t.run}</span> <code dir="ltr">{command(language, task)}</code>
            </p>
          </Tabs>
        </div>
      </div>
    </section>
  );
}

async function loadDocument(signal: AbortSignal): Promise<unknown> {
  const response = await fetch("/openapi.json", { signal, headers: { Accept: "application/json" } });
  if (!response.ok) await throwProblem(response);
  return response.json();
}

function Reference() {
  const t = developersTexts();
  const document = useLoaded("openapi", loadDocument);
  const [query, setQuery] = useState("");
  const groups = useMemo(() => operations(document.value), [document.value]);
  const shown = useMemo(() => filtered(groups, query), [groups, query]);
  const count = shown.reduce((sum, group) => sum + group.operations.length, 0);
  return (
    <section class="stack" aria-labelledby="developers-reference">
      <div class="row between">
        <div class="stack tight">
          <h2 id="developers-reference">{t.reference}</h2>
          <p class="soft">{t.referenceText}</p>
        </div>
        <div class="row tight">
          <LinkButton href="/docs">{t.fullReference}</LinkButton>
          <LinkButton kind="plain" href="/openapi.json">
            {t.machine}
          </LinkButton>
        </div>
      </div>
      {document.error ? (
        <ErrorNotice error={document.error} onRetry={document.reload} />
      ) : !document.value ? (
        <Skeleton lines={12} height="2.75rem" />
      ) : (
        <>
          <div class="developers-filter">
            <TextField
              label={t.filter}
              type="search"
              autocomplete="off"
              spellcheck={false}
              placeholder={t.filterPlaceholder}
              value={query}
              onInput={(event) => setQuery(event.currentTarget.value)}
            />
            <p class="soft small numeric" role="status">
              {count === 1 ? t.foundOne : t.found(number(count))}
            </p>
          </div>
          {shown.length === 0 && (
            <div class="row">
              <p>{t.nothing}</p>
              <Button small onClick={() => setQuery("")}>
                {t.clearFilter}
              </Button>
            </div>
          )}
          {shown.map((group) => (
            <section key={group.tag} class="stack tight" aria-label={group.tag || t.otherTag}>
              <h3 class="developers-tag">
                {group.tag || t.otherTag}
                {group.description && <span class="soft">{group.description}</span>}
              </h3>
              <ul class="developers-operations">
                {group.operations.map((one) => (
                  <li key={one.id}>
                    <One operation={one} />
                  </li>
                ))}
              </ul>
            </section>
          ))}
        </>
      )}
    </section>
  );
}

function One({ operation }: { operation: Operation }) {
  const t = developersTexts();
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="developers-operation" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class={`developers-method ${operation.method.toLowerCase()}`}>{operation.method}</span>
        <code class="developers-path">{operation.path}</code>
        <span class="developers-summary" lang="en">
          {operation.summary}
        </span>
        <Icon name="chevron" />
      </summary>
      {isOpen && (
        <div class="developers-detail stack" lang="en">
          {operation.description && <p>
              <Marked text={operation.description} />
            </p>}
          {operation.key !== "needed" && (
            <p>
              <span class="badge good" lang="">
                {operation.key === "none" ? t.noKey : t.optionalKey}
              </span>
            </p>
          )}
          {operation.parameters.length > 0 && <Parameters title={t.parameters} of={operation.parameters} />}
          {operation.body && <Parameters title={`${t.body} (${operation.body.types.join(", ")})`} of={operation.body.fields} isBody />}
          {operation.parameters.length === 0 && !operation.body && <p class="soft">{t.noParameters}</p>}
          {operation.answers.length > 0 && (
            <div class="stack tight">
              <h4>{t.answersWith}</h4>
              <dl class="developers-answers">
                {operation.answers.map((answer) => (
                  <div key={answer.status}>
                    <dt class="numeric">{answer.status}</dt>
                    <dd>
                      <Marked text={answer.meaning} />
                    </dd>
                  </div>
                ))}
              </dl>
            </div>
          )}
        </div>
      )}
    </details>
  );
}

/** A description, with what stands between backticks as code. */
function Marked({ text }: { text: string }) {
  return <>{text.split("`").map((piece, at) => (at % 2 === 1 ? <code key={at}>{piece}</code> : piece))}</>;
}

function Parameters({ title, of, isBody }: { title: string; of: Parameter[]; isBody?: boolean }) {
  const t = developersTexts();
  const places: Record<string, string> = t.places;
  return (
    <div class="stack tight">
      <h4>{title}</h4>
      {of.length > 0 && (
        <dl class="developers-fields">
          {of.map((one) => (
            <div key={`${one.where} ${one.name}`}>
              <dt>
                <code>{one.name}</code>
                <span class="soft small">
                  {[one.kind, isBody ? "" : (places[one.where] ?? one.where), one.isRequired ? t.required : ""].filter(Boolean).join(" · ")}
                </span>
              </dt>
              {one.meaning && (
                <dd>
                  <Marked text={one.meaning} />
                </dd>
              )}
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}
