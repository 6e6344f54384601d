import { type EventEmitter, once } from "node:events";
import { createServer, connect, type Server as TcpServer, type AddressInfo } from "node:net";

import { create, type DescService, fromBinary, type Message, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { anyPack, DurationSchema } from "@bufbuild/protobuf/wkt";
import { Metadata, Server, ServerCredentials, type ServiceDefinition, status } from "@grpc/grpc-js";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema, StatusSchema } from "../src/gen/hitherto_client/details_pb.js";
import {
  AppendMessagesResponseSchema,
  ExtractionService,
  WatchJobResponseSchema,
} from "../src/gen/hitherto/v1/extraction_service_pb.js";
import { JobState } from "../src/gen/hitherto/v1/job_pb.js";
import { MemoryService, SaveMemoryResponseSchema } from "../src/gen/hitherto/v1/memory_service_pb.js";
import {
  ExportUserResponseSchema,
  ImportUserResponseSchema,
  PrivacyService,
} from "../src/gen/hitherto/v1/privacy_service_pb.js";
import { GetContextResponseSchema, RetrievalService } from "../src/gen/hitherto/v1/retrieval_service_pb.js";
import { Hitherto } from "../src/index.js";
import type { Settings } from "../src/settings.js";

// What a developer has set is not for scripted servers.
for (const name of Object.keys(process.env).filter((name) => name.startsWith("HITHERTO_"))) {
  delete process.env[name];
}

export interface Failure {
  code: status;
  details: string;
  metadata?: Metadata;
}

interface Call {
  metadata: Metadata;
  request: Message;
}

/** A server whose calls end as a test says: one failure after the other (undefined for none), then well. */
export class Scripted {
  failures: (Failure | undefined)[] = [];
  hangs = false;
  /** What each stream of WatchJob tells. */
  watched: JobState[][] = [];
  /** The requests of each stream of ImportUser. */
  readonly imported: any[][] = [];
  /** What ExportUser tells. */
  exported: NonNullable<MessageInitShape<typeof ExportUserResponseSchema>["part"]>[] = [];
  /** Requests by RPC. */
  readonly requests: Record<string, any[]> = {};
  readonly metadata: Metadata[] = [];
  readonly at: number[] = [];
  onCall: () => void = () => undefined;
  address = "";
  readonly #server = new Server();
  readonly #open: { close(): void }[] = [];

  async start(): Promise<this> {
    const unary =
      (name: string, reply: (request: any) => Message) =>
      (call: Call, done: (error: Failure | null, reply?: Message) => void): void => {
        this.#arrived(name, call, (failure) => (failure ? done(failure) : done(null, reply(call.request))));
      };
    this.#serve(MemoryService, {
      saveMemory: unary("saveMemory", ({ content }) =>
        create(SaveMemoryResponseSchema, { memory: { id: "m1", content }, consistencyToken: "after-the-write" }),
      ),
    });
    this.#serve(RetrievalService, {
      getContext: unary("getContext", ({ query }) => create(GetContextResponseSchema, { promptBlock: query })),
    });
    this.#serve(ExtractionService, {
      appendMessages: unary("appendMessages", () =>
        create(AppendMessagesResponseSchema, { consistencyToken: "after-the-words" }),
      ),
      watchJob: (call: Call & { write(m: Message): void; end(): void; emit(e: "error", f: Failure): void }) =>
        this.#arrived("watchJob", call, (failure) => {
          if (failure) {
            call.emit("error", failure);
            return;
          }
          const { jobId: id } = call.request as unknown as { jobId: string };
          for (const state of this.watched.shift() ?? []) {
            const consistencyToken = state === JobState.SUCCEEDED ? "after-the-job" : "";
            call.write(create(WatchJobResponseSchema, { job: { id, userId: "ana", state, consistencyToken } }));
          }
          call.end();
        }),
    });
    this.#serve(PrivacyService, {
      importUser: (
        call: Call & AsyncIterable<any>,
        done: (error: Failure | null, reply?: Message) => void,
      ) => {
        void (async () => {
          const failure = this.failures.shift();
          const sent: any[] = [];
          for await (const request of call) {
            sent.push(request);
            if (failure) {
              break;
            }
          }
          this.imported.push(sent);
          if (failure) {
            done(failure);
          } else {
            done(null, create(ImportUserResponseSchema, { consistencyToken: "after-the-import" }));
          }
        })();
      },
      exportUser: (call: Call & { write(m: Message): void; end(): void }) =>
        this.#arrived("exportUser", call, (failure) => {
          if (failure) {
            (call as unknown as EventEmitter).emit("error", failure);
            return;
          }
          this.exported.forEach((reply) => call.write(create(ExportUserResponseSchema, { part: reply })));
          call.end();
        }),
    });
    const port = await new Promise<number>((resolve, reject) =>
      this.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
    this.address = `127.0.0.1:${port}`;
    return this;
  }

  /** A client of this server. */
  client(settings: Settings = {}): Hitherto {
    const client = new Hitherto({
      retrieval: this.address,
      extraction: this.address,
      retry: { firstWaitMs: 1, longestWaitMs: 10 },
      ...settings,
    });
    this.#open.push(client);
    return client;
  }

  /** An address that closes its first connections at once, as that of a service that is being restarted. */
  async unready(refuses: number): Promise<string> {
    const [host, port] = this.address.split(":") as [string, string];
    let left = refuses;
    const server: TcpServer = createServer((socket) => {
      if (left > 0) {
        left -= 1;
        socket.destroy();
        return;
      }
      const through = connect(Number(port), host);
      socket.on("error", () => through.destroy());
      through.on("error", () => socket.destroy());
      socket.pipe(through).pipe(socket);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    this.#open.push(server);
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#open.forEach((one) => one.close());
    this.#server.forceShutdown();
  }

  #arrived(name: string, call: Call, answer: (failure: Failure | undefined) => void): void {
    (this.requests[name] ??= []).push(call.request);
    this.metadata.push(call.metadata);
    this.at.push(Date.now());
    this.onCall();
    if (!this.hangs) {
      answer(this.failures.shift());
    }
  }

  #serve(service: DescService, handlers: Record<string, unknown>): void {
    const definition: Record<string, unknown> = {};
    for (const method of service.methods.filter(({ localName }) => localName in handlers)) {
      definition[method.localName] = {
        path: `/${service.typeName}/${method.name}`,
        requestStream: method.methodKind === "client_streaming",
        responseStream: method.methodKind === "server_streaming",
        requestSerialize: (message: Message) => Buffer.from(toBinary(method.input, message)),
        requestDeserialize: (bytes: Buffer) => fromBinary(method.input, bytes),
        responseSerialize: (message: Message) => Buffer.from(toBinary(method.output, message)),
        responseDeserialize: (bytes: Buffer) => fromBinary(method.output, bytes),
      };
    }
    this.#server.addService(definition as ServiceDefinition, handlers as any);
  }
}

/** An error as the services give it. */
export function failing(code: status, reason: string, delayMs?: number, domain = "hitherto", fields: string[] = []): Failure {
  const details = "as scripted";
  const packed = [
    named("ErrorInfo", anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain, reason, metadata: { limit: "9" } }))),
  ];
  if (delayMs !== undefined) {
    const nanos = (delayMs % 1000) * 1e6;
    const retryDelay = create(DurationSchema, { seconds: BigInt(Math.floor(delayMs / 1000)), nanos });
    packed.push(named("RetryInfo", anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay }))));
  }
  if (fields.length) {
    const fieldViolations = fields.map((field) => ({ field, description: details }));
    packed.push(named("BadRequest", anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations }))));
  }
  const metadata = new Metadata();
  const told = create(StatusSchema, { code, message: details, details: packed });
  metadata.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, told)));
  return { code, details, metadata };
}

function named<A extends { typeUrl: string }>(name: string, packed: A): A {
  packed.typeUrl = `type.googleapis.com/google.rpc.${name}`;
  return packed;
}
