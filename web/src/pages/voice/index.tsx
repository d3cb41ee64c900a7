/** Voices: recordings without their noise, texts that are spoken, and the mark of what was spoken here. */

import { useRef } from "preact/hooks";
import { Title, type PageProps } from "../../app";
import { query, setQuery } from "../../router";
import { Tabs } from "../../ui/tabs";
import { Check } from "./check";
import { Enhance } from "./enhance";
import { Speak } from "./speak";
import { voiceTexts } from "./texts";
import "./voice.css";

const PARTS = ["enhance", "speak", "check"] as const;
type Part = (typeof PARTS)[number];

export default function Voice(_: PageProps) {
  const t = voiceTexts();
  const part: Part = PARTS.find((known) => known === query.value.get("part")) ?? "enhance";
  // A part that was looked at stays as it is: a clip or a result is not lost by a look at another.
  const seen = useRef(new Set<Part>());
  seen.current.add(part);
  const panel = (name: Part, Panel: typeof Enhance) =>
    seen.current.has(name) && (
      <div hidden={name !== part}>
        <Panel isShown={name === part} />
      </div>
    );
  return (
    <div class="page reading voice">
      <Title words={`${t.parts[part]} · ${t.title}`} />
      <div class="page-head">
        <div class="stack tight">
          <h1>{t.title}</h1>
          <p class="soft">{t.lead}</p>
        </div>
      </div>
      <Tabs label={t.partsLabel} tabs={PARTS.map((id) => ({ id, label: t.parts[id] }))} current={part} onChange={(id) => setQuery({ part: id })}>
        {panel("enhance", Enhance)}
        {panel("speak", Speak)}
        {panel("check", Check)}
      </Tabs>
    </div>
  );
}
