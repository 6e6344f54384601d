import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";

import { timestampDate } from "@bufbuild/protobuf/wkt";

// As an application imports them.
import { Hitherto } from "@hitherto/client";
import { JobState } from "@hitherto/client/v1/job";
import { MemoryStatus } from "@hitherto/client/v1/memory";
import { SearchScope } from "@hitherto/client/v1/search";

const TEXTS = [
  "Tôi sống ở Hà Nội và làm nghề nuôi cá.",
  "أعيش في القاهرة وأعمل مهندسة.",
  "👩🏽‍🚀 loves 🐙 and 日本語.",
  "Her sister is called Anaïs.",
  "The bicycle is green.",
].sort();
const NOBODY = "00000000-0000-4000-8000-000000000000";
const skip = process.env["HITHERTO_TEST_SERVICES"] ? false : "HITHERTO_TEST_SERVICES is unset: no services to test with";

suite("running services", { skip }, () => {
  const client = new Hitherto({ timeoutMs: 120_000 });
  after(() => client.close());
  const someone = () => `người dùng ${randomUUID()}`;

  test("keep every script", async () => {
    const user = someone();
    for (const text of TEXTS) {
      const saved = await client.saveMemory(user, text, { tags: ["thẻ"], metadata: { from: "a test" } });
      assert.equal(saved.memory?.content, text);
      assert.deepEqual(saved.memory.metadata, { from: "a test" });
    }
    const read: string[] = [];
    for await (const memory of client.memories(user, { pageSize: 2 })) {
      assert.equal(memory.userId, user);
      assert.deepEqual(memory.tags, ["thẻ"]);
      read.push(memory.content);
    }
    assert.deepEqual(read.sort(), TEXTS);
    const found = await client.search(user, "Hà Nội", { limit: 1 });
    assert.equal(found.results.length, 1);
    const item = found.results[0]?.item;
    assert.ok(item?.case === "memory");
    await client.forgetMemory(user, item.value.id, { reason: "She asked for it." });
    for await (const memory of client.memories(user)) {
      assert.notEqual(memory.id, item.value.id);
    }
    assert.equal((await client.getMemory(user, item.value.id))?.status, MemoryStatus.FORGOTTEN);
    assert.equal(await client.getMemory(user, NOBODY), undefined);
    const old = (await client.saveMemory(user, "Bà ấy có hai con chó.")).memory?.id ?? "";
    const saved = await client.saveMemory(user, "Bà ấy có ba con chó.", { replaces: [old] });
    assert.deepEqual(saved.memory?.supersedes, [old]);
  });

  test("learn from a chat", async () => {
    const user = someone();
    const added = await client.add(user, "monday", [
      { role: "user", content: "I live in Hà Nội and I work as a marine biologist 🐙." },
      { role: "assistant", content: "Noted." },
    ]);
    assert.equal(added.messageIds.length, 2);
    const job = await client.jobs.wait(await client.endConversation(user, "monday"), { timeoutMs: 120_000 });
    assert.equal(job.state, JobState.SUCCEEDED, job.error);
    const told = await client.getContext(user, "Where does the user live?", { scopes: [SearchScope.MEMORIES] });
    assert.ok(told.memories.some(({ userId, content }) => userId === user && content));
    assert.ok(told.promptBlock);
  });

  test("take transcripts", async () => {
    const user = someone();
    const createdAt = new Date("2025-06-15T15:06:40Z");
    const messages = [{ role: "user", content: "I live in Porto.", createdAt } as const];
    const jobs = await client.submitTranscripts([{ userId: user, conversationId: "tuesday", messages, ended: true }]);
    assert.equal(jobs.length, 1);
    assert.equal((await client.jobs.wait(jobs[0]?.id as string, { timeoutMs: 120_000 })).userId, user);
    const kept = await client.stubs.retrieval.getConversation({ userId: user, conversationId: "tuesday" });
    const at = kept.messages[0]?.createdAt;
    assert.deepEqual(at && timestampDate(at), createdAt);
    async function* stream() {
      for (let i = 0; i < 300; i += 1) {
        yield { item: { userId: user, content: `Number ${i} of a long list` } };
      }
    }
    const streamed = await client.stubs.memory.streamMemories(stream(), { timeoutMs: 300_000 });
    assert.equal(Number(streamed.savedCount), 300);
  });

  test("give a user's data and take them back", async () => {
    const folder = await mkdtemp(join(tmpdir(), "hitherto-"));
    after(() => rm(folder, { recursive: true }));
    const user = someone();
    for (const text of TEXTS) {
      await client.saveMemory(user, text);
    }
    const file = join(folder, "người dùng.jsonl");
    const told: number[] = [];
    const manifest = await client.exportUser(user, createWriteStream(file), { onProgress: (bytes) => told.push(bytes) });
    const { size } = await stat(file);
    assert.equal(manifest.totalBytes, BigInt(size));
    assert.equal(told.at(-1), size);
    assert.equal(manifest.counts["memories"], 5n);
    // Somebody else receives them, in pieces of the file's stream or from memory at once.
    const other = someone();
    const imported = await client.importUser(other, () => createReadStream(file), { onProgress: (n) => told.push(n) });
    assert.equal(told.at(-1), size);
    assert.equal(imported.importedCounts["memories"], 5n);
    const read: string[] = [];
    for await (const memory of client.memories(other)) {
      read.push(memory.content);
    }
    assert.deepEqual(read.sort(), TEXTS);
    const whole = await readFile(file);
    const again = await client.importUser(user, () => [whole]);
    assert.equal(again.importedCounts["memories"] ?? 0n, 0n);
    assert.equal(again.skippedCounts["memories"], 5n);
    await assert.rejects(client.importUser(someone(), () => [Buffer.from("no export")]), { reason: "INVALID_FIELD" });
    await assert.rejects(client.importUser(someone(), () => createReadStream(join(folder, "none"))), { code: "ENOENT" });
    await assert.rejects(client.exportUser(user, createWriteStream(join(folder, "no/such"))), { code: "ENOENT" });
  });

  test("say what is wrong", async () => {
    const user = someone();
    await assert.rejects(client.saveMemory(user, ""), (error: any) => {
      assert.equal(error.reason, "INVALID_FIELD");
      assert.equal(error.violations[0].field, "content");
      return true;
    });
    await assert.rejects(client.jobs.wait(NOBODY), { reason: "JOB_NOT_FOUND" });
    const stranger = new Hitherto({ token: "nobody" });
    after(() => stranger.close());
    await assert.rejects(stranger.saveMemory(user, "x"), { reason: "CREDENTIAL_INVALID" });
    await assert.rejects(stranger.jobs.wait(NOBODY), { reason: "CREDENTIAL_INVALID" });
    const requests = (async function* () {
      yield { item: { userId: user, content: "x" } };
    })();
    await assert.rejects(stranger.stubs.memory.streamMemories(requests), { reason: "CREDENTIAL_INVALID" });
  });
});
