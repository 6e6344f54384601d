package client;

import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import com.hitherto.v1.ExtractionServiceGrpc;
import com.hitherto.v1.GetContextRequest;
import com.hitherto.v1.GetContextResponse;
import com.hitherto.v1.Job;
import com.hitherto.v1.RetrievalServiceGrpc;
import com.hitherto.v1.SubmitTranscriptsRequest;
import com.hitherto.v1.Transcript;
import com.hitherto.v1.WatchJobRequest;
import com.hitherto.v1.WatchJobResponse;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * A client made from protos/ alone: submits one transcript, watches its job to the end and prints
 * what an assistant would be told about the user, as one line of JSON on stdout.
 *
 * <p>Environment: HITHERTO_EXTRACTION_ADDRESS and HITHERTO_RETRIEVAL_ADDRESS (host:port),
 * HITHERTO_TRANSCRIPT (a hitherto.v1.Transcript as JSON), HITHERTO_QUERY (optional),
 * HITHERTO_API_KEY (optional), HITHERTO_DEADLINE_SECONDS (for the whole run, default 60).
 */
public final class Client {
  private static final JsonFormat.Printer JSON =
      JsonFormat.printer().preservingProtoFieldNames().omittingInsignificantWhitespace();

  private final List<String> states = new ArrayList<>();

  private Client() {}

  public static void main(String[] arguments) {
    try {
      byte[] told = new Client().run().getBytes(StandardCharsets.UTF_8);
      System.out.write(told, 0, told.length);
      System.out.println();
    } catch (Exception error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }

  private String run() throws Exception {
    Transcript.Builder transcript = Transcript.newBuilder();
    JsonFormat.parser().merge(required("HITHERTO_TRANSCRIPT"), transcript);
    ManagedChannel writing = channel("HITHERTO_EXTRACTION_ADDRESS");
    ManagedChannel reading = channel("HITHERTO_RETRIEVAL_ADDRESS");
    try {
      var extraction = calling(ExtractionServiceGrpc.newBlockingStub(writing));
      var submitted =
          extraction.submitTranscripts(
              SubmitTranscriptsRequest.newBuilder().addTranscripts(transcript).build());
      Job job = watch(extraction, submitted.getJobs(0).getId());
      GetContextResponse context =
          calling(RetrievalServiceGrpc.newBlockingStub(reading))
              .getContext(
                  GetContextRequest.newBuilder()
                      .setUserId(transcript.getUserId())
                      .setQuery(System.getenv().getOrDefault("HITHERTO_QUERY", ""))
                      .setConsistencyToken(job.getConsistencyToken())
                      .build());
      return report(job, context);
    } finally {
      writing.shutdownNow();
      reading.shutdownNow();
    }
  }

  private Job watch(ExtractionServiceGrpc.ExtractionServiceBlockingStub extraction, String id) {
    Job job = Job.getDefaultInstance();
    Iterator<WatchJobResponse> updates =
        extraction.watchJob(WatchJobRequest.newBuilder().setJobId(id).build());
    while (updates.hasNext()) {
      job = updates.next().getJob();
      states.add(job.getState().name());
    }
    switch (job.getState()) {
      case JOB_STATE_SUCCEEDED, JOB_STATE_DEAD, JOB_STATE_CANCELLED -> {
        return job;
      }
      default -> throw new IllegalStateException(
          "WatchJob ended before the job did: " + String.join(", ", states));
    }
  }

  private String report(Message job, Message context) throws Exception {
    String names = states.stream().map(name -> '"' + name + '"').collect(Collectors.joining(","));
    return String.format(
        "{\"job\":%s,\"states\":[%s],\"context\":%s}",
        JSON.print(job), names, JSON.print(context));
  }

  private static ManagedChannel channel(String variable) {
    return Grpc.newChannelBuilder(required(variable), InsecureChannelCredentials.create()).build();
  }

  /** The stub with the deadline of the run and, if there is one, the API key. */
  private static <S extends AbstractStub<S>> S calling(S stub) {
    long seconds = Long.parseLong(System.getenv().getOrDefault("HITHERTO_DEADLINE_SECONDS", "60"));
    S limited = stub.withDeadlineAfter(seconds, TimeUnit.SECONDS);
    String key = System.getenv("HITHERTO_API_KEY");
    if (key == null || key.isEmpty()) {
      return limited;
    }
    Metadata metadata = new Metadata();
    metadata.put(
        Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + key);
    return limited.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(metadata));
  }

  private static String required(String variable) {
    String value = System.getenv(variable);
    if (value == null || value.isEmpty()) {
      throw new IllegalStateException("set " + variable + "; the head of this file lists what is needed");
    }
    return value;
  }
}
