// A node's client under Node: by a Unix socket, or by TLS with a certificate.

import { readFileSync } from "node:fs";
import { Agent, fetch as undiciFetch, Request as UndiciRequest } from "undici";
import { Client } from "./index.js";

export * from "./index.js";

/** Files for a node on the network; without them, WEIR_CERT, WEIR_KEY and WEIR_CA. */
export interface Certificates {
  /** The client's own certificate. */
  cert?: string | undefined;
  /** Its key. */
  key?: string | undefined;
  /** The authority that signed the node's certificate. */
  ca?: string | undefined;
}

// Milliseconds for an answer to begin, and to its next part: one that is followed has a sign of life
// every 10 s.
const TIMEOUTS = { headersTimeout: 30_000, bodyTimeout: 40_000 };

/** A client that has to be closed, since Node does not end while a connection is kept. */
export class NodeClient extends Client {
  readonly #agent: Agent;

  constructor(baseUrl: string, agent: Agent) {
    super({
      baseUrl,
      // Node's own fetch and its Request may be of another version than the agent.
      fetch: ((request: UndiciRequest) => undiciFetch(request, { dispatcher: agent })) as never,
      Request: UndiciRequest as never,
    });
    this.#agent = agent;
  }

  /** Closes the connections. */
  close(): Promise<void> {
    return this.#agent.close();
  }
}

/**
 * A client of the node with this path of a socket or this https://HOST:PORT; without one, of
 * WEIR_NODE, or of the socket in WEIR_RUN.
 */
export function connect(node?: string, certificates: Certificates = {}): NodeClient {
  const { WEIR_NODE, WEIR_RUN, WEIR_CERT, WEIR_KEY, WEIR_CA } = process.env;
  const place = node ?? (WEIR_NODE || `${WEIR_RUN || "/run/weir"}/node.sock`);
  if (!place.includes("://")) {
    return new NodeClient("http://node", new Agent({ connect: { socketPath: place }, ...TIMEOUTS }));
  }
  if (!place.startsWith("https://")) {
    throw new TypeError(`${place} is no node: use https://HOST:PORT, or a socket's path`);
  }
  const { cert = WEIR_CERT, key = WEIR_KEY, ca = WEIR_CA } = certificates;
  if (!cert || !key) {
    throw new TypeError("a node on the network asks for a certificate: give cert, key and ca");
  }
  const connect = {
    cert: readFileSync(cert),
    key: readFileSync(key),
    ca: ca ? readFileSync(ca) : undefined,
  };
  return new NodeClient(place.replace(/\/$/, ""), new Agent({ connect, ...TIMEOUTS }));
}
