package com.hitherto.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** A connection to one service, whose calls get a deadline, the credential, ids, and safe retries. */
final class Endpoint implements ClientInterceptor {
  /** The time for a call, if its caller gives it one. */
  static final CallOptions.Key<Duration> TIMEOUT = CallOptions.Key.create("hitherto-timeout");

  private static final Metadata.Key<String> AUTHORIZATION = HithertoException.key("authorization");

  /** A page of 1,000 long memories is larger than gRPC's default of 4 MiB. */
  private static final int MOST_BYTES = 64 << 20;

  final String service;
  final String address;
  final RetryPolicy retry;
  final ManagedChannel bare;
  final Channel channel;
  private final Supplier<Optional<String>> credential;
  final Duration timeout;
  private final ScheduledExecutorService timer;
  /** The calls that wait for their next attempt. */
  private final Set<RepeatedCall<?, ?>> waiting = ConcurrentHashMap.newKeySet();

  Endpoint(
      String service,
      String address,
      ChannelCredentials transport,
      Supplier<Optional<String>> credential,
      Duration timeout,
      RetryPolicy retry,
      ScheduledExecutorService timer) {
    this.service = service;
    this.address = address;
    this.retry = retry;
    this.credential = credential;
    this.timeout = timeout;
    this.timer = timer;
    var builder = Grpc.newChannelBuilder(address, transport).maxInboundMessageSize(MOST_BYTES);
    if (isLoopback(address)) {
      // An HTTP proxy of the environment is meant for the outside world.
      builder.proxyDetector(target -> null);
    }
    bare = builder.build();
    channel = ClientInterceptors.intercept(bare, this);
  }

  /** Ends all calls; further ones fail. The timer must still run. */
  void close() {
    bare.shutdownNow();
    waiting.forEach(call -> call.stop(Status.UNAVAILABLE.withDescription("the client was closed")));
  }

  /** The time before the next attempt; empty if there should be none, as after {@link #close}. */
  Optional<Duration> waitBeforeRetry(HithertoException failed, int failures, boolean repeatable) {
    return bare.isShutdown() ? Optional.empty() : retry.waitBeforeRetry(failed, failures, repeatable);
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(
      MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    if (method.getType() == MethodType.UNARY) {
      return new RepeatedCall<>(method, options, next);
    }
    return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        String requestId = complete(headers);
        super.start(
            new SimpleForwardingClientCallListener<>(listener) {
              @Override
              public void onClose(Status status, Metadata trailers) {
                super.onClose(status, signed(trailers, requestId));
              }
            },
            headers);
      }

      @Override
      public void sendMessage(Q message) {
        Requests.checkText(message);
        super.sendMessage(message);
      }
    };
  }

  /** Adds to the metadata what it lacks, and returns the request id in force. */
  private String complete(Metadata headers) {
    if (!headers.containsKey(AUTHORIZATION)) {
      credential.get().ifPresent(text -> headers.put(AUTHORIZATION, "Bearer " + text));
    }
    if (!headers.containsKey(HithertoException.REQUEST_ID)) {
      headers.put(HithertoException.REQUEST_ID, UUID.randomUUID().toString());
    }
    return headers.get(HithertoException.REQUEST_ID);
  }

  /** The end of a call, with what an exception tells about it. */
  private Metadata signed(Metadata trailers, String requestId) {
    Metadata signed = copy(trailers);
    signed.discardAll(HithertoException.REQUEST_ID);
    signed.put(HithertoException.REQUEST_ID, requestId);
    // After the client was closed, no service is to blame.
    if (!bare.isShutdown()) {
      signed.put(HithertoException.SERVICE, service);
      signed.put(HithertoException.ADDRESS, address);
    }
    return signed;
  }

  /** Waits before another attempt, which is to look for the service at once. */
  void pause(Duration wait) {
    bare.resetConnectBackoff();
    try {
      TimeUnit.NANOSECONDS.sleep(wait.toNanos());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new HithertoException(Status.CANCELLED.withDescription("interrupted"), new Metadata(), interrupted);
    }
  }

  private static Metadata copy(Metadata given) {
    Metadata copy = new Metadata();
    copy.merge(given);
    return copy;
  }

  /** One request and one reply, made again where that is safe. */
  private final class RepeatedCall<Q, A> extends ClientCall<Q, A> {
    private final MethodDescriptor<Q, A> method;
    private final CallOptions options;
    private final Channel next;
    private final boolean reads;
    private final Context caller = Context.current();
    private Listener<A> listener;
    private Metadata headers;
    private Q request;
    private int failures;
    private ClientCall<Q, A> current;
    private ScheduledFuture<?> pause;
    private Status stopped;

    RepeatedCall(MethodDescriptor<Q, A> method, CallOptions given, Channel next) {
      this.method = method;
      this.next = next;
      reads = Requests.changesNothing(method);
      Duration named = given.getOption(TIMEOUT) != null ? given.getOption(TIMEOUT) : timeout;
      if (named == null) {
        named = Requests.defaultTimeout(method.getFullMethodName(), reads);
      }
      Deadline own = Deadline.after(named.toNanos(), TimeUnit.NANOSECONDS);
      options = given.withDeadline(given.getDeadline() == null ? own : given.getDeadline());
    }

    @Override
    public void start(Listener<A> listener, Metadata headers) {
      this.listener = listener;
      this.headers = headers;
      complete(headers);
    }

    @Override
    public void request(int messages) {
      // Each attempt asks for its reply by itself.
    }

    @Override
    public void sendMessage(Q message) {
      Requests.checkText(message);
      request = reads ? message : Requests.withIdempotencyKey(message);
    }

    @Override
    public void halfClose() {
      attempt();
    }

    @Override
    public void cancel(String message, Throwable cause) {
      if (stop(Status.CANCELLED.withDescription(message).withCause(cause))) {
        ClientCall<Q, A> running;
        synchronized (this) {
          running = current;
        }
        if (running != null) {
          running.cancel(message, cause);
        }
      }
    }

    /** Has no further attempt follow; tells whether one may be running. */
    private boolean stop(Status status) {
      synchronized (this) {
        if (stopped != null) {
          return false;
        }
        stopped = status;
        if (pause == null || !pause.cancel(false)) {
          return true;
        }
      }
      end(status, new Metadata());
      return false;
    }

    private void attempt() {
      waiting.remove(this);
      synchronized (this) {
        pause = null;
        if (stopped == null) {
          current = next.newCall(method, options);
          current.start(new Attempt(), copy(headers));
          current.request(2);
          current.sendMessage(request);
          current.halfClose();
          return;
        }
      }
      end(stopped, new Metadata());
    }

    /** Ends the call where its caller hears of it: one that blocks listens to its executor alone. */
    private void end(Status status, Metadata trailers) {
      waiting.remove(this);
      Executor executor = options.getExecutor() == null ? Runnable::run : options.getExecutor();
      executor.execute(
          () -> listener.onClose(status, signed(trailers, headers.get(HithertoException.REQUEST_ID))));
    }

    /** Keeps the reply until its status is known, and fails only if there is no further attempt. */
    private final class Attempt extends Listener<A> {
      private Metadata replyHeaders;
      private A reply;

      @Override
      public void onHeaders(Metadata given) {
        replyHeaders = given;
      }

      @Override
      public void onMessage(A message) {
        reply = message;
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        if (status.isOk()) {
          if (replyHeaders != null) {
            listener.onHeaders(replyHeaders);
          }
          if (reply != null) {
            listener.onMessage(reply);
          }
          listener.onClose(status, trailers);
          return;
        }
        if (caller.isCancelled()) {
          end(status, trailers);
          return;
        }
        failures++;
        boolean repeatable = reads || Requests.hasIdempotencyKey(request);
        var failed = new HithertoException(status, trailers, null);
        // Known to close before it is asked whether the client is closed.
        waiting.add(RepeatedCall.this);
        long wait = waitBeforeRetry(failed, failures, repeatable).map(Duration::toNanos).orElse(Long.MAX_VALUE);
        if (wait >= options.getDeadline().timeRemaining(TimeUnit.NANOSECONDS)) {
          end(status, trailers);
          return;
        }
        // By default a channel waits up to two minutes before it looks for a restarted service.
        bare.resetConnectBackoff();
        synchronized (RepeatedCall.this) {
          if (stopped == null) {
            pause = timer.schedule(caller.wrap(RepeatedCall.this::attempt), wait, TimeUnit.NANOSECONDS);
            return;
          }
        }
        end(stopped, new Metadata());
      }
    }
  }

  private static boolean isLoopback(String address) {
    String host = address.substring(0, Math.max(0, address.lastIndexOf(':')));
    return host.equals("localhost") || host.equals("[::1]") || host.startsWith("127.") || address.startsWith("unix:");
  }
}
