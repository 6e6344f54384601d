import type { Writable } from "node:stream";

import { type DescMessage, type Message as AnyMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";

import { HithertoError } from "./errors.js";
import { type MessageSchema, Role, type TranscriptSchema } from "./gen/hitherto/v1/conversation_pb.js";
import {
  type AppendMessagesRequestSchema,
  type AppendMessagesResponse,
  type EndConversationRequestSchema,
  ExtractionService,
} from "./gen/hitherto/v1/extraction_service_pb.js";
import type { Job } from "./gen/hitherto/v1/job_pb.js";
import { MaintenanceService } from "./gen/hitherto/v1/maintenance_service_pb.js";
import type { Memory } from "./gen/hitherto/v1/memory_pb.js";
import {
  type ForgetMemoryRequestSchema,
  MemoryService,
  type SaveMemoryRequestSchema,
  type SaveMemoryResponse,
} from "./gen/hitherto/v1/memory_service_pb.js";
import type { ExportManifest } from "./gen/hitherto/v1/privacy_pb.js";
import { type ImportUserResponse, PrivacyService } from "./gen/hitherto/v1/privacy_service_pb.js";
import {
  type GetContextRequestSchema,
  type GetContextResponse,
  type ListMemoriesRequestSchema,
  RetrievalService,
  type SearchMemoriesRequestSchema,
  type SearchMemoriesResponse,
} from "./gen/hitherto/v1/retrieval_service_pb.js";
import { SessionService } from "./gen/hitherto/v1/session_service_pb.js";
import { Jobs } from "./jobs.js";
import { ReadOwnWrites } from "./own_writes.js";
import { findTarget, type Settings } from "./settings.js";
import { type CallOptions, Endpoint, type Stub } from "./stubs.js";
import { type OpenExport, receiveExport, sendExport, type TransferOptions } from "./user_data.js";

/** The fields of a request by name, without those that a method has as arguments or sends by itself. */
type Fields<S extends DescMessage, Without extends string> = Omit<
  Exclude<MessageInitShape<S>, AnyMessage>,
  Without | "userId" | "consistencyToken" | "$typeName" | "$unknown"
> &
  CallOptions;

/** A message of a chat, such as `{ role: "user", content: "I live in Porto." }`. */
export type MessageInput = Omit<Fields<typeof MessageSchema, "role" | "content" | "createdAt">, keyof CallOptions> & {
  role: "user" | "assistant" | "system" | "tool";
  content: string;
  /** When it was sent. Unset: now. Decides which of two statements is newer. */
  createdAt?: Date;
};

/** A conversation, or the next part of one. */
export type TranscriptInput = Omit<Fields<typeof TranscriptSchema, "messages">, keyof CallOptions> & {
  userId: string;
  conversationId: string;
  messages: readonly MessageInput[];
};

const ROLES = { user: Role.USER, assistant: Role.ASSISTANT, system: Role.SYSTEM, tool: Role.TOOL } as const;

/**
 * A client of both services. Close it.
 *
 * Each call has a deadline, which its retries share, and is repeated where that is safe. Reads include what the same
 * client has written for the user before, and what was learnt by jobs that it has seen end, even if reads go to a
 * replica. A failed call throws HithertoError with a `reason`; settings that cannot work throw TypeError.
 */
export class Hitherto {
  /** The generated stubs of every RPC, with the same credential, deadlines, retries and errors. They send no
   * consistency tokens by themselves. */
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

  readonly #reads: Endpoint;
  readonly #writes: Endpoint;
  readonly #calls = new ReadOwnWrites();

  /** Prepares the client; it connects with the first call. What is unset comes from the environment. */
  constructor(settings: Settings = {}) {
    const target = findTarget(settings);
    const reads = (this.#reads = new Endpoint("retrieval", target));
    const writes = (this.#writes = new Endpoint("extraction", target));
    this.stubs = {
      retrieval: reads.stub(RetrievalService),
      extraction: writes.stub(ExtractionService),
      memory: writes.stub(MemoryService),
      session: writes.stub(SessionService),
      maintenance: writes.stub(MaintenanceService),
      privacy: writes.stub(PrivacyService),
    };
    this.jobs = new Jobs(writes, this.#calls);
  }

  /** Closes the connections. */
  close(): void {
    this.#reads.close();
    this.#writes.close();
  }

  /**
   * Remembers one statement at once. If the user has a memory with the same meaning, that one gets a new version
   * instead.
   */
  saveMemory(
    user: string,
    content: string,
    options: Fields<typeof SaveMemoryRequestSchema, "content"> = {},
  ): Promise<SaveMemoryResponse> {
    const request = { ...options, userId: user, content };
    return this.#calls.write([user], () => this.stubs.memory.saveMemory(request, options));
  }

  /** Has reads no longer return a memory; `stubs.memory.restoreMemory` brings it back. */
  async forgetMemory(
    user: string,
    memoryId: string,
    options: Fields<typeof ForgetMemoryRequestSchema, "memoryId"> = {},
  ): Promise<Memory> {
    const request = { ...options, userId: user, memoryId };
    const reply = await this.#calls.write([user], () => this.stubs.memory.forgetMemory(request, options));
    return reply.memory as Memory;
  }

  /** One memory, whatever its status; undefined if there is none. */
  async getMemory(user: string, memoryId: string, options: CallOptions = {}): Promise<Memory | undefined> {
    try {
      const reply = await this.#calls.read(user, { userId: user, memoryId }, (request) =>
        this.stubs.retrieval.getMemory(request, options),
      );
      return reply.memory;
    } catch (error) {
      if (error instanceof HithertoError && error.code === status.NOT_FOUND && error.reason) {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * What an assistant should know before it answers `query`. `promptBlock` of the result is the text for the
   * assistant's prompt.
   */
  getContext(
    user: string,
    query = "",
    options: Fields<typeof GetContextRequestSchema, "query"> = {},
  ): Promise<GetContextResponse> {
    return this.#calls.read(user, { ...options, userId: user, query }, (request) =>
      this.stubs.retrieval.getContext(request, options),
    );
  }

  /** The best results for `query`. */
  search(
    user: string,
    query = "",
    options: Fields<typeof SearchMemoriesRequestSchema, "query"> = {},
  ): Promise<SearchMemoriesResponse> {
    return this.#calls.read(user, { ...options, userId: user, query }, (request) =>
      this.stubs.retrieval.searchMemories(request, options),
    );
  }

  /** A user's memories, fetched page by page. */
  async *memories(
    user: string,
    options: Fields<typeof ListMemoriesRequestSchema, "pageToken"> = {},
  ): AsyncGenerator<Memory, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.#calls.read(user, { ...options, userId: user, pageToken }, (request) =>
        this.stubs.retrieval.listMemories(request, options),
      );
      yield* page.memories;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * Adds messages to a running chat. Once this returns, they are stored and can be searched. They are learnt from every
   * few messages, when the chat pauses, or at `endConversation`. Known messages are skipped.
   */
  async add(
    user: string,
    conversation: string,
    messages: readonly MessageInput[],
    options: Fields<typeof AppendMessagesRequestSchema, "conversationId" | "messages"> = {},
  ): Promise<AppendMessagesResponse> {
    const request = { ...options, userId: user, conversationId: conversation, messages: messages.map(toMessage) };
    return this.#calls.write([user], () => this.stubs.extraction.appendMessages(request, options));
  }

  /** Marks a chat as over; the job learns from its last messages. Later ones reopen it. */
  async endConversation(
    user: string,
    conversation: string,
    options: Fields<typeof EndConversationRequestSchema, "conversationId"> = {},
  ): Promise<Job> {
    const request = { ...options, userId: user, conversationId: conversation };
    const reply = await this.#calls.write([user], () => this.stubs.extraction.endConversation(request, options));
    return reply.job as Job;
  }

  /** Submits 1 to 100 conversations at once, all or none; one job for each, in order. */
  async submitTranscripts(
    transcripts: readonly TranscriptInput[],
    options: { idempotencyKey?: string } & CallOptions = {},
  ): Promise<Job[]> {
    const request = {
      idempotencyKey: options.idempotencyKey ?? "",
      transcripts: transcripts.map((transcript) => ({ ...transcript, messages: transcript.messages.map(toMessage) })),
    };
    const users = transcripts.map(({ userId }) => userId);
    const reply = await this.#calls.write(users, () => this.stubs.extraction.submitTranscripts(request, options));
    return reply.jobs;
  }

  /**
   * Writes all data of a user to a stream, such as that of a file, as JSON lines, and ends it. The data are checked
   * against the manifest. If the call fails, what was written is incomplete and the stream is destroyed.
   */
  exportUser(user: string, into: Writable, options: TransferOptions = {}): Promise<ExportManifest> {
    const request = { userId: user, consistencyToken: this.#calls.tokens.of(user) };
    return receiveExport(this.stubs.privacy, this.#writes, request, into, options);
  }

  /**
   * Stores the records of an export again, as they were written; no model is called. The user must be unknown, hold
   * nothing, or be the user of the export, whose records are then skipped where they exist. The import of the same
   * export therefore continues an interrupted one; a call that breaks off is continued by itself.
   */
  importUser(
    user: string,
    open: OpenExport,
    options: TransferOptions & { idempotencyKey?: string } = {},
  ): Promise<ImportUserResponse> {
    return this.#calls.write([user], () => sendExport(this.stubs.privacy, this.#writes, user, open, options));
  }
}

function toMessage(input: MessageInput): Exclude<MessageInitShape<typeof MessageSchema>, AnyMessage> {
  const { role, createdAt, ...rest } = input;
  const found: Role | undefined = ROLES[role];
  if (found === undefined) {
    throw new TypeError(`role should be one of ${Object.keys(ROLES).join(", ")}, and is ${JSON.stringify(role)}`);
  }
  return { ...rest, role: found, ...(createdAt ? { createdAt: timestampFromDate(createdAt) } : {}) };
}
