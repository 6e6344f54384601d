import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { status } from "@grpc/grpc-js";

import { JobState } from "../src/gen/hitherto/v1/job_pb.js";
import { Hitherto, HithertoError } from "../src/index.js";
import { failing, Scripted } from "./scripted.js";

const GONE = { code: status.UNAVAILABLE, details: "gone" };

let server: Scripted;
beforeEach(async () => {
  server = await new Scripted().start();
});
afterEach(() => server.stop());

const withCode = (code: status) => (error: unknown) => error instanceof HithertoError && error.code === code;

test("a write is repeated with its key", async () => {
  server.failures = [GONE, GONE, GONE];
  const client = server.client();
  await client.saveMemory("ana", "Ana lives in Porto.");
  const keys = new Set(server.requests["saveMemory"]?.map(({ idempotencyKey }) => idempotencyKey));
  const ids = new Set(server.metadata.map((metadata) => metadata.get("x-request-id")[0]));
  assert.equal(server.at.length, 4);
  assert.equal(keys.size, 1);
  assert.ok(!keys.has(""));
  assert.equal(ids.size, 1);
  // A second call is another one.
  await client.saveMemory("ana", "Ana lives in Porto.");
  assert.ok(!keys.has(server.requests["saveMemory"]?.at(-1).idempotencyKey));
});

test("a given key is kept", async () => {
  await server.client().saveMemory("ana", "x", { idempotencyKey: "mine" });
  assert.equal(server.requests["saveMemory"]?.[0].idempotencyKey, "mine");
});

test("attempts end", async () => {
  server.failures = [GONE, GONE, GONE, GONE, GONE];
  await assert.rejects(server.client().saveMemory("ana", "x"), withCode(status.UNAVAILABLE));
  assert.equal(server.at.length, 4);
});

test("only a service that is not reached is to be started", async () => {
  const retry = { attempts: 1 };
  await assert.rejects(server.client({ extraction: "127.0.0.1:1", retry }).saveMemory("ana", "x"), {
    code: status.UNAVAILABLE,
    message: new RegExp(
      "The extraction service cannot be reached at 127.0.0.1:1: start it with `hitherto up`, or check " +
        "HITHERTO_EXTRACTION_ADDRESS and, for TLS, HITHERTO_TLS_CA_FILE",
    ),
  });
  server.failures = [failing(status.UNAVAILABLE, "DATABASE_UNAVAILABLE")];
  server.watched = [[]];
  const client = server.client({ retry });
  const failed: unknown[] = [];
  const keep = (error: unknown) => failed.push(error);
  await client.saveMemory("ana", "x").catch(keep);
  await client.jobs.wait("job-1").catch(keep);
  client.close();
  await client.saveMemory("ana", "x").catch(keep);
  assert.equal(failed.length, 3);
  for (const error of failed) {
    assert.doesNotMatch((error as Error).message, /cannot be reached/);
  }
  assert.ok(withCode(status.UNAVAILABLE)(failed[1]));
});

test("RetryInfo is obeyed", async () => {
  server.failures = Array.from({ length: 5 }, () => failing(status.RESOURCE_EXHAUSTED, "RATE_LIMITED", 150));
  await server.client().getContext("ana", "x");
  assert.equal(server.at.length, 6);
  for (const [i, at] of server.at.slice(1).entries()) {
    // Timers may be a millisecond early.
    assert.ok(at - (server.at[i] as number) >= 148, `attempt ${i + 2} came too early`);
  }
});

test("a wait that exceeds the deadline is not begun", async () => {
  server.failures = [failing(status.RESOURCE_EXHAUSTED, "RATE_LIMITED", 3_600_000)];
  await assert.rejects(server.client().getContext("ana", "x"), (error: HithertoError) => {
    assert.equal(error.retryAfterMs, 3_600_000);
    assert.equal(error.reason, "RATE_LIMITED");
    assert.deepEqual({ ...error.metadata }, { limit: "9" });
    assert.equal(error.service, "retrieval");
    assert.equal(error.address, server.address);
    assert.equal(error.requestId, server.metadata[0]?.get("x-request-id")[0]);
    return true;
  });
  assert.equal(server.at.length, 1);
});

test("a time that is none is refused, and one beyond all timers is no limit", async () => {
  const client = server.client();
  for (const timeoutMs of [NaN, "5000" as unknown as number]) {
    const none: AsyncIterable<never> = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) };
    for (const call of [
      () => client.getContext("ana", "x", { timeoutMs }),
      () => server.client({ timeoutMs }).saveMemory("ana", "x"),
      () => client.jobs.wait("job-1", { timeoutMs }),
      () => client.importUser("ana", () => none, { timeoutMs }),
      () => client.stubs.extraction.streamTranscripts(none, { timeoutMs }),
    ]) {
      await assert.rejects(call, TypeError);
    }
  }
  assert.equal(server.at.length, 0);
  for (const timeoutMs of [Infinity, Number.MAX_VALUE, Number.MAX_SAFE_INTEGER, 2 ** 31]) {
    await client.getContext("ana", "x", { timeoutMs });
  }
});

test("what cannot be sent is named and not sent", async () => {
  const client = server.client();
  const never = new Date(NaN);
  const untyped = client as any;
  const circle: Record<string, unknown> = {};
  circle["inner"] = circle;
  for (const [adding, path] of [
    [() => untyped.add("ana", [{ role: "robot", content: "x" }], { conversation: "c" }), "messages[0].role"],
    [() => untyped.add("ana", "monday", { conversation: "c" }), "messages"],
    [() => client.saveMemory("ana", "x", { validFrom: never }), "validFrom"],
    [() => untyped.saveMemory("ana", "x", { valid_from: never }), "valid_from"],
    [() => untyped.updateMemory("ana", "m1", { contents: "x" }), "memory.contents"],
    [() => untyped.search("ana", "x", { types: ["fact", 3] }), "types[1]"],
    [() => untyped.search("ana", "x", { limit: "a" }), "limit"],
    [() => client.search("ana", "x", { limit: 2.5 }), "limit"],
    [() => client.search("ana", "x", { limit: 2 ** 40 }), "limit"],
    [() => untyped.search("ana", "x", { explain: 1 }), "explain"],
    [() => untyped.search("ana", "x", { queryEmbedding: [0.5, "a"] }), "queryEmbedding[1]"],
    [() => untyped.search("ana", "x", { weights: { semantic: "a" } }), "weights.semantic"],
    [() => untyped.saveMemory(7, "x"), "userId"],
    [() => client.saveMemory("ana", "half \ud83d here"), "content"],
    [() => untyped.saveMemory("ana", "x", { tags: ["a", 1] }), "tags[1]"],
    [() => client.saveMemory("ana", "x", { metadata: { a: ["\ud83d"] } }), "metadata.a[0]"],
    [() => client.saveMemory("ana", "x", { metadata: { "\ud83d": 1 } }), "metadata"],
    [() => untyped.saveMemory("ana", "x", { metadata: { day: new Date() } }), "metadata.day"],
    [() => untyped.saveMemory("ana", "x", { metadata: ["a"] }), "metadata"],
    [() => untyped.saveMemory("ana", "x", { metadata: circle }), "metadata.inner"],
    [() => client.add("ana", [{ role: "user", content: "\udc00" }], { conversation: "c" }), "messages[0].content"],
    [() => untyped.updateMemory("ana", "m1", { clear: "tags" }), "clear"],
    [() => untyped.updateMemory("ana", "m1", { clear: [3] }), "clear"],
    [() => untyped.stubs.retrieval.searchMemories({ userId: "ana", limit: "a" }), "limit"],
    [() => client.stubs.retrieval.searchMemories({ userId: "ana", query: "\ud83d" }), "query"],
    [() => client.stubs.extraction.watchJob({ jobId: "\ud83d" })[Symbol.asyncIterator]().next(), "jobId"],
  ] as const) {
    await assert.rejects(adding, (error) => error instanceof TypeError && error.message.startsWith(path));
  }
  assert.equal(server.at.length, 0);
  // A whole pair is a character.
  await untyped.saveMemory("ana", "🙂", { tags: ["🙂"], metadata: { "🙂": [null, true, 1.5, { a: "b", c: undefined }] } });
});

test("a reason without RetryInfo is final", async () => {
  server.failures = [failing(status.ABORTED, "VERSION_MISMATCH")];
  await assert.rejects(server.client().saveMemory("ana", "x"), { reason: "VERSION_MISMATCH" });
  assert.equal(server.at.length, 1);
});

test("an error of somebody else has no reason", async () => {
  server.failures = [failing(status.UNAVAILABLE, "NO_UPSTREAM", undefined, "proxy.example")];
  const client = server.client({ retry: { attempts: 1 } });
  await assert.rejects(client.getContext("ana", "x"), { reason: "", details: "as scripted" });
});

test("a given request id is kept", async () => {
  server.failures = [failing(status.ABORTED, "VERSION_MISMATCH")];
  const headers = { "x-request-id": "mine" };
  await assert.rejects(server.client().saveMemory("ana", "x", { headers }), { requestId: "mine" });
  assert.deepEqual(server.metadata[0]?.get("x-request-id"), ["mine"]);
});

test("a deadline ends the call", async () => {
  server.hangs = true;
  const client = server.client({ timeoutMs: 200 });
  await assert.rejects(client.getContext("ana", "x"), withCode(status.DEADLINE_EXCEEDED));
  await assert.rejects(client.saveMemory("ana", "x", { timeoutMs: 100 }), withCode(status.DEADLINE_EXCEEDED));
});

test("a call can be cancelled, and while it waits", async () => {
  const client = server.client();
  const aborting = (afterMs: number) => {
    const controller = new AbortController();
    server.onCall = () => void setTimeout(() => controller.abort(), afterMs);
    return { signal: controller.signal, timeoutMs: 60_000 };
  };
  server.failures = [failing(status.RESOURCE_EXHAUSTED, "RATE_LIMITED", 50_000)];
  const begun = Date.now();
  // Most often after the reply; the call has to end at once before it, too.
  await assert.rejects(client.saveMemory("ana", "x", aborting(300)), withCode(status.CANCELLED));
  assert.ok(Date.now() - begun < 40_000);
  server.hangs = true;
  await assert.rejects(client.saveMemory("ana", "x", aborting(0)), withCode(status.CANCELLED));
  const before = server.at.length;
  await assert.rejects(client.getContext("ana", "x", { signal: AbortSignal.abort() }), withCode(status.CANCELLED));
  assert.equal(server.at.length, before);
});

test("reads include own writes", async () => {
  const client = server.client();
  await client.saveMemory("ana", "x");
  await client.getContext("ana", "x");
  await client.getContext("rui", "x");
  const sent = server.requests["getContext"]?.map(({ consistencyToken }) => consistencyToken);
  assert.deepEqual(sent, ["after-the-write", ""]);
});

test("a refused token is dropped", async () => {
  const client = server.client();
  await client.saveMemory("ana", "x");
  server.failures = [failing(status.INVALID_ARGUMENT, "INVALID_CONSISTENCY_TOKEN")];
  await client.getContext("ana", "x");
  await client.getContext("ana", "x");
  const sent = server.requests["getContext"]?.map(({ consistencyToken }) => consistencyToken);
  assert.deepEqual(sent, ["after-the-write", "", ""]);
});

test("a watch goes on across broken streams", async () => {
  server.failures = [undefined, GONE];
  server.watched = [
    [JobState.QUEUED, 11 as JobState],
    [11 as JobState, JobState.SUCCEEDED],
  ];
  const client = server.client();
  const states: string[] = [];
  for await (const { state } of client.jobs.watch("job-1")) {
    states.push(state);
  }
  // The second state is one of a newer service.
  assert.deepEqual(states, ["queued", "unknown_11", "succeeded"]);
  assert.equal(server.at.length, 3);
  await client.getContext("ana", "x");
  assert.equal(server.requests["getContext"]?.[0].consistencyToken, "after-the-job");
});

test("a watch ends with its deadline, and early", async () => {
  const client = server.client();
  server.watched = [[JobState.QUEUED, JobState.RUNNING]];
  for await (const { state } of client.jobs.watch("job-1")) {
    assert.equal(state, "queued");
    break;
  }
  server.hangs = true;
  await assert.rejects(client.jobs.wait("job-1", { timeoutMs: 200 }), withCode(status.DEADLINE_EXCEEDED));
});

test("a service that is being restarted is awaited", async () => {
  const extraction = await server.unready(3);
  const client = server.client({ extraction, retry: { attempts: 1_000, firstWaitMs: 50, longestWaitMs: 100 } });
  await client.saveMemory("ana", "x");
});

test("the credential is asked for at each call", async () => {
  const tokens = ["first", "second"];
  const client = server.client({ token: async () => tokens.shift() as string });
  await client.getContext("ana", "x");
  await client.getContext("ana", "x");
  const sent = server.metadata.map((metadata) => metadata.get("authorization"));
  assert.deepEqual(sent, [["Bearer first"], ["Bearer second"]]);
});

test("what cannot work is refused", async () => {
  for (const settings of [
    { apiKey: "k", token: "t" },
    { apiKey: "kéy" },
    { token: "two words" },
    { tlsCertificateFile: "c.pem", tlsKeyFile: "k.pem" },
    { tlsCaFile: "ca.pem", tlsCertificateFile: "c.pem" },
    { tlsCaFile: "missing.pem" },
    { retrieval: "http://127.0.0.1:50051" },
  ]) {
    assert.throws(() => new Hitherto(settings), JSON.stringify(settings));
  }
  const client = server.client();
  const conversation = "monday";
  // @ts-expect-error: the compiler knows the words.
  await assert.rejects(client.add("ana", [{ role: "boss", content: "x" }], { conversation }), TypeError);
  // @ts-expect-error: and the fields.
  await assert.rejects(client.getContext("ana", "x", { maxTokenz: 5 }), TypeError);
});
