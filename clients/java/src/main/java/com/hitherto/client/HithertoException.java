package com.hitherto.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/** A call failed for good, after retries where these could help. */
public final class HithertoException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The domain of every ErrorInfo that the services themselves give. */
  private static final String DOMAIN = "hitherto";

  /** Stands in gRPC's own refusal of a message that is too large, which has no details. */
  private static final String OWN_LIMIT = "larger than max";

  static final Metadata.Key<String> REQUEST_ID = key("x-request-id");
  static final Metadata.Key<String> SERVICE = key("x-hitherto-service");
  static final Metadata.Key<String> ADDRESS = key("x-hitherto-address");

  /**
   * One invalid field of a request.
   *
   * @param field its path in the request, such as {@code transcripts[3].messages[0].content}
   * @param description what is wrong with it and what would be right
   */
  public record Violation(String field, String description) {}

  private final transient Status status;
  private final transient Metadata trailers;
  private String reason = "";
  private transient Map<String, String> metadata = Map.of();
  private transient List<Violation> violations = List.of();
  private Duration retryAfter;

  /** The typed error behind the one that a stub has thrown. */
  public static HithertoException from(StatusRuntimeException thrown) {
    Metadata trailers = thrown.getTrailers() == null ? new Metadata() : thrown.getTrailers();
    return new HithertoException(thrown.getStatus(), trailers, thrown);
  }

  HithertoException(Status status, Metadata trailers, Throwable cause) {
    super(null, cause);
    this.status = status;
    this.trailers = trailers;
    if (code() == Status.Code.RESOURCE_EXHAUSTED && description().contains(OWN_LIMIT)) {
      reason = "REQUEST_TOO_LARGE";
    }
    com.google.rpc.Status told;
    try {
      told = StatusProto.fromStatusAndTrailers(status, trailers);
    } catch (IllegalArgumentException contradicting) {
      // Details that contradict the status were not written by our services.
      return;
    }
    try {
      for (Any detail : told.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          ErrorInfo info = detail.unpack(ErrorInfo.class);
          if (info.getDomain().equals(DOMAIN)) {
            reason = info.getReason();
            metadata = Map.copyOf(info.getMetadataMap());
          }
        } else if (detail.is(BadRequest.class)) {
          violations =
              detail.unpack(BadRequest.class).getFieldViolationsList().stream()
                  .map(one -> new Violation(one.getField(), one.getDescription()))
                  .toList();
        } else if (detail.is(RetryInfo.class)) {
          var delay = detail.unpack(RetryInfo.class).getRetryDelay();
          Duration named = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
          retryAfter = named.isNegative() ? Duration.ZERO : named;
        }
      }
    } catch (InvalidProtocolBufferException unreadable) {
      reason = "";
      retryAfter = null;
    }
  }

  /** The gRPC status code. */
  public Status.Code code() {
    return status.getCode();
  }

  /** The service's own words, or gRPC's where the call did not reach it. */
  public String description() {
    return status.getDescription() == null ? "" : status.getDescription();
  }

  /**
   * A value of ErrorReason without its prefix, such as {@code USER_ERASED}; empty if the error did not come from the
   * services.
   */
  public String reason() {
    return reason;
  }

  /** What the reason is about; see the example at each ErrorReason. */
  public Map<String, String> metadata() {
    return metadata;
  }

  /** The invalid fields, all at once. */
  public List<Violation> violations() {
    return violations;
  }

  /** The time after which the service suggests another try; empty if it suggests none. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /** Which service was called: {@code retrieval} or {@code extraction}; empty after the client was closed. */
  public String service() {
    return trailer(SERVICE);
  }

  /** The address at which it was called. */
  public String address() {
    return trailer(ADDRESS);
  }

  /** The {@code x-request-id} under which the service logged the call. */
  public String requestId() {
    return trailer(REQUEST_ID);
  }

  @Override
  public String getMessage() {
    StringBuilder told = new StringBuilder(code().name());
    if (!reason.isEmpty() && !reason.equals(code().name())) {
      told.append(' ').append(reason);
    }
    told.append(": ").append(description());
    // The description names the first violation.
    violations.stream()
        .map(one -> one.field() + ": " + one.description())
        .filter(named -> !description().contains(named))
        .forEach(named -> told.append('\n').append(named));
    if (code() == Status.Code.UNAVAILABLE && reason.isEmpty() && !service().isEmpty()) {
      String remedy =
          "\nThe %s service cannot be reached at %s: start it with `hitherto up`, or check HITHERTO_%s_ADDRESS"
              + " and, for TLS, HITHERTO_TLS_CA_FILE";
      told.append(remedy.formatted(service(), address(), service().toUpperCase(Locale.ROOT)));
    }
    return told.toString();
  }

  private String trailer(Metadata.Key<String> key) {
    String value = trailers.get(key);
    return value == null ? "" : value;
  }

  static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }
}
