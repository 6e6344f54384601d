package com.hitherto.client;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.io.IOException;
import java.util.Optional;
import java.util.function.Supplier;

/** What calls carry, and what connections are made with. */
final class Credentials {
  private Credentials() {}

  /** The API key or token to send with a call; asked for each call. */
  static Supplier<Optional<String>> ofCalls(String apiKey, Supplier<String> token) {
    String key = apiKey == null ? "" : apiKey.strip();
    if (!key.isEmpty() && token != null) {
      throw new IllegalArgumentException(
          "there are an API key and a token: give one of them, or unset HITHERTO_API_KEY or HITHERTO_TOKEN");
    }
    if (token != null) {
      return () -> Optional.of(checkedToken(token.get()));
    }
    if (!key.isEmpty() && !isSendable(key)) {
      throw new IllegalArgumentException(
          "the API key holds characters that no key has: copy it again as `hitherto keys create` printed it");
    }
    Optional<String> sent = Optional.of(key).filter(text -> !text.isEmpty());
    return () -> sent;
  }

  static String checkedToken(String token) {
    String text = token.strip();
    if (!isSendable(text)) {
      throw new IllegalArgumentException("the token is empty or holds characters that no token has");
    }
    return text;
  }

  /** TLS if there is an authority. */
  static ChannelCredentials ofConnections(String authority, String certificate, String key) {
    if (certificate.isEmpty() != key.isEmpty()) {
      throw new IllegalArgumentException(
          "a certificate goes with its key: set HITHERTO_TLS_CLIENT_CERTIFICATE_FILE and "
              + "HITHERTO_TLS_CLIENT_KEY_FILE, or neither");
    }
    if (authority.isEmpty()) {
      if (!certificate.isEmpty()) {
        throw new IllegalArgumentException("a certificate is shown over TLS only: set HITHERTO_TLS_CA_FILE");
      }
      return InsecureChannelCredentials.create();
    }
    try {
      var made = TlsChannelCredentials.newBuilder().trustManager(new File(authority));
      if (!certificate.isEmpty()) {
        made.keyManager(new File(certificate), new File(key));
      }
      return made.build();
    } catch (IOException unreadable) {
      throw new IllegalArgumentException("a file for TLS cannot be read: " + unreadable.getMessage(), unreadable);
    }
  }

  private static boolean isSendable(String text) {
    return !text.isEmpty() && text.chars().allMatch(c -> c > ' ' && c <= '~');
  }
}
