/** The examples, which are files of their own: `examples/run` runs them against a server. */

export const LANGUAGES = ["curl", "python", "javascript", "rust"] as const;
export type Language = (typeof LANGUAGES)[number];

export const TASKS = ["transcribe", "subtitles", "wait", "live", "openai", "summarize", "ask", "search", "enhance", "speak"] as const;
export type Task = (typeof TASKS)[number];

const files: Record<string, string> = import.meta.glob(["../../../examples/curl/*.sh", "../../../examples/python/*.py", "../../../examples/javascript/*.mjs", "../../../examples/rust/src/bin/*.rs"], {
  query: "?raw",
  import: "default",
  eager: true,
});

const PLACES: Record<Language, (task: Task) => string> = {
  curl: (task) => `curl/${task}.sh`,
  python: (task) => `python/${task}.py`,
  javascript: (task) => `javascript/${task}.mjs`,
  rust: (task) => `rust/src/bin/${task}.rs`,
};

/** The text of an example. */
export function example(language: Language, task: Task): string {
  return (files[`../../../examples/${PLACES[language](task)}`] ?? "").trimEnd();
}

/** What a task works on: a recording, a stored transcript, or nothing. */
function argument(task: Task): string {
  if (task === "search" || task === "speak") return "";
  return task === "summarize" || task === "ask" ? " 123" : " talk.mp3";
}

/** How the example is run once it is saved under its name. */
export function command(language: Language, task: Task): string {
  const file = PLACES[language](task).split("/").at(-1) ?? "";
  const name = language === "python" && task === "openai" ? "transcribe_openai.py" : file;
  switch (language) {
    case "curl":
      return `bash ${name}${argument(task)}`;
    case "python":
      return `python3 ${name}${argument(task)}`;
    case "javascript":
      return `node ${name}${argument(task)}`;
    case "rust":
      return `cargo run --bin ${task} --${argument(task)}`.replace(/ --$/, "");
  }
}
