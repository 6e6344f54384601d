package com.hitherto.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import com.hitherto.v1.ExportManifest;
import com.hitherto.v1.GetConversationRequest;
import com.hitherto.v1.JobState;
import com.hitherto.v1.Memory;
import com.hitherto.v1.MemoryStatus;
import com.hitherto.v1.SearchScope;
import com.hitherto.v1.Transcript;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
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
    client.forgetMemory(user, id, request -> request.setReason("She asked for it."));
    assertTrue(client.memories(user).noneMatch(memory -> memory.getId().equals(id)));
    assertEquals(
        Optional.of(MemoryStatus.MEMORY_STATUS_FORGOTTEN), client.getMemory(user, id).map(Memory::getStatus));
    assertEquals(Optional.empty(), client.getMemory(user, NOBODY));
    String old = client.saveMemory(user, "Bà ấy có hai con chó.").getMemory().getId();
    var saved = client.saveMemory(user, "Bà ấy có ba con chó.", request -> request.addReplaces(old));
    assertEquals(List.of(old), saved.getMemory().getSupersedesList());
  }

  @Test
  void learnFromAChat() {
    var messages =
        List.of(
            Messages.user("I live in Hà Nội and I work as a marine biologist 🐙."), Messages.assistant("Noted."));
    assertEquals(2, client.add(user, "monday", messages).getMessageIdsCount());
    var job = client.jobs().await(client.endConversation(user, "monday").getId());
    assertEquals(JobState.JOB_STATE_SUCCEEDED, job.getState(), job::getError);
    var told =
        client.getContext(
            user, "Where does the user live?", request -> request.addScopes(SearchScope.SEARCH_SCOPE_MEMORIES));
    assertTrue(told.getMemoriesList().stream().anyMatch(memory -> memory.getUserId().equals(user)));
    assertTrue(told.getPromptTokens() > 0);
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
