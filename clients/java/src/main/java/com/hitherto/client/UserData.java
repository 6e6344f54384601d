package com.hitherto.client;

import com.google.protobuf.ByteString;
import com.hitherto.v1.ExportManifest;
import com.hitherto.v1.ExportUserRequest;
import com.hitherto.v1.ExportUserResponse;
import com.hitherto.v1.ImportUserRequest;
import com.hitherto.v1.ImportUserResponse;
import com.hitherto.v1.PrivacyServiceGrpc;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/** All data of a user: an export, received and checked against its manifest, and its import. */
final class UserData {
  /** An export or an import takes as long as there is to send. */
  private static final Duration LONGEST = Duration.ofHours(1);

  private static final int PIECE_BYTES = 256 * 1024;

  private final Endpoint at;
  private final long deadline;

  UserData(Endpoint at, Duration timeout) {
    this.at = at;
    deadline = System.nanoTime() + (timeout == null ? LONGEST : timeout).toNanos();
  }

  private long remaining() {
    return Math.max(deadline - System.nanoTime(), 1);
  }

  /** Writes an export as it arrives, and checks it against its manifest. */
  ExportManifest receive(ExportUserRequest request, OutputStream into, LongConsumer progress) throws IOException {
    MessageDigest digest = sha256();
    long size = 0;
    ExportManifest manifest = null;
    var context = Context.current().withCancellation();
    Context before = context.attach();
    try {
      var stub = PrivacyServiceGrpc.newBlockingStub(at.channel).withDeadlineAfter(remaining(), TimeUnit.NANOSECONDS);
      for (Iterator<ExportUserResponse> replies = stub.exportUser(request); replies.hasNext(); ) {
        ExportUserResponse reply = replies.next();
        if (reply.hasManifest()) {
          manifest = reply.getManifest();
          continue;
        }
        byte[] data = reply.getData().toByteArray();
        digest.update(data);
        into.write(data);
        size += data.length;
        progress.accept(size);
      }
    } finally {
      context.detachAndCancel(before, null);
    }
    if (manifest == null
        || manifest.getTotalBytes() != size
        || !manifest.getSha256().equals(HexFormat.of().formatHex(digest.digest()))) {
      String told = "the export is incomplete or was changed on the way (" + size + " bytes came): ask for it again";
      throw new HithertoException(Status.DATA_LOSS.withDescription(told), new Metadata(), null);
    }
    return manifest;
  }

  /** Sends an export, from its start again if the call breaks off: what was stored already is skipped. */
  ImportUserResponse send(String user, Path export, LongConsumer progress) throws IOException {
    String key = UUID.randomUUID().toString();
    boolean taken = false;
    for (int failures = 1; ; failures++) {
      HithertoException failed;
      var sending = new Sending(ImportUserRequest.newBuilder().setUserId(user).setIdempotencyKey(key));
      try (InputStream data = Files.newInputStream(export)) {
        return sending.send(data, progress);
      } catch (StatusRuntimeException thrown) {
        failed = HithertoException.from(thrown);
      }
      taken = taken || sending.taken;
      // A service that took a piece comes back, if it goes: only the time bounds the wait.
      RetryPolicy policy = taken ? at.retry.withoutEnd() : at.retry;
      Optional<Duration> wait =
          at.bare.isShutdown() ? Optional.empty() : policy.waitBeforeRetry(failed, failures, true);
      if (wait.isEmpty() || wait.get().toNanos() >= remaining()) {
        throw failed;
      }
      at.pause(wait.get());
    }
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** One call of ImportUser. */
  private final class Sending implements ClientResponseObserver<ImportUserRequest, ImportUserResponse> {
    private final ImportUserRequest.Builder piece;
    private ClientCallStreamObserver<ImportUserRequest> requests;
    private ImportUserResponse reply;
    private Throwable failure;
    private boolean ended;
    private boolean taken;

    Sending(ImportUserRequest.Builder piece) {
      this.piece = piece;
    }

    ImportUserResponse send(InputStream export, LongConsumer progress) throws IOException {
      PrivacyServiceGrpc.newStub(at.channel).withDeadlineAfter(remaining(), TimeUnit.NANOSECONDS).importUser(this);
      try {
        long sent = 0;
        for (byte[] data = export.readNBytes(PIECE_BYTES);
            (data.length > 0 || sent == 0) && awaits(true);
            data = export.readNBytes(PIECE_BYTES)) {
          requests.onNext(piece.setData(ByteString.copyFrom(data)).build());
          // A call is ready once it has a connection.
          taken = true;
          sent += data.length;
          progress.accept(sent);
          if (data.length == 0) {
            break;
          }
        }
        if (!hasEnded()) {
          requests.onCompleted();
        }
        awaits(false);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new HithertoException(Status.CANCELLED.withDescription("interrupted"), new Metadata(), interrupted);
      } finally {
        requests.cancel("the import has ended", null);
      }
      if (failure != null) {
        throw Status.fromThrowable(failure).asRuntimeException(Status.trailersFromThrowable(failure));
      }
      return reply;
    }

    private synchronized boolean hasEnded() {
      return ended;
    }

    /** Waits until the call takes another piece, or until it has ended; tells whether it has not. */
    private synchronized boolean awaits(boolean another) throws InterruptedException {
      while (!ended && !(another && requests.isReady())) {
        wait();
      }
      return !ended;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<ImportUserRequest> given) {
      requests = given;
      given.setOnReadyHandler(this::changed);
    }

    @Override
    public void onNext(ImportUserResponse given) {
      reply = given;
    }

    @Override
    public void onError(Throwable given) {
      failure = given;
      end();
    }

    @Override
    public void onCompleted() {
      end();
    }

    private synchronized void end() {
      ended = true;
      notifyAll();
    }

    private synchronized void changed() {
      notifyAll();
    }
  }
}
