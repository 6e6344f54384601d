import { toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import { HithertoError } from "./errors.js";
import { ExtractionService } from "./gen/hitherto/v1/extraction_service_pb.js";
import { type Job as JobMessage, JobSchema, JobState } from "./gen/hitherto/v1/job_pb.js";
import type { Calling } from "./calling.js";
import { toPlain } from "./plain.js";
import type { Job } from "./results.js";
import { deadlineAfter, waitBeforeRetry } from "./retry.js";
import { type CallOptions, type Endpoint, pause, type Stub } from "./stubs.js";

const FINAL = new Set([JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED]);
/** A stream is opened anew after this time, so that a connection that died silently is noticed. */
const SLICE_MS = 30_000;
/** How long a service that has answered before may stay away, as during a restart. */
const PATIENCE_MS = 60_000;

/** The work in the background. Jobs may be named by their id or by the Job that a call returned. */
export class Jobs {
  readonly #calls: Calling;
  readonly #endpoint: Endpoint;
  readonly #extraction: Stub<typeof ExtractionService>;

  constructor(calls: Calling) {
    this.#calls = calls;
    this.#endpoint = calls.writes;
    this.#extraction = calls.writes.stub(ExtractionService);
  }

  /** The job as it is now. */
  async get(job: Job | string, options: CallOptions = {}): Promise<Job> {
    const given = { ...options, jobId: idOf(job) };
    const reply = await this.#calls.answer(ExtractionService.method.getJob, [], given);
    return toPlain(JobSchema, this.#heardOf(reply.job as JobMessage));
  }

  /**
   * Waits until a job is final, and returns it; reads then include what it learnt. A job that did not succeed is
   * returned as well: see its `state` and `error`. Without `timeoutMs` there is no limit.
   */
  async wait(job: Job | string, options: CallOptions = {}): Promise<Job> {
    let last: Job | undefined;
    for await (const state of this.watch(job, options)) {
      last = state;
    }
    // Watching ends with a final state or an error.
    return last as Job;
  }

  /**
   * The job now and after every change, the final one last. An interrupted stream is opened again, for example after
   * a restart of the service.
   */
  async *watch(job: Job | string, options: CallOptions = {}): AsyncGenerator<Job, void, undefined> {
    const jobId = idOf(job);
    const deadline = options.timeoutMs === undefined ? Infinity : deadlineAfter(options.timeoutMs);
    let last: Buffer | undefined;
    let failures = 0;
    let heard = Date.now();
    for (;;) {
      const timeoutMs = Math.min(SLICE_MS, Math.max(deadline - Date.now(), 1));
      let error: HithertoError;
      try {
        for await (const reply of this.#extraction.watchJob({ jobId }, { ...options, timeoutMs })) {
          [failures, heard] = [0, Date.now()];
          const state = this.#heardOf(reply.job as JobMessage);
          const bytes = Buffer.from(toBinary(JobSchema, state));
          if (!last?.equals(bytes)) {
            last = bytes;
            yield toPlain(JobSchema, state);
          }
          if (FINAL.has(state.state)) {
            return;
          }
        }
        error = new HithertoError(status.UNAVAILABLE, "the service ended the stream before the job was final", {
          ...this.#endpoint,
          requestId: "",
        });
      } catch (raised) {
        if (!(raised instanceof HithertoError)) {
          throw raised;
        }
        error = raised;
      }
      const now = Date.now();
      if (error.code === status.DEADLINE_EXCEEDED && now < deadline && now - heard <= SLICE_MS + PATIENCE_MS) {
        continue;
      }
      failures += 1;
      let wait = waitBeforeRetry(this.#endpoint.retry, error, failures, true);
      if (wait === undefined && last && error.code === status.UNAVAILABLE && now - heard < PATIENCE_MS) {
        wait = this.#endpoint.retry.longestWaitMs;
      }
      if (wait === undefined || now + wait >= deadline) {
        throw error;
      }
      await pause(wait, options.signal, error);
    }
  }

  /** The job; if it has ended, reads of its user include what it did. */
  #heardOf(job: JobMessage): JobMessage {
    this.#calls.own.tokens.note(job.userId, job.consistencyToken);
    return job;
  }
}

function idOf(job: Job | string): string {
  return typeof job === "string" ? job : job.id;
}
