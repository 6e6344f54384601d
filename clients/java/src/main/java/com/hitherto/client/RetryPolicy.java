package com.hitherto.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/**
 * When failed calls are made again, always within the deadline of the call.
 *
 * <p>An error with RetryInfo is repeated until the deadline, after the time that the service names. One without, as when
 * a connection breaks, is repeated {@code attempts} times at most, and only if the call reads or carries an idempotency
 * key. An error in which the service gives a reason and no RetryInfo is final.
 *
 * @param attempts how often a call is made at most, the first time included; 1 switches retries off
 * @param firstWait the time before the second attempt; doubled for each one after that
 * @param longestWait what the wait grows to at most; RetryInfo may name a longer one
 */
public record RetryPolicy(int attempts, Duration firstWait, Duration longestWait) {
  /** The policy of a client that is given none. */
  public static final RetryPolicy DEFAULT = new RetryPolicy(4, Duration.ofMillis(200), Duration.ofSeconds(5));

  /** CANCELLED: gRPC itself drops a call that reaches a process which has just begun to stop. */
  private static final Set<Status.Code> RETRYABLE =
      EnumSet.of(
          Status.Code.UNAVAILABLE, Status.Code.RESOURCE_EXHAUSTED, Status.Code.ABORTED, Status.Code.CANCELLED);

  /** The same with as many attempts as the deadline allows, unless retries are off. */
  RetryPolicy withoutEnd() {
    return attempts > 1 ? new RetryPolicy(Integer.MAX_VALUE, firstWait, longestWait) : this;
  }

  /** The time before the next attempt after so many failures; empty if there should be none. */
  Optional<Duration> waitBeforeRetry(HithertoException failed, int failures, boolean repeatable) {
    if (!RETRYABLE.contains(failed.code()) || attempts <= 1) {
      return Optional.empty();
    }
    double backoff = Math.min(firstWait.toNanos() * Math.pow(2, Math.min(failures - 1, 30)), longestWait.toNanos());
    // Clients that failed together should not come back together.
    Duration wait = Duration.ofNanos((long) (backoff * ThreadLocalRandom.current().nextDouble(0.75, 1.25)));
    if (failed.retryAfter().isPresent()) {
      Duration told = failed.retryAfter().get();
      return Optional.of(told.compareTo(wait) > 0 ? told : wait);
    }
    return failed.reason().isEmpty() && repeatable && failures < attempts ? Optional.of(wait) : Optional.empty();
  }
}
