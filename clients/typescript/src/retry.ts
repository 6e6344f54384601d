import { status } from "@grpc/grpc-js";

import type { HithertoError } from "./errors.js";

/**
 * When failed calls are made again, always within the deadline of the call.
 *
 * An error with RetryInfo is repeated until the deadline, after the time that the service names. One without, as when
 * a connection breaks, is repeated `attempts` times at most, and only if the call reads or carries an idempotency key.
 * An error in which the service gives a reason and no RetryInfo is final.
 */
export interface RetryPolicy {
  /** How often a call is made at most, the first time included; 1 switches retries off. */
  attempts: number;
  /** Milliseconds before the second attempt; doubled for each one after that. */
  firstWaitMs: number;
  /** Milliseconds that the wait grows to at most; RetryInfo may name a longer one. */
  longestWaitMs: number;
}

/** The policy of a client that is given none. */
export const DEFAULT_RETRY: Readonly<RetryPolicy> = { attempts: 4, firstWaitMs: 200, longestWaitMs: 5_000 };

const READ_MS = 10_000;
const WRITE_MS = 30_000;
/** For PreviewExtraction, which asks a language model. */
const MODEL_MS = 75_000;
/** What a timer can wait for. */
const LONGEST_MS = 2 ** 31 - 1;

const RETRYABLE = new Set([
  status.UNAVAILABLE,
  status.RESOURCE_EXHAUSTED,
  status.ABORTED,
  // gRPC itself drops a call that reaches a process which has just begun to stop. If the caller cancelled, the wait
  // before the next attempt ends at once.
  status.CANCELLED,
]);

/** Milliseconds before the next attempt after so many failures; undefined if there should be none. */
export function waitBeforeRetry(
  policy: RetryPolicy,
  error: Pick<HithertoError, "code" | "reason" | "retryAfterMs">,
  failures: number,
  repeatable: boolean,
): number | undefined {
  if (!RETRYABLE.has(error.code) || policy.attempts <= 1) {
    return undefined;
  }
  const backoff = Math.min(policy.longestWaitMs, policy.firstWaitMs * 2 ** Math.min(failures - 1, 30));
  // Clients that failed together should not come back together.
  const wait = backoff * (0.75 + Math.random() / 2);
  if (error.retryAfterMs !== undefined) {
    return Math.max(error.retryAfterMs, wait);
  }
  return error.reason || !repeatable || failures >= policy.attempts ? undefined : wait;
}

/** The deadline in milliseconds of a call to the RPC of this name, unless the caller has set one. */
export function defaultTimeoutMs(method: string, reads: boolean): number {
  if (method === "PreviewExtraction") {
    return MODEL_MS;
  }
  return reads ? READ_MS : WRITE_MS;
}

/** When a call with this time must have ended; no time beyond 24 days is a limit. */
export function deadlineAfter(timeoutMs: number): number {
  // gRPC would throw where nobody can catch it, which ends the process.
  if (typeof timeoutMs !== "number" || Number.isNaN(timeoutMs)) {
    throw new TypeError(`timeoutMs should be a number of milliseconds, and is ${String(timeoutMs)}`);
  }
  return timeoutMs > LONGEST_MS ? Infinity : Date.now() + timeoutMs;
}
