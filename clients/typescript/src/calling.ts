import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";

import { HithertoError } from "./errors.js";
import { RetrievalService } from "./gen/hitherto/v1/retrieval_service_pb.js";
import { ReadOwnWrites } from "./own_writes.js";
import { changedPaths, fromPlain, type PlainMessage, toPlain } from "./plain.js";
import type { CallOptions, Endpoint } from "./stubs.js";

type Reply<O extends DescMessage> = PlainMessage<MessageShape<O>>;

/** What callers give that is no field of the request by that name. */
const OPTIONS = new Set(["timeoutMs", "signal", "headers", "conversation"]);

/** How the client's methods call: requests from plain values, reads that see own writes, plain replies. */
export class Calling {
  readonly own = new ReadOwnWrites();

  constructor(
    readonly reads: Endpoint,
    readonly writes: Endpoint,
  ) {}

  /**
   * Calls an RPC about a user; for a read without one, `user` is empty. `given` has the fields of the request and the
   * options of the call by name.
   */
  async call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    user: string,
    given: object,
  ): Promise<Reply<O>> {
    return toPlain(method.output, await this.answer(method, [user], { ...given, ...(user ? { userId: user } : {}) }));
  }

  /** Calls an RPC that changes some fields of a message, and sends which ones. */
  change<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    user: string,
    changed: string,
    given: object,
    byKey = false,
  ): Promise<Reply<O>> {
    const { clear = [], ...named } = given as { clear?: readonly string[] };
    const isOfRequest = ([name]: [string, unknown]) => name in method.input.field || OPTIONS.has(name);
    const fields = Object.entries(named);
    const changes = Object.fromEntries(fields.filter((field) => !isOfRequest(field)));
    const schema = method.input.field[changed]?.message as DescMessage;
    return this.call(method, user, {
      ...Object.fromEntries(fields.filter(isOfRequest)),
      [changed]: changes,
      updateMask: { paths: changedPaths(schema, changes, clear, byKey) },
    });
  }

  /** As `call`, for reads of one thing: undefined if there is none. */
  async find<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    user: string,
    given: object,
  ): Promise<Reply<O> | undefined> {
    try {
      return await this.call(method, user, given);
    } catch (error) {
      if (error instanceof HithertoError && error.code === status.NOT_FOUND && error.reason) {
        return undefined;
      }
      throw error;
    }
  }

  /** The pages of a list. */
  async *pages<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    user: string,
    given: object,
  ): AsyncGenerator<Reply<O>, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.call(method, user, { ...given, pageToken });
      yield page;
      pageToken = (page as { nextPageToken?: string }).nextPageToken ?? "";
    } while (pageToken);
  }

  /** Makes a call, whose reply is a message; later reads of the users include what it writes. */
  async answer<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    users: readonly string[],
    given: object,
  ): Promise<MessageShape<O>> {
    const { timeoutMs, signal, headers, conversation, ...fields } = given as CallOptions & { conversation?: string };
    const options = { timeoutMs, signal, headers } as CallOptions;
    const named = conversation === undefined ? fields : { ...fields, conversationId: conversation };
    const request = fromPlain(method.input, named);
    const endpoint = method.parent.typeName === RetrievalService.typeName ? this.reads : this.writes;
    if (method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS) {
      return this.own.read(users[0] ?? "", request, (asked) => endpoint.unary(method, asked, options));
    }
    // Every reply of a write has a token.
    const write = () => endpoint.unary(method, request, options) as Promise<MessageShape<O> & { consistencyToken: string }>;
    return this.own.write(users, write);
  }
}
