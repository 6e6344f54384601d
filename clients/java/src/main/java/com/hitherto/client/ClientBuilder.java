package com.hitherto.client;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Supplier;

/**
 * Makes a client; sets what otherwise comes from the environment: HITHERTO_RETRIEVAL_ADDRESS (127.0.0.1:50051),
 * HITHERTO_EXTRACTION_ADDRESS (127.0.0.1:50052), HITHERTO_API_KEY or HITHERTO_TOKEN (none), HITHERTO_TLS_CA_FILE
 * (none: no TLS), and HITHERTO_TLS_CLIENT_CERTIFICATE_FILE with HITHERTO_TLS_CLIENT_KEY_FILE (none).
 */
public final class ClientBuilder {
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

  ClientBuilder(Map<String, String> environment) {
    this.environment = environment;
  }

  /** The {@code host:port} of the retrieval service. */
  public ClientBuilder retrieval(String address) {
    retrieval = address;
    return this;
  }

  /** The {@code host:port} of the extraction service. */
  public ClientBuilder extraction(String address) {
    extraction = address;
    return this;
  }

  /** The key that {@code hitherto keys create} printed. */
  public ClientBuilder apiKey(String key) {
    apiKey = key;
    return this;
  }

  /** A JWT, if the services accept tokens. */
  public ClientBuilder token(String given) {
    String checked = Credentials.checkedToken(given);
    return token(() -> checked);
  }

  /** Where the JWT of each call comes from, so that it can be a new one before the old one ends. */
  public ClientBuilder token(Supplier<String> source) {
    token = source;
    return this;
  }

  /** The PEM file with the authority that signed the services' certificates. */
  public ClientBuilder tls(String authorityFile) {
    caFile = authorityFile;
    return this;
  }

  /** PEM files with a certificate and its key in PKCS #8, if the services ask for one. */
  public ClientBuilder clientCertificate(String certificate, String key) {
    certificateFile = certificate;
    keyFile = key;
    return this;
  }

  /** The time for every call, retries included; by default 10 s for reads and 30 s for writes. */
  public ClientBuilder timeout(Duration given) {
    timeout = Requests.countable(given);
    return this;
  }

  /** When failed calls are made again. */
  public ClientBuilder retry(RetryPolicy policy) {
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
    String reading = address(found(retrieval, "HITHERTO_RETRIEVAL_ADDRESS", "127.0.0.1:50051"));
    String writing = address(found(extraction, "HITHERTO_EXTRACTION_ADDRESS", "127.0.0.1:50052"));
    return new Hitherto(
        new Endpoint("retrieval", reading, transport, credential, timeout, retry, timer),
        new Endpoint("extraction", writing, transport, credential, timeout, retry, timer),
        new Calls(new OwnWrites()),
        timer,
        null);
  }

  /** Refuses the address of a web page, which no name server knows. */
  private static String address(String given) {
    String host = given.replaceFirst("(?i)^https?://", "").replaceFirst("/+$", "");
    if (given.matches("(?i)https?://.*")) {
      throw new IllegalArgumentException(
          "the address of a service is HOST:PORT, such as " + host + ", and not " + given);
    }
    return given;
  }

  private String found(String given, String variable, String fallback) {
    String value = given.isEmpty() ? environment.getOrDefault(variable, "") : given;
    return value.isEmpty() ? fallback : value;
  }
}
