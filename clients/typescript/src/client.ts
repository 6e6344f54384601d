import type { Writable } from "node:stream";

import { Calling } from "./calling.js";
import type * as extraction from "./gen/hitherto/v1/extraction_service_pb.js";
import { ExtractionService } from "./gen/hitherto/v1/extraction_service_pb.js";
import { MaintenanceService } from "./gen/hitherto/v1/maintenance_service_pb.js";
import type * as memories from "./gen/hitherto/v1/memory_service_pb.js";
import { MemoryService } from "./gen/hitherto/v1/memory_service_pb.js";
import { ExportManifestSchema } from "./gen/hitherto/v1/privacy_pb.js";
import type * as privacy from "./gen/hitherto/v1/privacy_service_pb.js";
import { ImportUserResponseSchema, PrivacyService } from "./gen/hitherto/v1/privacy_service_pb.js";
import type * as retrieval from "./gen/hitherto/v1/retrieval_service_pb.js";
import { RetrievalService } from "./gen/hitherto/v1/retrieval_service_pb.js";
import { SessionService } from "./gen/hitherto/v1/session_service_pb.js";
import type {
  Fields,
  MemoryChanges,
  MessageInput,
  ProfileChanges,
  SettingsChanges,
  TranscriptInput,
} from "./inputs.js";
import { Jobs } from "./jobs.js";
import { toPlain } from "./plain.js";
import {
  type Added,
  type ChangedMemory,
  type Context,
  type Conversation,
  type EraseReceipt,
  type ExportManifest,
  type HistoryEvent,
  type ImportedUser,
  type Job,
  type Memory,
  type Message,
  type Profile,
  type Proof,
  type SavedMemory,
  type SearchResults,
  type UserSettings,
  withTexts,
} from "./results.js";
import { findTarget, type Settings } from "./settings.js";
import { type CallOptions, Endpoint, type Stub } from "./stubs.js";
import { type OpenExport, receiveExport, sendExport, type TransferOptions } from "./user_data.js";
import { proofOf } from "./why.js";

/** Clearing and erasing take as long as there is to remove. */
const CLEAR_MS = 300_000;
/** Messages that one call returns at most. */
const MOST_MESSAGES = 200;

/**
 * A client of both services. Close it.
 *
 * Each call has a deadline, which its retries share, and is repeated where that is safe. Reads include what the same
 * client has written for the user before, and what was learnt by jobs that it has seen end, even if reads go to a
 * replica. A failed call throws HithertoError with a `reason`; a value or a setting that cannot be used throws
 * TypeError. The last argument of each method has the further fields of the request, and the options of the call.
 */
export class Hitherto {
  /** The generated stubs of every RPC, with the same credential, deadlines, retries and errors. They send no
   * consistency tokens by themselves, and take and return the messages of the contract. */
  readonly stubs: {
    readonly retrieval: Stub<typeof RetrievalService>;
    readonly extraction: Stub<typeof ExtractionService>;
    readonly memory: Stub<typeof MemoryService>;
    readonly session: Stub<typeof SessionService>;
    readonly maintenance: Stub<typeof MaintenanceService>;
    readonly privacy: Stub<typeof PrivacyService>;
  };
  /** The work in the background. */
  readonly jobs: Jobs;

  readonly #calls: Calling;

  /** Prepares the client; it connects with the first call. What is unset comes from the environment. */
  constructor(settings: Settings = {}) {
    const target = findTarget(settings);
    const reads = new Endpoint("retrieval", target);
    const writes = new Endpoint("extraction", target);
    this.#calls = new Calling(reads, writes);
    this.stubs = {
      retrieval: reads.stub(RetrievalService),
      extraction: writes.stub(ExtractionService),
      memory: writes.stub(MemoryService),
      session: writes.stub(SessionService),
      maintenance: writes.stub(MaintenanceService),
      privacy: writes.stub(PrivacyService),
    };
    this.jobs = new Jobs(this.#calls);
  }

  /** Closes the connections. */
  close(): void {
    this.#calls.reads.close();
    this.#calls.writes.close();
  }

  // --- what an assistant asks for -----------------------------------------------------------------------------------

  /**
   * What an assistant should know before it answers `query`. `promptBlock` of the result is the text for the
   * assistant's prompt.
   */
  async getContext(
    user: string,
    query = "",
    options: Fields<retrieval.GetContextRequest, "query"> = {},
  ): Promise<Context> {
    const told = await this.#calls.call(RetrievalService.method.getContext, user, { ...options, query });
    return { ...told, relevant: withTexts(told.relevant), previousItems: withTexts(told.previousItems) };
  }

  /** The best results for `query`; `text` of each is what was found, whatever it is. */
  async search(
    user: string,
    query = "",
    options: Fields<retrieval.SearchMemoriesRequest, "query"> = {},
  ): Promise<SearchResults> {
    const found = await this.#calls.call(RetrievalService.method.searchMemories, user, { ...options, query });
    return { ...found, results: withTexts(found.results) };
  }

  /** A user's memories, fetched page by page. */
  async *memories(
    user: string,
    options: Fields<retrieval.ListMemoriesRequest> = {},
  ): AsyncGenerator<Memory, void, undefined> {
    for await (const page of this.#calls.pages(RetrievalService.method.listMemories, user, options)) {
      yield* page.memories;
    }
  }

  /** One memory, whatever its status; undefined if there is none, or memory is switched off. */
  async getMemory(user: string, memoryId: string, options: CallOptions = {}): Promise<Memory | undefined> {
    const found = await this.#calls.find(RetrievalService.method.getMemory, user, { ...options, memoryId });
    return found?.memory;
  }

  /** Every change of a memory, newest first, fetched page by page. */
  async *memoryHistory(
    user: string,
    memoryId: string,
    options: Fields<retrieval.GetMemoryHistoryRequest, "memoryId"> = {},
  ): AsyncGenerator<HistoryEvent, void, undefined> {
    const given = { ...options, memoryId };
    for await (const page of this.#calls.pages(RetrievalService.method.getMemoryHistory, user, given)) {
      yield* page.events;
    }
  }

  /**
   * A memory with the words that it was learnt from; undefined if there is no such memory. Of each of the first six
   * messages behind it, the proof has what was said just before and after.
   */
  async why(user: string, memoryId: string, options: CallOptions = {}): Promise<Proof | undefined> {
    const memory = await this.getMemory(user, memoryId, options);
    return (
      memory &&
      proofOf(memory, {
        getConversation: (conversation) =>
          this.getConversation(user, conversation, { ...options, messageLimit: 1 }),
        messages: (conversation) => this.messages(user, conversation, options),
      })
    );
  }

  // --- memories by hand ---------------------------------------------------------------------------------------------

  /**
   * Remembers one statement at once. If the user has a memory with the same meaning, that one gets a new version
   * instead.
   */
  async saveMemory(
    user: string,
    content: string,
    options: Fields<memories.SaveMemoryRequest, "content"> = {},
  ): Promise<SavedMemory> {
    const given = { ...options, content };
    return (await this.#calls.call(MemoryService.method.saveMemory, user, given)) as SavedMemory;
  }

  /** Corrects a memory, such as `{ content: "…" }`; it keeps its id and its earlier versions. */
  async updateMemory(
    user: string,
    memoryId: string,
    changes: MemoryChanges & Fields<memories.UpdateMemoryRequest, "memoryId" | "memory">,
  ): Promise<ChangedMemory> {
    const given = { ...changes, memoryId };
    const { memory, ...others } = await this.#calls.change(MemoryService.method.updateMemory, user, "memory", given);
    return { ...(memory as Memory), ...others };
  }

  /** Has reads no longer return a memory; earlier messages never bring it back, and `restoreMemory` does. */
  async forgetMemory(
    user: string,
    memoryId: string,
    options: Fields<memories.ForgetMemoryRequest, "memoryId"> = {},
  ): Promise<ChangedMemory> {
    const given = { ...options, memoryId };
    const { memory, ...others } = await this.#calls.call(MemoryService.method.forgetMemory, user, given);
    return { ...(memory as Memory), ...others };
  }

  /** Brings a forgotten or archived memory back. */
  async restoreMemory(
    user: string,
    memoryId: string,
    options: Fields<memories.RestoreMemoryRequest, "memoryId"> = {},
  ): Promise<Memory> {
    const given = { ...options, memoryId };
    return (await this.#calls.call(MemoryService.method.restoreMemory, user, given)).memory as Memory;
  }

  // --- conversations ------------------------------------------------------------------------------------------------

  /**
   * Adds messages to a running chat. Once this returns, they are stored and can be searched. They are learnt from every
   * few messages, when the chat pauses, or at `endConversation`. Known messages are skipped.
   */
  add(
    user: string,
    messages: readonly MessageInput[],
    options: { conversation: string } & Fields<extraction.AppendMessagesRequest, "messages">,
  ): Promise<Added> {
    return this.#calls.call(ExtractionService.method.appendMessages, user, { ...options, messages });
  }

  /** Marks a chat as over; the job learns from its last messages. Later ones reopen it. */
  async endConversation(
    user: string,
    conversation: string,
    options: Fields<extraction.EndConversationRequest, "conversationId"> = {},
  ): Promise<Job> {
    const given = { ...options, conversation };
    return (await this.#calls.call(ExtractionService.method.endConversation, user, given)).job as Job;
  }

  /** Submits 1 to 100 conversations at once, all or none; one job for each, in order. */
  async submitTranscripts(
    transcripts: readonly TranscriptInput[],
    options: Fields<extraction.SubmitTranscriptsRequest, "transcripts"> = {},
  ): Promise<Job[]> {
    const method = ExtractionService.method.submitTranscripts;
    const users = transcripts.map(({ userId }) => userId);
    return toPlain(method.output, await this.#calls.answer(method, users, { ...options, transcripts })).jobs;
  }

  /** A conversation with its last messages (10); undefined if there is none. */
  async getConversation(
    user: string,
    conversation: string,
    options: Fields<retrieval.GetConversationRequest, "conversationId"> = {},
  ): Promise<Conversation | undefined> {
    const found = await this.#calls.find(RetrievalService.method.getConversation, user, { ...options, conversation });
    return found?.reason === "" ? (found as Conversation) : undefined;
  }

  /** Every message of a conversation, the latest first, fetched page by page. */
  async *messages(
    user: string,
    conversation: string,
    options: CallOptions = {},
  ): AsyncGenerator<Message, void, undefined> {
    let beforeMessageId = "";
    for (;;) {
      const asked = { ...options, messageLimit: MOST_MESSAGES, beforeMessageId };
      const page = (await this.getConversation(user, conversation, asked))?.messages ?? [];
      yield* [...page].reverse();
      if (page.length < MOST_MESSAGES) {
        return;
      }
      beforeMessageId = page[0]?.id ?? "";
    }
  }

  // --- the user -----------------------------------------------------------------------------------------------------

  /** The user's profile; undefined if there is none, or memory is switched off. */
  async getProfile(user: string, options: CallOptions = {}): Promise<Profile | undefined> {
    return (await this.#calls.find(RetrievalService.method.getProfile, user, options))?.profile;
  }

  /** Changes or creates a profile by hand, such as `{ facts: { personal: { location: "Porto" } } }`. */
  async updateProfile(
    user: string,
    changes: ProfileChanges & Fields<memories.UpdateProfileRequest, "profile">,
  ): Promise<Profile> {
    const method = MemoryService.method.updateProfile;
    return (await this.#calls.change(method, user, "profile", changes, true)).profile as Profile;
  }

  /** The effective settings of a user. */
  async getUserSettings(user: string, options: CallOptions = {}): Promise<UserSettings> {
    const reply = await this.#calls.call(PrivacyService.method.getUserSettings, user, options);
    return reply.userSettings as UserSettings;
  }

  /** Changes settings, such as `{ learningEnabled: false }`; what is not given stays as it is. */
  async updateUserSettings(
    user: string,
    changes: SettingsChanges & Fields<privacy.UpdateUserSettingsRequest, "userSettings">,
  ): Promise<UserSettings> {
    const method = PrivacyService.method.updateUserSettings;
    return (await this.#calls.change(method, user, "userSettings", changes)).userSettings as UserSettings;
  }

  /**
   * Forgets all memories of a user; conversations, if included, are gone for good. Returns the number of rows, by kind.
   * An interrupted call keeps what it has done; the next call does the rest. It has five minutes.
   */
  async clearMemories(
    user: string,
    options: Fields<privacy.ClearMemoriesRequest> = {},
  ): Promise<Record<string, number>> {
    const given = { timeoutMs: CLEAR_MS, ...options };
    return (await this.#calls.call(PrivacyService.method.clearMemories, user, given)).counts;
  }

  /**
   * Removes everything that is stored about a user, for good. Later writes for the user fail with `USER_ERASED` until
   * `reinstateUser`. An interrupted call keeps what it has done; the next call does the rest, and its receipt covers
   * all of it. It has five minutes.
   */
  async eraseUser(user: string, options: Fields<privacy.EraseUserRequest> = {}): Promise<EraseReceipt> {
    const given = { timeoutMs: CLEAR_MS, ...options };
    return (await this.#calls.call(PrivacyService.method.eraseUser, user, given)).receipt as EraseReceipt;
  }

  /** Allows writes for an erased user again; nothing comes back. True if the user was erased before. */
  async reinstateUser(user: string, options: Fields<privacy.ReinstateUserRequest> = {}): Promise<boolean> {
    return (await this.#calls.call(PrivacyService.method.reinstateUser, user, options)).reinstated;
  }

  /**
   * Writes all data of a user to a stream, such as that of a file, as JSON lines, and ends it. The data are checked
   * against the manifest. If the call fails, what was written is incomplete and the stream is destroyed.
   */
  async exportUser(user: string, into: Writable, options: TransferOptions = {}): Promise<ExportManifest> {
    const { own, writes } = this.#calls;
    return toPlain(ExportManifestSchema, await receiveExport(this.stubs.privacy, writes, own, user, into, options));
  }

  /**
   * Stores the records of an export again, as they were written; no model is called. The user must be unknown, hold
   * nothing, or be the user of the export, whose records are then skipped where they exist. The import of the same
   * export therefore continues an interrupted one; a call that breaks off is continued by itself.
   */
  async importUser(
    user: string,
    open: OpenExport,
    options: TransferOptions & { idempotencyKey?: string } = {},
  ): Promise<ImportedUser> {
    const { own, writes } = this.#calls;
    const send = () => sendExport(this.stubs.privacy, writes, user, open, options);
    return toPlain(ImportUserResponseSchema, await own.write([user], send));
  }
}
