package com.hitherto.client;

import com.google.protobuf.ProtocolMessageEnum;
import com.google.protobuf.Timestamp;
import com.hitherto.v1.SearchResult;
import java.time.Instant;
import java.util.Locale;

/** Values of the contract as Java has them. */
public final class Values {
  private Values() {}

  /**
   * The word for an enumerated value, as the other clients spell it: MEMORY_TYPE_GOAL is {@code goal}. A value that only a
   * newer service has is {@code unknown}; one that is not set, {@code unspecified}.
   */
  public static String word(ProtocolMessageEnum value) {
    if (value.toString().equals("UNRECOGNIZED")) {
      return "unknown";
    }
    String first = value.getDescriptorForType().findValueByNumber(0).getName();
    int prefix = first.length() - "UNSPECIFIED".length();
    return value.getValueDescriptor().getName().substring(prefix).toLowerCase(Locale.ROOT);
  }

  /** The time. */
  public static Instant time(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }

  /** The time as requests take it. */
  public static Timestamp time(Instant time) {
    return Timestamp.newBuilder().setSeconds(time.getEpochSecond()).setNanos(time.getNano()).build();
  }

  /** The text of what was found, whichever kind of item it is. */
  public static String text(SearchResult result) {
    return switch (result.getItemCase()) {
      case MEMORY -> result.getMemory().getContent();
      case MESSAGE -> result.getMessage().getContent();
      case SUMMARY -> result.getSummary().getSummary();
      case DOCUMENT_CHUNK -> result.getDocumentChunk().getContent();
      case ITEM_NOT_SET -> "";
    };
  }
}
