import { HithertoError } from "./errors.js";
import { OwnWrites } from "./tokens.js";

/** Makes calls so that a client's reads of a user include its own earlier writes. */
export class ReadOwnWrites {
  readonly tokens = new OwnWrites();

  /** Makes a call that reads. */
  async read<Q extends object, A>(
    user: string,
    request: Q,
    call: (request: Q & { consistencyToken: string }) => Promise<A>,
  ): Promise<A> {
    const consistencyToken = this.tokens.of(user);
    try {
      return await call({ ...request, consistencyToken });
    } catch (error) {
      const refused = error instanceof HithertoError && error.reason === "INVALID_CONSISTENCY_TOKEN";
      if (!consistencyToken || !refused) {
        throw error;
      }
    }
    // It was made with a secret that the services no longer have.
    this.tokens.drop(user);
    return call({ ...request, consistencyToken: "" });
  }

  /** Makes a call that later reads of the users include. */
  async write<A extends { consistencyToken: string }>(users: Iterable<string>, call: () => Promise<A>): Promise<A> {
    const begun = this.tokens.begin();
    const reply = await call();
    for (const user of new Set(users)) {
      this.tokens.note(user, reply.consistencyToken, begun);
    }
    return reply;
  }
}
