export { Hitherto, type MessageInput, type TranscriptInput } from "./client.js";
export { HithertoError, type Violation } from "./errors.js";
export type { Jobs } from "./jobs.js";
export type { RetryPolicy } from "./retry.js";
export type { Settings } from "./settings.js";
export type { CallOptions, Stub } from "./stubs.js";
export type { OpenExport, TransferOptions } from "./user_data.js";
