// A node of the tests' own, with guests in it.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
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

export interface Rig {
  run: string;
  socket: string;
  client: NodeClient;
  /** Ends the node and all that it made. */
  end(): Promise<void>;
}

/** Starts a node, with the stub `lan`. */
export async function start(): Promise<Rig> {
  // A socket's path is at most 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), "weir-typescript-"));
  const run = join(folder, "run");
  const env = { ...process.env, WEIR_RUN: run, WEIR_STATE: join(folder, "state") };
  const node = spawn(WEIR, ["node"], { env, stdio: ["ignore", "inherit", "pipe"] });
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
  return { run, socket, client, end };
}
