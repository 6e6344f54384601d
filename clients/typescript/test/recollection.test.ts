import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { status } from "@grpc/grpc-js";
import { generateText, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";

import { type ModelCall, remembering, type RememberingOptions } from "../src/ai.js";
import { failing, Scripted } from "./scripted.js";
import { words } from "./models.js";

const GONE = { code: status.UNAVAILABLE, details: "gone" };
/** What a client makes of a call before it gives up. */
const ATTEMPTS = 4;

let server: Scripted;
beforeEach(async () => {
  server = await new Scripted().start();
});
afterEach(() => server.stop());

const added = () =>
  server.requests["appendMessages"]?.map(({ userId, conversationId, messages }) => [
    `${userId} ${conversationId}`,
    ...messages.map(({ content }: { content: string }) => content),
  ]);

test("calls go on without memory, and what was said is added later", async () => {
  const model = new MockLanguageModelV4({ doGenerate: words("Noted.") });
  const client = server.client();
  const told: string[] = [];
  const talk = async (prompt: string, options: RememberingOptions) => {
    const middleware = remembering(client, { timeoutMs: 60_000, warn: (message) => told.push(message), ...options });
    const providerOptions = { hitherto: { user: "rui" } };
    return (await generateText({ model: wrapLanguageModel({ model, middleware }), prompt, providerOptions })).text;
  };
  const rui = (call: ModelCall) => String(call.providerOptions?.["hitherto"]?.["user"]);
  server.failures = Array.from({ length: 2 * ATTEMPTS }, () => GONE);
  assert.equal(await talk("I live in Porto.", { user: "ana", conversation: "monday" }), "Noted.");
  assert.deepEqual(told, ["the model answers without memory:", "2 messages are added with the next call:"]);
  assert.deepEqual(
    model.doGenerateCalls[0]?.prompt.map(({ role }) => role),
    ["user"],
  );
  server.requests["appendMessages"] = [];
  // Another middleware, of a chat whose user is known by the call.
  await talk("Hello!", { user: rui, conversation: "tuesday" });
  assert.deepEqual(added(), [
    ["rui tuesday", "Hello!", "Noted."],
    ["ana monday", "I live in Porto.", "Noted."],
  ]);

  // What is refused for good does not wait.
  server.requests["appendMessages"] = [];
  server.failures = [undefined, failing(status.FAILED_PRECONDITION, "USER_ERASED")];
  await talk("Hello!", { user: "rui", conversation: "wednesday" });
  assert.equal(told.at(-1), "2 messages are not remembered:");
  await talk("Hello!", { user: "rui", conversation: "thursday", keep: false });
  assert.equal(added()?.length, 1);
  assert.equal(told.length, 3);
});

test("of messages of which some are refused, the others are kept", async () => {
  const model = new MockLanguageModelV4({ doGenerate: words("Noted.") });
  const told: string[] = [];
  const warn = (message: string) => told.push(message);
  const middleware = remembering(server.client(), { user: "ana", conversation: "c", timeoutMs: 60_000, warn });
  const invalid = (...fields: string[]) =>
    failing(status.INVALID_ARGUMENT, "INVALID_FIELD", undefined, "hitherto", fields);
  const talk = () => generateText({ model: wrapLanguageModel({ model, middleware }), prompt: "Hello!" });
  server.failures = [undefined, invalid("messages[0].content")];
  await talk();
  assert.deepEqual(added(), [
    ["ana c", "Hello!", "Noted."],
    ["ana c", "Noted."],
  ]);
  // Neither a message that was not sent nor another field says which to leave out.
  for (const fields of [["messages[7].content"], ["messages[0].content", "user_id"]]) {
    server.requests["appendMessages"] = [];
    server.failures = [undefined, invalid(...fields)];
    await talk();
    assert.equal(added()?.length, 1);
  }
  assert.deepEqual(
    told.map((message) => message[0]),
    ["1", "2", "2"],
  );
});

test("the block stands at the end of the instructions", async () => {
  const model = new MockLanguageModelV4({ doGenerate: words("Noted.") });
  const middleware = remembering(server.client(), { user: "ana", keep: false, timeoutMs: 60_000 });
  const cached = { providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } };
  // The scripted server's block is the question.
  const cases = [
    [[], [["system", "Q"]]],
    [[{ role: "system", content: "Be brief.\n" }], [["system", "Be brief.\n\nQ"]]],
    [
      [{ role: "system", content: "Be brief.", ...cached }],
      [
        ["system", "Be brief."],
        ["system", "Q"],
      ],
    ],
  ] as const;
  for (const [system, expected] of cases) {
    const instructions = system.map((message) => ({ ...message }));
    await generateText({ model: wrapLanguageModel({ model, middleware }), instructions, prompt: "Q" });
    const prompt = model.doGenerateCalls.at(-1)?.prompt ?? [];
    assert.deepEqual(
      prompt.slice(0, -1).map(({ role, content }) => [role, content]),
      expected,
    );
  }
});

test("text of any length and kind is kept", async () => {
  const text = `x${"é".repeat(100_000)}\0\ud800`;
  const model = new MockLanguageModelV4({ doGenerate: words(text) });
  const middleware = remembering(server.client(), { user: "ana", timeoutMs: 60_000 });
  await generateText({ model: wrapLanguageModel({ model, middleware }), prompt: text });
  const messages: { id: string; content: string }[] = server.requests["appendMessages"]?.[0].messages;
  assert.ok(messages.every(({ content }) => Buffer.byteLength(content) <= 64 * 1024));
  assert.equal(new Set(messages.map(({ id }) => id)).size, messages.length);
  assert.equal(messages.map(({ content }) => content).join(""), `x${"é".repeat(100_000)}\ufffd`.repeat(2));
});
