/** What can be made of a transcript: summaries, analyses, texts, translations and answers. */

import "./panel.css";
import { useEffect, useMemo } from "preact/hooks";
import { api, unwrap } from "../../../api/client";
import { panel } from "../../../i18n/panel";
import { session } from "../../../session";
import { useInterval, useLoaded } from "../../../ui/loaded";
import { Empty, Notice } from "../../../ui/states";
import { Tabs } from "../../../ui/tabs";
import { AnalysisTab } from "./analysis";
import { AskTab } from "./ask";
import { languageModel, type ModelReady } from "./models";
import { deskOf, fingerprint, type TabId } from "./store";
import { loadStored } from "./stored";
import { SummaryTab } from "./summary";
import { TranslationTab } from "./translation";
import type { TranscriptDetail } from "./types";
import { ModelMissing } from "./work";
import { WriteTab } from "./write";

const TABS: TabId[] = ["summary", "analysis", "write", "translation", "ask"];

/** The panel beside a transcript. `onSeek` plays the recording from a second. */
export default function Panel({ id, transcript, onSeek }: { id: number; transcript: TranscriptDetail; onSeek: (seconds: number) => void }) {
  const t = panel();
  const desk = deskOf(id, session.value?.account?.id ?? 0);
  const of = useMemo(() => fingerprint(transcript.segments), [transcript.segments]);
  const models = useLoaded("models", (signal) => unwrap(api.GET("/v1/models", { signal })));
  // Where the list can't be had, the calls tell what is missing.
  const ready: ModelReady = models.value ? languageModel(models.value.text) : "ready";
  useInterval(ready === "pulling" || ready === "unreachable" ? 15 : null, models.reload);
  const isReadable = transcript.status === "completed" && transcript.word_count > 0;
  useEffect(() => {
    if (isReadable) void loadStored(id, desk, of);
  }, [id, desk, isReadable]);
  const tab = desk.tab.value;
  if (transcript.status !== "completed") {
    return (
      <Empty icon="clock" title={t.notReady}>
        <p>{t.notReadyText}</p>
      </Empty>
    );
  }
  if (transcript.word_count === 0) {
    return (
      <Empty icon="mute" title={t.noWords}>
        <p>{t.noWordsText}</p>
      </Empty>
    );
  }
  const isBlocked = ready !== "ready";
  const shared = { id, transcript, desk, of, isBlocked };
  return (
    <section class="panel-root" aria-label={t.label}>
      <Tabs label={t.label} tabs={TABS.map((one) => ({ id: one, label: t.tabs[one] }))} current={tab} onChange={(next) => (desk.tab.value = next)}>
        <div class="stack">
          {tab !== "translation" && isBlocked && <Missing ready={ready} />}
          {tab === "summary" && <SummaryTab {...shared} />}
          {tab === "analysis" && <AnalysisTab {...shared} onSeek={onSeek} />}
          {tab === "write" && <WriteTab {...shared} />}
          {tab === "translation" && <TranslationTab {...shared} onSeek={onSeek} />}
          {tab === "ask" && <AskTab {...shared} onSeek={onSeek} />}
        </div>
      </Tabs>
    </section>
  );
}

function Missing({ ready }: { ready: ModelReady }) {
  const t = panel();
  if (ready === "missing") return <ModelMissing what="language" />;
  return (
    <Notice kind="warn" icon="info">
      <p role="status">{ready === "pulling" ? t.modelPulling : t.modelUnreachable}</p>
    </Notice>
  );
}
