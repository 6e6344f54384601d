package com.hitherto.client;

import com.hitherto.v1.ExtractionServiceGrpc.ExtractionServiceBlockingStub;
import com.hitherto.v1.GetJobRequest;
import com.hitherto.v1.Job;
import com.hitherto.v1.JobState;
import com.hitherto.v1.WatchJobRequest;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** The work in the background. */
public final class Jobs {
  private static final Set<JobState> FINAL =
      EnumSet.of(JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_DEAD, JobState.JOB_STATE_CANCELLED);

  /** A stream is opened anew after this time, so that a connection that died silently is noticed. */
  private static final Duration SLICE = Duration.ofSeconds(30);

  /** How long a service that has answered before may stay away, as during a restart. */
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final Calls calls;
  private final ExtractionServiceBlockingStub extraction;
  private final Endpoint at;
  private final Duration timeout;

  Jobs(Calls calls, ExtractionServiceBlockingStub extraction, Endpoint at, Duration timeout) {
    this.calls = calls;
    this.extraction = extraction;
    this.at = at;
    this.timeout = timeout;
  }

  /** The job as it is now. */
  public Job get(String id) {
    GetJobRequest request = GetJobRequest.newBuilder().setJobId(id).build();
    return heardOf(calls.read("", request, extraction::getJob).getJob());
  }

  /**
   * Waits until a job is final, and returns it; reads then include what it learnt. A job that did not succeed is
   * returned as well: see its state and error. There is no limit but that of {@link Hitherto#within}.
   */
  public Job await(String id) {
    return await(id, each -> {});
  }

  /**
   * Waits until a job is final, and tells it at once and after every change, the final one last. An interrupted stream
   * is opened again, for example after a restart of the service.
   */
  public Job await(String id, Consumer<Job> each) {
    WatchJobRequest request = WatchJobRequest.newBuilder().setJobId(id).build();
    // What System.nanoTime() counts from may lie in the future, so that it is negative.
    long deadline = nowMillis() + (timeout == null ? Long.MAX_VALUE / 2 : timeout.toMillis());
    Job last = null;
    int failures = 0;
    long heard = nowMillis();
    while (true) {
      long slice = Math.min(SLICE.toMillis(), Math.max(deadline - nowMillis(), 1));
      HithertoException failed;
      try {
        var replies = extraction.withDeadlineAfter(slice, TimeUnit.MILLISECONDS).watchJob(request);
        while (replies.hasNext()) {
          Job job = heardOf(replies.next().getJob());
          failures = 0;
          heard = nowMillis();
          if (!job.equals(last)) {
            last = job;
            each.accept(job);
          }
          if (FINAL.contains(job.getState())) {
            return job;
          }
        }
        failed = early();
      } catch (StatusRuntimeException thrown) {
        failed = HithertoException.from(thrown);
      }
      long silent = nowMillis() - heard;
      if (failed.code() == Status.Code.DEADLINE_EXCEEDED
          && nowMillis() < deadline
          && silent <= SLICE.plus(PATIENCE).toMillis()) {
        continue;
      }
      failures++;
      Optional<Duration> wait = at.waitBeforeRetry(failed, failures, true);
      if (wait.isEmpty()
          && !at.bare.isShutdown()
          && last != null
          && failed.code() == Status.Code.UNAVAILABLE
          && silent < PATIENCE.toMillis()) {
        wait = Optional.of(at.retry.longestWait());
      }
      if (wait.isEmpty() || wait.get().toMillis() >= deadline - nowMillis()) {
        throw failed;
      }
      at.pause(wait.get());
    }
  }

  private static HithertoException early() {
    String told = "the service ended the stream before the job was final";
    return new HithertoException(Status.UNAVAILABLE.withDescription(told), new Metadata(), null);
  }

  /** The job; if it has ended, reads of its user include what it did. */
  private Job heardOf(Job job) {
    calls.tokens().note(job.getUserId(), job.getConsistencyToken(), 0);
    return job;
  }

  private static long nowMillis() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }
}
