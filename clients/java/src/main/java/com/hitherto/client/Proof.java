package com.hitherto.client;

import com.hitherto.v1.Memory;
import com.hitherto.v1.MemorySourceRef;
import com.hitherto.v1.Message;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A memory, and the words that it rests on, in the order in which they were learnt from; there are none of what was saved
 * by hand.
 */
public record Proof(Memory memory, List<Quote> quotes) {
  private static final int MOST_SOURCES = 6;
  private static final int MOST_MESSAGES = 1_000;

  /**
   * A message that a memory was learnt from, with its neighbours. It is empty if it cannot be read, is no longer stored,
   * or is far back in a long conversation.
   */
  public record Quote(
      String conversationId,
      String title,
      String messageId,
      Optional<Message> before,
      Optional<Message> message,
      Optional<Message> after) {}

  static Proof of(Hitherto client, String user, Memory memory) {
    Map<String, List<String>> wanted = new LinkedHashMap<>();
    for (MemorySourceRef source : memory.getSourcesList().stream().limit(MOST_SOURCES).toList()) {
      wanted.computeIfAbsent(source.getConversationId(), id -> new ArrayList<>()).add(source.getMessageId());
    }
    List<Quote> quotes = new ArrayList<>();
    wanted.forEach((conversation, ids) -> quotes.addAll(quotes(client, user, conversation, ids)));
    return new Proof(memory, List.copyOf(quotes));
  }

  private static List<Quote> quotes(Hitherto client, String user, String conversation, List<String> ids) {
    String title = "";
    List<Message> messages = List.of();
    try {
      var found = client.getConversation(user, conversation, request -> request.setMessageLimit(1));
      title = found.map(known -> known.getSummary().getTitle()).orElse("");
      messages = downTo(client.messages(user, conversation).iterator(), new HashSet<>(ids));
    } catch (HithertoException failed) {
      // Sealed, and its key is away: the memory itself can be shown all the same.
      if (failed.code() != Status.Code.FAILED_PRECONDITION) {
        throw failed;
      }
    }
    List<Quote> quotes = new ArrayList<>();
    for (String id : ids) {
      int place = messages.stream().map(Message::getId).toList().indexOf(id);
      boolean there = place >= 0;
      quotes.add(
          new Quote(
              conversation,
              title,
              id,
              at(messages, there ? place - 1 : -1),
              at(messages, place),
              at(messages, there ? place + 1 : -1)));
    }
    return quotes;
  }

  private static Optional<Message> at(List<Message> messages, int place) {
    return place < 0 || place >= messages.size() ? Optional.empty() : Optional.of(messages.get(place));
  }

  /** The last messages of a conversation back to the one before those wanted, in order. */
  private static List<Message> downTo(Iterator<Message> latestFirst, Set<String> wanted) {
    List<Message> messages = new ArrayList<>();
    while (latestFirst.hasNext()) {
      Message message = latestFirst.next();
      messages.add(message);
      if (wanted.isEmpty() || messages.size() >= MOST_MESSAGES) {
        break;
      }
      wanted.remove(message.getId());
    }
    Collections.reverse(messages);
    return messages;
  }
}
