/** Where a file is dropped or chosen. */

import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { bytes } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { voiceTexts } from "./texts";

/** Kinds of files that a chooser offers; anything may be dropped. */
const ACCEPTED = "audio/*,video/*,.mp3,.wav,.flac,.ogg,.m4a,.aac,.opus,.wma,.mp4,.webm,.mkv,.avi,.mov,.wmv,.mpg,.mpeg";

export function Drop({ file, hint, onFile, children }: { file: File | null; hint: string; onFile: (file: File) => void; children?: ComponentChildren }) {
  const t = voiceTexts();
  const id = useId();
  const [isOver, setOver] = useState(false);
  const [wrong, setWrong] = useState<string | null>(null);
  const depth = useRef(0);
  const take = (files: FileList | null | undefined) => {
    setWrong(null);
    if (!files || files.length === 0) return;
    if (files.length > 1) return setWrong(t.notAFile);
    const first = files[0];
    if (first) onFile(first);
  };
  return (
    <div
      class={`voice-drop${isOver ? " over" : ""}`}
      onDragEnter={() => {
        depth.current += 1;
        setOver(true);
      }}
      onDragLeave={() => {
        depth.current -= 1;
        if (depth.current <= 0) setOver(false);
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        depth.current = 0;
        setOver(false);
        take(event.dataTransfer?.files);
      }}
    >
      {file ? (
        <p class="voice-file">
          <Icon name="file" />
          <span class="truncate" dir="auto">
            {file.name}
          </span>
          <span class="soft small numeric">{bytes(file.size)}</span>
        </p>
      ) : (
        <p class="voice-drop-words">
          <Icon name="upload" />
          <span>
            {t.dropHere} <span class="soft">{t.or}</span>
          </span>
        </p>
      )}
      <input
        id={id}
        type="file"
        class="visually-hidden voice-file-input"
        accept={ACCEPTED}
        aria-describedby={`${id}-hint`}
        onChange={(event) => {
          take(event.currentTarget.files);
          // The same file may be chosen again.
          event.currentTarget.value = "";
        }}
      />
      <label for={id} class={`button${file ? " small" : ""}`}>
        {file ? t.chooseOther : t.choose}
      </label>
      <span id={`${id}-hint`} class="soft small">
        {hint}
      </span>
      {wrong && (
        <span class="voice-wrong small" role="alert">
          {wrong}
        </span>
      )}
      {children}
    </div>
  );
}
