package com.hitherto.client;

import com.hitherto.v1.AppendMessagesRequest;
import com.hitherto.v1.AppendMessagesResponse;
import com.hitherto.v1.EndConversationRequest;
import com.hitherto.v1.ExportManifest;
import com.hitherto.v1.ExportUserRequest;
import com.hitherto.v1.ExtractionServiceGrpc;
import com.hitherto.v1.ExtractionServiceGrpc.ExtractionServiceBlockingStub;
import com.hitherto.v1.ForgetMemoryRequest;
import com.hitherto.v1.GetContextRequest;
import com.hitherto.v1.GetContextResponse;
import com.hitherto.v1.GetMemoryRequest;
import com.hitherto.v1.ImportUserResponse;
import com.hitherto.v1.Job;
import com.hitherto.v1.ListMemoriesRequest;
import com.hitherto.v1.MaintenanceServiceGrpc;
import com.hitherto.v1.MaintenanceServiceGrpc.MaintenanceServiceBlockingStub;
import com.hitherto.v1.Memory;
import com.hitherto.v1.MemoryServiceGrpc;
import com.hitherto.v1.MemoryServiceGrpc.MemoryServiceBlockingStub;
import com.hitherto.v1.Message;
import com.hitherto.v1.PrivacyServiceGrpc;
import com.hitherto.v1.PrivacyServiceGrpc.PrivacyServiceBlockingStub;
import com.hitherto.v1.RetrievalServiceGrpc;
import com.hitherto.v1.RetrievalServiceGrpc.RetrievalServiceBlockingStub;
import com.hitherto.v1.SaveMemoryRequest;
import com.hitherto.v1.SaveMemoryResponse;
import com.hitherto.v1.SearchMemoriesRequest;
import com.hitherto.v1.SearchMemoriesResponse;
import com.hitherto.v1.SessionServiceGrpc;
import com.hitherto.v1.SessionServiceGrpc.SessionServiceBlockingStub;
import com.hitherto.v1.SubmitTranscriptsRequest;
import com.hitherto.v1.Transcript;
import io.grpc.Channel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongConsumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A client of both services; thread-safe. Close it.
 *
 * <p>Each call has a deadline, which its retries share, and is repeated where that is safe. Reads include what the same
 * client has written for the user before, and what was learnt by jobs that it has seen end, even if reads go to a
 * replica. The methods of this class throw {@link HithertoException} when a call fails; functions at their end set the
 * further fields of a request.
 */
public final class Hitherto implements AutoCloseable {
  private final Endpoint reads;
  private final Endpoint writes;
  private final OwnWrites tokens;
  private final ScheduledExecutorService timer;
  private final Duration timeout;

  private Hitherto(
      Endpoint reads, Endpoint writes, OwnWrites tokens, ScheduledExecutorService timer, Duration timeout) {
    this.reads = reads;
    this.writes = writes;
    this.tokens = tokens;
    this.timer = timer;
    this.timeout = timeout;
  }

  /** A client that is made from the environment alone. */
  public static Hitherto connect() {
    return builder().build();
  }

  /** Sets what otherwise comes from the environment. */
  public static Builder builder() {
    return new Builder(System.getenv());
  }

  /** The same client, whose calls have this time, retries included. It shares connections and tokens. */
  public Hitherto within(Duration timeout) {
    return new Hitherto(reads, writes, tokens, timer, Requests.countable(timeout));
  }

  /** Closes the connections; calls in flight fail, and so do further ones. */
  @Override
  public void close() {
    reads.close();
    writes.close();
    timer.shutdownNow();
  }

  /**
   * Remembers one statement at once. If the user has a memory with the same meaning, that one gets a new version
   * instead.
   */
  @SafeVarargs
  public final SaveMemoryResponse saveMemory(String user, String content, Consumer<SaveMemoryRequest.Builder>... with) {
    var request = filled(SaveMemoryRequest.newBuilder().setUserId(user).setContent(content), with);
    return write(List.of(user), () -> memory().saveMemory(request.build()));
  }

  /** Has reads no longer return a memory; {@code memory().restoreMemory} brings it back. */
  @SafeVarargs
  public final Memory forgetMemory(String user, String memoryId, Consumer<ForgetMemoryRequest.Builder>... with) {
    var request = filled(ForgetMemoryRequest.newBuilder().setUserId(user).setMemoryId(memoryId), with);
    return write(List.of(user), () -> memory().forgetMemory(request.build())).getMemory();
  }

  /** One memory, whatever its status; empty if there is none. */
  public Optional<Memory> getMemory(String user, String memoryId) {
    var request = GetMemoryRequest.newBuilder().setUserId(user).setMemoryId(memoryId).build();
    try {
      return Optional.of(read(user, request, retrieval()::getMemory).getMemory());
    } catch (HithertoException failed) {
      if (failed.code() == Status.Code.NOT_FOUND && !failed.reason().isEmpty()) {
        return Optional.empty();
      }
      throw failed;
    }
  }

  /**
   * What an assistant should know before it answers the query. The prompt block of the result is the text for the
   * assistant's prompt.
   */
  @SafeVarargs
  public final GetContextResponse getContext(String user, String query, Consumer<GetContextRequest.Builder>... with) {
    var request = filled(GetContextRequest.newBuilder().setUserId(user).setQuery(query), with);
    return read(user, request.build(), retrieval()::getContext);
  }

  /** The best results for the query. */
  @SafeVarargs
  public final SearchMemoriesResponse search(
      String user, String query, Consumer<SearchMemoriesRequest.Builder>... with) {
    var request = filled(SearchMemoriesRequest.newBuilder().setUserId(user).setQuery(query), with);
    return read(user, request.build(), retrieval()::searchMemories);
  }

  /** A user's memories, fetched page by page as the stream goes on. */
  @SafeVarargs
  public final Stream<Memory> memories(String user, Consumer<ListMemoriesRequest.Builder>... with) {
    var request = filled(ListMemoriesRequest.newBuilder().setUserId(user), with);
    return Stream.iterate(
            Optional.of(read(user, request.build(), retrieval()::listMemories)),
            Optional::isPresent,
            page ->
                page.filter(known -> !known.getNextPageToken().isEmpty())
                    .map(known -> request.setPageToken(known.getNextPageToken()).build())
                    .map(next -> read(user, next, retrieval()::listMemories)))
        .flatMap(page -> page.orElseThrow().getMemoriesList().stream());
  }

  /**
   * Adds messages to a running chat. Once this returns, they are stored and can be searched. They are learnt from every
   * few messages, when the chat pauses, or at {@link #endConversation}. Known messages are skipped.
   */
  @SafeVarargs
  public final AppendMessagesResponse add(
      String user,
      String conversation,
      Iterable<Message> messages,
      Consumer<AppendMessagesRequest.Builder>... with) {
    var request = AppendMessagesRequest.newBuilder().setUserId(user).setConversationId(conversation);
    filled(request.addAllMessages(messages), with);
    return write(List.of(user), () -> extraction().appendMessages(request.build()));
  }

  /** Marks a chat as over; the job learns from its last messages. Later ones reopen it. */
  @SafeVarargs
  public final Job endConversation(String user, String conversation, Consumer<EndConversationRequest.Builder>... with) {
    var request = filled(EndConversationRequest.newBuilder().setUserId(user).setConversationId(conversation), with);
    return write(List.of(user), () -> extraction().endConversation(request.build())).getJob();
  }

  /** Submits 1 to 100 conversations at once, all or none; one job for each, in order. */
  @SafeVarargs
  public final List<Job> submitTranscripts(
      Iterable<Transcript> transcripts, Consumer<SubmitTranscriptsRequest.Builder>... with) {
    var request = filled(SubmitTranscriptsRequest.newBuilder().addAllTranscripts(transcripts), with).build();
    var users = request.getTranscriptsList().stream().map(Transcript::getUserId).collect(Collectors.toSet());
    return write(users, () -> extraction().submitTranscripts(request)).getJobsList();
  }

  /** Writes all data of a user to a stream as {@link #exportUser(String, OutputStream, LongConsumer)} does. */
  public ExportManifest exportUser(String user, OutputStream into) throws IOException {
    return exportUser(user, into, bytes -> {});
  }

  /**
   * Writes all data of a user to a stream, as JSON lines, and tells the bytes so far after every piece. The data are
   * checked against the manifest. If this throws, what was written is incomplete. It has an hour, unless {@link #within}
   * says otherwise.
   */
  public ExportManifest exportUser(String user, OutputStream into, LongConsumer progress) throws IOException {
    var request = ExportUserRequest.newBuilder().setUserId(user).setConsistencyToken(tokens.of(user)).build();
    return new UserData(writes, timeout).receive(request, into, progress);
  }

  /** Stores the records of an export again as {@link #importUser(String, Path, LongConsumer)} does. */
  public ImportUserResponse importUser(String user, Path export) throws IOException {
    return importUser(user, export, bytes -> {});
  }

  /**
   * Stores the records of an export again, as they were written, and tells the bytes sent after every piece; no model is
   * called. The user must be unknown, hold nothing, or be the user of the export, whose records are then skipped where
   * they exist. The import of the same export therefore continues an interrupted one; a call that breaks off is
   * continued by itself. It has an hour, unless {@link #within} says otherwise.
   */
  public ImportUserResponse importUser(String user, Path export, LongConsumer progress) throws IOException {
    int begun = tokens.begin();
    ImportUserResponse reply = new UserData(writes, timeout).send(user, export, progress);
    tokens.note(user, reply.getConsistencyToken(), begun);
    return reply;
  }

  /** The work in the background. */
  public Jobs jobs() {
    return new Jobs(this, writes, timeout);
  }

  // --- every RPC ----------------------------------------------------------------------------------------------------

  /**
   * The generated stub, with the same credential, deadlines and retries. It throws StatusRuntimeException, which
   * {@link HithertoException#from} reads, and sends no consistency tokens. The same holds for the other stubs.
   */
  public RetrievalServiceBlockingStub retrieval() {
    return timed(RetrievalServiceGrpc.newBlockingStub(reads.channel));
  }

  /** The generated stub of ExtractionService. */
  public ExtractionServiceBlockingStub extraction() {
    return timed(ExtractionServiceGrpc.newBlockingStub(writes.channel));
  }

  /** The generated stub of MemoryService. */
  public MemoryServiceBlockingStub memory() {
    return timed(MemoryServiceGrpc.newBlockingStub(writes.channel));
  }

  /** The generated stub of SessionService. */
  public SessionServiceBlockingStub session() {
    return timed(SessionServiceGrpc.newBlockingStub(writes.channel));
  }

  /** The generated stub of MaintenanceService. */
  public MaintenanceServiceBlockingStub maintenance() {
    return timed(MaintenanceServiceGrpc.newBlockingStub(writes.channel));
  }

  /** The generated stub of PrivacyService. */
  public PrivacyServiceBlockingStub privacy() {
    return timed(PrivacyServiceGrpc.newBlockingStub(writes.channel));
  }

  /** For future and asynchronous stubs of RetrievalService. */
  public Channel retrievalChannel() {
    return reads.channel;
  }

  /** For future and asynchronous stubs of the other services. */
  public Channel extractionChannel() {
    return writes.channel;
  }

  // --- reads that include own writes --------------------------------------------------------------------------------

  OwnWrites tokens() {
    return tokens;
  }

  <Q extends com.google.protobuf.Message, A> A read(String user, Q request, Function<Q, A> call) {
    String token = tokens.of(user);
    try {
      return call.apply(Requests.withConsistencyToken(request, token));
    } catch (StatusRuntimeException thrown) {
      HithertoException failed = HithertoException.from(thrown);
      if (token.isEmpty() || !failed.reason().equals("INVALID_CONSISTENCY_TOKEN")) {
        throw failed;
      }
    }
    // It was made with a secret that the services no longer have.
    tokens.drop(user);
    return called(() -> call.apply(Requests.withConsistencyToken(request, "")));
  }

  private <A extends com.google.protobuf.Message> A write(Iterable<String> users, Supplier<A> call) {
    int begun = tokens.begin();
    A reply = called(call);
    users.forEach(user -> tokens.note(user, Requests.consistencyToken(reply), begun));
    return reply;
  }

  private static <A> A called(Supplier<A> call) {
    try {
      return call.get();
    } catch (StatusRuntimeException thrown) {
      throw HithertoException.from(thrown);
    }
  }

  private <S extends AbstractStub<S>> S timed(S stub) {
    return timeout == null ? stub : stub.withOption(Endpoint.TIMEOUT, timeout);
  }

  @SafeVarargs
  private static <B> B filled(B request, Consumer<B>... with) {
    for (Consumer<B> fill : with) {
      fill.accept(request);
    }
    return request;
  }

  /**
   * Sets what otherwise comes from the environment: HITHERTO_RETRIEVAL_ADDRESS (127.0.0.1:50051),
   * HITHERTO_EXTRACTION_ADDRESS (127.0.0.1:50052), HITHERTO_API_KEY or HITHERTO_TOKEN (none), HITHERTO_TLS_CA_FILE
   * (none: no TLS), and HITHERTO_TLS_CLIENT_CERTIFICATE_FILE with HITHERTO_TLS_CLIENT_KEY_FILE (none).
   */
  public static final class Builder {
    private final Map<String, String> environment;
    private String retrieval = "";
    private String extraction = "";
    private String apiKey;
    private Supplier<String> token;
    private String caFile = "";
    private String certificateFile = "";
    private String keyFile = "";
    private Duration timeout;
    private RetryPolicy retry = RetryPolicy.DEFAULT;

    Builder(Map<String, String> environment) {
      this.environment = environment;
    }

    /** The {@code host:port} of the retrieval service. */
    public Builder retrieval(String address) {
      retrieval = address;
      return this;
    }

    /** The {@code host:port} of the extraction service. */
    public Builder extraction(String address) {
      extraction = address;
      return this;
    }

    /** The key that {@code hitherto keys create} printed. */
    public Builder apiKey(String key) {
      apiKey = key;
      return this;
    }

    /** A JWT, if the services accept tokens. */
    public Builder token(String given) {
      String checked = Credentials.checkedToken(given);
      return token(() -> checked);
    }

    /** Where the JWT of each call comes from, so that it can be a new one before the old one ends. */
    public Builder token(Supplier<String> source) {
      token = source;
      return this;
    }

    /** The PEM file with the authority that signed the services' certificates. */
    public Builder tls(String authorityFile) {
      caFile = authorityFile;
      return this;
    }

    /** PEM files with a certificate and its key in PKCS #8, if the services ask for one. */
    public Builder clientCertificate(String certificate, String key) {
      certificateFile = certificate;
      keyFile = key;
      return this;
    }

    /** The time for every call, retries included; by default 10 s for reads and 30 s for writes. */
    public Builder timeout(Duration given) {
      timeout = Requests.countable(given);
      return this;
    }

    /** When failed calls are made again. */
    public Builder retry(RetryPolicy policy) {
      retry = policy;
      return this;
    }

    /** The client, which connects with its first call. */
    public Hitherto build() {
      if ((apiKey == null || apiKey.isBlank()) && token == null) {
        apiKey = environment.get("HITHERTO_API_KEY");
        String found = environment.getOrDefault("HITHERTO_TOKEN", "");
        if (!found.isBlank()) {
          token(found);
        }
      }
      var credential = Credentials.ofCalls(apiKey, token);
      var transport =
          Credentials.ofConnections(
              found(caFile, "HITHERTO_TLS_CA_FILE", ""),
              found(certificateFile, "HITHERTO_TLS_CLIENT_CERTIFICATE_FILE", ""),
              found(keyFile, "HITHERTO_TLS_CLIENT_KEY_FILE", ""));
      ScheduledExecutorService timer =
          Executors.newSingleThreadScheduledExecutor(
              task -> {
                Thread thread = new Thread(task, "hitherto-retries");
                thread.setDaemon(true);
                return thread;
              });
      String reading = found(retrieval, "HITHERTO_RETRIEVAL_ADDRESS", "127.0.0.1:50051");
      String writing = found(extraction, "HITHERTO_EXTRACTION_ADDRESS", "127.0.0.1:50052");
      return new Hitherto(
          new Endpoint("retrieval", reading, transport, credential, timeout, retry, timer),
          new Endpoint("extraction", writing, transport, credential, timeout, retry, timer),
          new OwnWrites(),
          timer,
          null);
    }

    private String found(String given, String variable, String fallback) {
      String value = given.isEmpty() ? environment.getOrDefault(variable, "") : given;
      return value.isEmpty() ? fallback : value;
    }
  }
}
