package com.hitherto.client;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The consistency tokens of the users whom this client has written for; safe with threads.
 *
 * <p>Tokens cannot be compared. Of writes that overlapped, the tokens of all are kept and sent together; a write that
 * began after another one ended has the token that covers both.
 */
final class OwnWrites {
  /** By the time that another user takes a place, a replica has long caught up with its token. */
  static final int MOST_USERS = 10_000;

  /** What a service takes in one request. */
  private static final int MOST_TOKENS = 16;

  // In the place of a user: writes for any one of them; writes for who knows how many.
  private static final Object ANY = new Object();
  private static final Object EVERY = new Object();

  private record Arrived(String token, int number) {}

  /** The user written for last is the last one. */
  private final Map<Object, List<Arrived>> byUser = new LinkedHashMap<>();

  private int arrivals;

  /** Says that a write begins; {@code note} takes what this returns. */
  synchronized int begin() {
    return arrivals;
  }

  /** Keeps the token of a write, for any number of users if the user is empty. It covers what had ended by then. */
  synchronized void note(String user, String token, int begun) {
    if (token.isEmpty()) {
      return;
    }
    arrivals++;
    for (Object name : List.of(user.isEmpty() ? EVERY : user, ANY)) {
      List<Arrived> kept = new ArrayList<>();
      List<Arrived> known = byUser.remove(name);
      if (known != null) {
        known.stream().filter(old -> old.number > begun && !old.token.equals(token)).forEach(kept::add);
      }
      kept.add(new Arrived(token, arrivals));
      byUser.put(name, List.copyOf(last(kept)));
    }
    Iterator<Object> oldest = byUser.keySet().iterator();
    while (byUser.size() > MOST_USERS) {
      oldest.next();
      oldest.remove();
    }
  }

  /** What a read of this user sends; for no user, what covers the reads of any. */
  synchronized String of(String user) {
    Set<String> found = new LinkedHashSet<>();
    for (Object name : user.isEmpty() ? List.of(ANY) : List.of(EVERY, user)) {
      byUser.getOrDefault(name, List.of()).forEach(arrived -> found.add(arrived.token));
    }
    return String.join(" ", last(new ArrayList<>(found)));
  }

  /** Forgets the tokens of a user, which the services no longer accept. */
  synchronized void drop(String user) {
    byUser.keySet().removeAll(List.of(user, EVERY, ANY));
  }

  synchronized int size() {
    return byUser.size();
  }

  private static <T> List<T> last(List<T> all) {
    return all.subList(Math.max(0, all.size() - MOST_TOKENS), all.size());
  }
}
