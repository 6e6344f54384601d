/**
 * Memory for the models of the AI SDK (the package `ai`).
 *
 *     const model = wrapLanguageModel({
 *       model: openai("gpt-5-mini"),
 *       middleware: remembering(new Hitherto(), { user: "ana", conversation: "monday" }),
 *     });
 */
import { randomUUID } from "node:crypto";

import type { LanguageModelMiddleware } from "ai";

import type { Hitherto } from "./client.js";
import { ModelExchange, type Utterance } from "./exchange.js";
import { type Bounds, type Chat, Recollection } from "./recollection.js";

type Generate = Parameters<NonNullable<LanguageModelMiddleware["wrapGenerate"]>>[0];
type Whole = Awaited<ReturnType<Generate["doGenerate"]>>;
type Streamed = Awaited<ReturnType<Generate["doStream"]>>;
type Part = Streamed["stream"] extends ReadableStream<infer P> ? P : never;
type Message = ModelCall["prompt"][number];

/** A call of a model, as the AI SDK makes it. */
export type ModelCall = Generate["params"];

/** How the calls of a model remember. */
export interface RememberingOptions extends Bounds {
  /** Whom the model talks with; a function of the call for a model of many users. */
  user: string | ((call: ModelCall) => string);
  /** Your id for the chat, or a function of the call. Unset: a new one. */
  conversation?: string | ((call: ModelCall) => string);
  /** False: nothing is added, because your own code keeps the conversation. Unset: true. */
  keep?: boolean;
  /** True: calls of tools, with their arguments, and their results are kept too. */
  tools?: boolean;
}

/**
 * A middleware whose model remembers, for `wrapLanguageModel`.
 *
 * Each call gets the block of GetContext for the user's last message, at the end of its instructions. After the call,
 * what the user said since the last reply and the reply are added to the conversation, once, even if the call is made
 * again. Of a stream that breaks off, what was received is added.
 *
 * If memory fails, calls go on without it and `warn` is told. What could not be added is kept for the client `memory`
 * and added with the next call of any of its middlewares.
 */
export function remembering(memory: Hitherto, options: RememberingOptions): LanguageModelMiddleware {
  const { user, conversation = randomUUID(), keep = true, tools = false } = options;
  const recollection = new Recollection(memory, options);
  const chatOf = (call: ModelCall): Chat => ({
    user: typeof user === "function" ? user(call) : user,
    conversation: typeof conversation === "function" ? conversation(call) : conversation,
  });
  const add = (call: ModelCall, reply: Reply): Promise<void> => {
    const exchange = new ModelExchange(utterances(call.prompt, tools));
    return recollection.keep(chatOf(call), exchange.ended(reply.utterances(tools), reply.complete));
  };
  return {
    specificationVersion: "v4",
    transformParams: async ({ params }) => {
      const { question } = new ModelExchange(utterances(params.prompt, false));
      const block = await recollection.block(chatOf(params), question, params.abortSignal);
      return block ? { ...params, prompt: withBlock(params.prompt, block) } : params;
    },
    wrapGenerate: async ({ doGenerate, params }) => {
      const whole = await doGenerate();
      if (keep) {
        await add(params, new Reply().read(whole));
      }
      return whole;
    },
    wrapStream: async ({ doStream, params }) => {
      const streamed = await doStream();
      if (!keep) {
        return streamed;
      }
      const reply = new Reply();
      const ended = () => add(params, reply);
      return { ...streamed, stream: noted(streamed.stream, reply, ended, params.abortSignal) };
    },
  };
}

/** What a model answered, whole or part by part. */
class Reply {
  /** Whether the model came to an end. */
  complete = false;
  #text = "";
  readonly #calls: { toolName: string; input: string }[] = [];

  read(whole: Whole): this {
    for (const part of whole.content) {
      if (part.type === "text") {
        this.#text += part.text;
      } else if (part.type === "tool-call") {
        this.#calls.push(part);
      }
    }
    this.complete = true;
    return this;
  }

  note(part: Part): void {
    if (part.type === "text-delta") {
      this.#text += part.delta;
    } else if (part.type === "tool-call") {
      this.#calls.push(part);
    } else if (part.type === "finish") {
      this.complete = part.finishReason.unified !== "error";
    }
  }

  *utterances(tools: boolean): Generator<Utterance> {
    yield { role: "assistant", text: this.#text };
    for (const { toolName, input } of tools ? this.#calls : []) {
      yield { role: "tool", text: `${toolName}(${input})`, name: toolName };
    }
  }
}

/** What is said in the messages of a call. */
function* utterances(prompt: readonly Message[], tools: boolean): Generator<Utterance> {
  for (const { role, content } of prompt) {
    if (role === "user" || role === "assistant") {
      yield { role, text: content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n") };
    } else if (role === "tool" && tools) {
      for (const part of content) {
        if (part.type === "tool-result") {
          yield { role, text: resultText(part.output), name: part.toolName };
        }
      }
    }
  }
}

type ToolOutput = Extract<Extract<Message, { role: "tool" }>["content"][number], { type: "tool-result" }>["output"];

/** The text of a tool's result. */
function resultText(output: ToolOutput): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return JSON.stringify(output.value);
    case "content":
      return output.value.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
    default:
      return "";
  }
}

/** The messages with a block of memory at the end of their instructions. */
function withBlock(prompt: readonly Message[], block: string): Message[] {
  const first = prompt.findIndex(({ role }) => role !== "system");
  const at = first < 0 ? prompt.length : first;
  const last = prompt[at - 1];
  // Instructions with options of their own, such as a mark of what is cached, stay as they are.
  if (last?.role !== "system" || last.providerOptions) {
    return [...prompt.slice(0, at), { role: "system", content: block }, ...prompt.slice(at)];
  }
  const content = [last.content.trimEnd(), block].filter(Boolean).join("\n\n");
  return [...prompt.slice(0, at - 1), { ...last, content }, ...prompt.slice(at)];
}

/** The stream, whose parts are noted; `ended` is called once, however it ends, and awaited before the end is told. */
function noted(
  stream: ReadableStream<Part>,
  reply: Reply,
  ended: () => Promise<void>,
  signal: AbortSignal | undefined,
): ReadableStream<Part> {
  const reader = stream.getReader();
  let ending: Promise<void> | undefined;
  const end = (): Promise<void> => {
    signal?.removeEventListener("abort", end);
    return (ending ??= ended());
  };
  // Who aborts a call may read no further.
  signal?.addEventListener("abort", end, { once: true });
  return new ReadableStream<Part>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) {
            reply.note(value);
            controller.enqueue(value);
            return;
          }
        } catch (error) {
          await end();
          throw error;
        }
        await end();
        controller.close();
      },
      async cancel(reason) {
        await Promise.all([reader.cancel(reason), end()]);
      },
    },
    { highWaterMark: 0 },
  );
}
