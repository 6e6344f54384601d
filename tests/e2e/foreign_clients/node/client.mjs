// A client made from protos/ alone: submits one transcript, watches its job to the end and prints
// what an assistant would be told about the user, as one line of JSON on stdout.
//
// Environment: HITHERTO_PROTOS (the folder protos/), HITHERTO_EXTRACTION_ADDRESS and
// HITHERTO_RETRIEVAL_ADDRESS (host:port), HITHERTO_TRANSCRIPT (a hitherto.v1.Transcript as
// JSON), HITHERTO_QUERY (optional), HITHERTO_API_KEY (optional), HITHERTO_DEADLINE_SECONDS
// (for the whole run, default 60).

import { readdirSync } from "node:fs";
import { join } from "node:path";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const FINAL_STATES = new Set(["JOB_STATE_SUCCEEDED", "JOB_STATE_DEAD", "JOB_STATE_CANCELLED"]);

function required(name) {
  const value = process.env[name];
  if (!value) {
    throw new Error(`set ${name}; the head of this file lists what is needed`);
  }
  return value;
}

function loadContract(protos) {
  const folder = join(protos, "hitherto", "v1");
  const files = readdirSync(folder)
    .filter((name) => name.endsWith(".proto"))
    .map((name) => join("hitherto", "v1", name));
  const definition = protoLoader.loadSync(files, {
    includeDirs: [protos],
    keepCase: true,
    longs: Number,
    enums: String,
    defaults: true,
    oneofs: true,
  });
  return grpc.loadPackageDefinition(definition).hitherto.v1;
}

// The loader does not read the JSON form of well-known types.
function parseTranscript(text) {
  const transcript = JSON.parse(text);
  for (const message of transcript.messages) {
    const milliseconds = Date.parse(message.created_at);
    message.created_at = { seconds: Math.floor(milliseconds / 1000), nanos: 0 };
  }
  return transcript;
}

function unary(client, method, request, metadata, deadline) {
  return new Promise((resolve, reject) => {
    client[method](request, metadata, { deadline }, (error, reply) =>
      error ? reject(error) : resolve(reply),
    );
  });
}

async function watch(client, request, metadata, deadline) {
  const states = [];
  let job;
  for await (const update of client.WatchJob(request, metadata, { deadline })) {
    job = update.job;
    states.push(job.state);
  }
  if (!job || !FINAL_STATES.has(job.state)) {
    throw new Error(`WatchJob ended before the job did: ${states.join(", ") || "no update"}`);
  }
  return { job, states };
}

async function main() {
  const api = loadContract(required("HITHERTO_PROTOS"));
  const transcript = parseTranscript(required("HITHERTO_TRANSCRIPT"));
  const seconds = Number(process.env.HITHERTO_DEADLINE_SECONDS ?? "60");
  const deadline = Date.now() + seconds * 1000;
  const metadata = new grpc.Metadata();
  if (process.env.HITHERTO_API_KEY) {
    metadata.set("authorization", `Bearer ${process.env.HITHERTO_API_KEY}`);
  }
  const credentials = grpc.credentials.createInsecure();
  const extraction = new api.ExtractionService(
    required("HITHERTO_EXTRACTION_ADDRESS"),
    credentials,
  );
  const retrieval = new api.RetrievalService(required("HITHERTO_RETRIEVAL_ADDRESS"), credentials);
  try {
    const submitted = await unary(
      extraction,
      "SubmitTranscripts",
      { transcripts: [transcript] },
      metadata,
      deadline,
    );
    const { job, states } = await watch(
      extraction,
      { job_id: submitted.jobs[0].id },
      metadata,
      deadline,
    );
    const context = await unary(
      retrieval,
      "GetContext",
      {
        user_id: transcript.user_id,
        query: process.env.HITHERTO_QUERY ?? "",
        consistency_token: job.consistency_token,
      },
      metadata,
      deadline,
    );
    process.stdout.write(`${JSON.stringify({ job, states, context })}\n`);
  } finally {
    extraction.close();
    retrieval.close();
  }
}

main().catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
});
