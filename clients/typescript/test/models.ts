import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test";

type Whole = Awaited<ReturnType<MockLanguageModelV4["doGenerate"]>>;
type Stream = Awaited<ReturnType<MockLanguageModelV4["doStream"]>>["stream"];
export type Part = Stream extends ReadableStream<infer P> ? P : never;

const USAGE: Whole["usage"] = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};
const FINISH: Part = { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: USAGE };

/** A reply of the package's scripted model. */
export function whole(...content: Whole["content"]): Whole {
  const calls = content.some(({ type }) => type === "tool-call");
  const finishReason = { unified: calls ? "tool-calls" : "stop", raw: undefined } as const;
  return { content, finishReason, usage: USAGE, warnings: [] };
}

/** A reply in words. */
export function words(text: string): Whole {
  return whole({ type: "text", text });
}

/** The parts of a reply that has begun and is not over. */
export function begun(...deltas: string[]): Part[] {
  return [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id: "1" },
    ...deltas.map((delta) => ({ type: "text-delta", id: "1", delta }) as const),
  ];
}

/** A stream of a whole reply. */
export function streamed(...deltas: string[]): { stream: Stream } {
  return { stream: convertArrayToReadableStream([...begun(...deltas), { type: "text-end", id: "1" }, FINISH]) };
}
