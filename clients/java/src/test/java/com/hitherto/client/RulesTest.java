package com.hitherto.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;
import static org.junit.jupiter.api.Assertions.fail;

import com.google.gson.Gson;
import com.hitherto.v1.ExtractionServiceGrpc;
import com.hitherto.v1.MemoryServiceGrpc;
import com.hitherto.v1.RetrievalServiceGrpc;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** What the clients in every language obey. */
class RulesTest {
  private static final class Rules {
    Retry retry;
    List<Deadline> deadlines;
    List<Wait> waits;
    List<Refusal> refusals;
    List<Tokens> tokens;
  }

  private static final class Retry {
    int attempts;
    double first_wait;
    double longest_wait;
  }

  private static final class Deadline {
    String method;
    double seconds;
  }

  private static final class Wait {
    String name;
    String code;
    String reason;
    Double retry_after;
    int failures;
    boolean repeatable;
    int attempts;
    double[] wait;
  }

  private static final class Refusal {
    String name;
    String code;
    String message;
    String reason;
  }

  private static final class Tokens {
    String name;
    List<Map<String, Object>> steps;
  }

  private static final Rules RULES = readRules();

  private static Rules readRules() {
    try {
      return new Gson().fromJson(Files.readString(Path.of("..", "rules.json")), Rules.class);
    } catch (IOException missing) {
      throw new IllegalStateException(missing);
    }
  }

  private static Duration seconds(double seconds) {
    return Duration.ofNanos(Math.round(seconds * 1e9));
  }

  @TestFactory
  Stream<DynamicTest> refusalsOfGrpc() {
    return RULES.refusals.stream()
        .map(
            given ->
                dynamicTest(
                    given.name,
                    () -> {
                      var status = Status.Code.valueOf(given.code).toStatus().withDescription(given.message);
                      var read = new HithertoException(status, new Metadata(), null);
                      assertEquals(given.reason, read.reason());
                    }));
  }

  @Test
  void theDefaultPolicy() {
    Retry given = RULES.retry;
    var policy = new RetryPolicy(given.attempts, seconds(given.first_wait), seconds(given.longest_wait));
    assertEquals(policy, RetryPolicy.DEFAULT);
  }

  @TestFactory
  Stream<DynamicTest> waits() {
    return RULES.waits.stream().map(given -> dynamicTest(given.name, () -> checkWait(given)));
  }

  private static void checkWait(Wait given) {
    Status.Code code = Status.Code.valueOf(given.code);
    Duration retryAfter = given.retry_after == null ? null : seconds(given.retry_after);
    Metadata trailers = Scripted.trailers(code, given.reason, retryAfter);
    var failed = new HithertoException(code.toStatus().withDescription(Scripted.DESCRIPTION), trailers, null);
    assertEquals(given.reason, failed.reason());
    var policy = new RetryPolicy(given.attempts, RetryPolicy.DEFAULT.firstWait(), RetryPolicy.DEFAULT.longestWait());
    var wait = policy.waitBeforeRetry(failed, given.failures, given.repeatable);
    assertEquals(given.wait != null, wait.isPresent());
    wait.ifPresent(
        found ->
            assertTrue(
                found.compareTo(seconds(given.wait[0])) >= 0 && found.compareTo(seconds(given.wait[1])) <= 0,
                () -> "it waits " + found));
  }

  @Test
  void deadlines() {
    Map<String, MethodDescriptor<?, ?>> methods =
        Stream.of(
                ExtractionServiceGrpc.getServiceDescriptor(),
                MemoryServiceGrpc.getServiceDescriptor(),
                RetrievalServiceGrpc.getServiceDescriptor())
            .flatMap(service -> service.getMethods().stream())
            .collect(Collectors.toMap(method -> "/" + method.getFullMethodName(), method -> method));
    for (Deadline given : RULES.deadlines) {
      var method = methods.get(given.method);
      boolean reads = method != null && Requests.changesNothing(method);
      assertEquals(seconds(given.seconds), Requests.defaultTimeout(given.method, reads), given.method);
    }
  }

  @TestFactory
  Stream<DynamicTest> tokens() {
    return RULES.tokens.stream().map(given -> dynamicTest(given.name, () -> checkTokens(given)));
  }

  private static void checkTokens(Tokens given) {
    OwnWrites kept = new OwnWrites();
    Map<Object, Integer> begun = new HashMap<>();
    for (Map<String, Object> step : given.steps) {
      String user = (String) step.get("user");
      switch ((String) step.get("do")) {
        case "begin" -> begun.put(step.get("as"), kept.begin());
        case "note" ->
            ((List<?>) step.get("tokens"))
                .forEach(token -> kept.note(user, (String) token, begun.getOrDefault(step.get("begun"), 0)));
        case "drop" -> kept.drop(user);
        case "read" -> assertEquals(step.get("sends"), kept.of(user));
        default -> fail("unknown step " + step);
      }
    }
  }

  @Test
  void tokensOfTheUsersWrittenForLast() {
    OwnWrites kept = new OwnWrites();
    for (int user = 0; user < OwnWrites.MOST_USERS + 5; user++) {
      kept.note("user " + user, "t", 0);
    }
    assertEquals(OwnWrites.MOST_USERS, kept.size());
    assertEquals("", kept.of("user 0"));
    assertEquals("t", kept.of("user " + OwnWrites.MOST_USERS));
    assertNotNull(RULES.tokens);
  }
}
