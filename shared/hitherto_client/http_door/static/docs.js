// The page at /docs: the calls in openapi.json, with their fields, and a form that makes one.
"use strict";

const STREAM = "application/connect+json";

// An element with properties and children; text is never read as HTML.
function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

// Text with what stands in backticks as code; as in Markdown, a single line break is a space.
function prose(text) {
  const parts = text.replace(/([^\n])\n(?!\n|- | {4})/g, "$1 ").split("`");
  return parts.map((part, place) => (place % 2 ? make("code", { textContent: part }) : part));
}

function nameOf(schema) {
  return schema.$ref ? schema.$ref.split("/").pop() : "";
}

// A type as people say it, with a link to the fields of a message.
function typeOf(schema) {
  if (schema.$ref) {
    const name = nameOf(schema);
    return [make("a", { href: `#${name}`, textContent: name.replace("hitherto.v1.", "") })];
  }
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items)];
  if (schema.additionalProperties && schema.additionalProperties !== true) {
    return ["map of ", ...typeOf(schema.additionalProperties)];
  }
  if (schema.additionalProperties) return ["JSON object"];
  if (schema.anyOf) return ["number"];
  const kinds = [schema.type ?? "any JSON"].flat();
  return [[kinds[0], schema.format].filter(Boolean).join(", ")];
}

function fields(schema) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) =>
    make(
      "tr",
      {},
      make("td", {}, make("code", { textContent: name })),
      make("td", {}, ...typeOf(field)),
      make("td", {}, ...prose(field.description ?? "")),
    ),
  );
  return rows.length ? make("table", {}, ...rows) : make("p", { textContent: "No fields." });
}

function shape(name, schema) {
  const body = schema.enum ? make("p", {}, ...prose(schema.description)) : fields(schema);
  const parts = [make("h3", { textContent: name.replace("hitherto.v1.", "") })];
  if (!schema.enum) parts.push(make("p", {}, ...prose(schema.description ?? "")));
  return make("section", { id: name }, ...parts, body);
}

// A message in an envelope, as streams have it.
function envelope(text) {
  const data = new TextEncoder().encode(text);
  const body = new Uint8Array(5 + data.length);
  new DataView(body.buffer).setUint32(1, data.length);
  body.set(data, 5);
  return body;
}

// The messages of a stream, as they arrive.
async function* messages(response) {
  const reader = response.body.getReader();
  let waiting = new Uint8Array();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const joined = new Uint8Array(waiting.length + value.length);
    joined.set(waiting);
    joined.set(value, waiting.length);
    waiting = joined;
    while (waiting.length >= 5) {
      const size = new DataView(waiting.buffer, waiting.byteOffset).getUint32(1);
      if (waiting.length < 5 + size) break;
      yield new TextDecoder().decode(waiting.subarray(5, 5 + size));
      waiting = waiting.slice(5 + size);
    }
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function call(path, kind, text, shown) {
  const headers = { "content-type": kind };
  const credential = document.getElementById("credential").value.trim();
  if (credential) headers.authorization = `Bearer ${credential}`;
  shown.textContent = "…";
  shown.hidden = false;
  try {
    const body = kind === STREAM ? envelope(text) : text;
    // The page may be mounted somewhere below the root.
    const response = await fetch(path.slice(1), { method: "POST", headers, body });
    shown.textContent = `HTTP ${response.status}\n`;
    if (response.headers.get("content-type") === STREAM) {
      for await (const message of messages(response)) shown.textContent += `${pretty(message)}\n`;
    } else {
      shown.textContent += pretty(await response.text());
    }
  } catch (error) {
    shown.textContent = String(error);
  }
}

function section(path, operations, schemas) {
  const post = operations.post;
  const name = path.split("/").pop();
  const [[kind, content]] = Object.entries(post.requestBody.content);
  const reply = post.responses["200"].content[kind].schema;
  const text = make("textarea", {
    value: JSON.stringify(content.example, null, 2),
    rows: Math.min(14, JSON.stringify(content.example, null, 2).split("\n").length),
    spellcheck: false,
    ariaLabel: `Request of ${name}`,
  });
  const shown = make("pre", { hidden: true });
  const button = make("button", { type: "button", textContent: "Call" });
  button.addEventListener("click", () => call(path, kind, text.value, shown));
  const verbs = [operations.get && "GET", kind === STREAM && "stream"].filter(Boolean);
  const told = make("span", { className: "kind", textContent: verbs.join(", ") });
  return make(
    "section",
    { id: post.operationId },
    make("h3", {}, `POST ${path}`, told),
    make("p", {}, ...prose(post.description)),
    make("details", {}, make("summary", { textContent: "Request" }),
      fields(schemas[nameOf(content.schema)])),
    make("details", {}, make("summary", { textContent: "Reply" }), fields(schemas[nameOf(reply)])),
    text,
    button,
    shown,
  );
}

function list(title, links) {
  return make("div", {}, make("h2", { textContent: title }), ...links);
}

// Hide what does not contain the word that is looked for.
function find(word) {
  const looked = word.trim().toLowerCase();
  for (const one of document.querySelectorAll("main section")) {
    one.hidden = looked !== "" && !one.textContent.toLowerCase().includes(looked);
    const link = document.querySelector(`nav a[href="#${CSS.escape(one.id)}"]`);
    if (link) link.hidden = one.hidden;
  }
  for (const one of document.querySelectorAll("nav div")) {
    one.hidden = !one.querySelector("a:not([hidden])");
  }
}

async function show() {
  const main = document.getElementById("calls");
  const contents = document.getElementById("contents");
  const document_ = await (await fetch("openapi.json")).json();
  const schemas = document_.components.schemas;
  const parts = [make("p", {}, ...prose(document_.info.description))];
  const bodies = new Set(["connect.error"]);
  for (const tag of document_.tags) {
    const of = Object.entries(document_.paths).filter(([, path]) => path.post.tags[0] === tag.name);
    parts.push(make("h2", { textContent: tag.name }), make("p", {}, ...prose(tag.description)));
    const links = [];
    for (const [path, operations] of of) {
      parts.push(section(path, operations, schemas));
      const { operationId, requestBody, responses } = operations.post;
      for (const content of [requestBody.content, responses["200"].content]) {
        Object.values(content).forEach(({ schema }) => bodies.add(nameOf(schema)));
      }
      links.push(make("a", { href: `#${operationId}`, textContent: path.split("/").pop() }));
    }
    contents.append(list(tag.name, links));
  }
  const shapes = Object.entries(schemas).filter(([name]) => !bodies.has(name));
  parts.push(make("h2", { textContent: "Messages and enums" }));
  parts.push(...shapes.map(([name, schema]) => shape(name, schema)));
  main.replaceChildren(...parts);
  document.getElementById("find").addEventListener("input", ({ target }) => find(target.value));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

show().catch((error) => {
  document.getElementById("introduction").textContent = `openapi.json cannot be read: ${error}`;
});
