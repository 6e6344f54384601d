import { createHash } from "node:crypto";

import type { MessageInput } from "./index.js";

/** UTF-8 bytes of a message that is kept in one piece; the services take 64 KiB. */
const MOST_BYTES = 60 * 1024;
/** Characters of a question that memory is searched for. */
const MOST_QUESTION = 8_000;
/** Characters of a tool's name. */
const MOST_NAME = 128;

/** What somebody says in a request to a model, or in its reply. */
export interface Utterance {
  role: "user" | "assistant" | "tool";
  /** The words; empty for an assistant that only calls tools. */
  text: string;
  /** The name of a tool. */
  name?: string;
}

/** A message that can be sent again: its id says which one it is. */
export type SaidMessage = MessageInput & { id: string };

/**
 * The end of a request's history, which is everything after the last reply of the assistant, and the reply to it.
 *
 * A request repeats the history, and a failed one is sent again. Each message therefore has an id that follows from its
 * text and from everything before it: what is sent twice is kept once.
 */
export class ModelExchange {
  /** What the user said last. */
  readonly question: string;
  readonly #digest = createHash("sha256");
  readonly #said: readonly SaidMessage[];

  /** Reads the messages of a request, without instructions. */
  constructor(history: Iterable<Utterance>) {
    let question = "";
    let said: SaidMessage[] = [];
    for (const utterance of history) {
      const kept = this.#kept(utterance);
      if (utterance.role === "assistant") {
        said = [];
        continue;
      }
      said.push(...kept);
      if (utterance.role === "user" && utterance.text.trim()) {
        question = storable(utterance.text.slice(0, MOST_QUESTION));
      }
    }
    this.question = question;
    this.#said = said;
  }

  /** What is new in the conversation. The metadata of a reply that broke off say so. */
  ended(reply: Iterable<Utterance>, complete: boolean): SaidMessage[] {
    const said = [...this.#said];
    for (const utterance of reply) {
      for (const message of this.#kept(utterance)) {
        said.push(complete ? message : { ...message, metadata: { incomplete: true } });
      }
    }
    return said;
  }

  /** The utterance as messages, several if it is too long for one. */
  #kept({ role, text, name = "" }: Utterance): SaidMessage[] {
    this.#digest.update(`${JSON.stringify([role, name, text])}\n`);
    const stem = `said_${this.#digest.copy().digest("hex").slice(0, 32)}`;
    return pieces(text).map((content, place) => ({
      id: place ? `${stem}_${place}` : stem,
      role,
      content,
      ...(name ? { name: storable(name).slice(0, MOST_NAME) } : {}),
    }));
  }
}

/** The text in NFC, without characters that no database stores. */
function storable(text: string): string {
  // Through UTF-8, which has no lone surrogates.
  return Buffer.from(text.replaceAll("\0", ""), "utf8").toString("utf8").normalize("NFC");
}

/** The storable text in pieces that the services take; none of them is blank. */
function pieces(text: string): string[] {
  const bytes = Buffer.from(storable(text), "utf8");
  const found: string[] = [];
  for (let start = 0; start < bytes.length; ) {
    let end = Math.min(start + MOST_BYTES, bytes.length);
    while (end < bytes.length && ((bytes[end] as number) & 0xc0) === 0x80) {
      end -= 1;
    }
    found.push(bytes.toString("utf8", start, end));
    start = end;
  }
  return found.filter((piece) => piece.trim());
}
