import type en from "../en/formats";
import type { Translated } from "..";

const de: Translated<typeof en> = {
  txt: "Text",
  srt: "SubRip-Untertitel",
  vtt: "WebVTT-Untertitel",
  docx: "Word",
  pdf: "PDF",
  csv: "Tabelle (CSV)",
  json: "Daten (JSON)",
};
export default de;
