export default {
  txt: "Text",
  srt: "SubRip subtitles",
  vtt: "WebVTT subtitles",
  docx: "Word",
  pdf: "PDF",
  csv: "Table (CSV)",
  json: "Data (JSON)",
};
