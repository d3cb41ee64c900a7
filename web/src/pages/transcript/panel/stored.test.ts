import { describe, expect, it, vi } from "vitest";

vi.stubGlobal("location", { origin: "http://localhost", pathname: "/", search: "" });
const { choose, putOn, shown } = await import("./stored");
const { Desk } = await import("./store");

const listed = (id: string) => {
  const [kind = "", ...name] = id.split(":");
  return { id, kind: kind as "summary", name: name.join(":"), made_at: "2026-01-01T00:00:00Z" };
};
const summary = (text: string) => ({ ...listed("summary:brief"), answer: { summary: text, word_count: 2, style: "brief", model: "m", cached: true } });

describe("what is stored", () => {
  it("is shown where the panel has a place for it, and of conversations the newest", () => {
    const all = ["chat:b", "summary:brief", "summary:of a later version", "chat:a", "analysis:topics", "generation:x", "translation:pt"].map(listed);
    expect(shown(all).map(({ id }) => id)).toEqual(["chat:b", "summary:brief", "analysis:topics", "translation:pt"]);
  });

  it("fills what is empty and replaces nothing", () => {
    const desk = new Desk();
    putOn(desk, "of", summary("They met."));
    putOn(desk, "of", summary("older"));
    expect(desk.summary("brief").state.value).toMatchObject({ value: { summary: "They met." }, of: "of" });
    const content = { type: "quiz" as const, result: { content: "Q", word_count: 1 }, model: "m" };
    putOn(desk, "of", { ...listed("generation:quiz"), kind: "generation", answer: content });
    expect(desk.versions("quiz").all.value).toHaveLength(1);
    putOn(desk, "of", { ...listed("analysis:topics"), kind: "analysis" });
    expect(desk.analysis("topics").state.value.value).toBeNull();
  });

  it("brings a conversation back, which goes on in its session", async () => {
    const desk = new Desk();
    const turns = [{ question: "who?", answer: "they", answered_at: "2026-01-01T00:00:00Z" }];
    putOn(desk, "of", { ...listed("chat:abc"), kind: "chat", turns });
    expect(desk.chat.turns.value).toMatchObject([{ question: "who?", parts: ["they"], state: "answered" }]);
    const asked: (string | null)[] = [];
    await desk.chat.ask("and?", async function* (_, session) {
      asked.push(session);
    });
    expect(asked).toEqual(["abc"]);
    // What is being talked about here is not replaced.
    putOn(desk, "of", { ...listed("chat:other"), kind: "chat", turns });
    expect(desk.chat.turns.value).toHaveLength(2);
  });

  it("is chosen where nobody has chosen: what was made last of each kind", () => {
    const desk = new Desk();
    desk.style.value = "detailed";
    choose(desk, ["translation:pt", "generation:quiz", "generation:key_quotes", "summary:brief", "analysis:topics", "translation:fr"].map(listed));
    expect([desk.style.value, desk.language.value, desk.finding.value, desk.kind.value]).toEqual(["detailed", "pt", "key_quotes", "quiz"]);
    const empty = new Desk();
    choose(empty, []);
    expect([empty.style.value, empty.language.value, empty.finding.value, empty.kind.value]).toEqual([null, "", "chapter_markers", "blog_post"]);
  });
});
