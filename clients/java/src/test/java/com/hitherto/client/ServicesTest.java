package com.hitherto.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Struct;
import com.google.protobuf.Timestamp;
import com.google.protobuf.Value;
import com.hitherto.v1.ExportManifest;
import com.hitherto.v1.GetConversationRequest;
import com.hitherto.v1.JobState;
import com.hitherto.v1.Memory;
import com.hitherto.v1.MemoryStatus;
import com.hitherto.v1.MemoryType;
import com.hitherto.v1.Message;
import com.hitherto.v1.Profile;
import com.hitherto.v1.SearchScope;
import com.hitherto.v1.Transcript;
import com.hitherto.v1.UserSettings;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** Against the services that the environment names; without this variable there are none to test with. */
@EnabledIfEnvironmentVariable(named = "HITHERTO_TEST_SERVICES", matches = ".+")
class ServicesTest {
  private static final List<String> TEXTS =
      Stream.of(
              "Tôi sống ở Hà Nội và làm nghề nuôi cá.",
              "أعيش في القاهرة وأعمل مهندسة.",
              "👩🏽‍🚀 loves 🐙 and 日本語.",
              "Her sister is called Anaïs.",
              "The bicycle is green.")
          .sorted()
          .toList();
  private static final String NOBODY = "00000000-0000-4000-8000-000000000000";

  private final Hitherto connected = Hitherto.connect();
  private final Hitherto client = connected.within(Duration.ofMinutes(2));
  private final String user = "người dùng " + UUID.randomUUID();

  @AfterEach
  void close() {
    connected.close();
  }

  @Test
  void keepEveryScript() {
    for (String text : TEXTS) {
      var saved = client.saveMemory(user, text, request -> request.addTags("thẻ"));
      assertEquals(text, saved.getMemory().getContent());
    }
    List<Memory> read = client.memories(user, request -> request.setPageSize(2)).toList();
    assertEquals(TEXTS, read.stream().map(Memory::getContent).sorted().toList());
    assertTrue(read.stream().allMatch(memory -> memory.getTagsList().equals(List.of("thẻ"))));
    assertTrue(read.stream().allMatch(memory -> memory.getUserId().equals(user)));
    var found = client.search(user, "Hà Nội", request -> request.setLimit(1));
    assertEquals(1, found.getResultsCount());
    String id = found.getResults(0).getMemory().getId();
    assertEquals("Tôi sống ở Hà Nội và làm nghề nuôi cá.", Values.text(found.getResults(0)));
    var gone = client.forgetMemory(user, id, request -> request.setReason("She asked for it."));
    assertEquals("forgotten", Values.word(gone.getMemory().getStatus()));
    assertTrue(client.memories(user).noneMatch(memory -> memory.getId().equals(id)));
    assertEquals(
        Optional.of(MemoryStatus.MEMORY_STATUS_FORGOTTEN), client.getMemory(user, id).map(Memory::getStatus));
    assertEquals("active", Values.word(client.restoreMemory(user, id).getStatus()));
    assertEquals(Optional.empty(), client.getMemory(user, NOBODY));
    String old = client.saveMemory(user, "Bà ấy có hai con chó.").getMemory().getId();
    var saved = client.saveMemory(user, "Bà ấy có ba con chó.", request -> request.addReplaces(old));
    assertEquals(List.of(old), saved.getMemory().getSupersedesList());
  }

  @Test
  void learnFromAChat() {
    String said = "I live in Hà Nội and I work as a marine biologist 🐙.";
    var messages = List.of(Messages.user(said), Messages.assistant("Noted."));
    assertEquals(2, client.add(user, messages, "monday").getMessageIdsCount());
    var job = client.jobs().await(client.endConversation(user, "monday").getId());
    assertEquals(JobState.JOB_STATE_SUCCEEDED, job.getState(), job::getError);
    var told =
        client.getContext(
            user, "Where does the user live?", request -> request.addScopes(SearchScope.SEARCH_SCOPE_MEMORIES));
    assertTrue(told.getMemoriesList().stream().anyMatch(memory -> memory.getUserId().equals(user)));
    assertTrue(told.getPromptTokens() > 0);
    var quote = client.why(user, told.getMemories(0).getId()).orElseThrow().quotes().get(0);
    assertEquals("monday", quote.conversationId());
    assertEquals(Optional.empty(), quote.before());
    assertEquals(Optional.of(said), quote.message().map(Message::getContent));
    assertEquals(Optional.of("Noted."), quote.after().map(Message::getContent));
  }

  @Test
  void correctWhatIsKnown() {
    Instant since = Instant.parse("2024-02-29T12:00:00Z");
    var saved =
        client.saveMemory(
            user,
            "She lives in Huế 🏯.",
            request ->
                request.setType(MemoryType.MEMORY_TYPE_PERSONAL).addTags("home").setValidFrom(Values.time(since)));
    assertEquals(since, Values.time(saved.getMemory().getValidFrom()));
    String id = saved.getMemory().getId();
    Memory changed =
        client
            .updateMemory(
                user,
                id,
                changes -> changes.setContent("She lives in Đà Nẵng 🌉."),
                request -> request.getUpdateMaskBuilder().addPaths("tags"))
            .getMemory();
    assertEquals("She lives in Đà Nẵng 🌉.", changed.getContent());
    assertEquals(List.of(), changed.getTagsList());
    assertEquals("personal", Values.word(changed.getType()));
    var kinds =
        client
            .memoryHistory(user, id, request -> request.setPageSize(1))
            .map(event -> Values.word(event.getKind()))
            .toList();
    assertEquals(List.of("updated", "created"), kinds);
    assertEquals(Optional.of(new Proof(changed, List.of())), client.why(user, id));
    var failed =
        assertThrows(
            HithertoException.class,
            () -> client.updateMemory(user, id, changes -> changes.setContent("x"), request -> request.setVersion(1)));
    assertEquals("VERSION_MISMATCH", failed.reason());
    failed = assertThrows(HithertoException.class, () -> client.updateMemory(user, id, changes -> {}));
    assertEquals("INVALID_FIELD", failed.reason());
  }

  @Test
  void letAPersonDecide() {
    assertEquals(Optional.empty(), client.getProfile(user));
    client.updateProfile(
        user,
        changes -> changes.setSummary("Nuôi cá.").setFacts(personal(Map.of("location", "Huế", "notes", "🐟"))));
    Profile moved =
        client.updateProfile(
            user,
            changes -> changes.setFacts(personal(Map.of("location", "Đà Nẵng"))),
            request -> request.getUpdateMaskBuilder().addPaths("summary"));
    assertEquals("", moved.getSummary());
    assertEquals(personal(Map.of("location", "Đà Nẵng", "notes", "🐟")), moved.getFacts());
    assertEquals(Optional.of(moved), client.getProfile(user));
    client.updateUserSettings(user, changes -> changes.setTimeZone("Asia/Saigon").setLearningEnabled(false));
    UserSettings reset =
        client.updateUserSettings(
            user, changes -> {}, request -> request.getUpdateMaskBuilder().addPaths("learning_enabled"));
    assertEquals("Asia/Saigon", reset.getTimeZone());
    assertTrue(reset.getLearningEnabled());
    assertEquals(reset, client.getUserSettings(user));
    client.saveMemory(user, "She keeps fish.");
    assertEquals(1, client.clearMemories(user).get("memories"));
    assertEquals(1, client.eraseUser(user).getCountsOrThrow("memories"));
    var failed = assertThrows(HithertoException.class, () -> client.saveMemory(user, "x"));
    assertEquals("USER_ERASED", failed.reason());
    assertTrue(client.reinstateUser(user));
  }

  private static Struct personal(Map<String, String> values) {
    var held = Struct.newBuilder();
    values.forEach((key, value) -> held.putFields(key, Value.newBuilder().setStringValue(value).build()));
    return Struct.newBuilder().putFields("personal", Value.newBuilder().setStructValue(held).build()).build();
  }

  @Test
  void takeTranscripts() {
    var at = Timestamp.newBuilder().setSeconds(1_750_000_000).build();
    var transcript =
        Transcript.newBuilder()
            .setUserId(user)
            .setConversationId("tuesday")
            .addMessages(Messages.user("I live in Porto.").toBuilder().setCreatedAt(at))
            .setEnded(true)
            .build();
    var jobs = client.submitTranscripts(List.of(transcript));
    assertEquals(1, jobs.size());
    assertEquals(user, client.jobs().await(jobs.get(0).getId()).getUserId());
    var request = GetConversationRequest.newBuilder().setUserId(user).setConversationId("tuesday").build();
    assertEquals(at, client.retrieval().getConversation(request).getMessages(0).getCreatedAt());
  }

  @Test
  void giveAUsersDataAndTakeThemBack(@TempDir Path folder) throws IOException {
    TEXTS.forEach(text -> client.saveMemory(user, text));
    Path file = folder.resolve("export.jsonl");
    var told = new AtomicLong();
    ExportManifest manifest;
    try (var out = Files.newOutputStream(file)) {
      manifest = client.exportUser(user, out, told::set);
    }
    assertEquals(Files.size(file), manifest.getTotalBytes());
    assertEquals(Files.size(file), told.getAndSet(0));
    assertEquals(5, manifest.getCountsOrThrow("memories"));
    String other = user + " too";
    var imported = client.importUser(other, file, told::set);
    assertEquals(Files.size(file), told.get());
    assertEquals(5, imported.getImportedCountsOrThrow("memories"));
    assertEquals(TEXTS, client.memories(other).map(Memory::getContent).sorted().toList());
    var again = client.importUser(user, file);
    assertEquals(0, again.getImportedCountsOrDefault("memories", 0));
    assertEquals(5, again.getSkippedCountsOrThrow("memories"));
    Path none = Files.writeString(folder.resolve("none"), "no export");
    var failed = assertThrows(HithertoException.class, () -> client.importUser(user + " three", none));
    assertEquals("INVALID_FIELD", failed.reason());
    assertThrows(NoSuchFileException.class, () -> client.importUser(user, folder.resolve("nowhere")));
  }

  @Test
  void sayWhatIsWrong() {
    var failed = assertThrows(HithertoException.class, () -> client.saveMemory(user, ""));
    assertEquals("INVALID_FIELD", failed.reason());
    assertEquals("content", failed.violations().get(0).field());
    assertEquals(2, failed.getMessage().split("content: ").length);
    failed = assertThrows(HithertoException.class, () -> client.jobs().await(NOBODY));
    assertEquals("JOB_NOT_FOUND", failed.reason());
    try (Hitherto stranger = Hitherto.builder().token("nobody").build()) {
      failed = assertThrows(HithertoException.class, () -> stranger.saveMemory(user, "x"));
      assertEquals("CREDENTIAL_INVALID", failed.reason());
      failed = assertThrows(HithertoException.class, () -> stranger.jobs().await(NOBODY));
      assertEquals("CREDENTIAL_INVALID", failed.reason());
    }
  }
}
