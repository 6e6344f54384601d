import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodClientStreaming,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type DescService,
  fromBinary,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Client, Metadata, status } from "@grpc/grpc-js";

import { type Called, HithertoError, readError } from "./errors.js";
import { deadlineAfter, defaultTimeoutMs, type RetryPolicy, waitBeforeRetry } from "./retry.js";
import { checkSendable } from "./sendable.js";
import type { Credential, Target } from "./settings.js";

/** What any call can be given. */
export interface CallOptions {
  /** Milliseconds for the call, retries included. */
  timeoutMs?: number;
  /** Aborting it cancels the call. */
  signal?: AbortSignal;
  /** Further metadata of the call, such as an `x-request-id` of your own. */
  headers?: Readonly<Record<string, string>>;
}

/** A generated service, as methods that return promises, or iterate for a stream of replies. */
export type Stub<S extends DescService> = {
  [M in keyof S["method"]]: S["method"][M] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageInitShape<I>, options?: CallOptions) => Promise<MessageShape<O>>
    : S["method"][M] extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageInitShape<I>, options?: CallOptions) => AsyncIterable<MessageShape<O>>
      : S["method"][M] extends DescMethodClientStreaming<infer I, infer O>
        ? (requests: AsyncIterable<MessageInitShape<I>>, options?: CallOptions) => Promise<MessageShape<O>>
        : never;
};

/** A connection to one service, whose calls get a deadline, the credential, ids, and safe retries. */
export class Endpoint {
  readonly address: string;
  readonly retry: RetryPolicy;
  readonly #client: Client;
  readonly #credential: Credential;
  readonly #timeoutMs: number | undefined;

  constructor(
    readonly service: "retrieval" | "extraction",
    target: Target,
  ) {
    this.address = target[service];
    this.retry = target.retry;
    this.#credential = target.credential;
    this.#timeoutMs = target.timeoutMs;
    this.#client = new Client(this.address, target.tls, {
      // A page of 1,000 long memories is larger than gRPC's default of 4 MiB.
      "grpc.max_receive_message_length": 64 * 1024 * 1024,
      // By default a channel waits up to two minutes before it looks for a restarted service.
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 1_000,
      // Another client of this process must not pass its failed connections on to us.
      "grpc.use_local_subchannel_pool": 1,
      // An HTTP proxy of the environment is meant for the outside world.
      ...(isLoopback(this.address) ? { "grpc.enable_http_proxy": 0 } : {}),
    });
  }

  close(): void {
    this.#client.close();
  }

  /** The methods of a service. */
  stub<S extends DescService>(service: S): Stub<S> {
    const made: Record<string, unknown> = {};
    for (const method of service.methods) {
      made[method.localName] = this.#caller(method);
    }
    return made as Stub<S>;
  }

  #caller(method: DescMethod): unknown {
    switch (method.methodKind) {
      case "unary":
        return async (request: MessageInitShape<DescMessage>, options: CallOptions = {}) =>
          this.unary(method as DescMethodUnary, create(method.input, request), options);
      case "server_streaming":
        return (request: MessageInitShape<DescMessage>, options: CallOptions = {}) =>
          this.#replies(method, create(method.input, request), options);
      case "client_streaming":
        return (requests: AsyncIterable<MessageInitShape<DescMessage>>, options: CallOptions = {}) =>
          this.#requests(method, requests, options);
      case "bidi_streaming":
        throw new TypeError(`${method.name} streams both ways, which no client of this package can do`);
    }
  }

  /** Makes a call with one request and one reply, again where that is safe. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    options: CallOptions,
  ): Promise<MessageShape<O>> {
    checkSendable(method.input, request);
    const reads = method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
    const sent = reads ? request : withIdempotencyKey(method.input, request);
    const repeatable = reads || Boolean((sent as { idempotencyKey?: string }).idempotencyKey);
    const { metadata, called } = await this.#complete(options);
    const deadline = deadlineAfter(options.timeoutMs ?? this.#timeoutMs ?? defaultTimeoutMs(method.name, reads));
    for (let failures = 1; ; failures += 1) {
      try {
        return (await this.#once(method, sent, metadata, deadline, options.signal)) as MessageShape<O>;
      } catch (raised) {
        const error = readError(raised, called);
        const wait = waitBeforeRetry(this.retry, error, failures, repeatable);
        if (wait === undefined || Date.now() + wait >= deadline) {
          throw error;
        }
        await pause(wait, options.signal, called);
      }
    }
  }

  #once(
    method: DescMethod,
    request: Message,
    metadata: Metadata,
    deadline: number,
    signal: AbortSignal | undefined,
  ): Promise<Message> {
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        ...wire(method),
        request,
        metadata,
        { deadline },
        (error, reply) => {
          forget();
          if (error) {
            reject(error);
          } else {
            resolve(reply as Message);
          }
        },
      );
      const forget = cancelOn(signal, call);
    });
  }

  async *#replies(method: DescMethod, request: Message, options: CallOptions): AsyncGenerator<Message> {
    checkSendable(method.input, request);
    const { metadata, called } = await this.#complete(options);
    const call = this.#client.makeServerStreamRequest(...wire(method), request, metadata, deadlineOf(options));
    const forget = cancelOn(options.signal, call);
    try {
      yield* call;
    } catch (raised) {
      throw readError(raised, called);
    } finally {
      forget();
      call.cancel();
    }
  }

  async #requests(
    method: DescMethod,
    requests: AsyncIterable<MessageInitShape<DescMessage>>,
    options: CallOptions,
  ): Promise<Message> {
    const { metadata, called } = await this.#complete(options);
    let ended: () => void = () => undefined;
    const over = new Promise<void>((resolve) => (ended = resolve));
    let isOver = false;
    const reply = new Promise<Message>((resolve, reject) => {
      const call = this.#client.makeClientStreamRequest(
        ...wire(method),
        metadata,
        deadlineOf(options),
        (error, answer) => {
          forget();
          isOver = true;
          ended();
          if (error) {
            reject(readError(error, called));
          } else {
            resolve(answer as Message);
          }
        },
      );
      const forget = cancelOn(options.signal, call);
      const send = async () => {
        for await (const request of requests) {
          if (isOver) {
            return;
          }
          const message = create(method.input, request);
          checkSendable(method.input, message);
          if (!call.write(message)) {
            await Promise.race([over, new Promise((resolve) => call.once("drain", resolve))]);
          }
        }
        call.end();
      };
      send().catch((failure: unknown) => {
        reject(failure);
        call.cancel();
      });
    });
    return reply;
  }

  /** The caller's metadata with what it lacks. */
  async #complete(options: CallOptions): Promise<{ metadata: Metadata; called: Called }> {
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      metadata.set(name, value);
    }
    const credential = metadata.get("authorization").length ? undefined : await this.#credential();
    if (credential) {
      metadata.set("authorization", `Bearer ${credential}`);
    }
    const requestId = String(metadata.get("x-request-id")[0] ?? randomUUID());
    metadata.set("x-request-id", requestId);
    const called = { service: this.service, address: this.address, requestId };
    if (options.signal?.aborted) {
      throw cancelled(called, options.signal);
    }
    return { metadata, called };
  }
}

/** The path of an RPC, and how its messages are written and read. */
function wire(method: DescMethod): [string, (message: Message) => Buffer, (bytes: Buffer) => Message] {
  return [
    `/${method.parent.typeName}/${method.name}`,
    (message) => Buffer.from(toBinary(method.input, message)),
    (bytes) => fromBinary(method.output, bytes),
  ];
}

/** A new key if the request has a field for one and none is set. */
function withIdempotencyKey(schema: DescMessage, request: Message): Message {
  const { idempotencyKey } = request as { idempotencyKey?: string };
  if (idempotencyKey !== "") {
    return request;
  }
  // A copy: the caller may send the same request again and mean a new call.
  return create(schema, { ...request, idempotencyKey: randomUUID() } as MessageInitShape<DescMessage>);
}

function deadlineOf(options: CallOptions): { deadline?: number } {
  return options.timeoutMs === undefined ? {} : { deadline: deadlineAfter(options.timeoutMs) };
}

/** Cancels the call when the signal is aborted, until the returned function is called. */
function cancelOn(signal: AbortSignal | undefined, call: { cancel(): void }): () => void {
  const cancel = () => call.cancel();
  signal?.addEventListener("abort", cancel, { once: true });
  if (signal?.aborted) {
    cancel();
  }
  return () => signal?.removeEventListener("abort", cancel);
}

/** Waits; a signal that is aborted meanwhile ends the call. */
export async function pause(milliseconds: number, signal: AbortSignal | undefined, called: Called): Promise<void> {
  try {
    await sleep(milliseconds, undefined, signal ? { signal } : {});
  } catch {
    throw cancelled(called, signal);
  }
}

function cancelled(called: Called, signal: AbortSignal | undefined): HithertoError {
  return new HithertoError(status.CANCELLED, "the caller cancelled the call", called, {}, signal?.reason);
}

function isLoopback(address: string): boolean {
  const host = address.slice(0, address.lastIndexOf(":")).replace(/^\[|\]$/g, "");
  return host === "localhost" || host === "::1" || host.startsWith("127.") || address.startsWith("unix:");
}
