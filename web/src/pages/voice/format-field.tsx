/** The choice of a format of sound. */

import { FORMATS, type Format } from "./formats";
import { voiceTexts } from "./texts";

export function FormatField({ id, value, hint, onChange }: { id: string; value: Format; hint?: string; onChange: (format: Format) => void }) {
  const t = voiceTexts();
  return (
    <div class="field">
      <label for={id}>{t.format}</label>
      <select id={id} class="input" value={value} aria-describedby={hint ? `${id}-hint` : undefined} onChange={(event) => onChange(event.currentTarget.value as Format)}>
        {FORMATS.map((format) => (
          <option key={format} value={format}>
            {t.formats[format]}
          </option>
        ))}
      </select>
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </div>
  );
}
