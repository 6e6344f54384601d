import { readFileSync } from "node:fs";

import { type ChannelCredentials, credentials } from "@grpc/grpc-js";

import { DEFAULT_RETRY, type RetryPolicy } from "./retry.js";

/** What a client is made from. What is unset comes from the environment. */
export interface Settings {
  /** `host:port` of the retrieval service; else HITHERTO_RETRIEVAL_ADDRESS, else 127.0.0.1:50051. */
  retrieval?: string;
  /** `host:port` of the extraction service; else HITHERTO_EXTRACTION_ADDRESS, else 127.0.0.1:50052. */
  extraction?: string;
  /** The key that `hitherto keys create` printed; else HITHERTO_API_KEY. */
  apiKey?: string;
  /**
   * A JWT if the services accept tokens, or a function that returns one; else HITHERTO_TOKEN. The function is called
   * for every call, so it can return a new one before the old one ends.
   */
  token?: string | (() => string | Promise<string>);
  /** PEM file with the authority that signed the services' certificates; else HITHERTO_TLS_CA_FILE, else no TLS. */
  tlsCaFile?: string;
  /** PEM file with a client certificate, if the services ask for one; else HITHERTO_TLS_CLIENT_CERTIFICATE_FILE. */
  tlsCertificateFile?: string;
  /** PEM file with its private key; else HITHERTO_TLS_CLIENT_KEY_FILE. */
  tlsKeyFile?: string;
  /** Milliseconds for every call, retries included. Unset: 10,000 for reads, 30,000 for writes. */
  timeoutMs?: number;
  /** When failed calls are made again. */
  retry?: Partial<RetryPolicy>;
}

/** Gives the API key or token to send with a call; undefined for none. */
export type Credential = () => string | undefined | Promise<string>;

/** Where the services are and how to reach them. */
export interface Target {
  retrieval: string;
  extraction: string;
  credential: Credential;
  tls: ChannelCredentials;
  timeoutMs: number | undefined;
  retry: RetryPolicy;
}

/** The target that settings and, for unset ones, the environment describe. */
export function findTarget(given: Settings): Target {
  const env = process.env;
  let { apiKey, token } = given;
  if (!apiKey && !token) {
    apiKey = env["HITHERTO_API_KEY"] ?? "";
    token = env["HITHERTO_TOKEN"] ?? "";
  }
  return {
    retrieval: checkedAddress(given.retrieval || env["HITHERTO_RETRIEVAL_ADDRESS"] || "127.0.0.1:50051"),
    extraction: checkedAddress(given.extraction || env["HITHERTO_EXTRACTION_ADDRESS"] || "127.0.0.1:50052"),
    credential: credential(apiKey, token),
    tls: transport(
      given.tlsCaFile || env["HITHERTO_TLS_CA_FILE"],
      given.tlsCertificateFile || env["HITHERTO_TLS_CLIENT_CERTIFICATE_FILE"],
      given.tlsKeyFile || env["HITHERTO_TLS_CLIENT_KEY_FILE"],
    ),
    timeoutMs: given.timeoutMs,
    retry: { ...DEFAULT_RETRY, ...given.retry },
  };
}

function checkedAddress(address: string): string {
  const [, hostAndPort] = /^https?:\/\/(.*?)\/*$/i.exec(address) ?? [];
  if (hostAndPort !== undefined) {
    throw new TypeError(`the address of a service is HOST:PORT, such as ${hostAndPort}, and not ${address}`);
  }
  return address;
}

function credential(apiKey: string | undefined, token: Settings["token"]): Credential {
  if (apiKey && token) {
    throw new TypeError(
      "there are an API key and a token: give one of them, or unset HITHERTO_API_KEY or HITHERTO_TOKEN",
    );
  }
  if (typeof token === "function") {
    return async () => checkedToken(await token());
  }
  if (token?.trim()) {
    const text = checkedToken(token);
    return () => text;
  }
  const key = apiKey?.trim();
  if (key && !isSendable(key)) {
    throw new TypeError(
      "the API key holds characters that no key has: copy it again as `hitherto keys create` printed it",
    );
  }
  return () => key || undefined;
}

function checkedToken(token: string): string {
  const text = token.trim();
  if (!isSendable(text)) {
    throw new TypeError("the token is empty or holds characters that no token has");
  }
  return text;
}

function isSendable(text: string): boolean {
  return /^[!-~]+$/.test(text);
}

function transport(
  authority: string | undefined,
  certificate: string | undefined,
  key: string | undefined,
): ChannelCredentials {
  if (!certificate !== !key) {
    throw new TypeError(
      "a certificate goes with its key: set HITHERTO_TLS_CLIENT_CERTIFICATE_FILE and HITHERTO_TLS_CLIENT_KEY_FILE, " +
        "or neither",
    );
  }
  if (!authority) {
    if (certificate) {
      throw new TypeError("a certificate is shown over TLS only: set HITHERTO_TLS_CA_FILE");
    }
    return credentials.createInsecure();
  }
  return credentials.createSsl(
    readFileSync(authority),
    key ? readFileSync(key) : null,
    certificate ? readFileSync(certificate) : null,
  );
}
