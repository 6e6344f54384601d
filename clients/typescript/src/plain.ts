import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  type Message as AnyMessage,
  type MessageInitShape,
  type MessageShape,
  toJson,
} from "@bufbuild/protobuf";
import {
  type Duration,
  type Timestamp,
  timestampDate,
  timestampFromDate,
  type Value,
  ValueSchema,
} from "@bufbuild/protobuf/wkt";

import type { Worded } from "./words.js";

/*
 * Between the messages of the contract and what callers see: plain objects with words, dates and numbers. Both
 * directions follow the descriptors, so a field needs no code of its own.
 */

/** What callers have no use for. The client itself keeps the tokens. */
type Hidden = "$typeName" | "$unknown" | "consistencyToken";
/** The alternatives of a message's choices, of which one is set. */
type Alternative<T> = Extract<T[keyof T], { case: string }>;
type Choice = { case: string | undefined };

/** A message as callers see it: the one of several alternatives that is set is a field, as any other. */
export type PlainMessage<T> = {
  [K in keyof T as K extends Hidden ? never : T[K] extends Choice ? never : K]: Plain<T[K]>;
} & { [N in Alternative<T>["case"]]?: Plain<Extract<Alternative<T>, { case: N; value: unknown }>["value"]> };

/** A value of the contract as callers see it: a Date, a word, a number, JSON, a plain object. Durations are in ms. */
export type Plain<T> = T extends Timestamp
  ? Date
  : T extends Duration
    ? number
    : T extends Value
      ? JsonValue
      : T extends AnyMessage
        ? PlainMessage<T>
        : T extends bigint
          ? number
          : T extends (infer I)[]
            ? Plain<I>[]
            : JsonObject extends T
              ? T
              : T extends { [key: string]: infer V }
                ? { [key: string]: Plain<V> }
                : Worded<T>;

/** A value of the contract as callers give it. */
export type Given<T> = T extends Timestamp
  ? Date
  : T extends AnyMessage
    ? GivenMessage<T>
    : T extends (infer I)[]
      ? readonly Given<I>[]
      : Worded<T>;

/** The fields of a message as callers give them; undefined is as if it were not given. */
export type GivenMessage<T> = {
  [K in keyof T as K extends Hidden ? never : K]?: Given<T[K]> | undefined;
};

/** A message as callers see it. */
export function toPlain<S extends DescMessage>(schema: S, message: MessageShape<S>): PlainMessage<MessageShape<S>> {
  const read: Record<string, unknown> = {};
  const from = message as unknown as Record<string, unknown>;
  for (const member of schema.members) {
    let field: DescField | undefined;
    let value: unknown;
    if (member.kind === "oneof") {
      const chosen = from[member.localName] as { case?: string; value?: unknown };
      field = member.fields.find(({ localName }) => localName === chosen.case);
      value = chosen.value;
    } else if (member.name !== "consistency_token") {
      field = member;
      value = from[member.localName];
    }
    if (field && value !== undefined) {
      read[field.localName] = readField(field, value);
    }
  }
  return read as PlainMessage<MessageShape<S>>;
}

function readField(field: DescField, value: unknown): unknown {
  switch (field.fieldKind) {
    case "list":
      return (value as unknown[]).map((item) => readValue(field, item));
    case "map":
      return Object.fromEntries(Object.entries(value as object).map(([key, item]) => [key, readValue(field, item)]));
    default:
      return readValue(field, value);
  }
}

function readValue(field: DescField, value: unknown): unknown {
  if (field.enum) {
    return wordOf(field.enum, value as number);
  }
  switch (field.message?.typeName) {
    case undefined:
      return typeof value === "bigint" ? Number(value) : value;
    case "google.protobuf.Timestamp":
      return timestampDate(value as Timestamp);
    case "google.protobuf.Duration":
      return Number((value as Duration).seconds) * 1_000 + (value as Duration).nanos / 1e6;
    case "google.protobuf.Struct":
      return value;
    case "google.protobuf.Value":
      return toJson(ValueSchema, value as Value);
    default:
      return toPlain(field.message as DescMessage, value as AnyMessage);
  }
}

function wordOf(type: DescEnum, number: number): string {
  return type.value[number]?.localName.toLowerCase() ?? `unknown_${number}`;
}

/**
 * The message with these fields. Throws TypeError for a field, a word or a date that is none; `place` is the path of
 * the message.
 */
export function fromPlain<S extends DescMessage>(schema: S, given: object, place = ""): MessageShape<S> {
  const init: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given)) {
    const field = schema.field[name];
    if (!field) {
      throw new TypeError(`${place}${name} is unknown: known are ${Object.keys(schema.field).join(", ")}`);
    }
    if (value !== undefined) {
      init[name] = giveField(field, value, `${place}${name}`);
    }
  }
  return create(schema, init as MessageInitShape<S>);
}

function giveField(field: DescField, value: unknown, place: string): unknown {
  if (field.fieldKind !== "list") {
    return giveValue(field, value, place);
  }
  if (!Array.isArray(value)) {
    throw new TypeError(`${place} should be an array, and is ${JSON.stringify(value)}`);
  }
  return value.map((item, index) => giveValue(field, item, `${place}[${index}]`));
}

function giveValue(field: DescField, value: unknown, place: string): unknown {
  if (field.enum) {
    return numberOf(field.enum, value, place);
  }
  switch (field.message?.typeName) {
    case undefined:
    case "google.protobuf.Struct":
    case "google.protobuf.FieldMask":
      return value;
    case "google.protobuf.Timestamp":
      if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
        throw new TypeError(`${place} should be a Date, and is ${String(value)}`);
      }
      return timestampFromDate(value);
    default:
      if (typeof value !== "object" || value === null) {
        throw new TypeError(`${place} should be an object, and is ${JSON.stringify(value)}`);
      }
      return fromPlain(field.message as DescMessage, value, `${place}.`);
  }
}

function numberOf(type: DescEnum, word: unknown, place: string): number {
  const known = type.values.filter(({ number }) => number !== 0);
  const found = known.find(({ localName }) => localName.toLowerCase() === word);
  if (!found) {
    const words = known.map(({ localName }) => localName.toLowerCase());
    throw new TypeError(`${place} should be one of ${words.join(", ")}, and is ${JSON.stringify(word)}`);
  }
  return found.number;
}

/**
 * The paths of what is changed, for an update mask: the fields that have a value, and those in `clear`. With `byKey`,
 * what an object holds is changed key by key.
 */
export function changedPaths(schema: DescMessage, given: object, clear: readonly string[], byKey: boolean): string[] {
  if (!Array.isArray(clear) || clear.some((path) => typeof path !== "string")) {
    throw new TypeError(`clear should be an array of texts, and is ${JSON.stringify(clear)}`);
  }
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  const paths = set.flatMap(([name, value]) => (byKey ? keyPaths(name, value) : [name]));
  return [...paths, ...clear].map((path) => {
    const [name = "", ...keys] = path.split(".");
    return [schema.field[name]?.name ?? name, ...keys].join(".");
  });
}

function keyPaths(path: string, value: unknown): string[] {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  const held = isObject ? Object.entries(value) : [];
  // An empty object is a value of its own.
  return held.length ? held.flatMap(([key, inner]) => keyPaths(`${path}.${key}`, inner)) : [path];
}
