package com.hitherto.client;

import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.hitherto.v1.ExportUserRequest;
import com.hitherto.v1.ExportUserResponse;
import com.hitherto.v1.ExtractionServiceGrpc.ExtractionServiceImplBase;
import com.hitherto.v1.GetContextRequest;
import com.hitherto.v1.GetContextResponse;
import com.hitherto.v1.ImportUserRequest;
import com.hitherto.v1.ImportUserResponse;
import com.hitherto.v1.Job;
import com.hitherto.v1.JobState;
import com.hitherto.v1.Memory;
import com.hitherto.v1.MemoryServiceGrpc.MemoryServiceImplBase;
import com.hitherto.v1.PrivacyServiceGrpc.PrivacyServiceImplBase;
import com.hitherto.v1.RetrievalServiceGrpc.RetrievalServiceImplBase;
import com.hitherto.v1.SaveMemoryRequest;
import com.hitherto.v1.SaveMemoryResponse;
import com.hitherto.v1.WatchJobRequest;
import com.hitherto.v1.WatchJobResponse;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/** A server whose calls end as a test says: one failure after the other (empty for none), then well. */
final class Scripted implements AutoCloseable {
  static final String DESCRIPTION = "as scripted";
  static final StatusRuntimeException GONE = Status.UNAVAILABLE.withDescription("gone").asRuntimeException();

  final Deque<Optional<StatusRuntimeException>> failures = new ArrayDeque<>();
  /** What each stream of WatchJob tells. */
  final Deque<List<JobState>> watched = new ArrayDeque<>();
  final List<SaveMemoryRequest> saved = Collections.synchronizedList(new ArrayList<>());
  final List<GetContextRequest> read = Collections.synchronizedList(new ArrayList<>());
  /** The requests of each stream of ImportUser. */
  final List<List<ImportUserRequest>> imported = Collections.synchronizedList(new ArrayList<>());
  /** What ExportUser tells. */
  volatile List<ExportUserResponse> exported = List.of();
  final List<Metadata> metadata = Collections.synchronizedList(new ArrayList<>());
  final List<Long> at = Collections.synchronizedList(new ArrayList<>());
  volatile boolean hangs;
  volatile Runnable onCall = () -> {};
  private final Server server;
  private final List<AutoCloseable> open = new ArrayList<>();

  Scripted() throws IOException {
    server =
        Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
            .addService(new Memories())
            .addService(new Reads())
            .addService(new Watches())
            .addService(new Transfers())
            .intercept(
                new ServerInterceptor() {
                  @Override
                  public <Q, A> ServerCall.Listener<Q> interceptCall(
                      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
                    metadata.add(headers);
                    return next.startCall(call, headers);
                  }
                })
            .build()
            .start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  void fails(StatusRuntimeException... with) {
    for (StatusRuntimeException one : with) {
      failures.add(Optional.ofNullable(one));
    }
  }

  /** Makes a client of this server that is given nothing by the environment. */
  ClientBuilder client() {
    return new ClientBuilder(Map.of())
        .retrieval(address())
        .extraction(address())
        .retry(new RetryPolicy(4, Duration.ofMillis(1), Duration.ofMillis(10)));
  }

  /** An address that closes its first connections at once, as that of a service that is being restarted. */
  String unready(int refuses) throws IOException {
    ServerSocket listening = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    open.add(listening);
    inBackground(
        () -> {
          for (int accepted = 0; ; accepted++) {
            Socket socket = listening.accept();
            if (accepted < refuses) {
              socket.close();
              continue;
            }
            Socket through = new Socket(InetAddress.getLoopbackAddress(), server.getPort());
            open.add(socket);
            open.add(through);
            inBackground(() -> pass(socket.getInputStream(), through.getOutputStream()));
            inBackground(() -> pass(through.getInputStream(), socket.getOutputStream()));
          }
        });
    return "127.0.0.1:" + listening.getLocalPort();
  }

  private interface Work {
    void run() throws IOException;
  }

  private static void inBackground(Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (IOException closed) {
                // The test is over.
              }
            });
    thread.setDaemon(true);
    thread.start();
  }

  private static void pass(InputStream from, OutputStream to) throws IOException {
    byte[] bytes = new byte[8192];
    for (int read = from.read(bytes); read >= 0; read = from.read(bytes)) {
      to.write(bytes, 0, read);
      to.flush();
    }
  }

  @Override
  public void close() throws Exception {
    server.shutdownNow();
    for (AutoCloseable one : open) {
      one.close();
    }
  }

  private <A> void answer(StreamObserver<A> observer, Supplier<List<A>> replies) {
    at.add(System.nanoTime());
    onCall.run();
    if (hangs) {
      return;
    }
    Optional<StatusRuntimeException> failure = failures.isEmpty() ? Optional.empty() : failures.poll();
    if (failure.isPresent()) {
      observer.onError(failure.get());
      return;
    }
    replies.get().forEach(observer::onNext);
    observer.onCompleted();
  }

  private final class Memories extends MemoryServiceImplBase {
    @Override
    public void saveMemory(SaveMemoryRequest request, StreamObserver<SaveMemoryResponse> observer) {
      saved.add(request);
      answer(
          observer,
          () ->
              List.of(
                  SaveMemoryResponse.newBuilder()
                      .setMemory(Memory.newBuilder().setId("m1").setContent(request.getContent()))
                      .setConsistencyToken("after-the-write")
                      .build()));
    }
  }

  private final class Reads extends RetrievalServiceImplBase {
    @Override
    public void getContext(GetContextRequest request, StreamObserver<GetContextResponse> observer) {
      read.add(request);
      answer(observer, () -> List.of(GetContextResponse.newBuilder().setPromptBlock(request.getQuery()).build()));
    }
  }

  private final class Watches extends ExtractionServiceImplBase {
    @Override
    public void watchJob(WatchJobRequest request, StreamObserver<WatchJobResponse> observer) {
      answer(observer, () -> watched.poll().stream().map(state -> reply(request.getJobId(), state)).toList());
    }

    private static WatchJobResponse reply(String id, JobState state) {
      String token = state == JobState.JOB_STATE_SUCCEEDED ? "after-the-job" : "";
      return WatchJobResponse.newBuilder()
          .setJob(Job.newBuilder().setId(id).setUserId("ana").setState(state).setConsistencyToken(token))
          .build();
    }
  }

  private final class Transfers extends PrivacyServiceImplBase {
    @Override
    public StreamObserver<ImportUserRequest> importUser(StreamObserver<ImportUserResponse> observer) {
      List<ImportUserRequest> sent = Collections.synchronizedList(new ArrayList<>());
      imported.add(sent);
      Optional<StatusRuntimeException> failure = failures.isEmpty() ? Optional.empty() : failures.poll();
      return new StreamObserver<>() {
        @Override
        public void onNext(ImportUserRequest request) {
          sent.add(request);
          if (sent.size() == 1) {
            failure.ifPresent(observer::onError);
          }
        }

        @Override
        public void onError(Throwable cancelled) {
          // The client is gone.
        }

        @Override
        public void onCompleted() {
          if (failure.isEmpty()) {
            observer.onNext(ImportUserResponse.newBuilder().setConsistencyToken("after-the-import").build());
            observer.onCompleted();
          }
        }
      };
    }

    @Override
    public void exportUser(ExportUserRequest request, StreamObserver<ExportUserResponse> observer) {
      answer(observer, () -> exported);
    }
  }

  /** An error as the services give it. */
  static StatusRuntimeException failing(Status.Code code, String reason, Duration retryAfter) {
    return code.toStatus().withDescription(DESCRIPTION).asRuntimeException(trailers(code, reason, retryAfter));
  }

  /** What comes with such an error; nothing if there is neither reason nor delay. */
  static Metadata trailers(Status.Code code, String reason, Duration retryAfter) {
    return trailers("hitherto", code, reason, retryAfter);
  }

  static Metadata trailers(String domain, Status.Code code, String reason, Duration retryAfter) {
    var status = com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage(DESCRIPTION);
    if (!reason.isEmpty()) {
      pack(status, ErrorInfo.newBuilder().setDomain(domain).setReason(reason).putMetadata("limit", "9").build());
    }
    if (retryAfter != null) {
      var delay = com.google.protobuf.Duration.newBuilder().setSeconds(retryAfter.toSeconds());
      pack(status, RetryInfo.newBuilder().setRetryDelay(delay.setNanos(retryAfter.toNanosPart())).build());
    }
    return StatusProto.toStatusRuntimeException(status.build()).getTrailers();
  }

  private static void pack(com.google.rpc.Status.Builder status, Message detail) {
    status.addDetails(Any.pack(detail));
  }
}
