/** The live page: what to listen to, then the text as it comes, then what becomes of it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../../api/client";
import { Title } from "../../app";
import { liveTexts } from "../../i18n/live";
import { guardLeaving } from "../../router";
import { session } from "../../session";
import { remembered } from "../../ui/remembered";
import { ErrorNotice, Notice } from "../../ui/states";
import { read, written, type Chosen } from "./options";
import { Run } from "./run";
import { Running } from "./running";
import { Setup } from "./setup";
import { SourceProblem, type SourceFault } from "./source";

const stored = remembered("live");

/** Whether text would be gone with the page. */
function isUnsaved(run: Run): boolean {
  const { phase, paragraphs, transcripts } = run.state.value;
  return phase === "ended" && paragraphs.length > 0 && transcripts.length === 0 && !session.value?.signed_in && !run.isSaved.value;
}

export function LivePage() {
  const t = liveTexts();
  const [chosen, setChosen] = useState<Chosen>(() => read(stored.read()));
  const [file, setFile] = useState<File | null>(null);
  const [isOpening, setOpening] = useState(false);
  const [fault, setFault] = useState<SourceFault | null>(null);
  const [refused, setRefused] = useState<Problem | null>(null);
  const [run, setRun] = useState<Run | null>(null);
  const current = useRef<Run | null>(null);
  const words = useRef(t);
  words.current = t;

  const choose = (values: Partial<Chosen>) => {
    const next = { ...chosen, ...values };
    setChosen(next);
    stored.write(written(next));
  };

  const start = async () => {
    if (isOpening) return;
    setFault(null);
    setRefused(null);
    setOpening(true);
    const { language, model, diarize, translate } = chosen;
    const next = new Run({ language, model, diarize, translate }, chosen.isAnnounced, t.noConnection);
    current.current = next;
    try {
      await next.open({ kind: chosen.kind, device: chosen.device, isRaw: chosen.isRaw, isAloud: chosen.isAloud, file });
      // The page may have been left while the browser asked.
      if (current.current === next) setRun(next);
      else next.close();
    } catch (error) {
      if (current.current === next) current.current = null;
      setFault(error instanceof SourceProblem ? error.fault : "sourceFailed");
    } finally {
      setOpening(false);
    }
  };

  const again = () => {
    if (run && isUnsaved(run) && !confirm(t.startUnsaved)) return;
    run?.close();
    current.current = null;
    setRun(null);
  };

  // A session that did not begin leaves nothing behind but the reason: it can be chosen differently, and tried again.
  useEffect(() => {
    if (!run) return;
    return run.state.subscribe(({ phase, parts, failure }) => {
      if (phase !== "ended" || parts > 0 || !failure) return;
      setRefused(new Problem(failure.status, failure.message, failure.upgrade));
      setRun(null);
      current.current = null;
      run.close();
    });
  }, [run]);

  useEffect(() => {
    const isAsking = () => (run ? run.isGoing.value || isUnsaved(run) : false);
    const undo = guardLeaving(() => !run || !isAsking() || confirm(run.isGoing.value ? words.current.leaveRunning : words.current.leaveUnsaved));
    const ask = (event: BeforeUnloadEvent) => {
      if (isAsking()) event.preventDefault();
    };
    addEventListener("beforeunload", ask);
    return () => {
      undo();
      removeEventListener("beforeunload", ask);
    };
  }, [run]);

  useEffect(
    () => () => {
      current.current?.close();
      current.current = null;
    },
    [],
  );

  return (
    <div class={`page live${run ? " live-on" : ""}`}>
      <Title words={t.title} />
      <div class="live-head">
        <h1>{t.heading}</h1>
        {!run && <p class="soft">{t.lead}</p>}
      </div>
      {run ? (
        <Running key={run.id} run={run} onAgain={again} />
      ) : (
        <>
          {fault && (
            <Notice kind="bad" icon="warning">
              {t[fault]}
            </Notice>
          )}
          <ErrorNotice error={refused} />
          <Setup chosen={chosen} onChoose={choose} file={file} onFile={setFile} isOpening={isOpening} onStart={() => void start()} />
        </>
      )}
    </div>
  );
}
