import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import { ExportManifestSchema } from "../src/gen/hitherto/v1/privacy_pb.js";
import { failing, Scripted } from "./scripted.js";

const MEBIBYTE = Buffer.alloc(1024 * 1024, "x");
const GONE = { code: status.UNAVAILABLE, details: "gone" };

let server: Scripted;
beforeEach(async () => {
  server = await new Scripted().start();
});
afterEach(() => server.stop());

test("an import that breaks off begins again, with its key", async () => {
  server.failures = [GONE, failing(status.UNAVAILABLE, "DATABASE_UNAVAILABLE", 1)];
  const client = server.client();
  let opened = 0;
  const told: number[] = [];
  const open = () => {
    opened += 1;
    return [MEBIBYTE, Buffer.from("the rest")];
  };
  await client.importUser("ana", open, { onProgress: (bytes) => told.push(bytes) });
  assert.equal(opened, 3);
  const whole = server.imported.at(-1) as any[];
  assert.equal(Buffer.concat(whole.map(({ data }) => data)).length, MEBIBYTE.length + 8);
  assert.ok(whole.every(({ userId, data }) => userId === "ana" && data.length <= 256 * 1024));
  assert.equal(new Set(server.imported.flat().map(({ idempotencyKey }) => idempotencyKey)).size, 1);
  assert.equal(told.at(-1), MEBIBYTE.length + 8);
  // Reads of the user include what was imported.
  await client.getContext("ana", "x");
  assert.equal(server.requests["getContext"]?.[0].consistencyToken, "after-the-import");
});

test("an import ends with its attempts, or with what is final", async () => {
  server.failures = [GONE, GONE, GONE, GONE, GONE];
  await assert.rejects(server.client().importUser("ana", () => [MEBIBYTE]), { code: status.UNAVAILABLE });
  assert.equal(server.imported.length, 4);
  server.failures = [failing(status.FAILED_PRECONDITION, "USER_NOT_EMPTY")];
  await assert.rejects(server.client().importUser("ana", () => []), { reason: "USER_NOT_EMPTY" });
  assert.equal(server.imported.length, 5);
});

test("an export is made again without a refused token", async () => {
  const manifest = create(ExportManifestSchema, { sha256: createHash("sha256").digest("hex") });
  server.exported = [{ case: "manifest", value: manifest }];
  const client = server.client();
  await client.importUser("ana", () => []);
  server.failures = [failing(status.INVALID_ARGUMENT, "INVALID_CONSISTENCY_TOKEN")];
  assert.equal((await client.exportUser("ana", new PassThrough().resume())).sha256, manifest.sha256);
  await client.getContext("ana", "x");
  assert.equal(server.requests["getContext"]?.[0].consistencyToken, "");
});

test("an export that is not what was sent is refused", async () => {
  const manifest = create(ExportManifestSchema, {
    totalBytes: BigInt(MEBIBYTE.length),
    sha256: createHash("sha256").update(MEBIBYTE).digest("hex"),
  });
  const data = { case: "data", value: MEBIBYTE } as const;
  const end = { case: "manifest", value: manifest } as const;
  const client = server.client();
  server.exported = [data, end];
  const into = new PassThrough();
  const [received, told] = await Promise.all([buffer(into), client.exportUser("ana", into)]);
  assert.ok(received.equals(MEBIBYTE));
  assert.equal(told.sha256, manifest.sha256);
  const other = { case: "data", value: Buffer.alloc(MEBIBYTE.length, "y") } as const;
  for (const wrong of [[data], [end], [data, data, end], [other, end]]) {
    server.exported = wrong;
    const broken = new PassThrough().resume();
    await assert.rejects(client.exportUser("ana", broken), { code: status.DATA_LOSS });
    assert.ok(broken.destroyed);
  }
});
