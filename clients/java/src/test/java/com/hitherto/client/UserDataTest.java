package com.hitherto.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.hitherto.v1.ExportManifest;
import com.hitherto.v1.ExportUserResponse;
import com.hitherto.v1.ImportUserRequest;
import io.grpc.Status;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class UserDataTest {
  @TempDir private Path folder;
  private final byte[] bytes = new byte[1024 * 1024 + 8];
  private Scripted server;
  private Hitherto client;
  private Path file;

  @BeforeEach
  void start() throws Exception {
    server = new Scripted();
    client = server.client().build();
    Arrays.fill(bytes, (byte) 'x');
    file = Files.write(folder.resolve("export.jsonl"), bytes);
  }

  @AfterEach
  void stop() throws Exception {
    client.close();
    server.close();
  }

  @Test
  void anImportThatBreaksOffBeginsAgainWithItsKey() throws Exception {
    server.fails(
        Scripted.GONE, Scripted.failing(Status.Code.UNAVAILABLE, "DATABASE_UNAVAILABLE", Duration.ofMillis(1)));
    var told = new AtomicLong();
    client.importUser("ana", file, told::set);
    assertEquals(bytes.length, told.get());
    assertEquals(3, server.imported.size());
    List<ImportUserRequest> whole = server.imported.get(2);
    var data = whole.stream().map(ImportUserRequest::getData).reduce(ByteString.EMPTY, ByteString::concat);
    assertArrayEquals(bytes, data.toByteArray());
    assertTrue(whole.stream().allMatch(sent -> sent.getUserId().equals("ana") && sent.getData().size() <= 256 * 1024));
    var keys =
        server.imported.stream()
            .flatMap(List::stream)
            .map(ImportUserRequest::getIdempotencyKey)
            .collect(Collectors.toSet());
    assertEquals(1, keys.size());
    // Reads of the user include what was imported.
    client.getContext("ana", "x");
    assertEquals("after-the-import", server.read.get(0).getConsistencyToken());
  }

  @Test
  void aServiceThatTookAPieceIsWaitedForUnlessWhatItSaysIsFinal() throws Exception {
    server.fails(Scripted.GONE, Scripted.GONE, Scripted.GONE, Scripted.GONE, Scripted.GONE);
    client.importUser("ana", file);
    assertEquals(6, server.imported.size());
    server.fails(Scripted.failing(Status.Code.FAILED_PRECONDITION, "USER_NOT_EMPTY", null));
    var failed = assertThrows(HithertoException.class, () -> client.importUser("ana", file));
    assertEquals("USER_NOT_EMPTY", failed.reason());
    assertEquals(7, server.imported.size());
  }

  @Test
  void anExportThatIsNotWhatWasSentIsRefused() throws Exception {
    String sha256 = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    var data = ExportUserResponse.newBuilder().setData(ByteString.copyFrom(bytes)).build();
    var end =
        ExportUserResponse.newBuilder()
            .setManifest(ExportManifest.newBuilder().setTotalBytes(bytes.length).setSha256(sha256))
            .build();
    server.exported = List.of(data, end);
    var received = new ByteArrayOutputStream();
    assertEquals(sha256, client.exportUser("ana", received).getSha256());
    assertArrayEquals(bytes, received.toByteArray());
    var other = ExportUserResponse.newBuilder().setData(ByteString.copyFrom(new byte[bytes.length])).build();
    for (var wrong : List.of(List.of(data), List.of(end), List.of(data, data, end), List.of(other, end))) {
      server.exported = wrong;
      var failed =
          assertThrows(HithertoException.class, () -> client.exportUser("ana", OutputStream.nullOutputStream()));
      assertEquals(Status.Code.DATA_LOSS, failed.code());
    }
  }

  @Test
  void anExportIsMadeAgainWithoutARefusedToken() throws Exception {
    String sha256 = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(new byte[0]));
    var end = ExportUserResponse.newBuilder().setManifest(ExportManifest.newBuilder().setSha256(sha256)).build();
    server.exported = List.of(end);
    client.saveMemory("ana", "x");
    server.fails(Scripted.failing(Status.Code.INVALID_ARGUMENT, "INVALID_CONSISTENCY_TOKEN", null));
    assertEquals(sha256, client.exportUser("ana", OutputStream.nullOutputStream()).getSha256());
    client.getContext("ana", "x");
    assertEquals("", server.read.get(0).getConsistencyToken());
  }

  @Test
  void aFullDiskEndsAnExport() {
    var data = ExportUserResponse.newBuilder().setData(ByteString.copyFrom(bytes)).build();
    server.exported = List.of(data, data);
    var full =
        new OutputStream() {
          @Override
          public void write(int one) throws IOException {
            throw new IOException("no space left");
          }
        };
    assertThrows(IOException.class, () -> client.exportUser("ana", full));
  }
}
