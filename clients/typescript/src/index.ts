export { Hitherto } from "./client.js";
export { HithertoError, type Violation } from "./errors.js";
export type {
  Fields,
  MemoryChanges,
  MessageInput,
  ProfileChanges,
  SettingsChanges,
  TranscriptInput,
} from "./inputs.js";
export type { Jobs } from "./jobs.js";
export type * from "./results.js";
export type { RetryPolicy } from "./retry.js";
export type { Settings } from "./settings.js";
export type { CallOptions, Stub } from "./stubs.js";
export type { OpenExport, TransferOptions } from "./user_data.js";
export type {
  Confidence,
  EntityType,
  HistoryEventKind,
  JobState,
  LegState,
  MemoryOrder,
  MemorySource,
  MemoryStatus,
  MemoryType,
  Origin,
  Outcome,
  PromptTemplate,
  ReviewDecision,
  Role,
  SearchScope,
  SecretHandling,
} from "./words.js";
