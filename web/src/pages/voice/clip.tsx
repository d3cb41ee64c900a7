/** The clip whose voice is imitated: recorded here or chosen, heard, and checked before it is sent. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Button, IconButton } from "../../ui/button";
import { duration, number } from "../../ui/format";
import { useRecorder } from "../../ui/microphone";
import { CLIP_RATE, clipChannels } from "./decode";
import { CLIP_SECONDS, clipFault, mixed, wav, type ClipAnswer, type ClipFault } from "./sound";
import { voiceTexts } from "./texts";
import { useObjectUrl } from "./url";

/** A clip as it is sent. */
export interface Clip {
  file: File;
  /** Its samples at `CLIP_RATE`; null where only the server can read it. */
  samples: Float32Array | null;
  fault: ClipFault | null;
}

/** A clip of these samples. */
function clipOf(samples: Float32Array): Clip {
  const file = new File([wav(samples, CLIP_RATE)], "clip.wav", { type: "audio/wav" });
  return { file, samples, fault: clipFault(samples, CLIP_RATE) };
}

/** Levels below and above which the meter says so. */
const TOO_QUIET = 0.08;
const TOO_LOUD = 0.97;

/** What is wrong with a clip, in words: as far as the page can tell, else as the server says. */
export function useClipWords(clip: Clip | null, answer: { is: ClipAnswer; message: string } | null): string | null {
  const t = voiceTexts().clipFaults;
  const fault = clip?.fault;
  const seconds = (value: number) => duration(Math.round(value * 10) / 10);
  if (fault) return fault.is === "short" || fault.is === "long" ? t[fault.is](seconds(fault.seconds)) : t[fault.is];
  switch (answer?.is) {
    case undefined:
      return null;
    case "short":
      return t.tooShort;
    case "long":
      return t.tooLong;
    case "other":
      return answer?.message ?? null;
    default:
      return answer ? t[answer.is] : null;
  }
}

export function ClipField({ clip, wrong, onClip }: { clip: Clip | null; wrong: string | null; onClip: (clip: Clip | null) => void }) {
  const t = voiceTexts();
  const [isReading, setReading] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const isGone = useRef(false);
  const url = useObjectUrl(clip?.file ?? null);
  useEffect(() => () => void (isGone.current = true), []);

  const read = async (sound: Blob, name: string, isRecorded: boolean) => {
    setReading(true);
    try {
      const samples = mixed(await clipChannels(sound));
      if (isGone.current) return;
      if (isRecorded) onClip(clipOf(samples.slice(0, CLIP_SECONDS.most * CLIP_RATE)));
      else onClip({ file: new File([sound], name, { type: sound.type }), samples, fault: clipFault(samples, CLIP_RATE) });
    } catch {
      // The server reads more formats than browsers do.
      if (!isGone.current) onClip({ file: new File([sound], name, { type: sound.type }), samples: null, fault: null });
    }
    if (!isGone.current) setReading(false);
  };

  const recorder = useRecorder({ bitsPerSecond: 256_000, longest: CLIP_SECONDS.most }, ({ sound, ending }) => void read(sound, `clip.${ending}`, true));
  const { seconds, level } = recorder;
  const isRecording = recorder.state === "recording";
  const isBusy = isReading || recorder.state !== "idle";
  const left = CLIP_SECONDS.least - seconds;
  const judged = level < TOO_QUIET ? t.levelQuiet : level > TOO_LOUD ? t.levelLoud : t.levelGood;
  const microphoneWords = recorder.fault && { refused: t.micRefused, missing: t.micMissing, insecure: t.micInsecure, failed: t.micFailed }[recorder.fault];
  const clipSeconds = clip?.samples ? clip.samples.length / CLIP_RATE : null;
  return (
    <fieldset class="voice-clip" aria-describedby={wrong && !isBusy ? "voice-clip-wrong" : "voice-clip-hint"}>
      <legend class="label">{t.clip}</legend>
      <p class="soft small" id="voice-clip-hint">
        {t.clipText} {t.clipKept}
      </p>
      {isReading && (
        <p class="soft small" role="status">
          {t.clipReading}
        </p>
      )}
      {isRecording && (
        <div class="voice-recording">
          <div class="row between">
            <span class="voice-recording-time numeric">
              <span class="voice-recording-dot" aria-hidden="true" />
              {t.clipRecording(`${number(Math.floor(seconds * 10) / 10)} s`)}
            </span>
            <span class="small soft">
              {left > 0 && t.clipNotYet(duration(Math.ceil(left)))}
              <span role="status">{left <= 0 && t.clipEnough}</span>
            </span>
          </div>
          <div class="voice-timeline" aria-hidden="true">
            <div style={{ width: `${(seconds / CLIP_SECONDS.most) * 100}%` }} />
            <span style={{ insetInlineStart: `${(CLIP_SECONDS.least / CLIP_SECONDS.most) * 100}%` }} />
          </div>
          <div class="row tight">
            <span class="small soft">{t.clipLevel}</span>
            <div class="voice-level" role="meter" aria-label={t.clipLevel} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(level * 100)} aria-valuetext={judged}>
              <div class={level > TOO_LOUD ? "loud" : ""} style={{ width: `${Math.sqrt(level) * 100}%` }} />
            </div>
            <span class="small soft voice-level-words" aria-hidden="true">
              {judged}
            </span>
          </div>
        </div>
      )}
      {clip && !isRecording && !isReading && (
        <div class="stack tight">
          <div class="row between">
            <span class="voice-file">
              <span class="truncate" dir="auto">
                {clipSeconds === null ? clip.file.name : t.clipIs(`${number(Math.round(clipSeconds * 10) / 10)} s`)}
              </span>
            </span>
            <IconButton small icon="trash" label={t.clipRemove} onClick={() => onClip(null)} />
          </div>
          {url && clip.samples && <audio class="voice-audio" controls src={url} aria-label={t.clip} />}
          {clip.fault?.is === "long" && clip.samples && (
            <div class="row">
              <Button small onClick={() => clip.samples && onClip(clipOf(clip.samples.slice(0, CLIP_SECONDS.most * CLIP_RATE)))}>
                {t.clipCut}
              </Button>
            </div>
          )}
        </div>
      )}
      <div class="row tight">
        {isRecording ? (
          <Button icon="stop" kind="primary" onClick={() => recorder.stop()}>
            {t.clipStop}
          </Button>
        ) : (
          <>
            <Button icon="mic" busy={isBusy} onClick={recorder.start}>
              {clip ? t.clipRecordAgain : t.clipRecord}
            </Button>
            <Button icon="upload" disabled={isBusy} onClick={() => chooser.current?.click()}>
              {t.clipUpload}
            </Button>
          </>
        )}
        <input
          ref={chooser}
          type="file"
          accept="audio/*,video/*"
          hidden
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            event.currentTarget.value = "";
            if (file) void read(file, file.name, false);
          }}
        />
      </div>
      {microphoneWords && (
        <p class="voice-wrong small" role="alert">
          {microphoneWords}
        </p>
      )}
      {wrong && !isBusy && (
        <p class="voice-wrong small" id="voice-clip-wrong" role="alert" dir="auto">
          {wrong}
        </p>
      )}
    </fieldset>
  );
}
