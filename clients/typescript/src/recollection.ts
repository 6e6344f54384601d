import { status } from "@grpc/grpc-js";

import type { Hitherto } from "./client.js";
import { HithertoError } from "./errors.js";
import type { SaidMessage } from "./exchange.js";

/** Characters that wait for the service to come back; beyond that the oldest messages are given up. */
const MOST_WAITING = 1_000_000;
/** Messages of one call. */
const MOST_AT_ONCE = 1_000;
/** Size of a call's messages: the service's 4 MiB less some room for keys and framing. */
const MOST_BYTES = 4 * 1024 * 1024 - 64 * 1024;
/** The most that an id, a name and keys add to a message. */
const MESSAGE_BYTES = 512;
const TRY_AGAIN: readonly status[] = [
  status.UNAVAILABLE,
  status.DEADLINE_EXCEEDED,
  status.RESOURCE_EXHAUSTED,
  status.ABORTED,
  status.CANCELLED,
];

/** Where something is said. */
export interface Chat {
  user: string;
  conversation: string;
}

/** How long an assistant waits for memory, and who is told when it goes on without. */
export interface Bounds {
  /** Milliseconds that a call waits for memory at most, before the model and again after it. Unset: 2,000. */
  timeoutMs?: number;
  /** The budget of the block. Unset: 4,000. */
  maxTokens?: number;
  /** Told what memory could not do. Unset: `console.warn`. */
  warn?: (message: string, error: unknown) => void;
}

interface Waiting {
  chat: Chat;
  message: SaidMessage;
}

/** What could not be added yet, of each client: the next chat of the same client adds it. */
const WAITING = new WeakMap<Hitherto, Waiting[]>();

/**
 * What an assistant is told before it answers, and what is kept of the answer.
 *
 * Nothing here ends the assistant's own work: what fails is told, and it goes on without memory.
 */
export class Recollection {
  readonly #memory: Hitherto;
  readonly #timeoutMs: number;
  readonly #maxTokens: number | undefined;
  readonly #warn: (message: string, error: unknown) => void;

  constructor(memory: Hitherto, { timeoutMs = 2_000, maxTokens, warn = console.warn }: Bounds) {
    this.#memory = memory;
    this.#timeoutMs = timeoutMs;
    this.#maxTokens = maxTokens;
    this.#warn = warn;
  }

  /** What is known that matters for a question; empty if nothing is, or memory fails. */
  async block(chat: Chat, question: string, signal: AbortSignal | undefined): Promise<string> {
    try {
      const known = await this.#memory.getContext(chat.user, question, {
        conversation: chat.conversation,
        timeoutMs: this.#timeoutMs,
        ...(this.#maxTokens === undefined ? {} : { maxTokens: this.#maxTokens }),
        ...(signal ? { signal } : {}),
      });
      return known.promptBlock;
    } catch (error) {
      if (!signal?.aborted) {
        this.#warn("the model answers without memory:", error);
      }
      return "";
    }
  }

  /** Adds what was said to its conversation, now or with a later call. */
  async keep(chat: Chat, said: readonly SaidMessage[]): Promise<void> {
    const waiting = WAITING.get(this.#memory) ?? [];
    WAITING.set(this.#memory, waiting);
    // A request that is repeated waits once.
    const known = new Set(waiting.filter((one) => isSame(one.chat, chat)).map(({ message }) => message.id));
    waiting.push(...said.filter(({ id }) => !known.has(id)).map((message) => ({ chat, message })));
    const until = Date.now() + Math.max(this.#timeoutMs, 1);
    for (let left = until - Date.now(); waiting.length && left > 0; left = until - Date.now()) {
      const taken = take(waiting, chat);
      const [{ chat: where }] = taken as [Waiting];
      try {
        const messages = taken.map(({ message }) => message);
        await this.#memory.add(where.user, messages, { conversation: where.conversation, timeoutMs: left });
      } catch (error) {
        if (mayPass(error)) {
          this.#warn(`${taken.length} messages are added with the next call:`, error);
          waiting.unshift(...taken);
          this.#giveUpOldest(waiting);
          return;
        }
        // At least one of these, or none: a call with all of them again would never end.
        const refused = refusedOf(error, taken.length);
        const others = taken.filter((_, place) => refused.size && !refused.has(place));
        waiting.unshift(...others);
        this.#warn(`${taken.length - others.length} messages are not remembered:`, error);
      }
    }
  }

  #giveUpOldest(waiting: Waiting[]): void {
    let size = waiting.reduce((sum, { message }) => sum + message.content.length, 0);
    let lost = 0;
    for (; size > MOST_WAITING; lost += 1) {
      size -= (waiting.shift() as Waiting).message.content.length;
    }
    if (lost) {
      this.#warn(`${lost} messages are not remembered:`, new Error("too many wait for memory"));
    }
  }
}

/** Takes the messages of the next call: those of `chat` first, then those of the chat that waits longest. */
function take(waiting: Waiting[], chat: Chat): Waiting[] {
  const chosen = (waiting.find((one) => isSame(one.chat, chat)) ?? (waiting[0] as Waiting)).chat;
  const taken: Waiting[] = [];
  let size = 0;
  for (const one of waiting.filter((each) => isSame(each.chat, chosen))) {
    size += Buffer.byteLength(one.message.content) + MESSAGE_BYTES;
    if (taken.length && (taken.length >= MOST_AT_ONCE || size > MOST_BYTES)) {
      break;
    }
    taken.push(one);
  }
  const gone = new Set(taken);
  waiting.splice(0, waiting.length, ...waiting.filter((one) => !gone.has(one)));
  return taken;
}

function isSame(one: Chat, other: Chat): boolean {
  return one.user === other.user && one.conversation === other.conversation;
}

/** Whether the same call may succeed later. */
function mayPass(error: unknown): boolean {
  return error instanceof HithertoError && TRY_AGAIN.includes(error.code) && error.reason !== "REQUEST_TOO_LARGE";
}

/** The places of the messages that the service refuses; none if it refuses the call. */
function refusedOf(error: unknown, count: number): Set<number> {
  const violations = error instanceof HithertoError ? error.violations : [];
  const places = violations.map(({ field }) => Number(/^messages\[(\d+)\]/.exec(field)?.[1] ?? NaN));
  return new Set(places.some(Number.isNaN) ? [] : places.filter((place) => place < count));
}
