package com.hitherto.client;

import com.hitherto.v1.Message;
import com.hitherto.v1.Role;

/** Messages of a chat. */
public final class Messages {
  private Messages() {}

  /** What the user said. */
  public static Message user(String content) {
    return Message.newBuilder().setRole(Role.ROLE_USER).setContent(content).build();
  }

  /** What the assistant said. */
  public static Message assistant(String content) {
    return Message.newBuilder().setRole(Role.ROLE_ASSISTANT).setContent(content).build();
  }
}
