import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { after, suite, test } from "node:test";

import { generateText, jsonSchema, type ModelMessage, stepCountIs, streamText, tool, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";

// As an application imports them.
import { Hitherto } from "@hitherto/client";
import { type ModelCall, remembering } from "@hitherto/client/ai";
import { Role } from "@hitherto/client/v1/conversation";

import { begun, type Part, streamed, whole, words } from "./models.js";

const FENCE = "<<<hitherto:memory ";
const skip = process.env["HITHERTO_TEST_SERVICES"] ? false : "HITHERTO_TEST_SERVICES is unset: no services to test with";

suite("a model of the AI SDK", { skip }, () => {
  const memory = new Hitherto({ timeoutMs: 120_000 });
  after(() => memory.close());
  const someone = () => `người dùng ${randomUUID()}`;

  const remembered = (model: MockLanguageModelV4, user: string, conversation: string, tools = false) =>
    wrapLanguageModel({ model, middleware: remembering(memory, { user, conversation, tools, timeoutMs: 60_000 }) });

  const kept = async (userId: string, conversationId: string) => {
    const { messages } = await memory.stubs.retrieval.getConversation({ userId, conversationId, messageLimit: 100 });
    return messages.map(({ role, content, metadata }) => [Role[role], content, ...Object.keys(metadata ?? {})]);
  };

  const instructions = ({ prompt }: ModelCall) =>
    prompt.flatMap(({ role, content }) => (role === "system" ? [content] : [])).join("\n");

  const log_in = tool({
    inputSchema: jsonSchema<{ account: string }>({ type: "object", properties: { account: { type: "string" } } }),
    execute: async ({ account }) => `token 4711 of ${account}`,
  });
  const logsIn = whole({ type: "tool-call", toolCallId: "call_1", toolName: "log_in", input: '{"account":"hunter2"}' });

  test("is told what is known, and learnt from", async () => {
    const user = someone();
    const model = new MockLanguageModelV4({
      doGenerate: [words("Nhớ rồi."), words("Nhớ rồi."), logsIn, words("Đà Nẵng."), logsIn, words("You are in.")],
      doStream: [streamed("Yes", "."), streamed("Yes", ".")],
    });
    const image = new Uint8Array([0x89, 0x50, 0x4e, 0x47]);
    const text = { type: "text", text: "Tôi sống ở Đà Nẵng 🏖️" } as const;
    const picture = { type: "file", data: image, mediaType: "image/png" } as const;
    const messages: ModelMessage[] = [{ role: "user", content: [text, picture] }];
    await generateText({ model: remembered(model, user, "monday"), messages });
    // A call that is made again adds nothing.
    await generateText({ model: remembered(model, user, "monday"), messages });
    const monday = [
      ["USER", "Tôi sống ở Đà Nẵng 🏖️"],
      ["ASSISTANT", "Nhớ rồi."],
    ];
    assert.deepEqual(await kept(user, "monday"), monday);

    const question = "Tôi sống ở đâu?";
    const asked = { tools: { log_in }, stopWhen: stepCountIs(3), prompt: question, system: "Be brief." };
    const answer = await generateText({ model: remembered(model, user, "tuesday"), ...asked });
    assert.equal(answer.text, "Đà Nẵng.");
    const told = model.doGenerateCalls.slice(2, 4).map(instructions);
    for (const text of told) {
      assert.ok(text.startsWith("Be brief.\n\n"));
      assert.equal(text.split(FENCE).length, 2);
      assert.ok(text.includes("Đà Nẵng 🏖️"));
    }
    // Arguments of tools can be secrets.
    const tuesday = [
      ["USER", question],
      ["ASSISTANT", "Đà Nẵng."],
    ];
    assert.deepEqual(await kept(user, "tuesday"), tuesday);

    // Somebody else, with tools, in a stream and twice in the same words.
    const other = someone();
    await generateText({ model: remembered(model, other, "monday", true), ...asked, prompt: "Log me in." });
    assert.ok(!instructions(model.doGenerateCalls[4] as ModelCall).includes(FENCE));
    const history: ModelMessage[] = [
      { role: "user", content: "Log me in." },
      { role: "assistant", content: "You are in." },
      { role: "user", content: "Yes?" },
    ];
    const more: ModelMessage[] = [
      { role: "assistant", content: "Yes." },
      { role: "user", content: "Yes?" },
    ];
    const again = [...history, ...more];
    for (const messages of [history, again]) {
      const stream = streamText({ model: remembered(model, other, "monday"), messages });
      assert.equal(await stream.text, "Yes.");
    }
    const yes = [
      ["USER", "Yes?"],
      ["ASSISTANT", "Yes."],
    ];
    assert.deepEqual(await kept(other, "monday"), [
      ["USER", "Log me in."],
      ["TOOL", 'log_in({"account":"hunter2"})'],
      ["TOOL", "token 4711 of hunter2"],
      ["ASSISTANT", "You are in."],
      ...yes,
      ...yes,
    ]);
  });

  test("leaves what was received of a stream that breaks off", async () => {
    const cut = (controller: ReadableStreamDefaultController<Part>) => controller.error(new Error("cut"));
    const hang = () => undefined;
    const model = (then: (controller: ReadableStreamDefaultController<Part>) => void) => {
      const parts = begun("You", " live");
      return new MockLanguageModelV4({
        doStream: async () => ({
          stream: new ReadableStream<Part>({
            pull(controller) {
              const part = parts.shift();
              return part ? controller.enqueue(part) : then(controller);
            },
          }),
        }),
      });
    };
    const user = someone();
    const prompt = "Where do I live?";
    const received = [
      ["USER", prompt],
      ["ASSISTANT", "You live", "incomplete"],
    ];
    const until = async (conversation: string) => {
      for (const end = Date.now() + 120_000; Date.now() < end; await sleep(20)) {
        const found = await kept(user, conversation).catch(() => []);
        if (found.length) {
          return found;
        }
      }
      return [];
    };

    const broken = streamText({ model: remembered(model(cut), user, "monday"), prompt, onError: () => undefined });
    await broken.consumeStream();
    assert.deepEqual(await until("monday"), received);

    const controller = new AbortController();
    const aborted = streamText({
      model: remembered(model(hang), user, "tuesday"),
      prompt,
      abortSignal: controller.signal,
    });
    let text = "";
    for await (const delta of aborted.textStream) {
      text += delta;
      if (text === "You live") {
        controller.abort();
      }
    }
    assert.deepEqual(await until("tuesday"), received);

    const other = someone();
    const call: ModelCall = { prompt: [{ role: "user", content: [{ type: "text", text: prompt }] }] };
    const { stream } = await remembered(model(hang), other, "monday").doStream(call);
    const reader = stream.getReader();
    for (let part = await reader.read(); part.value?.type !== "text-delta"; part = await reader.read());
    await reader.cancel();
    assert.deepEqual(await kept(other, "monday"), [["USER", prompt], ["ASSISTANT", "You", "incomplete"]]);
  });
});
