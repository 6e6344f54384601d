import { type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";

/*
 * What is checked of a message before it is sent. The encoder writes half a surrogate pair as U+FFFD, a number as text
 * and a date in free JSON as `{}`, and gRPC reports what it refuses as a fault of the service.
 */

/** The largest depth of free JSON that is looked at. The services accept much less. */
const DEPTH = 100;
const HALF_A_PAIR = /\p{Surrogate}/u;

type Fields = Record<string, unknown>;

/** Throws TypeError for a value that does not fit its field; `place` is the path of the message. */
export function checkSendable(schema: DescMessage, message: Message, place = ""): void {
  const given = message as unknown as Fields;
  for (const member of schema.members) {
    if (member.kind === "oneof") {
      const chosen = given[member.localName] as { case?: string; value?: unknown };
      const field = member.fields.find(({ localName }) => localName === chosen.case);
      if (field) {
        checkField(field, chosen.value, `${place}${field.localName}`);
      }
    } else {
      checkField(member, given[member.localName], `${place}${member.localName}`);
    }
  }
}

function checkField(field: DescField, value: unknown, place: string): void {
  if (value === undefined) {
    return;
  }
  if (field.fieldKind === "list") {
    check(Array.isArray(value), "an array", value, place);
    (value as unknown[]).forEach((item, index) => checkValue(field, item, `${place}[${index}]`));
  } else if (field.fieldKind === "map") {
    check(isPlain(value), "an object", value, place);
    for (const [key, item] of Object.entries(value as object)) {
      checkText(key, place);
      checkValue(field, item, `${place}.${key}`);
    }
  } else {
    checkValue(field, value, place);
  }
}

function checkValue(field: DescField, value: unknown, place: string): void {
  if (field.message?.typeName === "google.protobuf.Struct") {
    check(isPlain(value), "an object", value, place);
    checkJson(value, place, DEPTH);
  } else if (field.message) {
    check(typeof value === "object" && value !== null, "an object", value, place);
    checkSendable(field.message, value as Message, `${place}.`);
  } else if (field.enum) {
    check(isWhole(value, -(2 ** 31), 2 ** 31), "the number of a word", value, place);
  } else {
    checkScalar(field.scalar as ScalarType, value, place);
  }
}

function checkScalar(type: ScalarType, value: unknown, place: string): void {
  switch (type) {
    case ScalarType.STRING:
      return checkText(value, place);
    case ScalarType.BYTES:
      return check(value instanceof Uint8Array, "a Uint8Array", value, place);
    case ScalarType.BOOL:
      return check(typeof value === "boolean", "true or false", value, place);
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return check(typeof value === "number", "a number", value, place);
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return check(isWhole(value, -(2 ** 31), 2 ** 31), "a whole number in range", value, place);
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return check(isWhole(value, 0, 2 ** 32), "a whole number in range", value, place);
    default:
      return check(typeof value === "bigint" || Number.isSafeInteger(value), "a whole number", value, place);
  }
}

function checkText(value: unknown, place: string): void {
  check(typeof value === "string" && !HALF_A_PAIR.test(value), "text of valid Unicode", value, place);
}

function checkJson(value: unknown, place: string, depth: number): void {
  check(depth > 0, "JSON of less depth", value, place);
  if (Array.isArray(value)) {
    value.forEach((item, index) => checkJson(item, `${place}[${index}]`, depth - 1));
  } else if (isPlain(value)) {
    for (const [key, item] of Object.entries(value)) {
      checkText(key, place);
      if (item !== undefined) {
        checkJson(item, `${place}.${key}`, depth - 1);
      }
    }
  } else if (typeof value === "string") {
    checkText(value, place);
  } else {
    check(value === null || typeof value === "number" || typeof value === "boolean", "JSON", value, place);
  }
}

function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return false;
  }
  const of: unknown = Object.getPrototypeOf(value);
  // An object of another realm, as in a sandbox, has a prototype of its own that ends there too.
  return of === null || Object.getPrototypeOf(of) === null;
}

function isWhole(value: unknown, first: number, beyond: number): boolean {
  return Number.isInteger(value) && (value as number) >= first && (value as number) < beyond;
}

function check(fits: boolean, what: string, value: unknown, place: string): void {
  if (!fits) {
    throw new TypeError(`${place} should be ${what}, and is ${described(value)}`);
  }
}

function described(value: unknown): string {
  if (typeof value === "object" && value !== null) {
    return `of the type ${Object.prototype.toString.call(value).slice(8, -1)}`;
  }
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : String(value);
}
