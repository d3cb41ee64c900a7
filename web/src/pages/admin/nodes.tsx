/** The processes that share the database: which there are, how each is, and what it does. */

import { useState } from "preact/hooks";
import { api, unwrap } from "../../api/client";
import { locale } from "../../i18n";
import { adminTexts } from "../../i18n/admin";
import { Button } from "../../ui/button";
import { bytes, number } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icon";
import { useInterval, useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice, Skeleton } from "../../ui/states";
import { Ago, Fact, Group } from "../account/pieces";
import { lookOf, type Node, type NodeLook } from "./nodes-view";
import { needNames } from "./queue-view";

const EVERY = 10;

const LOOK: Record<NodeLook, { icon: IconName; kind: string }> = {
  silent: { icon: "warning", kind: "bad" },
  draining: { icon: "clock", kind: "accent" },
  trouble: { icon: "warning", kind: "warn" },
  works: { icon: "check", kind: "good" },
};

export function Nodes() {
  const t = adminTexts().nodes;
  const nodes = useLoaded("nodes", async (signal) => (await unwrap(api.GET("/v1/admin/nodes", { signal }))).nodes);
  const [isPaused, setPaused] = useState(false);
  // One after the other: a slow server is not asked twice.
  useInterval(isPaused ? null : EVERY, () => {
    if (!nodes.isLoading) nodes.reload();
  });
  const list = nodes.value;
  const silent = list?.filter((node) => lookOf(node) === "silent").length ?? 0;
  return (
    <>
      <div class="row between">
        <p class="soft small grow">{t.every}</p>
        <Button small icon={isPaused ? "play" : "pause"} onClick={() => setPaused(!isPaused)}>
          {isPaused ? t.goOn : t.pause}
        </Button>
      </div>
      <p class="visually-hidden" role="status">
        {list ? t.said(list.length, number(list.length), number(silent)) : ""}
      </p>
      <ErrorNotice error={nodes.error} onRetry={nodes.reload} />
      {!list && !nodes.error && <Skeleton lines={2} height="9rem" />}
      {list && (
        <Group title={t.title} text={t.text}>
          {list.length === 0 ? (
            <Empty icon="clock" title={t.emptyTitle}>
              <p>{t.emptyText}</p>
            </Empty>
          ) : (
            <ul class="admin-jobs">
              {list.map((node) => (
                <Row key={node.id} node={node} />
              ))}
            </ul>
          )}
        </Group>
      )}
    </>
  );
}

function Row({ node }: { node: Node }) {
  const t = adminTexts().nodes;
  const queue = adminTexts().queue;
  const checks = adminTexts().health.checkNames;
  const look = lookOf(node);
  const decimals = (value: number) => new Intl.NumberFormat(locale.value, { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(value);
  const failing = node.failing.map((name) => (Object.hasOwn(checks, name) ? checks[name] : name));
  const broken = node.models.filter((model) => !model.is_running).map((model) => model.name);
  const runs = needNames({ needs: node.runs }, { ...queue, needsModel: (name) => name });
  return (
    <li>
      <div class="admin-job-head">
        <h3 class="admin-job-name">
          <bdi>{node.host}</bdi> <code class="soft">{node.address}</code>
        </h3>
        <span class={`badge ${LOOK[look].kind}`}>
          <Icon name={LOOK[look].icon} class="account-badge-icon" />
          {t.looks[look]}
        </span>
        {node.is_current && <span class="badge">{t.current}</span>}
        <span class="soft small">
          {t.seen} <Ago at={node.last_seen} />
        </span>
      </div>
      {look === "silent" && <p class="small account-measure">{t.silentText}</p>}
      {look === "trouble" && (
        <p class="small account-measure">
          {[failing.length > 0 && t.failing(failing.join(", ")), node.is_paused && t.paused, broken.length > 0 && t.broken(broken.join(", "))].filter(Boolean).join(" ")}
        </p>
      )}
      <dl class="account-facts">
        <Fact term={t.does}>{Object.hasOwn(t.roles, node.role) ? t.roles[node.role] : node.role}</Fact>
        <Fact term={t.load}>
          <span class="numeric">{node.load_average == null ? t.unknown : t.loadOf(decimals(node.load_average), node.cores, number(node.cores))}</span>
        </Fact>
        <Fact term={t.memory}>
          <span class="numeric">{node.memory_bytes == null ? t.unknown : bytes(node.memory_bytes)}</span>
        </Fact>
        <Fact term={t.jobs}>
          <span class="numeric">{node.workers === 0 ? t.noJobs : t.jobsOf(number(node.workers_busy), number(node.workers))}</span>
        </Fact>
        <Fact term={t.live}>
          <span class="numeric">{number(node.live_sessions)}</span>
        </Fact>
        {node.workers > 0 && <Fact term={t.computes}>{node.device ?? t.nothing}</Fact>}
        <Fact term={t.version}>
          <span class="numeric">{node.version}</span>
        </Fact>
        <Fact term={t.started}>
          <Ago at={node.started_at} />
        </Fact>
      </dl>
      <p class="soft small admin-job-about">
        <span>{node.models.length === 0 ? t.noModels : t.models(node.models.map((model) => `${model.name} (${bytes(model.bytes)})`).join(", "))}</span>
        {runs.length > 0 && <span>{t.runs(runs.join(", "))}</span>}
      </p>
    </li>
  );
}
