import type * as conversations from "./gen/hitherto/v1/conversation_pb.js";
import type * as documents from "./gen/hitherto/v1/document_pb.js";
import type * as entities from "./gen/hitherto/v1/entity_pb.js";
import type * as extraction from "./gen/hitherto/v1/extraction_service_pb.js";
import type * as history from "./gen/hitherto/v1/history_pb.js";
import type * as jobs from "./gen/hitherto/v1/job_pb.js";
import type * as memories from "./gen/hitherto/v1/memory_pb.js";
import type * as memoryService from "./gen/hitherto/v1/memory_service_pb.js";
import type * as privacy from "./gen/hitherto/v1/privacy_pb.js";
import type * as privacyService from "./gen/hitherto/v1/privacy_service_pb.js";
import type * as profiles from "./gen/hitherto/v1/profile_pb.js";
import type * as retrieval from "./gen/hitherto/v1/retrieval_service_pb.js";
import type * as search from "./gen/hitherto/v1/search_pb.js";
import type { PlainMessage } from "./plain.js";

/** One statement that is remembered about a user. */
export interface Memory extends PlainMessage<memories.Memory> {}

/** Something else that states what a memory states: a memory, a value of the profile, or a conversation. */
export interface AlsoStates extends PlainMessage<memoryService.AlsoStates> {}

/** A memory that was corrected or forgotten, and what else states its earlier words. */
export interface ChangedMemory extends Memory {
  /** What still states them. `carryAlong: true` takes along what says nothing more. */
  alsoStates: AlsoStates[];
  /** What was taken along. */
  carriedAlong: AlsoStates[];
}

/** A memory as it is after it was saved. */
export interface SavedMemory extends PlainMessage<memoryService.SaveMemoryResponse> {
  memory: Memory;
  near: Memory[];
}

/** One change of a memory or a profile. */
export interface HistoryEvent extends PlainMessage<history.HistoryEvent> {}

/** What is known about a user as a person. */
export interface Profile extends PlainMessage<profiles.Profile> {}

/** A preference that was learnt from behaviour. */
export interface Preference extends PlainMessage<profiles.Preference> {}

/** A person or thing that a user's memories, messages or documents mention. */
export interface Entity extends PlainMessage<entities.Entity> {}

/** One message of a conversation. */
export interface Message extends PlainMessage<conversations.Message> {}

/** The summary of a conversation. */
export interface ConversationSummary extends PlainMessage<conversations.ConversationSummary> {}

/** A conversation with its last messages, in chronological order. */
export interface Conversation {
  summary: ConversationSummary;
  messages: Message[];
}

/** A part of a document that a search found. */
export interface DocumentChunk extends PlainMessage<documents.DocumentChunk> {}

/** Messages that were accepted for a running chat. */
export interface Added extends PlainMessage<extraction.AppendMessagesResponse> {
  job?: Job | undefined;
}

/** One item that was found: a memory, a message, a summary or a part of a document. */
export interface SearchResult extends PlainMessage<search.SearchResult> {
  memory?: Memory;
  message?: Message;
  summary?: ConversationSummary;
  documentChunk?: DocumentChunk;
  /** The text of the item, whichever it is. */
  text: string;
}

/** What a search found, best first. */
export interface SearchResults extends Omit<PlainMessage<retrieval.SearchMemoriesResponse>, "results"> {
  results: SearchResult[];
}

/** What an assistant should know before it answers. */
export interface Context extends Omit<PlainMessage<retrieval.GetContextResponse>, "relevant" | "previousItems"> {
  relevant: SearchResult[];
  previousItems: SearchResult[];
}

/** Work in the background, such as learning from a conversation. */
export interface Job extends PlainMessage<jobs.Job> {}

type Whole<T> = { [K in keyof T]-?: NonNullable<T[K]> };

/** The effective settings of a user. */
export interface UserSettings extends Whole<PlainMessage<privacy.UserSettings>> {}

/** The signed proof that a user was erased; `hitherto receipt verify` checks it. */
export interface EraseReceipt extends PlainMessage<privacy.EraseReceipt> {}

/** What an export holds; the client has compared the data with it. */
export interface ExportManifest extends PlainMessage<privacy.ExportManifest> {}

/** What an import of an export stored, by table. */
export interface ImportedUser extends PlainMessage<privacyService.ImportUserResponse> {}

/** A message that a memory was learnt from, with its neighbours. */
export interface SourceQuote {
  conversationId: string;
  title: string;
  messageId: string;
  before: Message | undefined;
  /** Undefined if it cannot be read, is no longer stored, or is far back in a long conversation. */
  message: Message | undefined;
  after: Message | undefined;
}

/** A memory, and the words that it rests on. */
export interface Proof {
  memory: Memory;
  /** In the order in which they were learnt from; empty for what was saved by hand. */
  quotes: SourceQuote[];
}

type Found = PlainMessage<search.SearchResult>;

/** The results with their texts. */
export function withTexts(found: Found[]): SearchResult[] {
  return found.map((result) => {
    const { memory, message, summary, documentChunk } = result;
    return { ...result, text: summary?.summary ?? (memory ?? message ?? documentChunk)?.content ?? "" };
  });
}
