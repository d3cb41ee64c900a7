/** The text of a session: paragraphs with their times and speakers, and what is not final yet in grey. */

import { Component } from "preact";
import { common } from "../../i18n/common";
import { liveTexts } from "../../i18n/live";
import { clock, isoDuration } from "../../ui/format";
import { between, readings, type Paragraph } from "./transcript";

/** The text. Screen readers are told of it in pieces of some length, where they shall: as it comes it would be word by word. */
export function Spoken({ paragraphs, partial, isAnnounced, isOver }: { paragraphs: readonly Paragraph[]; partial: string; isAnnounced: boolean; isOver: boolean }) {
  const c = common();
  const t = liveTexts();
  const last = paragraphs.at(-1);
  return (
    <div class="live-spoken">
      {paragraphs.map((paragraph) => (
        <Words key={paragraph.id} paragraph={paragraph} name={paragraph.speaker === null ? null : c.speaker(paragraph.speaker + 1)} partial={paragraph === last ? partial : ""} />
      ))}
      {!last && partial && (
        <div class="live-paragraph" aria-hidden="true">
          <span class="live-when" />
          <p class="live-words live-partial" dir="auto">
            {partial}
          </p>
        </div>
      )}
      {isAnnounced && (
        <div class="visually-hidden" role="log" aria-label={t.newText}>
          {readings(paragraphs, isOver).map((reading) => (
            <p key={reading.id} dir="auto">
              {reading.text}
            </p>
          ))}
        </div>
      )}
    </div>
  );
}

interface WordsProps {
  paragraph: Paragraph;
  name: string | null;
  partial: string;
}

/** One paragraph. Of a long session only the last is drawn again. */
class Words extends Component<WordsProps> {
  override shouldComponentUpdate(next: Readonly<WordsProps>): boolean {
    return next.paragraph !== this.props.paragraph || next.partial !== this.props.partial || next.name !== this.props.name;
  }

  override render() {
    const { paragraph, name, partial } = this.props;
    const { speaker, start, lines } = paragraph;
    return (
      <div class="live-paragraph">
        <div class="live-when soft small numeric">
          <time dateTime={isoDuration(start)}>{clock(start)}</time>
        </div>
        <div class="live-said">
          {speaker !== null && (
            <p class="live-speaker small" style={{ color: `var(--speaker-${(speaker % 8) + 1})` }}>
              {name}
            </p>
          )}
          <p class="live-words" dir="auto">
            {lines.map((line, index) => (
              <span key={line.id}>{between(lines[index - 1]?.text ?? "", line.text) + line.text}</span>
            ))}
            {partial && (
              <span key="partial" class="live-partial" aria-hidden="true">
                {between(lines.at(-1)?.text ?? "", partial) + partial}
              </span>
            )}
          </p>
        </div>
      </div>
    );
  }
}
