package com.hitherto.client;

import com.google.protobuf.FieldMask;
import com.google.protobuf.Message;
import com.google.protobuf.Struct;
import java.util.stream.Stream;

/** What an update changes. */
final class Changes {
  private Changes() {}

  /** The paths of what a message sets. With {@code byKey}, what a Struct holds is named key by key. */
  static FieldMask mask(Message changes, boolean byKey) {
    Stream<String> paths =
        changes.getAllFields().entrySet().stream()
            .flatMap(
                field -> {
                  String name = field.getKey().getName();
                  return byKey && field.getValue() instanceof Struct held ? keyPaths(name, held) : Stream.of(name);
                });
    return FieldMask.newBuilder().addAllPaths(paths::iterator).build();
  }

  /** An empty Struct is a value of its own. */
  private static Stream<String> keyPaths(String path, Struct held) {
    if (held.getFieldsCount() == 0) {
      return Stream.of(path);
    }
    return held.getFieldsMap().entrySet().stream()
        .flatMap(
            entry -> {
              String inner = path + "." + entry.getKey();
              var value = entry.getValue();
              return value.hasStructValue() ? keyPaths(inner, value.getStructValue()) : Stream.of(inner);
            });
  }
}
