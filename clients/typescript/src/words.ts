import type * as conversation from "./gen/hitherto/v1/conversation_pb.js";
import type * as entity from "./gen/hitherto/v1/entity_pb.js";
import type * as history from "./gen/hitherto/v1/history_pb.js";
import type * as job from "./gen/hitherto/v1/job_pb.js";
import type * as memory from "./gen/hitherto/v1/memory_pb.js";
import type * as memoryService from "./gen/hitherto/v1/memory_service_pb.js";
import type * as privacy from "./gen/hitherto/v1/privacy_pb.js";
import type * as search from "./gen/hitherto/v1/search_pb.js";

/*
 * The enumerated values of the contract as words: MEMORY_TYPE_GOAL is "goal".
 *
 * A service newer than this client may answer with a value that has no word here; it reads as "unknown_11", with the
 * number of the value. A value that is not set reads as "unspecified".
 */

type Word<E> = Lowercase<Exclude<keyof E & string, "UNSPECIFIED">>;

/** The kind of statement that a memory is. */
export type MemoryType = Word<typeof memory.MemoryType>;
/** Whether a memory is in force. Reads return active and achieved ones unless asked for others. */
export type MemoryStatus = Word<typeof memory.MemoryStatus>;
/** How a memory was created. */
export type MemorySource = Word<typeof memory.MemorySource>;
/** Who said it. Statements of users and operators are trusted more than the others. */
export type Origin = Word<typeof memory.Origin>;
/** How clear a statement is. */
export type Confidence = Word<typeof memory.Confidence>;
/** The role of a message's speaker. */
export type Role = Word<typeof conversation.Role>;
/** How a conversation ended so far; `unspecified` if that is not known yet. */
export type Outcome = Word<typeof conversation.Outcome> | "unspecified";
/** The kind of an entity. */
export type EntityType = Word<typeof entity.EntityType>;
/** What happened to a memory or a profile. */
export type HistoryEventKind = Word<typeof history.HistoryEventKind>;
/** The state of a job. `failed` waits for a retry; succeeded, dead and cancelled are final. */
export type JobState = Word<typeof job.JobState>;
/** A decision about a memory in quarantine. */
export type ReviewDecision = Word<typeof memoryService.ReviewDecision>;
/** What happens to a secret: a marker replaces it; `seal` also keeps the message, encrypted. */
export type SecretHandling = Word<typeof privacy.SecretHandling>;
/** A kind of item that can be searched. */
export type SearchScope = Word<typeof search.SearchScope>;
/** How a leg of a search ended. */
export type LegState = Word<typeof search.LegState>;
/** The order of the top memories of a context. */
export type MemoryOrder = Word<typeof search.MemoryOrder>;
/** The format of the prompt block. */
export type PromptTemplate = Word<typeof search.PromptTemplate>;

/** Each enum of the contract with its words. */
type Enums =
  | [memory.MemoryType, MemoryType]
  | [memory.MemoryStatus, MemoryStatus]
  | [memory.MemorySource, MemorySource]
  | [memory.Origin, Origin]
  | [memory.Confidence, Confidence]
  | [conversation.Role, Role]
  | [conversation.Outcome, Outcome]
  | [entity.EntityType, EntityType]
  | [history.HistoryEventKind, HistoryEventKind]
  | [job.JobState, JobState]
  | [memoryService.ReviewDecision, ReviewDecision]
  | [privacy.SecretHandling, SecretHandling]
  | [search.SearchScope, SearchScope]
  | [search.LegState, LegState]
  | [search.MemoryOrder, MemoryOrder]
  | [search.PromptTemplate, PromptTemplate];

type Is<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type WordsOf<T, E = Enums> = E extends [infer N, infer W] ? (T extends N ? W : never) : never;

/** The words for the numbers of an enum; another type is as it is. */
// The compiler takes any number for one of an enum, but not the type of the one for that of the other.
export type Worded<T> = T extends number ? (Is<T, number> extends true ? T : WordsOf<T>) : T;
