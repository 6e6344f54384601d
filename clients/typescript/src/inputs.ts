import type * as conversations from "./gen/hitherto/v1/conversation_pb.js";
import type * as memories from "./gen/hitherto/v1/memory_pb.js";
import type * as privacy from "./gen/hitherto/v1/privacy_pb.js";
import type * as profiles from "./gen/hitherto/v1/profile_pb.js";
import type { GivenMessage } from "./plain.js";
import type { CallOptions } from "./stubs.js";
import type { Role } from "./words.js";

/** What a method takes as arguments or sends by itself. */
type Own = "userId" | "consistencyToken" | "pageToken" | "updateMask";

/** The further fields of a request by name; `conversation` is the one with its id. */
export type Fields<Q, Without extends string = never> = {
  [K in keyof GivenMessage<Q> as K extends Own | Without
    ? never
    : K extends "conversationId"
      ? "conversation"
      : K]: GivenMessage<Q>[K];
} & CallOptions;

/** What of a message is changed. What is not given stays as it is. */
type Changes<T, K extends keyof GivenMessage<T>> = Pick<GivenMessage<T>, K> & {
  /** Fields to empty or reset, such as `tags` or `metadata.project`. */
  clear?: readonly string[];
};

/** A correction of a memory. */
export type MemoryChanges = Changes<
  memories.Memory,
  | "content"
  | "detail"
  | "type"
  | "importance"
  | "confidence"
  | "tags"
  | "keywords"
  | "entities"
  | "context"
  | "metadata"
  | "validFrom"
  | "validTo"
  | "expiresAt"
  | "sensitive"
>;

/** A change of a profile. Of `preferences`, `facts` and `metadata`, keys that are not given stay. */
export type ProfileChanges = Changes<
  profiles.Profile,
  | "summary"
  | "department"
  | "currentProjects"
  | "preferences"
  | "frequentIntents"
  | "accessLevel"
  | "facts"
  | "metadata"
>;

/** A change of settings. */
export type SettingsChanges = Changes<privacy.UserSettings, Exclude<keyof GivenMessage<privacy.UserSettings>, "erased">>;

/** A message of a chat, such as `{ role: "user", content: "I live in Porto." }`. */
export type MessageInput = Omit<GivenMessage<conversations.Message>, "role" | "content" | "conversationId"> & {
  role: Role;
  content: string;
};

/** A conversation, or the next part of one. */
export type TranscriptInput = Pick<GivenMessage<conversations.Transcript>, "ended" | "timeZone"> & {
  userId: string;
  conversationId: string;
  messages: readonly MessageInput[];
};
