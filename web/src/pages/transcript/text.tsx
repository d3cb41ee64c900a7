/** The text: turns of speakers, each drawn by the browser only while it is near the page. */

import { Component, type ComponentChild } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { transcriptTexts } from "../../i18n/transcript";
import { clock, isoDuration } from "../../ui/format";
import { Icon } from "../../ui/icon";
import type { Editor, Segment } from "./editor";
import { labelNumber } from "../../ui/labels";
import { directionOf, type Turn } from "./model";
import type { Reader } from "./reader";
import { PartDialog, SpeakerMenu, type Passage } from "./speaker-menu";

const UNSPACED = /^(zh|ja|th|lo|km|my|yue|wuu|bo)\b/;

/** A speaker's name as the page shows it: the label of the server in words. */
export function nameOf(speaker: string): string {
  const number = labelNumber(speaker);
  return number === null ? speaker : transcriptTexts().speaker(number);
}

/** The class of a speaker's colour. */
export function colourOf(speaker: string | null, speakers: readonly { name: string }[]): string {
  const at = speaker === null ? -1 : speakers.findIndex(({ name }) => name === speaker);
  return at < 0 ? "" : `transcript-speaker-${(at % 8) + 1}`;
}

/** Whether speakers are shown: one voice without a name says nothing. */
export function showsSpeakers(speakers: readonly { name: string }[]): boolean {
  return speakers.length > 1 || (speakers[0] !== undefined && labelNumber(speakers[0].name) === null);
}

export function TextView({ editor, reader, onSpeaker }: { editor: Editor; reader: Reader; onSpeaker: (name: string) => void }) {
  const t = transcriptTexts();
  const root = useRef<HTMLDivElement>(null);
  const turns = editor.turns.value;
  const speakers = editor.speakers.value;
  const language = editor.detail.value.language;
  const [column, setColumn] = useState(62);
  const [part, setPart] = useState<Passage | null>(null);
  const shows = showsSpeakers(speakers);
  useLayoutEffect(() => {
    // Characters a line, by which heights are guessed before they are known.
    const width = root.current?.clientWidth ?? 600;
    setColumn(Math.max(24, Math.min(72, Math.round((width - (width > 560 ? 72 : 0)) / 8.6))));
    return reader.start();
  }, [reader]);
  const drawn = useMemo(
    () =>
      turns.map((turn, at) => (
        <TurnView
          key={turn.first}
          turn={turn}
          segments={editor.segments.slice(turn.first, turn.end)}
          reader={reader}
          colour={colourOf(turn.speaker, speakers)}
          name={shows && turn.isNew ? (turn.speaker === null ? t.noSpeaker : nameOf(turn.speaker)) : null}
          column={column}
          dir={directionOf(language)}
          joiner={UNSPACED.test(language) ? "" : " "}
          menu={(name) => (
            <SpeakerMenu editor={editor} reader={reader} passage={{ ...turn, end: passageEnd(turns, at) }} name={name} onRename={onSpeaker} onPart={setPart} />
          )}
        />
      )),
    [turns, speakers, language, column, t],
  );
  return (
    <>
      <div
        ref={root}
        class={`transcript-text${reader.isEditMode.value ? " is-edit-mode" : ""}${reader.player.isThere.value ? " is-playable" : ""}`}
        lang={language === "auto" ? undefined : language.replace("_", "-")}
        onClick={reader.onClick}
        onKeyDown={reader.onKeyDown}
        onInput={reader.onInput}
        onBeforeInput={reader.onBeforeInput as never}
        onPaste={reader.onPaste}
        onFocusOut={reader.onFocusOut}
        onFocusIn={reader.onFocusIn}
      >
        {drawn}
      </div>
      {part && <PartDialog editor={editor} reader={reader} passage={part} onClose={() => setPart(null)} />}
    </>
  );
}

/** The segment after the last one that the speaker of a turn says before somebody else speaks. */
function passageEnd(turns: readonly Turn[], at: number): number {
  const next = turns.findIndex((turn, other) => other > at && turn.isNew);
  return turns.at(next < 0 ? -1 : next - 1)?.end ?? 0;
}

interface TurnProps {
  turn: Turn;
  segments: readonly Segment[];
  reader: Reader;
  colour: string;
  name: string | null;
  column: number;
  dir: "rtl" | "auto";
  joiner: string;
  /** The name of its speaker, with what can be done about it. */
  menu: (name: string) => ComponentChild;
}

function TurnView({ turn, segments, reader, colour, name, column, dir, joiner, menu }: TurnProps) {
  const t = transcriptTexts();
  const others = [...new Set(segments.flatMap((segment) => segment.overlapping))];
  const lines = Math.ceil(turn.length / column);
  const time = clock(turn.start);
  return (
    <div class={`transcript-turn ${colour}${name === null ? "" : " is-new"}`} dir={dir === "rtl" ? "rtl" : undefined} style={{ containIntrinsicSize: `auto ${lines * 29 + (name === null ? 12 : 52)}px` }}>
      {name !== null && (
        <div class="transcript-who">
          {menu(name)}
          {others.length > 0 && (
            <span class="soft small" dir="auto">
              {t.also(others.map(nameOf).join(", "))}
            </span>
          )}
        </div>
      )}
      {reader.player.isThere.value ? (
        <button type="button" class="transcript-at numeric" tabIndex={-1} aria-label={t.hearFrom(time)} title={t.hearFrom(time)} onClick={() => {
          reader.player.seek(turn.start);
          reader.player.play();
        }}>
          {time}
        </button>
      ) : (
        <time class="transcript-at numeric" dateTime={isoDuration(turn.start)}>
          {time}
        </time>
      )}
      <p class="transcript-said" dir={dir}>
        {segments.map((segment) => [<SegmentView key={segment.index} segment={segment} reader={reader} />, joiner])}
      </p>
    </div>
  );
}

/** A segment writes its text itself: while it is edited the browser does. */
class SegmentView extends Component<{ segment: Segment; reader: Reader }> {
  #end: (() => void) | undefined;
  readonly #take = (element: HTMLElement | null) => {
    this.#end?.();
    this.#end = element ? this.props.reader.drawn(this.props.segment, element) : undefined;
  };

  override shouldComponentUpdate(): boolean {
    return false;
  }

  override render() {
    return <span ref={this.#take} class="transcript-segment" data-segment={this.props.segment.index} aria-describedby="transcript-help" />;
  }
}

/** The text so far, while the rest is still made. */
export function DraftView({ detail }: { detail: Editor["detail"]["value"] }) {
  return (
    <div class="transcript-text">
      {detail.segments.map((segment, index) => (
        <p key={index} class="transcript-draft" dir={directionOf(detail.language)}>
          <span class="transcript-at numeric">{clock(segment.start)}</span>
          {segment.speaker && <strong dir="auto">{nameOf(segment.speaker)} </strong>}
          {segment.text}
        </p>
      ))}
    </div>
  );
}

/** Whether all is saved. */
export function SavingState({ editor }: { editor: Editor }) {
  const t = transcriptTexts();
  const state = editor.saving.value;
  const words = { saved: t.saved, waiting: t.waiting, saving: t.saving, offline: t.offline, refused: t.refused }[state];
  const isBad = state === "offline" || state === "refused";
  const problem = editor.problem.value;
  return (
    <div class={`transcript-saving${isBad ? " is-bad" : ""}`}>
      {/* Told only when something is wrong: each word that is typed would be told otherwise. */}
      <span class="visually-hidden" role="status">
        {isBad ? words : ""}
      </span>
      <span class="transcript-saving-words">
        <Icon name={state === "saved" ? "check" : isBad ? "warning" : "clock"} />
        <span>
          {words}
          {state === "refused" && problem instanceof Error ? `: ${problem.message}` : ""}
        </span>
      </span>
      {isBad && (
        <button type="button" class="button small" onClick={() => editor.retry()}>
          {t.saveNow}
        </button>
      )}
    </div>
  );
}
