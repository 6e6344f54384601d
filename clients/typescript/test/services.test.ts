import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";

// As an application imports them.
import { Hitherto } from "@hitherto/client";

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
      assert.equal(saved.memory.content, text);
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
    const id = found.results[0]?.memory?.id as string;
    assert.equal(found.results[0]?.text, TEXTS.find((text) => text.includes("Hà Nội")));
    assert.equal((await client.forgetMemory(user, id, { reason: "She asked for it." })).status, "forgotten");
    for await (const memory of client.memories(user)) {
      assert.notEqual(memory.id, id);
    }
    assert.equal((await client.getMemory(user, id))?.status, "forgotten");
    assert.equal((await client.restoreMemory(user, id)).status, "active");
    assert.equal(await client.getMemory(user, NOBODY), undefined);
    const old = (await client.saveMemory(user, "Bà ấy có hai con chó.")).memory.id;
    const saved = await client.saveMemory(user, "Bà ấy có ba con chó.", { replaces: [old] });
    assert.deepEqual(saved.memory.supersedes, [old]);
  });

  test("correct what is known", async () => {
    const user = someone();
    const since = new Date("2024-02-29T12:00:00Z");
    const { memory } = await client.saveMemory(user, "She lives in Huế 🏯.", { type: "personal", validFrom: since });
    assert.equal(memory.type, "personal");
    assert.deepEqual(memory.validFrom, since);
    assert.ok(!("$typeName" in memory) && !("consistencyToken" in memory));
    const corrected = await client.updateMemory(user, memory.id, {
      content: "She lives in Đà Nẵng 🌉.",
      importance: 0.9,
      tags: ["home"],
      metadata: { by: "hand" },
      version: memory.version,
    });
    assert.equal(corrected.content, "She lives in Đà Nẵng 🌉.");
    assert.deepEqual([corrected.importance, corrected.type, corrected.tags], [0.9, "personal", ["home"]]);
    assert.deepEqual(corrected.alsoStates, []);
    const cleared = await client.updateMemory(user, memory.id, { clear: ["tags", "metadata.by"] });
    assert.deepEqual([cleared.tags, cleared.metadata ?? {}], [[], {}]);
    const kinds: string[] = [];
    for await (const { kind, createdAt } of client.memoryHistory(user, memory.id, { pageSize: 1 })) {
      assert.ok(createdAt instanceof Date);
      kinds.push(kind);
    }
    assert.deepEqual(kinds, ["updated", "updated", "created"]);
    assert.deepEqual(await client.why(user, memory.id), { memory: await client.getMemory(user, memory.id), quotes: [] });
    await assert.rejects(client.updateMemory(user, memory.id, { content: "x", version: 1 }), {
      reason: "VERSION_MISMATCH",
    });
    await assert.rejects(client.updateMemory(user, memory.id, {}), { reason: "INVALID_FIELD" });
  });

  test("let a person decide", async () => {
    const user = someone();
    assert.equal(await client.getProfile(user), undefined);
    await client.updateProfile(user, { summary: "Nuôi cá.", facts: { personal: { location: "Huế", notes: "🐟" } } });
    const profile = await client.updateProfile(user, {
      facts: { personal: { location: "Đà Nẵng" } },
      clear: ["summary"],
    });
    assert.deepEqual([profile.summary, profile.facts], ["", { personal: { location: "Đà Nẵng", notes: "🐟" } }]);
    assert.deepEqual(await client.getProfile(user), profile);
    const settings = await client.updateUserSettings(user, { timeZone: "Asia/Saigon", learningEnabled: false });
    assert.deepEqual([settings.timeZone, settings.learningEnabled, settings.redactSecrets], [
      "Asia/Saigon",
      false,
      "redact",
    ]);
    const reset = await client.updateUserSettings(user, { clear: ["learningEnabled"] });
    assert.deepEqual([reset.timeZone, reset.learningEnabled], ["Asia/Saigon", true]);
    assert.deepEqual(await client.getUserSettings(user), reset);
    await client.saveMemory(user, "She keeps fish.");
    assert.equal((await client.clearMemories(user))["memories"], 1);
    const receipt = await client.eraseUser(user);
    assert.ok(receipt.erasedAt instanceof Date && receipt.counts["memories"] === 1 && receipt.signature.length);
    await assert.rejects(client.saveMemory(user, "x"), { reason: "USER_ERASED" });
    assert.equal((await client.getUserSettings(user)).erased, true);
    assert.equal(await client.reinstateUser(user), true);
  });

  test("learn from a chat", async () => {
    const user = someone();
    const said = "I live in Hà Nội and I work as a marine biologist 🐙.";
    const messages = [{ role: "user", content: said }, { role: "assistant", content: "Noted." }] as const;
    const added = await client.add(user, messages, { conversation: "monday" });
    assert.equal(added.messageIds.length, 2);
    const job = await client.jobs.wait(await client.endConversation(user, "monday"), { timeoutMs: 120_000 });
    assert.equal(job.state, "succeeded", job.error);
    assert.ok(job.finishedAt instanceof Date);
    assert.deepEqual(await client.jobs.get(job), job);
    const told = await client.getContext(user, "Where does the user live?", { scopes: ["memories"] });
    assert.ok(told.memories.some(({ userId, content }) => userId === user && content));
    assert.ok(told.promptBlock);
    assert.ok(told.legs.every(({ state, duration }) => state !== undefined && (duration ?? 0) >= 0));
    const proof = await client.why(user, told.memories[0]?.id as string);
    const quote = proof?.quotes[0];
    assert.deepEqual([quote?.conversationId, quote?.before, quote?.message?.content], ["monday", undefined, said]);
    assert.deepEqual([quote?.message?.role, quote?.after?.content], ["user", "Noted."]);
    const mentioned = await client.search(user, "biologist", { scopes: ["messages"] });
    assert.deepEqual(mentioned.results.map(({ text }) => text), [said]);
  });

  test("take transcripts", async () => {
    const user = someone();
    const createdAt = new Date("2025-06-15T15:06:40Z");
    const messages = [{ role: "user", content: "I live in Porto.", createdAt } as const];
    const jobs = await client.submitTranscripts([{ userId: user, conversationId: "tuesday", messages, ended: true }]);
    assert.equal(jobs.length, 1);
    assert.equal((await client.jobs.wait(jobs[0]?.id as string, { timeoutMs: 120_000 })).userId, user);
    const kept = await client.getConversation(user, "tuesday");
    assert.deepEqual(kept?.messages.map(({ role, createdAt }) => ({ role, createdAt })), [{ role: "user", createdAt }]);
    assert.equal(await client.getConversation(user, "wednesday"), undefined);
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
    assert.equal(manifest.totalBytes, size);
    assert.equal(told.at(-1), size);
    assert.equal(manifest.counts["memories"], 5);
    // Somebody else receives them, in pieces of the file's stream or from memory at once.
    const other = someone();
    const imported = await client.importUser(other, () => createReadStream(file), { onProgress: (n) => told.push(n) });
    assert.equal(told.at(-1), size);
    assert.equal(imported.importedCounts["memories"], 5);
    const read: string[] = [];
    for await (const memory of client.memories(other)) {
      read.push(memory.content);
    }
    assert.deepEqual(read.sort(), TEXTS);
    const whole = await readFile(file);
    const again = await client.importUser(user, () => [whole]);
    assert.equal(again.importedCounts["memories"] ?? 0, 0);
    assert.equal(again.skippedCounts["memories"], 5);
    await assert.rejects(client.importUser(someone(), () => [Buffer.from("no export")]), { reason: "INVALID_FIELD" });
    await assert.rejects(client.importUser(someone(), () => createReadStream(join(folder, "none"))), { code: "ENOENT" });
    await assert.rejects(client.exportUser(user, createWriteStream(join(folder, "no/such"))), { code: "ENOENT" });
  });

  test("say what is wrong", async () => {
    const user = someone();
    await assert.rejects(client.saveMemory(user, ""), (error: any) => {
      assert.equal(error.reason, "INVALID_FIELD");
      assert.equal(error.violations[0].field, "content");
      assert.equal(error.message.split("content: ").length, 2);
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
