// The client and a real node with real guests.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { after, afterEach, before, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { Client } from "../src/index.js";
import * as weir from "../src/node.js";
import { guest, PRINTER, type Rig, SINK, SOURCE, start } from "./rig.js";

/** The first elements of an iterator. */
async function taken<T>(count: number, all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of all) if (found.push(one) === count) break;
  return found;
}

let rig: Rig;
let node: weir.NodeClient;

before(async () => {
  rig = await start();
  node = rig.client;
});
afterEach(async () => {
  const names = (await node.listGuests()).map((guest) => guest.name);
  await node.destroy(...names);
});
after(() => rig.end());

test("a guest is created, stopped, started and destroyed", async () => {
  const made = await node.createGuest(guest("fw"));
  assert.equal(made.status?.state, "running");
  const [stopped] = await node.stop("fw");
  assert.equal(stopped?.status?.state, "stopped");
  const [started] = await node.start("fw");
  assert.notEqual(started?.status?.pid, made.status?.pid);
  await node.pause("fw");
  assert.equal((await node.showGuest("fw")).status?.state, "paused");
  await node.resume("fw");
  await node.restart("fw");
  await node.destroy("fw");
  assert.deepEqual(await node.listGuests(), []);
});

test("many guests are one request and are told of one by one", async () => {
  const series = { name: "fw-{}", count: 5, guest: { config: SINK, interfaces: { lan: "lan" } } };
  const told: string[] = [];
  for await (const outcome of node.createGuests(series)) {
    // Other requests are served while the answer grows.
    assert.equal((await node.showGuest(outcome.guest)).name, outcome.guest);
    told.push(outcome.guest);
  }
  assert.deepEqual(told, ["fw-1", "fw-2", "fw-3", "fw-4", "fw-5"]);
  assert.equal((await node.stop("fw-[1-3]")).length, 3);
  assert.equal((await node.listGuests("fw-*", "fw-1")).length, 5);
});

test("if one guest fails the others are done, and its error is thrown", async () => {
  await node.createGuest(guest("fw"));
  const caught: unknown = await node.stop("nobody", "fw").catch((error) => error);
  assert(caught instanceof weir.NotFound);
  assert.match(caught.sentence, /^no guest ‘nobody’/);
  assert.deepEqual(caught.outcomes.map((outcome) => outcome.guest).sort(), ["fw", "nobody"]);
  assert.equal((await node.showGuest("fw")).status?.state, "stopped");
});

test("an iteration that ends early leaves the rest undone", async () => {
  const series = { name: "fw-{}", count: 200, guest: { config: SINK, interfaces: { lan: "lan" } } };
  for await (const outcome of node.createGuests(series)) {
    assert.equal(outcome.guest, "fw-1");
    break;
  }
  let [previous, now] = [-1, 0];
  while (previous !== now) {
    previous = now;
    await setTimeout(300);
    now = (await node.listGuests()).length;
  }
  assert(now > 0 && now < 200, `${now}`);
});

test("handlers are read and written, and a configuration replaced", async () => {
  await node.createGuest(guest("source", SOURCE));
  await node.createGuest(guest("sink"));
  const deadline = performance.now() + 10_000;
  while (Number(await node.read("sink", "seen.count")) === 0) assert(performance.now() < deadline);
  await node.destroy("source");
  await node.write("sink", "seen.reset_counts");
  assert.equal((await node.read("sink", "seen.count")).trim(), "0");
  const config = SINK.replace("seen", "passed");
  const params = { path: { name: "sink" } };
  const patched = await weir.data(node.api.PATCH("/v1/guests/{name}", { params, body: { config } }));
  assert.equal(patched.config, config);
  assert.equal((await node.read("sink", "passed.count")).trim(), "0");
  // What is shown can be sent back.
  const shown = await node.showGuest("sink");
  const put = await weir.data(node.api.PUT("/v1/guests/{name}", { params, body: shown }));
  assert.equal(put.config, config);
});

test("rates are those of the traffic", async () => {
  await node.createGuest(guest("sink"));
  await node.createGuest(guest("source", SOURCE));
  let looks = 0;
  for await (const { lan } of node.guestRates("sink", 500)) {
    assert(lan);
    assert.equal(lan.name, "sink.lan");
    assert(lan.seconds > 0.4 && lan.seconds < 5);
    assert(lan.rxFrames > 0 && lan.rxFrames < 2000, `${lan.rxFrames}`);
    assert(Math.abs(lan.rxBytes / lan.rxFrames - 14) < 0.01);
    if (++looks === 3) break;
  }
  for await (const all of node.rates([], 100)) {
    assert.deepEqual(new Set(all.map((rate) => rate.link)), new Set(["lan"]));
    assert.equal(all.length, 2);
    break;
  }
});

test("logs are followed and gone on with", async () => {
  for (const name of ["fw-1", "fw-2"]) await node.createGuest({ name, config: PRINTER });
  const first = await taken(3, node.followGuestLog("fw-1"));
  assert.deepEqual(first.map(({ guest, line }) => [guest, line]), [["fw-1", "1"], ["fw-1", "2"], ["fw-1", "3"]]);
  const [next] = await taken(1, node.followGuestLog("fw-1", { last: first[1]?.number }));
  assert.deepEqual(next, first[2]);
  const both = await taken(20, node.followGuestLogs({ name: "fw-*" }));
  assert.deepEqual(new Set(both.map((line) => line.guest)), new Set(["fw-1", "fw-2"]));
  await assert.rejects(node.followGuestLog("nobody").next(), weir.NotFound);
});

test("events are followed and gone on with", async () => {
  const told = node.followEvents({ name: "seen-*" });
  const first = told.next();
  await node.createGuest(guest("seen-1"));
  await node.destroy("seen-1");
  const events = [(await first).value, ...(await taken(2, told))];
  assert.deepEqual(events.map((event) => event?.name), ["seen-1", "seen-1", "seen-1"]);
  assert.equal(events[0]?.event, "created");
  const [next] = await taken(1, node.followEvents({ name: "seen-*", last: events[0]?.number }));
  assert.deepEqual(next, events[1]);
});

test("errors are exceptions with kind, sentence and field", async () => {
  const invalid = await node.api.POST("/v1/stubs", { body: { name: "small", mtu: 9 } }).catch((e) => e);
  assert(invalid instanceof weir.Invalid);
  assert.equal(invalid.kind, "invalid");
  assert.equal(invalid.field, "mtu");
  assert.match(invalid.sentence, /an MTU of 9 is invalid/);
  await assert.rejects(node.api.POST("/v1/stubs", { body: { name: "lan" } }), weir.Exists);
  await node.api.POST("/v1/vnics", { body: { name: "v0", link: "lan" } });
  const lan = { params: { path: { name: "lan" } } };
  await assert.rejects(node.api.DELETE("/v1/stubs/{name}", lan), weir.InUse);
  await node.api.DELETE("/v1/vnics/{name}", { params: { path: { name: "v0" } } });
  // Any name is one segment of the path.
  for (const name of ["a/b", "../guests", "ä ?#%"]) {
    const error = await node.showGuest(name).catch((error) => error);
    assert(error instanceof weir.WeirError && error.sentence.includes(name), `${error}`);
  }
  // A series that cannot begin is told of by its first element.
  await assert.rejects(node.createGuests({ name: "fw", count: 1, guest: {} }).next(), weir.Invalid);
});

test("a node on the network asks for a certificate", async () => {
  const files = (name: string) => ({
    cert: `${rig.certificates}/${name}.pem`,
    key: `${rig.certificates}/${name}.key`,
    ca: `${rig.certificates}/ca.pem`,
  });
  const operator = weir.connect(rig.url, files("operator"));
  await operator.createGuest(guest("far"));
  assert.deepEqual((await operator.stop("far")).map((outcome) => outcome.guest), ["far"]);
  const [event] = await taken(1, operator.followEvents({ name: "far" }));
  assert.equal(event?.by, "operator");
  await operator.close();
  const watcher = weir.connect(rig.url, files("watcher"));
  assert.equal((await watcher.showGuest("far")).name, "far");
  await assert.rejects(watcher.destroy("far"), weir.Forbidden);
  await watcher.close();
  // Another authority's node is no node.
  const stranger = weir.connect(rig.url, { ...files("watcher"), ca: files("watcher").cert });
  await assert.rejects(stranger.listGuests(), weir.Unavailable);
  await stranger.close();
});

test("a node that is not there is told of", async () => {
  const nobody = weir.connect("/nowhere/node.sock");
  await assert.rejects(nobody.listGuests(), weir.Unavailable);
  await assert.rejects(nobody.actOnGuests("stop", "fw").next(), weir.Unavailable);
  await nobody.close();
});

test("the environment says where the node is", async () => {
  process.env.WEIR_RUN = rig.run;
  const client = weir.connect();
  assert.deepEqual(await client.listGuests(), []);
  await client.close();
  assert.throws(() => weir.connect("http://localhost:1"), /use https:\/\/HOST:PORT, or a socket's path/);
  assert.throws(() => weir.connect("https://localhost:1"), /give cert, key and ca/);
});

test("a browser's fetch does, with a server in between", async () => {
  const server = createServer((from, to) => {
    const { method, url, headers } = from;
    const asked = request({ socketPath: rig.socket, method, path: url, headers }, (answer) => {
      to.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(to);
    });
    from.pipe(asked);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const client = new Client({ baseUrl: `http://127.0.0.1:${port}` });
  assert.equal((await client.createGuest(guest("fw"))).status?.state, "running");
  for await (const outcome of client.actOnGuests("stop", "fw")) assert.equal(outcome.guest, "fw");
  await assert.rejects(client.showGuest("nobody"), weir.NotFound);
  server.closeAllConnections();
  server.close();
  // What a browser loads has nothing of Node's.
  for (const file of ["index", "elements", "errors", "events", "rates"]) {
    const text = readFileSync(new URL(`../src/${file}.js`, import.meta.url), "utf8");
    assert.doesNotMatch(text, /from "(node:|undici)/);
  }
});

test("the code of the README runs", () => {
  const root = new URL("../../", import.meta.url);
  const readme = readFileSync(new URL("README.md", root), "utf8");
  const [code] = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code);
  assert(code);
  const path = new URL("dist/readme.mjs", root);
  writeFileSync(path, code);
  const ran = spawnSync(process.execPath, [path.pathname], {
    cwd: process.env.ROOT,
    env: { ...process.env, WEIR_RUN: rig.run },
    timeout: 20_000,
    encoding: "utf8",
  });
  assert.equal(ran.status, 0, ran.stderr);
  assert.match(ran.stdout, /frames\/s/);
});
