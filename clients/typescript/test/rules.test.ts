import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";

import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";

import { readError } from "../src/errors.js";
import { ExtractionService } from "../src/gen/hitherto/v1/extraction_service_pb.js";
import { MemoryService } from "../src/gen/hitherto/v1/memory_service_pb.js";
import { RetrievalService } from "../src/gen/hitherto/v1/retrieval_service_pb.js";
import { DEFAULT_RETRY, defaultTimeoutMs, waitBeforeRetry } from "../src/retry.js";
import { MOST_USERS, OwnWrites } from "../src/tokens.js";

/** What the clients in every language obey. */
const rules = JSON.parse(readFileSync(new URL("../../../rules.json", import.meta.url), "utf8"));

suite("waits", () => {
  test("the default policy", () => {
    const { attempts, first_wait, longest_wait } = rules.retry;
    assert.deepEqual(DEFAULT_RETRY, { attempts, firstWaitMs: first_wait * 1000, longestWaitMs: longest_wait * 1000 });
  });
  for (const given of rules.waits) {
    test(given.name, () => {
      const code = status[given.code as keyof typeof status];
      assert.notEqual(code, undefined);
      const retryAfterMs = given.retry_after === null ? undefined : given.retry_after * 1000;
      const wait = waitBeforeRetry(
        { ...DEFAULT_RETRY, attempts: given.attempts },
        { code, reason: given.reason, retryAfterMs },
        given.failures,
        given.repeatable,
      );
      if (given.wait === null) {
        assert.equal(wait, undefined);
      } else {
        assert.ok(wait !== undefined && wait >= given.wait[0] * 1000 && wait <= given.wait[1] * 1000, `${wait} ms`);
      }
    });
  }
});

suite("refusals of gRPC", () => {
  for (const { name, code, message, reason } of rules.refusals) {
    test(name, () => {
      const raised = { code: status[code as keyof typeof status], details: message };
      const read = readError(raised, { service: "retrieval", address: "", requestId: "" });
      assert.equal(read.reason, reason);
    });
  }
});

test("deadlines", () => {
  const methods = [ExtractionService, MemoryService, RetrievalService].flatMap((service) =>
    service.methods.map((method) => ({ path: `/${service.typeName}/${method.name}`, method })),
  );
  for (const { method: path, seconds } of rules.deadlines) {
    const found = methods.find((one) => one.path === path)?.method;
    const reads = found?.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
    assert.equal(defaultTimeoutMs(found?.name ?? "Unknown", reads), seconds * 1000, path);
  }
});

suite("tokens", () => {
  for (const { name, steps } of rules.tokens) {
    test(name, () => {
      const kept = new OwnWrites();
      const begun: Record<string, number> = {};
      for (const step of steps) {
        switch (step.do) {
          case "begin":
            begun[step.as] = kept.begin();
            break;
          case "note":
            for (const token of step.tokens) {
              kept.note(step.user, token, begun[step.begun]);
            }
            break;
          case "drop":
            kept.drop(step.user);
            break;
          case "read":
            assert.equal(kept.of(step.user), step.sends);
            break;
          default:
            assert.fail(`unknown step ${step.do}`);
        }
      }
    });
  }
  test("of the users written for last", () => {
    const kept = new OwnWrites();
    for (let user = 0; user < MOST_USERS + 5; user += 1) {
      kept.note(`user ${user}`, "t");
    }
    assert.equal(kept.size, MOST_USERS);
    assert.equal(kept.of("user 0"), "");
    assert.equal(kept.of(`user ${MOST_USERS}`), "t");
  });
});
