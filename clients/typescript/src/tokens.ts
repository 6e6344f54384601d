/** By the time that another user takes a place, a replica has long caught up with its token. */
export const MOST_USERS = 10_000;
/** What a service takes in one request. */
const MOST_TOKENS = 16;
/** In the place of a user: writes for any one of them; writes for who knows how many. */
const ANY = Symbol("any");
const EVERY = Symbol("every");

/**
 * The consistency tokens of the users whom this client has written for.
 *
 * Tokens cannot be compared. Of writes that overlapped, the tokens of all are kept and sent together; a write that
 * began after another one ended has the token that covers both.
 */
export class OwnWrites {
  /** Each token with the number of its arrival; the user written for last is the last one. */
  readonly #tokens = new Map<string | symbol, Map<string, number>>();
  #arrivals = 0;

  /** Says that a write begins; `note` takes what this returns. */
  begin(): number {
    return this.#arrivals;
  }

  /** Keeps the token of a write, for any number of users if `user` is empty. It covers what had ended by `begun`. */
  note(user: string, token: string, begun = 0): void {
    if (!token) {
      return;
    }
    this.#arrivals += 1;
    for (const name of [user || EVERY, ANY]) {
      const kept = [...(this.#tokens.get(name) ?? [])].filter(([old, at]) => at > begun && old !== token);
      kept.push([token, this.#arrivals]);
      this.#tokens.delete(name);
      this.#tokens.set(name, new Map(kept.slice(-MOST_TOKENS)));
    }
    for (const name of this.#tokens.keys()) {
      if (this.#tokens.size <= MOST_USERS) {
        break;
      }
      this.#tokens.delete(name);
    }
  }

  /** What a read of this user sends; for no user, what covers the reads of any. */
  of(user: string): string {
    const names = user ? [EVERY, user] : [ANY];
    const found = new Set(names.flatMap((name) => [...(this.#tokens.get(name)?.keys() ?? [])]));
    return [...found].slice(-MOST_TOKENS).join(" ");
  }

  /** Forgets the tokens of a user, which the services no longer accept. */
  drop(user: string): void {
    for (const name of [user, EVERY, ANY]) {
      this.#tokens.delete(name);
    }
  }

  /** The number of users whose tokens are kept, the two places for many counted as one each. */
  get size(): number {
    return this.#tokens.size;
  }
}
