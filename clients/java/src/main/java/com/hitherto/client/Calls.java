package com.hitherto.client;

import com.google.protobuf.Message;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** How the client's methods call: reads that include own writes, lists page by page, typed errors. */
record Calls(OwnWrites tokens) {
  /** Makes a call that reads. */
  <Q extends Message, A> A read(String user, Q request, Function<Q, A> call) {
    String token = tokens.of(user);
    try {
      return call.apply(Requests.withConsistencyToken(request, token));
    } catch (StatusRuntimeException thrown) {
      HithertoException failed = HithertoException.from(thrown);
      if (token.isEmpty() || !failed.reason().equals("INVALID_CONSISTENCY_TOKEN")) {
        throw failed;
      }
    }
    // It was made with a secret that the services no longer have.
    tokens.drop(user);
    return called(() -> call.apply(Requests.withConsistencyToken(request, "")));
  }

  /** Makes a call that reads one thing; empty if there is none. */
  <Q extends Message, A> Optional<A> find(String user, Q request, Function<Q, A> call) {
    try {
      return Optional.of(read(user, request, call));
    } catch (HithertoException failed) {
      if (failed.code() == Status.Code.NOT_FOUND && !failed.reason().isEmpty()) {
        return Optional.empty();
      }
      throw failed;
    }
  }

  /** Makes a call that later reads of the user include. */
  <A extends Message> A write(String user, Supplier<A> call) {
    return write(List.of(user), call);
  }

  /** Makes a call that later reads of the users include. */
  <A extends Message> A write(Iterable<String> users, Supplier<A> call) {
    int begun = tokens.begin();
    A reply = called(call);
    users.forEach(user -> tokens.note(user, Requests.consistencyToken(reply), begun));
    return reply;
  }

  /** The items of pages, each fetched by the token of the one before; an empty one is the first and the last. */
  static <P, T> Stream<T> pages(Function<String, P> fetch, Function<P, String> next, Function<P, List<T>> items) {
    return Stream.iterate(
            Optional.of(fetch.apply("")),
            Optional::isPresent,
            page -> page.map(next).filter(token -> !token.isEmpty()).map(fetch))
        .flatMap(page -> items.apply(page.orElseThrow()).stream());
  }

  @SafeVarargs
  static <B> B filled(B request, Consumer<B>... with) {
    for (Consumer<B> fill : with) {
      fill.accept(request);
    }
    return request;
  }

  private static <A> A called(Supplier<A> call) {
    try {
      return call.get();
    } catch (StatusRuntimeException thrown) {
      throw HithertoException.from(thrown);
    }
  }
}
