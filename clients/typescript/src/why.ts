import { status } from "@grpc/grpc-js";

import { HithertoError } from "./errors.js";
import type { Conversation, Memory, Message, Proof, SourceQuote } from "./results.js";

const MOST_SOURCES = 6;
const MOST_MESSAGES = 1_000;

/** What the words are read with. */
interface Reading {
  getConversation(conversation: string): Promise<Conversation | undefined>;
  /** The latest message first. */
  messages(conversation: string): AsyncIterable<Message>;
}

/** A memory with the words of the first messages that it was learnt from. */
export async function proofOf(memory: Memory, reading: Reading): Promise<Proof> {
  const wanted = new Map<string, string[]>();
  for (const { conversationId, messageId } of memory.sources.slice(0, MOST_SOURCES)) {
    wanted.set(conversationId, [...(wanted.get(conversationId) ?? []), messageId]);
  }
  const quotes: SourceQuote[] = [];
  for (const [conversationId, messageIds] of wanted) {
    quotes.push(...(await quotesOf(reading, conversationId, messageIds)));
  }
  return { memory, quotes };
}

async function quotesOf(reading: Reading, conversationId: string, messageIds: string[]): Promise<SourceQuote[]> {
  let title = "";
  let messages: Message[] = [];
  try {
    title = (await reading.getConversation(conversationId))?.summary.title ?? "";
    messages = await messagesDownTo(reading, conversationId, new Set(messageIds));
  } catch (error) {
    // Sealed, and its key is away: the memory itself can be shown all the same.
    if (!(error instanceof HithertoError) || error.code !== status.FAILED_PRECONDITION) {
      throw error;
    }
  }
  return messageIds.map((messageId) => {
    const place = messages.findIndex(({ id }) => id === messageId);
    const at = (index: number) => (place < 0 ? undefined : messages[index]);
    return {
      conversationId,
      title,
      messageId,
      before: at(place - 1),
      message: at(place),
      after: at(place + 1),
    };
  });
}

/** The last messages of a conversation back to the one before those wanted, in order. */
async function messagesDownTo(reading: Reading, conversationId: string, wanted: Set<string>): Promise<Message[]> {
  const messages: Message[] = [];
  for await (const message of reading.messages(conversationId)) {
    messages.push(message);
    if (!wanted.size || messages.length >= MOST_MESSAGES) {
      break;
    }
    wanted.delete(message.id);
  }
  return messages.reverse();
}
