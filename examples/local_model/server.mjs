// A local language model behind the part of the OpenAI API that Hitherto calls: chat completions,
// held to the JSON schema of the request where one goes along. docs/local-model.md tells how to run
// it. It is made for trying, not for serving: one request at a time, on loopback.
//
//   node server.mjs MODEL.gguf [PORT]

import {createServer} from "node:http";
import {once} from "node:events";
import {getLlama, LlamaChat} from "node-llama-cpp";

const [path, port = "8080"] = process.argv.slice(2);
const CONTEXT = Number(process.env.LOCAL_MODEL_CONTEXT ?? 8192);
const THREADS = Number(process.env.LOCAL_MODEL_THREADS ?? 0);

const llama = await getLlama({gpu: false, build: "never", logLevel: "error"});
const model = await llama.loadModel({modelPath: path});
const context = await model.createContext({contextSize: CONTEXT, threads: THREADS});

// The library knows `oneOf` only. What is either a text or a list means the same in both.
function adapted(schema) {
    if (Array.isArray(schema)) return schema.map(adapted);
    if (schema === null || typeof schema !== "object") return schema;
    const entries = Object.entries(schema).map(([key, value]) => [key, adapted(value)]);
    return Object.fromEntries(entries.map(([key, value]) => [key === "anyOf" ? "oneOf" : key, value]));
}

function refusal(message, code) {
    return Object.assign(new Error(message), {status: 400, code});
}

async function grammarFor(format) {
    if (format === undefined || format.type === "text") return undefined;
    const schema = format.type === "json_schema" ? format.json_schema?.schema : format.schema;
    try {
        return schema === undefined
            ? await llama.getGrammarFor("json")
            : await llama.createGrammarForJsonSchema(adapted(schema));
    } catch (error) {
        throw refusal(`response_format: failed to parse grammar: ${error.message}`, "bad_schema");
    }
}

async function complete(request) {
    const grammar = await grammarFor(request.response_format);
    const said = (role) => request.messages.filter((m) => m.role === role).map((m) => m.content).join("\n");
    const history = [
        {type: "system", text: said("system")},
        {type: "user", text: said("user")},
        {type: "model", response: []},
    ];
    const inputTokens = model.tokenize(said("system") + said("user")).length;
    const maxTokens = request.max_tokens ?? 1000;
    if (inputTokens + maxTokens + 64 > CONTEXT)
        throw refusal("the request is longer than this model's context", "context_length_exceeded");
    const sequence = context.getSequence();
    const chat = new LlamaChat({contextSequence: sequence, autoDisposeSequence: true});
    try {
        const {response, metadata} = await chat.generateResponse(history, {
            grammar, maxTokens, temperature: request.temperature ?? 0, seed: request.seed ?? 1,
        });
        const outputTokens = model.tokenize(response).length;
        return {
            id: "local", object: "chat.completion", created: Math.floor(Date.now() / 1000),
            model: request.model,
            choices: [{
                index: 0, message: {role: "assistant", content: response},
                finish_reason: metadata.stopReason === "maxTokens" ? "length" : "stop",
            }],
            usage: {
                prompt_tokens: inputTokens, completion_tokens: outputTokens,
                total_tokens: inputTokens + outputTokens,
            },
        };
    } finally {
        chat.dispose();
    }
}

let turn = Promise.resolve();

const server = createServer(async (request, response) => {
    const answer = (status, body) => {
        response.writeHead(status, {"content-type": "application/json"});
        response.end(JSON.stringify(body));
    };
    const {pathname} = new URL(request.url, "http://localhost");
    if (request.method !== "POST" || pathname !== "/v1/chat/completions")
        return answer(404, {error: {message: "only POST /v1/chat/completions is served"}});
    try {
        let body = "";
        for await (const piece of request) body += piece;
        const mine = turn.then(() => complete(JSON.parse(body)));
        turn = mine.catch(() => {});
        answer(200, await mine);
    } catch (error) {
        const {message, code} = error;
        answer(error.status ?? 500, {error: {message, code, type: "local_model"}});
    }
});

server.listen(Number(port), "127.0.0.1");
await once(server, "listening");
console.log(`listening on http://127.0.0.1:${server.address().port}/v1`);
