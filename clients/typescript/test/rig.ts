// A node of the tests' own, with guests in it.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect, type Guest, type NodeClient } from "../src/node.js";

export const WEIR = process.env.WEIR ?? "weir";

/** A guest that sends 1000 frames a second. */
export const SOURCE =
  'RatedSource(DATA "\\<ffffffffffff 020000000001 0800>", RATE 1000) -> ToNetfront(lan);';
/** One that counts them. */
export const SINK = "FromNetfront(lan) -> seen :: Counter -> Discard;";
/** One that prints numbers. */
export const PRINTER =
  "s :: Script(set n 0, label again, wait 0.05, set n $(add $n 1), print $n, goto again);";

export function guest(name: string, config = SINK): Guest {
  return { name, config, interfaces: { lan: "lan" } };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

export interface Rig {
  run: string;
  socket: string;
  /** Its place on the network, and the folder of the certificates for that. */
  url: string;
  certificates: string;
  client: NodeClient;
  /** Ends the node and all that it made. */
  end(): Promise<void>;
}

/** Starts a node, with the stub `lan`. */
export async function start(): Promise<Rig> {
  // A socket's path is at most 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), "weir-typescript-"));
  const run = join(folder, "run");
  const certificates = join(folder, "certificates");
  const made = spawnSync(`${process.env.ROOT}/clients/certificates`, [certificates]);
  if (made.status !== 0) throw new Error(`${made.error ?? made.stderr}`);
  const file = (name: string) => join(certificates, name);
  const listen = `127.0.0.1:${await freePort()}`;
  const options = [
    ...["--listen", listen, "--tls-cert", file("node.pem"), "--tls-key", file("node.key")],
    ...["--tls-client-ca", file("ca.pem"), "--config", file("node.toml")],
  ];
  const env = { ...process.env, WEIR_RUN: run, WEIR_STATE: join(folder, "state") };
  const node = spawn(WEIR, ["node", ...options], { env, stdio: ["ignore", "inherit", "pipe"] });
  const ended = once(node, "exit");
  const said: string[] = [];
  for await (const line of createInterface({ input: node.stderr! })) {
    said.push(line);
    if (line.includes("the node is ready")) break;
  }
  if (!said.at(-1)?.includes("the node is ready")) throw new Error(said.join("\n"));
  node.stderr!.resume();
  const socket = join(run, "node.sock");
  const client = connect(socket);
  await client.api.POST("/v1/stubs", { body: { name: "lan" } });
  const end = async () => {
    await client.close();
    spawnSync(WEIR, ["node", "--purge"], { env, timeout: 30_000 });
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { run, socket, url: `https://${listen}`, certificates, client, end };
}
