package com.hitherto.client;

import com.hitherto.v1.AppendMessagesRequest;
import com.hitherto.v1.AppendMessagesResponse;
import com.hitherto.v1.ClearMemoriesRequest;
import com.hitherto.v1.EndConversationRequest;
import com.hitherto.v1.EraseReceipt;
import com.hitherto.v1.EraseUserRequest;
import com.hitherto.v1.ExportManifest;
import com.hitherto.v1.ExportUserRequest;
import com.hitherto.v1.ExtractionServiceGrpc;
import com.hitherto.v1.ExtractionServiceGrpc.ExtractionServiceBlockingStub;
import com.hitherto.v1.ForgetMemoryRequest;
import com.hitherto.v1.ForgetMemoryResponse;
import com.hitherto.v1.GetContextRequest;
import com.hitherto.v1.GetContextResponse;
import com.hitherto.v1.GetConversationRequest;
import com.hitherto.v1.GetConversationResponse;
import com.hitherto.v1.GetMemoryHistoryRequest;
import com.hitherto.v1.GetMemoryHistoryResponse;
import com.hitherto.v1.GetMemoryRequest;
import com.hitherto.v1.GetMemoryResponse;
import com.hitherto.v1.GetProfileRequest;
import com.hitherto.v1.GetProfileResponse;
import com.hitherto.v1.GetUserSettingsRequest;
import com.hitherto.v1.HistoryEvent;
import com.hitherto.v1.ImportUserResponse;
import com.hitherto.v1.Job;
import com.hitherto.v1.ListMemoriesRequest;
import com.hitherto.v1.ListMemoriesResponse;
import com.hitherto.v1.MaintenanceServiceGrpc;
import com.hitherto.v1.MaintenanceServiceGrpc.MaintenanceServiceBlockingStub;
import com.hitherto.v1.Memory;
import com.hitherto.v1.MemoryServiceGrpc;
import com.hitherto.v1.MemoryServiceGrpc.MemoryServiceBlockingStub;
import com.hitherto.v1.Message;
import com.hitherto.v1.PrivacyServiceGrpc;
import com.hitherto.v1.PrivacyServiceGrpc.PrivacyServiceBlockingStub;
import com.hitherto.v1.Profile;
import com.hitherto.v1.ReinstateUserRequest;
import com.hitherto.v1.RestoreMemoryRequest;
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
import com.hitherto.v1.UpdateMemoryRequest;
import com.hitherto.v1.UpdateMemoryResponse;
import com.hitherto.v1.UpdateProfileRequest;
import com.hitherto.v1.UpdateUserSettingsRequest;
import com.hitherto.v1.UserSettings;
import io.grpc.Channel;
import io.grpc.stub.AbstractStub;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
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
  /** Clearing and erasing take as long as there is to remove. */
  private static final Duration CLEAR = Duration.ofMinutes(5);

  /** Messages that one call returns at most. */
  private static final int MOST_MESSAGES = 200;

  private final Endpoint reads;
  private final Endpoint writes;
  private final Calls calls;
  private final ScheduledExecutorService timer;
  private final Duration timeout;

  Hitherto(Endpoint reads, Endpoint writes, Calls calls, ScheduledExecutorService timer, Duration timeout) {
    this.reads = reads;
    this.writes = writes;
    this.calls = calls;
    this.timer = timer;
    this.timeout = timeout;
  }

  /** A client that is made from the environment alone. */
  public static Hitherto connect() {
    return builder().build();
  }

  /** Sets what otherwise comes from the environment. */
  public static ClientBuilder builder() {
    return new ClientBuilder(System.getenv());
  }

  /** The same client, whose calls have this time, retries included. It shares connections and tokens. */
  public Hitherto within(Duration timeout) {
    return new Hitherto(reads, writes, calls, timer, Requests.countable(timeout));
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
    var request = Calls.filled(SaveMemoryRequest.newBuilder().setUserId(user).setContent(content), with);
    return calls.write(user, () -> memory().saveMemory(request.build()));
  }

  /**
   * Corrects a memory; it keeps its id and its earlier versions. What {@code changes} sets is changed. A path that a later
   * function adds to the update mask, and that {@code changes} does not set, is emptied. The reply has the memory, and what
   * else states its earlier words.
   */
  @SafeVarargs
  public final UpdateMemoryResponse updateMemory(
      String user, String memoryId, Consumer<Memory.Builder> changes, Consumer<UpdateMemoryRequest.Builder>... with) {
    Memory memory = Calls.filled(Memory.newBuilder(), changes).build();
    var request = UpdateMemoryRequest.newBuilder().setUserId(user).setMemoryId(memoryId).setMemory(memory);
    Calls.filled(request.setUpdateMask(Changes.mask(memory, false)), with);
    return calls.write(user, () -> memory().updateMemory(request.build()));
  }

  /**
   * Has reads no longer return a memory; earlier messages never bring it back, and {@link #restoreMemory} does. The reply
   * has the memory, and what else states it.
   */
  @SafeVarargs
  public final ForgetMemoryResponse forgetMemory(
      String user, String memoryId, Consumer<ForgetMemoryRequest.Builder>... with) {
    var request = Calls.filled(ForgetMemoryRequest.newBuilder().setUserId(user).setMemoryId(memoryId), with);
    return calls.write(user, () -> memory().forgetMemory(request.build()));
  }

  /** Brings a forgotten or archived memory back. */
  @SafeVarargs
  public final Memory restoreMemory(String user, String memoryId, Consumer<RestoreMemoryRequest.Builder>... with) {
    var request = Calls.filled(RestoreMemoryRequest.newBuilder().setUserId(user).setMemoryId(memoryId), with);
    return calls.write(user, () -> memory().restoreMemory(request.build())).getMemory();
  }

  /** One memory, whatever its status; empty if there is none, or memory is switched off. */
  public Optional<Memory> getMemory(String user, String memoryId) {
    var request = GetMemoryRequest.newBuilder().setUserId(user).setMemoryId(memoryId).build();
    return calls
        .find(user, request, retrieval()::getMemory)
        .filter(GetMemoryResponse::hasMemory)
        .map(GetMemoryResponse::getMemory);
  }

  /** Every change of a memory, newest first, fetched page by page as the stream goes on. */
  @SafeVarargs
  public final Stream<HistoryEvent> memoryHistory(
      String user, String memoryId, Consumer<GetMemoryHistoryRequest.Builder>... with) {
    var request = Calls.filled(GetMemoryHistoryRequest.newBuilder().setUserId(user).setMemoryId(memoryId), with);
    return Calls.pages(
        token -> calls.read(user, request.setPageToken(token).build(), retrieval()::getMemoryHistory),
        GetMemoryHistoryResponse::getNextPageToken,
        GetMemoryHistoryResponse::getEventsList);
  }

  /**
   * A memory with the words that it was learnt from; empty if there is no such memory. Of each of the first six messages
   * behind it, the proof has what was said just before and after.
   */
  public Optional<Proof> why(String user, String memoryId) {
    return getMemory(user, memoryId).map(memory -> Proof.of(this, user, memory));
  }

  /**
   * What an assistant should know before it answers the query. The prompt block of the result is the text for the
   * assistant's prompt.
   */
  @SafeVarargs
  public final GetContextResponse getContext(String user, String query, Consumer<GetContextRequest.Builder>... with) {
    var request = Calls.filled(GetContextRequest.newBuilder().setUserId(user).setQuery(query), with);
    return calls.read(user, request.build(), retrieval()::getContext);
  }

  /** The best results for the query. */
  @SafeVarargs
  public final SearchMemoriesResponse search(
      String user, String query, Consumer<SearchMemoriesRequest.Builder>... with) {
    var request = Calls.filled(SearchMemoriesRequest.newBuilder().setUserId(user).setQuery(query), with);
    return calls.read(user, request.build(), retrieval()::searchMemories);
  }

  /** A user's memories, fetched page by page as the stream goes on. */
  @SafeVarargs
  public final Stream<Memory> memories(String user, Consumer<ListMemoriesRequest.Builder>... with) {
    var request = Calls.filled(ListMemoriesRequest.newBuilder().setUserId(user), with);
    return Calls.pages(
        token -> calls.read(user, request.setPageToken(token).build(), retrieval()::listMemories),
        ListMemoriesResponse::getNextPageToken,
        ListMemoriesResponse::getMemoriesList);
  }

  /**
   * Adds messages to a running chat. Once this returns, they are stored and can be searched. They are learnt from every
   * few messages, when the chat pauses, or at {@link #endConversation}. Known messages are skipped.
   */
  @SafeVarargs
  public final AppendMessagesResponse add(
      String user,
      Iterable<Message> messages,
      String conversation,
      Consumer<AppendMessagesRequest.Builder>... with) {
    var request = AppendMessagesRequest.newBuilder().setUserId(user).setConversationId(conversation);
    Calls.filled(request.addAllMessages(messages), with);
    return calls.write(user, () -> extraction().appendMessages(request.build()));
  }

  /** Marks a chat as over; the job learns from its last messages. Later ones reopen it. */
  @SafeVarargs
  public final Job endConversation(String user, String conversation, Consumer<EndConversationRequest.Builder>... with) {
    var request = Calls.filled(EndConversationRequest.newBuilder().setUserId(user).setConversationId(conversation), with);
    return calls.write(user, () -> extraction().endConversation(request.build())).getJob();
  }

  /** Submits 1 to 100 conversations at once, all or none; one job for each, in order. */
  @SafeVarargs
  public final List<Job> submitTranscripts(
      Iterable<Transcript> transcripts, Consumer<SubmitTranscriptsRequest.Builder>... with) {
    var request = Calls.filled(SubmitTranscriptsRequest.newBuilder().addAllTranscripts(transcripts), with).build();
    var users = request.getTranscriptsList().stream().map(Transcript::getUserId).collect(Collectors.toSet());
    return calls.write(users, () -> extraction().submitTranscripts(request)).getJobsList();
  }

  /** The summary of a conversation with its last messages (10); empty if there is none. */
  @SafeVarargs
  public final Optional<GetConversationResponse> getConversation(
      String user, String conversation, Consumer<GetConversationRequest.Builder>... with) {
    var request = GetConversationRequest.newBuilder().setUserId(user).setConversationId(conversation);
    return calls
        .find(user, Calls.filled(request, with).build(), retrieval()::getConversation)
        .filter(found -> found.getReason().isEmpty());
  }

  /** Every message of a conversation, the latest first, fetched page by page as the stream goes on. */
  public Stream<Message> messages(String user, String conversation) {
    return Calls.pages(
        before ->
            getConversation(
                    user,
                    conversation,
                    request -> request.setMessageLimit(MOST_MESSAGES).setBeforeMessageId(before))
                .map(GetConversationResponse::getMessagesList)
                .orElse(List.of()),
        page -> page.size() < MOST_MESSAGES ? "" : page.get(0).getId(),
        page -> {
          List<Message> latestFirst = new ArrayList<>(page);
          Collections.reverse(latestFirst);
          return latestFirst;
        });
  }

  /** The user's profile; empty if there is none, or memory is switched off. */
  public Optional<Profile> getProfile(String user) {
    var request = GetProfileRequest.newBuilder().setUserId(user).build();
    return calls
        .find(user, request, retrieval()::getProfile)
        .filter(GetProfileResponse::hasProfile)
        .map(GetProfileResponse::getProfile);
  }

  /**
   * Changes or creates a profile by hand. What {@code changes} sets is changed, of a Struct key by key. A path that a later
   * function adds to the update mask, and that {@code changes} does not set, is emptied.
   */
  @SafeVarargs
  public final Profile updateProfile(
      String user, Consumer<Profile.Builder> changes, Consumer<UpdateProfileRequest.Builder>... with) {
    Profile profile = Calls.filled(Profile.newBuilder(), changes).build();
    var request = UpdateProfileRequest.newBuilder().setUserId(user).setProfile(profile);
    Calls.filled(request.setUpdateMask(Changes.mask(profile, true)), with);
    return calls.write(user, () -> memory().updateProfile(request.build())).getProfile();
  }

  /** The effective settings of a user. */
  public UserSettings getUserSettings(String user) {
    var request = GetUserSettingsRequest.newBuilder().setUserId(user).build();
    return calls.read(user, request, privacy()::getUserSettings).getUserSettings();
  }

  /**
   * Changes the settings that {@code changes} sets. A setting that a later function adds to the update mask, and that
   * {@code changes} does not set, is reset to that of the installation.
   */
  @SafeVarargs
  public final UserSettings updateUserSettings(
      String user, Consumer<UserSettings.Builder> changes, Consumer<UpdateUserSettingsRequest.Builder>... with) {
    UserSettings settings = Calls.filled(UserSettings.newBuilder(), changes).build();
    var request = UpdateUserSettingsRequest.newBuilder().setUserId(user).setUserSettings(settings);
    Calls.filled(request.setUpdateMask(Changes.mask(settings, false)), with);
    return calls.write(user, () -> privacy().updateUserSettings(request.build())).getUserSettings();
  }

  /**
   * Forgets all memories of a user; conversations, if included, are gone for good. Returns the number of rows, by kind. An
   * interrupted call keeps what it has done; the next call does the rest. It has five minutes, unless {@link #within} or
   * the builder says otherwise.
   */
  @SafeVarargs
  public final Map<String, Long> clearMemories(String user, Consumer<ClearMemoriesRequest.Builder>... with) {
    var request = Calls.filled(ClearMemoriesRequest.newBuilder().setUserId(user), with);
    return calls.write(user, () -> clearing().clearMemories(request.build())).getCountsMap();
  }

  /**
   * Removes everything that is stored about a user, for good. Later writes for the user fail with USER_ERASED until
   * {@link #reinstateUser}. An interrupted call keeps what it has done; the next call does the rest, and its receipt covers
   * all of it. It has five minutes, unless {@link #within} or the builder says otherwise.
   */
  @SafeVarargs
  public final EraseReceipt eraseUser(String user, Consumer<EraseUserRequest.Builder>... with) {
    var request = Calls.filled(EraseUserRequest.newBuilder().setUserId(user), with);
    return calls.write(user, () -> clearing().eraseUser(request.build())).getReceipt();
  }

  /** Allows writes for an erased user again; nothing comes back. True if the user was erased before. */
  @SafeVarargs
  public final boolean reinstateUser(String user, Consumer<ReinstateUserRequest.Builder>... with) {
    var request = Calls.filled(ReinstateUserRequest.newBuilder().setUserId(user), with);
    return calls.write(user, () -> privacy().reinstateUser(request.build())).getReinstated();
  }

  private PrivacyServiceBlockingStub clearing() {
    boolean named = timeout != null || writes.timeout != null;
    return named ? privacy() : privacy().withOption(Endpoint.TIMEOUT, CLEAR);
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
    var request = ExportUserRequest.newBuilder().setUserId(user).build();
    var data = new UserData(writes, timeout);
    try {
      return calls.read(
          user,
          request,
          asked -> {
            try {
              return data.receive(asked, into, progress);
            } catch (IOException broken) {
              throw new UncheckedIOException(broken);
            }
          });
    } catch (UncheckedIOException broken) {
      throw broken.getCause();
    }
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
    int begun = calls.tokens().begin();
    ImportUserResponse reply = new UserData(writes, timeout).send(user, export, progress);
    calls.tokens().note(user, reply.getConsistencyToken(), begun);
    return reply;
  }

  /** The work in the background. */
  public Jobs jobs() {
    return new Jobs(calls, extraction(), writes, timeout);
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

  private <S extends AbstractStub<S>> S timed(S stub) {
    return timeout == null ? stub : stub.withOption(Endpoint.TIMEOUT, timeout);
  }
}
