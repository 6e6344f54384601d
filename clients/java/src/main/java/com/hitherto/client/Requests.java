package com.hitherto.client;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.DescriptorProtos.MethodOptions.IdempotencyLevel;
import com.google.protobuf.Message;
import io.grpc.MethodDescriptor;
import io.grpc.protobuf.ProtoMethodDescriptorSupplier;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.UUID;

/** What the contract says about RPCs, and the fields that many requests share. */
final class Requests {
  private static final Duration READ = Duration.ofSeconds(10);
  private static final Duration WRITE = Duration.ofSeconds(30);

  /** For PreviewExtraction, which asks a language model. */
  private static final Duration MODEL = Duration.ofSeconds(75);

  /** What gRPC and nanoseconds can count. */
  private static final Duration LONGEST = Duration.ofDays(36_500);

  private Requests() {}

  /** A time that may be any, as one that can be counted; null stays null. */
  static Duration countable(Duration given) {
    if (given == null || given.abs().compareTo(LONGEST) <= 0) {
      return given;
    }
    return given.isNegative() ? LONGEST.negated() : LONGEST;
  }

  /** Whether the contract declares the RPC free of side effects. */
  static boolean changesNothing(MethodDescriptor<?, ?> method) {
    return method.getSchemaDescriptor() instanceof ProtoMethodDescriptorSupplier described
        && described.getMethodDescriptor().getOptions().getIdempotencyLevel() == IdempotencyLevel.NO_SIDE_EFFECTS;
  }

  /** The deadline of a call to the RPC, unless the caller has set one. */
  static Duration defaultTimeout(String method, boolean reads) {
    if (method.endsWith("/PreviewExtraction")) {
      return MODEL;
    }
    return reads ? READ : WRITE;
  }

  /** Refuses half of a character, for which protobuf would send a question mark. */
  static void checkText(Object given) {
    if (given instanceof String text && !StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
      throw new IllegalArgumentException(
          "a text to send holds half of a character (an unpaired surrogate), as text has that was cut in between");
    }
    if (given instanceof Message message) {
      message.getAllFields().values().forEach(Requests::checkText);
    } else if (given instanceof List<?> several) {
      several.forEach(Requests::checkText);
    }
  }

  /** The request with a new idempotency key if it has a field for one and none is set. */
  static <Q> Q withIdempotencyKey(Q request) {
    FieldDescriptor field = field(request, "idempotency_key");
    if (field == null || !((Message) request).getField(field).equals("")) {
      return request;
    }
    return with(request, field, UUID.randomUUID().toString());
  }

  static boolean hasIdempotencyKey(Object request) {
    FieldDescriptor field = field(request, "idempotency_key");
    return field != null && !((Message) request).getField(field).equals("");
  }

  static <Q extends Message> Q withConsistencyToken(Q request, String token) {
    return with(request, field(request, "consistency_token"), token);
  }

  static String consistencyToken(Message reply) {
    return (String) reply.getField(field(reply, "consistency_token"));
  }

  private static FieldDescriptor field(Object message, String name) {
    return message instanceof Message known ? known.getDescriptorForType().findFieldByName(name) : null;
  }

  // The builder of a message builds messages of the same class.
  @SuppressWarnings("unchecked")
  private static <Q> Q with(Q message, FieldDescriptor field, String value) {
    return (Q) ((Message) message).toBuilder().setField(field, value).build();
  }
}
