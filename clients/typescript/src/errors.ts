import { fromBinary } from "@bufbuild/protobuf";
import { type ServiceError, status } from "@grpc/grpc-js";

import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
  StatusSchema,
} from "./gen/hitherto_client/details_pb.js";

/** The domain of every ErrorInfo that the services themselves give. */
const DOMAIN = "hitherto";
/** What gRPC's own refusal of a message that is too large says, which has no details. */
const OWN_LIMIT = "larger than max";

/** One invalid field of a request. */
export interface Violation {
  /** Its path in the request, such as `transcripts[3].messages[0].content`. */
  field: string;
  /** What is wrong with it and what would be right. */
  description: string;
}

/** Which call it was that failed. */
export interface Called {
  /** Which service was called. */
  service: "retrieval" | "extraction";
  /** The address at which it was called. */
  address: string;
  /** The `x-request-id` under which the service logged the call. */
  requestId: string;
}

/** A call failed for good, after retries where these could help. */
export class HithertoError extends Error implements Called {
  override readonly name = "HithertoError";
  /** The gRPC status code. */
  readonly code: status;
  /** The service's own words, or gRPC's where the call did not reach it. */
  readonly details: string;
  /** An ErrorReason without its prefix, such as `USER_ERASED`; empty if the error did not come from the services. */
  readonly reason: string;
  /** What the reason is about; see the example at each ErrorReason. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  /** Milliseconds after which the service suggests another try; undefined if it suggests none. */
  readonly retryAfterMs: number | undefined;
  readonly service: Called["service"];
  readonly address: string;
  readonly requestId: string;

  constructor(code: status, details: string, called: Called, told: Told = {}, cause?: unknown) {
    const named = new Set([status[code], told.reason].filter(Boolean));
    const lines = [`${[...named].join(" ")}: ${details}`];
    // The details name the first violation.
    const invalid = (told.violations ?? []).map(({ field, description }) => `${field}: ${description}`);
    lines.push(...invalid.filter((one) => !details.includes(one)));
    // What has no id is no failed call: a service that answered has ended a stream.
    if (code === status.UNAVAILABLE && !told.reason && called.requestId) {
      lines.push(
        `The ${called.service} service cannot be reached at ${called.address}: start it with \`hitherto up\`, ` +
          `or check HITHERTO_${called.service.toUpperCase()}_ADDRESS and, for TLS, HITHERTO_TLS_CA_FILE`,
      );
    }
    super(lines.join("\n"), { cause });
    this.code = code;
    this.details = details;
    this.reason = told.reason ?? "";
    this.metadata = told.metadata ?? {};
    this.violations = told.violations ?? [];
    this.retryAfterMs = told.retryAfterMs;
    this.service = called.service;
    this.address = called.address;
    this.requestId = called.requestId;
  }
}

interface Told {
  reason?: string;
  metadata?: Record<string, string>;
  violations?: Violation[];
  retryAfterMs?: number;
}

/** The typed error behind a failed gRPC call. */
export function readError(raised: unknown, called: Called): HithertoError {
  if (raised instanceof HithertoError) {
    return raised;
  }
  const { code, details, metadata } = raised as Partial<ServiceError>;
  if (code === undefined) {
    throw raised;
  }
  const packed = metadata?.get("grpc-status-details-bin")[0];
  let told: Told = {};
  if (packed instanceof Uint8Array) {
    told = readDetails(packed, code, details ?? "");
  } else if (code === status.RESOURCE_EXHAUSTED && details?.includes(OWN_LIMIT)) {
    told.reason = "REQUEST_TOO_LARGE";
  }
  return new HithertoError(code, details ?? "", called, told, raised);
}

function readDetails(packed: Uint8Array, code: status, message: string): Told {
  const told: Told = {};
  try {
    const read = fromBinary(StatusSchema, packed);
    // Details that contradict the status were not written by our services.
    if (read.code !== code || read.message !== message) {
      return {};
    }
    for (const { typeUrl, value } of read.details) {
      switch (typeUrl.slice(typeUrl.lastIndexOf("/") + 1)) {
        case "google.rpc.ErrorInfo": {
          const { domain, reason, metadata } = fromBinary(ErrorInfoSchema, value);
          if (domain === DOMAIN) {
            told.reason = reason;
            told.metadata = metadata;
          }
          break;
        }
        case "google.rpc.BadRequest":
          told.violations = fromBinary(BadRequestSchema, value).fieldViolations.map(({ field, description }) => ({
            field,
            description,
          }));
          break;
        case "google.rpc.RetryInfo": {
          const { retryDelay } = fromBinary(RetryInfoSchema, value);
          told.retryAfterMs = Math.max(0, Number(retryDelay?.seconds ?? 0) * 1000 + (retryDelay?.nanos ?? 0) / 1e6);
          break;
        }
      }
    }
  } catch {
    return {};
  }
  return told;
}
