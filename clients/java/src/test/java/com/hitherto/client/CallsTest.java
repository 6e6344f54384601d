package com.hitherto.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import com.hitherto.v1.GetContextRequest;
import com.hitherto.v1.JobState;
import com.hitherto.v1.MemoryServiceGrpc;
import com.hitherto.v1.SaveMemoryRequest;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class CallsTest {
  private static final Metadata.Key<String> AUTHORIZATION = HithertoException.key("authorization");

  private Scripted server;
  private Hitherto client;

  @BeforeEach
  void start() throws Exception {
    server = new Scripted();
    client = server.client().build();
  }

  @AfterEach
  void stop() throws Exception {
    client.close();
    server.close();
  }

  private void connect(ClientBuilder builder) {
    client.close();
    client = builder.build();
  }

  private static HithertoException failsWith(Status.Code code, Executable call) {
    HithertoException failed = assertThrows(HithertoException.class, call);
    assertEquals(code, failed.code(), failed::getMessage);
    return failed;
  }

  @Test
  void aWriteIsRepeatedWithItsKey() {
    server.fails(Scripted.GONE, Scripted.GONE, Scripted.GONE);
    client.saveMemory("ana", "Ana lives in Porto.");
    var keys = server.saved.stream().map(SaveMemoryRequest::getIdempotencyKey).collect(Collectors.toSet());
    var ids = server.metadata.stream().map(sent -> sent.get(HithertoException.REQUEST_ID)).collect(Collectors.toSet());
    assertEquals(4, server.saved.size());
    assertEquals(1, keys.size());
    assertFalse(keys.contains(""));
    assertEquals(1, ids.size());
    // A second call is another one.
    client.saveMemory("ana", "Ana lives in Porto.");
    assertFalse(keys.contains(server.saved.get(4).getIdempotencyKey()));
  }

  @Test
  void aGivenKeyIsKept() {
    client.saveMemory("ana", "x", request -> request.setIdempotencyKey("mine"));
    assertEquals("mine", server.saved.get(0).getIdempotencyKey());
  }

  @Test
  void attemptsEnd() {
    server.fails(Scripted.GONE, Scripted.GONE, Scripted.GONE, Scripted.GONE, Scripted.GONE);
    failsWith(Status.Code.UNAVAILABLE, () -> client.saveMemory("ana", "x"));
    assertEquals(4, server.saved.size());
  }

  @Test
  void onlyAServiceThatIsNotReachedIsToBeStarted() {
    var once = new RetryPolicy(1, Duration.ZERO, Duration.ZERO);
    Executable save = () -> client.saveMemory("ana", "x");
    connect(server.client().extraction("127.0.0.1:1").retry(once));
    String told =
        "The extraction service cannot be reached at 127.0.0.1:1: start it with `hitherto up`, or check"
            + " HITHERTO_EXTRACTION_ADDRESS and, for TLS, HITHERTO_TLS_CA_FILE";
    var unreached = failsWith(Status.Code.UNAVAILABLE, save);
    assertTrue(unreached.getMessage().contains(told), unreached::getMessage);
    connect(server.client().retry(once));
    server.fails(Scripted.failing(Status.Code.UNAVAILABLE, "DATABASE_UNAVAILABLE", null));
    server.watched.add(List.of());
    for (Executable call : List.of(save, () -> client.jobs().await("job-1"))) {
      var failed = failsWith(Status.Code.UNAVAILABLE, call);
      assertFalse(failed.getMessage().contains("cannot be reached"), failed::getMessage);
    }
  }

  @Test
  void retryInfoIsObeyed() {
    Duration delay = Duration.ofMillis(150);
    for (int i = 0; i < 5; i++) {
      server.fails(Scripted.failing(Status.Code.RESOURCE_EXHAUSTED, "RATE_LIMITED", delay));
    }
    client.getContext("ana", "x");
    assertEquals(6, server.at.size());
    for (int i = 0; i < 5; i++) {
      long waited = server.at.get(i + 1) - server.at.get(i);
      assertTrue(waited >= delay.toNanos(), "attempt " + (i + 2) + " came after " + waited + " ns");
    }
  }

  @Test
  void aWaitThatExceedsTheDeadlineIsNotBegun() {
    server.fails(Scripted.failing(Status.Code.RESOURCE_EXHAUSTED, "RATE_LIMITED", Duration.ofHours(1)));
    var failed = failsWith(Status.Code.RESOURCE_EXHAUSTED, () -> client.getContext("ana", "x"));
    assertEquals(1, server.at.size());
    assertEquals(Duration.ofHours(1), failed.retryAfter().orElseThrow());
    assertEquals("RATE_LIMITED", failed.reason());
    assertEquals("9", failed.metadata().get("limit"));
    assertEquals("retrieval", failed.service());
    assertEquals(server.address(), failed.address());
    assertEquals(server.metadata.get(0).get(HithertoException.REQUEST_ID), failed.requestId());
  }

  @Test
  void aReasonWithoutRetryInfoIsFinal() {
    server.fails(Scripted.failing(Status.Code.ABORTED, "VERSION_MISMATCH", null));
    var failed = failsWith(Status.Code.ABORTED, () -> client.saveMemory("ana", "x"));
    assertEquals("VERSION_MISMATCH", failed.reason());
    assertEquals(1, server.saved.size());
  }

  @Test
  void aDeadlineEndsTheCall() {
    server.hangs = true;
    connect(server.client().timeout(Duration.ofMillis(200)));
    failsWith(Status.Code.DEADLINE_EXCEEDED, () -> client.getContext("ana", "x"));
    failsWith(
        Status.Code.DEADLINE_EXCEEDED, () -> client.within(Duration.ofMillis(100)).saveMemory("ana", "x"));
  }

  @Test
  void aTimeBeyondAllClocksIsNoLimit() throws Exception {
    Duration forever = ChronoUnit.FOREVER.getDuration();
    connect(server.client().timeout(forever));
    client.getContext("ana", "x");
    server.watched.add(List.of(JobState.JOB_STATE_SUCCEEDED));
    client.within(forever).jobs().await("job-1");
    client.within(forever).importUser("ana", Files.createTempFile("export", ".jsonl"));
    failsWith(
        Status.Code.DEADLINE_EXCEEDED, () -> client.within(forever.negated()).getContext("ana", "x"));
  }

  @Test
  void aCallCanBeCancelledWhileItWaits() throws Exception {
    server.fails(Scripted.failing(Status.Code.RESOURCE_EXHAUSTED, "RATE_LIMITED", Duration.ofSeconds(20)));
    CountDownLatch called = new CountDownLatch(1);
    server.onCall = called::countDown;
    var request = SaveMemoryRequest.newBuilder().setUserId("ana").setContent("x").build();
    var reply = MemoryServiceGrpc.newFutureStub(client.extractionChannel()).saveMemory(request);
    called.await();
    assertTrue(reply.cancel(true));
    assertThrows(CancellationException.class, reply::get);
    assertEquals(1, server.saved.size());
  }

  @Test
  void aCancelledContextEndsALaterAttempt() {
    server.fails(Scripted.GONE);
    var context = Context.current().withCancellation();
    server.onCall =
        () -> {
          if (server.at.size() == 2) {
            server.hangs = true;
            context.cancel(null);
          }
        };
    long begun = System.nanoTime();
    context.run(() -> failsWith(Status.Code.CANCELLED, () -> client.saveMemory("ana", "x")));
    assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(20));
  }

  @Test
  void anInterruptedCallEnds() {
    server.hangs = true;
    Thread caller = Thread.currentThread();
    server.onCall = caller::interrupt;
    failsWith(Status.Code.CANCELLED, () -> client.saveMemory("ana", "x"));
    assertTrue(Thread.interrupted());
  }

  @Test
  void anInterruptedWaitEnds() {
    server.fails(Scripted.failing(Status.Code.RESOURCE_EXHAUSTED, "RATE_LIMITED", Duration.ofSeconds(50)));
    Thread caller = Thread.currentThread();
    // Most often after the reply; it has to end at once before it, too.
    Executor later = CompletableFuture.delayedExecutor(300, TimeUnit.MILLISECONDS);
    server.onCall = () -> later.execute(caller::interrupt);
    Hitherto patient = client.within(Duration.ofMinutes(1));
    long begun = System.nanoTime();
    failsWith(Status.Code.CANCELLED, () -> patient.saveMemory("ana", "x"));
    assertTrue(Thread.interrupted());
    assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(40));
  }

  /** Runs a call beside the test, which waits for its failure. */
  private static Status.Code failsBeside(Executable call, Runnable meanwhile) {
    var running =
        CompletableFuture.supplyAsync(
            () -> assertThrows(HithertoException.class, call), task -> daemon(task).start());
    meanwhile.run();
    var failed = assertTimeoutPreemptively(Duration.ofSeconds(20), () -> running.get());
    assertFalse(failed.getMessage().contains("cannot be reached"), failed::getMessage);
    return failed.code();
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    }
  }

  @Test
  void closingEndsARunningCall() {
    server.hangs = true;
    CountDownLatch called = new CountDownLatch(1);
    server.onCall = called::countDown;
    Runnable close =
        () -> {
          await(called);
          client.close();
        };
    assertEquals(Status.Code.UNAVAILABLE, failsBeside(() -> client.saveMemory("ana", "x"), close));
  }

  @Test
  void closingEndsAWaitForTheNextAttempt() {
    // Mostly after the reply, and mostly before it, when the reply may still be what is told.
    for (int lag : List.of(300, 0)) {
      server.fails(Scripted.failing(Status.Code.RESOURCE_EXHAUSTED, "RATE_LIMITED", Duration.ofSeconds(50)));
      CountDownLatch called = new CountDownLatch(1);
      server.onCall = called::countDown;
      Hitherto patient = client.within(Duration.ofMinutes(1));
      Runnable close =
          () -> {
            await(called);
            CompletableFuture.delayedExecutor(lag, TimeUnit.MILLISECONDS).execute(patient::close);
          };
      var code = failsBeside(() -> patient.saveMemory("ana", "x"), close);
      assertTrue(Set.of(Status.Code.UNAVAILABLE, Status.Code.RESOURCE_EXHAUSTED).contains(code), code::name);
      connect(server.client());
    }
  }

  @Test
  void aClosedClientCallsNobody() {
    client.close();
    for (Executable call :
        List.<Executable>of(
            () -> client.getContext("ana", "x"),
            () -> client.saveMemory("ana", "x"),
            () -> client.jobs().await("job-1"))) {
      assertEquals(Status.Code.UNAVAILABLE, failsBeside(call, () -> {}));
    }
    assertEquals(0, server.at.size());
  }

  @Test
  void closingEndsAWatch() {
    server.watched.add(List.of(JobState.JOB_STATE_QUEUED));
    Executable watch = () -> client.jobs().await("job-1", job -> client.close());
    assertEquals(Status.Code.UNAVAILABLE, failsBeside(watch, () -> {}));
    assertEquals(1, server.at.size());
  }

  @Test
  void anErrorOfSomebodyElseHasNoReason() {
    var trailers = Scripted.trailers("proxy.example", Status.Code.UNAVAILABLE, "NO_UPSTREAM", null);
    server.fails(Status.UNAVAILABLE.withDescription(Scripted.DESCRIPTION).asRuntimeException(trailers));
    connect(server.client().retry(new RetryPolicy(1, Duration.ZERO, Duration.ZERO)));
    var failed = failsWith(Status.Code.UNAVAILABLE, () -> client.getContext("ana", "x"));
    assertEquals("", failed.reason());
    assertEquals(Scripted.DESCRIPTION, failed.description());
  }

  @Test
  void aGivenRequestIdIsKept() {
    server.fails(Scripted.failing(Status.Code.ABORTED, "VERSION_MISMATCH", null));
    Metadata own = new Metadata();
    own.put(HithertoException.REQUEST_ID, "mine");
    var stub = client.memory().withInterceptors(MetadataUtils.newAttachHeadersInterceptor(own));
    var request = SaveMemoryRequest.newBuilder().setUserId("ana").setContent("x").build();
    var thrown = assertThrows(StatusRuntimeException.class, () -> stub.saveMemory(request));
    assertEquals("mine", HithertoException.from(thrown).requestId());
    assertEquals("mine", server.metadata.get(0).get(HithertoException.REQUEST_ID));
  }

  @Test
  void readsIncludeOwnWrites() {
    client.saveMemory("ana", "x");
    client.getContext("ana", "x");
    client.within(Duration.ofMinutes(1)).getContext("ana", "x");
    client.getContext("rui", "x");
    var sent = server.read.stream().map(GetContextRequest::getConsistencyToken).toList();
    assertEquals(List.of("after-the-write", "after-the-write", ""), sent);
  }

  @Test
  void aRefusedTokenIsDropped() {
    client.saveMemory("ana", "x");
    server.fails(Scripted.failing(Status.Code.INVALID_ARGUMENT, "INVALID_CONSISTENCY_TOKEN", null));
    client.getContext("ana", "x");
    client.getContext("ana", "x");
    var sent = server.read.stream().map(GetContextRequest::getConsistencyToken).toList();
    assertEquals(List.of("after-the-write", "", ""), sent);
  }

  @Test
  void aWatchGoesOnAcrossBrokenStreams() {
    server.fails(null, Scripted.GONE);
    server.watched.add(List.of(JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_RUNNING));
    server.watched.add(List.of(JobState.JOB_STATE_RUNNING, JobState.JOB_STATE_SUCCEEDED));
    List<JobState> states = new ArrayList<>();
    var last = client.jobs().await("job-1", job -> states.add(job.getState()));
    assertEquals(
        List.of(JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_RUNNING, JobState.JOB_STATE_SUCCEEDED), states);
    assertEquals(JobState.JOB_STATE_SUCCEEDED, last.getState());
    assertEquals(3, server.at.size());
    client.getContext("ana", "x");
    assertEquals("after-the-job", server.read.get(0).getConsistencyToken());
  }

  @Test
  void aWatchEndsWithItsDeadline() {
    server.hangs = true;
    var hurried = client.within(Duration.ofMillis(200));
    failsWith(Status.Code.DEADLINE_EXCEEDED, () -> hurried.jobs().await("job-1"));
  }

  @Test
  void aServiceThatIsBeingRestartedIsAwaited() throws Exception {
    var patient = new RetryPolicy(1_000, Duration.ofMillis(50), Duration.ofMillis(100));
    connect(server.client().extraction(server.unready(3)).retry(patient));
    client.saveMemory("ana", "x");
    assertEquals(1, server.saved.size());
  }

  @Test
  void halfOfACharacterIsRefusedBeforeItIsSent() {
    // Protobuf would send a question mark, and so make one user of several.
    var half = Struct.newBuilder().putFields("a\uDC00", Value.getDefaultInstance()).build();
    for (Executable call :
        List.<Executable>of(
            () -> client.saveMemory("ana\uD83D", "x"),
            () -> client.saveMemory("ana", "\uD83D tea"),
            () -> client.saveMemory("ana", "x", request -> request.setContext(half)),
            () -> client.saveMemory("ana", "x", request -> request.addTags("tea").addTags("\uDC00")),
            () -> client.jobs().await("\uD83D"),
            () -> client.importUser("ana\uD83D", Path.of(System.getProperty("java.home"), "release")))) {
      var refused = assertThrows(IllegalArgumentException.class, call);
      assertTrue(refused.getMessage().contains("surrogate"), refused::getMessage);
    }
    assertEquals(0, server.at.size());
    assertTrue(server.imported.stream().allMatch(List::isEmpty));
    client.saveMemory("ana", "👩🏽‍🚀 loves 🐙");
    assertEquals("👩🏽‍🚀 loves 🐙", server.saved.get(0).getContent());
  }

  @Test
  void theCredentialIsAskedForAtEachCall() {
    Queue<String> tokens = new ArrayDeque<>(List.of("first", "second"));
    connect(server.client().token(tokens::poll));
    client.getContext("ana", "x");
    client.getContext("ana", "x");
    var sent = server.metadata.stream().map(headers -> headers.get(AUTHORIZATION)).toList();
    assertEquals(List.of("Bearer first", "Bearer second"), sent);
  }

  @Test
  void stubsThrowWhatCanBeRead() {
    server.fails(Scripted.failing(Status.Code.ABORTED, "VERSION_MISMATCH", null));
    var request = SaveMemoryRequest.newBuilder().setUserId("ana").setContent("x").build();
    var thrown = assertThrows(StatusRuntimeException.class, () -> client.memory().saveMemory(request));
    assertEquals("VERSION_MISMATCH", HithertoException.from(thrown).reason());
    assertNotEquals("", HithertoException.from(thrown).requestId());
    assertNotEquals("", server.saved.get(0).getIdempotencyKey());
  }

  @Test
  void whatCannotWorkIsRefused() {
    for (Executable refused :
        List.<Executable>of(
            () -> server.client().apiKey("k").token("t").build(),
            () -> server.client().apiKey("kéy").build(),
            () -> server.client().token("two words"),
            () -> server.client().clientCertificate("c.pem", "k.pem").build(),
            () -> server.client().tls("ca.pem").clientCertificate("c.pem", "").build(),
            () -> server.client().tls("missing.pem").build(),
            () -> server.client().retrieval("http://127.0.0.1:50051").build())) {
      assertThrows(IllegalArgumentException.class, refused);
    }
  }
}
