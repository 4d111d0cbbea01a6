// Growing answers, whatever arrives.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ELEMENT_LIMIT, elements } from "../src/elements.js";
import { events } from "../src/events.js";
import { refusal } from "../src/errors.js";
import { Failed, Unavailable, WeirError } from "../src/index.js";

const OUTCOMES = [
  { guest: "a]},{" },
  { guest: 'b"\\', status: { state: "running", vnics: { lan: "ä" } } },
  { guest: "c", error: { kind: "refused", error: "why", field: null } },
];

function stream(pieces: Iterable<Uint8Array>): ReadableStream<Uint8Array> {
  const next = pieces[Symbol.iterator]();
  return new ReadableStream({
    pull(controller) {
      const { value, done } = next.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

/** The pieces of a text, of some bytes each. */
function cut(text: string, length = text.length || 1): Uint8Array[] {
  const bytes = new TextEncoder().encode(text);
  const count = Math.ceil(bytes.length / length);
  return Array.from({ length: count }, (_, i) => bytes.slice(i * length, (i + 1) * length));
}

async function read(text: string, length?: number): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const element of elements(stream(cut(text, length)))) found.push(element);
  return found;
}

test("a list is read whatever pieces it comes in", async () => {
  const text = `[${OUTCOMES.map((outcome) => JSON.stringify(outcome)).join(",\n")}]\n`;
  for (let length = 1; length <= text.length + 1; length++) {
    assert.deepEqual(await read(text, length), OUTCOMES);
  }
  assert.deepEqual(await read("[]\n", 1), []);
});

test("an element is there with its last byte", async () => {
  let push: ((text: string) => void) | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      push = (text) => controller.enqueue(new TextEncoder().encode(text));
    },
  });
  const found = elements(body);
  push?.('[{"guest":"a"');
  const first = found.next();
  push?.("}");
  assert.deepEqual((await first).value, { guest: "a" });
  await found.return();
});

test("an answer that breaks off is an error", async () => {
  for (const text of ["", "[", '[{"guest":"a"}', '[{"guest":"a"']) {
    await assert.rejects(read(text), Unavailable, text);
  }
});

test("an answer that is something else is an error", async () => {
  for (const text of ['{"guest":"a"}', "[1]", "[]x", "[[", "<html>", "[null]"]) {
    await assert.rejects(read(text), WeirError, text);
  }
  await assert.rejects(read(`[{"guest":"${"x".repeat(2 * ELEMENT_LIMIT)}`, 1 << 16), /too long/);
});

test("events are read whatever pieces they come in, and bounded", async () => {
  const text = ':\n\nid: 1\ndata: {"a":\ndata: 1}\n\nevent: x\r\ndata:{}\r\n\r\ndata: {}\n';
  const read = async (pieces: Iterable<Uint8Array>) => {
    const found: unknown[] = [];
    for await (const event of events(stream(pieces))) found.push(event);
    return found;
  };
  for (let length = 1; length <= text.length; length++) {
    assert.deepEqual(await read(cut(text, length)), [{ a: 1 }, {}]);
  }
  await assert.rejects(read(cut("data: {\n\n")), Failed);
  await assert.rejects(read(cut(`data: ${"x".repeat(2 * ELEMENT_LIMIT)}`, 1 << 16)), Failed);
});

test("an error of an unknown kind is an error all the same", async () => {
  const unknown = await refusal(new Response('{"kind":"new","error":"why","field":"name"}'));
  assert.deepEqual([unknown.kind, unknown.sentence, unknown.field], ["new", "why", "name"]);
  for (const text of ["", "<html>", "[]", '{"kind":"constructor"}', "null"]) {
    const error = await refusal(new Response(text, { status: 502 }));
    assert(error instanceof Failed);
    assert.match(error.sentence, /502/);
  }
  assert.equal(WeirError.of("constructor", "why").constructor, WeirError);
});
