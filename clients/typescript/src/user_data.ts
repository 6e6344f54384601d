import { createHash, randomUUID } from "node:crypto";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";

import type { MessageInitShape } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import { HithertoError } from "./errors.js";
import type { ExportManifest } from "./gen/hitherto/v1/privacy_pb.js";
import type {
  ImportUserRequestSchema,
  ImportUserResponse,
  PrivacyService,
} from "./gen/hitherto/v1/privacy_service_pb.js";
import type { ReadOwnWrites } from "./own_writes.js";
import { deadlineAfter, waitBeforeRetry } from "./retry.js";
import { type CallOptions, type Endpoint, pause, type Stub } from "./stubs.js";

/** An export or an import takes as long as there is to send. */
const LONGEST_MS = 3_600_000;
const PIECE_BYTES = 256 * 1024;

/** What an export or an import can be given; without `timeoutMs` it has an hour. */
export interface TransferOptions extends CallOptions {
  /** Called after every piece with the bytes that have been transferred. */
  onProgress?: (bytes: number) => void;
}

/** Opens the export from its start; called again if the call breaks off. */
export type OpenExport = () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Writes an export as it arrives, and checks it against its manifest. */
export async function receiveExport(
  privacy: Stub<typeof PrivacyService>,
  endpoint: Endpoint,
  own: ReadOwnWrites,
  userId: string,
  into: Writable,
  options: TransferOptions,
): Promise<ExportManifest> {
  let manifest: ExportManifest | undefined;
  async function* pieces(): AsyncGenerator<Uint8Array> {
    const digest = createHash("sha256");
    let size = 0;
    // Read up to the first reply, since a refused token is refused before any data.
    const { replies, first } = await own.read(userId, { userId }, async (request) => {
      const timeoutMs = options.timeoutMs ?? LONGEST_MS;
      const replies = privacy.exportUser(request, { ...options, timeoutMs })[Symbol.asyncIterator]();
      return { replies, first: await replies.next() };
    });
    try {
      for (let next = first; !next.done; next = await replies.next()) {
        const { part } = next.value;
        if (part.case === "data") {
          digest.update(part.value);
          size += part.value.length;
          yield part.value;
          options.onProgress?.(size);
        } else if (part.case === "manifest") {
          manifest = part.value;
        }
      }
    } finally {
      await replies.return?.();
    }
    if (manifest?.totalBytes !== BigInt(size) || manifest.sha256 !== digest.digest("hex")) {
      const told = `the export is incomplete or was changed on the way (${size} bytes came): ask for it again`;
      throw new HithertoError(status.DATA_LOSS, told, { ...endpoint, requestId: "" });
    }
  }
  await pipeline(pieces(), into);
  return manifest as unknown as ExportManifest;
}

/** Sends an export, from its start again if the call breaks off: what was stored already is skipped. */
export async function sendExport(
  privacy: Stub<typeof PrivacyService>,
  endpoint: Endpoint,
  userId: string,
  open: OpenExport,
  options: TransferOptions & { idempotencyKey?: string },
): Promise<ImportUserResponse> {
  const deadline = deadlineAfter(options.timeoutMs ?? LONGEST_MS);
  const idempotencyKey = options.idempotencyKey || randomUUID();
  async function* requests(): AsyncGenerator<MessageInitShape<typeof ImportUserRequestSchema>> {
    let sent = 0;
    for await (const given of open()) {
      for (let start = 0; start < given.length; start += PIECE_BYTES) {
        const data = given.subarray(start, start + PIECE_BYTES);
        yield { userId, data, idempotencyKey };
        sent += data.length;
        options.onProgress?.(sent);
      }
    }
    if (!sent) {
      yield { userId, idempotencyKey };
    }
  }
  for (let failures = 1; ; failures += 1) {
    const timeoutMs = Math.max(deadline - Date.now(), 1);
    try {
      return await privacy.importUser(requests(), { ...options, timeoutMs });
    } catch (error) {
      if (!(error instanceof HithertoError)) {
        throw error;
      }
      const wait = waitBeforeRetry(endpoint.retry, error, failures, true);
      if (wait === undefined || Date.now() + wait >= deadline) {
        throw error;
      }
      await pause(wait, options.signal, error);
    }
  }
}
