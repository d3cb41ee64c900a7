/** Whether the server and what it needs are well, as it says itself. */

import { useEffect, useRef, useState } from "preact/hooks";
import { locale } from "../../i18n";
import { adminTexts } from "../../i18n/admin";
import { Button } from "../../ui/button";
import { bytes, number } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { useInterval } from "../../ui/loaded";
import { Skeleton } from "../../ui/states";
import { Fact, Group } from "../account/pieces";
import { unreachable, viewOf, type HealthView, type State } from "./view";

const EVERY = 5;
/** A server that does not answer for so long is not to be waited for. */
const PATIENCE = 10_000;

const LOOK: Record<State, { icon: IconName; kind: string }> = {
  ok: { icon: "check", kind: "good" },
  degraded: { icon: "warning", kind: "warn" },
  down: { icon: "warning", kind: "bad" },
  unreachable: { icon: "warning", kind: "bad" },
};

/** An answer with its body, whatever its status: the errors of these paths say what is wrong. */
async function ask(path: string, signal: AbortSignal): Promise<{ ok: boolean; body: unknown }> {
  const response = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store", signal });
  return { ok: response.ok, body: await response.json().catch(() => null) };
}

export function Health() {
  const t = adminTexts().health;
  const [view, setView] = useState<HealthView | null>(null);
  const [at, setAt] = useState<Date | null>(null);
  const [isPaused, setPaused] = useState(false);
  const asking = useRef<AbortController | null>(null);

  const check = async () => {
    // One after the other: a slow server is not asked twice.
    if (asking.current) return;
    const control = new AbortController();
    asking.current = control;
    const timer = setTimeout(() => control.abort(), PATIENCE);
    try {
      const [health, ready] = await Promise.all([ask("/health", control.signal), ask("/health/ready", control.signal)]);
      if (asking.current === control) setView(viewOf(health, ready));
    } catch {
      if (asking.current === control) setView(unreachable);
    } finally {
      clearTimeout(timer);
      if (asking.current === control) {
        asking.current = null;
        setAt(new Date());
      }
    }
  };
  useEffect(() => {
    void check();
    return () => {
      const control = asking.current;
      asking.current = null;
      control?.abort();
    };
  }, []);
  useInterval(isPaused ? null : EVERY, () => void check());

  if (!view) {
    return (
      <>
        <Skeleton lines={1} height="6.5rem" />
        <Skeleton lines={5} height="3rem" />
      </>
    );
  }
  const look = LOOK[view.state];
  return (
    <>
      <section class={`admin-state ${look.kind}`} aria-label={t.states[view.state]}>
        <Icon name={look.icon} />
        <div class="grow">
          <p class="admin-state-words" role="status">
            {t.states[view.state]}
          </p>
          <p>{t.statesText[view.state]}</p>
          {view.trouble && <p class="small">{view.trouble}</p>}
        </div>
      </section>
      <div class="row between admin-checked">
        <p class="soft small numeric">
          {at && t.checked(new Intl.DateTimeFormat(locale.value, { timeStyle: "medium" }).format(at))}
          <span class="admin-every"> {t.every}</span>
        </p>
        <Button small icon={isPaused ? "play" : "pause"} onClick={() => setPaused(!isPaused)}>
          {isPaused ? t.goOn : t.pause}
        </Button>
      </div>
      <Checks checks={view.checks} />
      {view.health && <Work health={view.health} />}
    </>
  );
}

function Checks({ checks }: { checks: HealthView["checks"] }) {
  const t = adminTexts().health;
  const words = (all: Record<string, string>, name: string) => (Object.hasOwn(all, name) ? all[name] : undefined);
  return (
    <Group title={t.checks}>
      {checks.length === 0 && <p class="soft">{t.noChecks}</p>}
      <ul class="account-rows">
        {checks.map((check) => (
          <li key={check.name}>
            <Icon name={check.passed ? "check" : "warning"} class={check.passed ? "admin-good" : "admin-bad"} />
            <span class="grow">
              <span class="account-strong">{words(t.checkNames, check.name) ?? check.name}</span>
              <span class="soft small account-under">{words(check.passed ? t.checkTexts : t.checkHelp, check.name)}</span>
            </span>
            <span class={`badge ${check.passed ? "good" : "bad"}`}>{check.passed ? t.passed : t.failed}</span>
          </li>
        ))}
      </ul>
    </Group>
  );
}

function Work({ health }: { health: NonNullable<HealthView["health"]> }) {
  const t = adminTexts().health;
  const megabytes = (count: number) => bytes(count * 1_000_000);
  return (
    <Group title={t.work}>
      <dl class="account-facts">
        <Fact term={t.waiting}>
          <span class="admin-figure numeric">{number(health.gpu.queue_length)}</span>
        </Fact>
        <Fact term={t.engine}>{Object.hasOwn(t.engines, health.gpu.status) ? t.engines[health.gpu.status] : health.gpu.status}</Fact>
        <Fact term={t.computes}>{health.gpu_name === "none" ? t.nothing : health.gpu_name}</Fact>
        {health.gpu_available && health.gpu_memory_mb > 0 && <Fact term={t.memory}>{t.memoryOf(megabytes(health.gpu.gpu_memory_free_mb), megabytes(health.gpu_memory_mb))}</Fact>}
        <Fact term={t.version}>
          <span class="numeric">{health.version}</span>
        </Fact>
      </dl>
    </Group>
  );
}
