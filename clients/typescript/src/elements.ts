// Answers that are lists which grow.

import { JSONParser } from "@streamparser/json";
import { Failed, Unavailable } from "./errors.js";

/** Most bytes of one element. */
export const ELEMENT_LIMIT = 1 << 20;

/** The elements of a list of objects, each as soon as it has arrived. */
export async function* elements<T>(body: ReadableStream<Uint8Array>): AsyncGenerator<T, void> {
  const parser = new JSONParser({ paths: ["$.*"], keepStack: false });
  const complete: T[] = [];
  parser.onValue = ({ key, value }) => {
    if (typeof key !== "number") throw new Error("it is no list");
    if (typeof value !== "object" || value === null) throw new Error("an element is no object");
    complete.push(value as T);
  };
  const reader = body.getReader();
  try {
    for (let waiting = 0; ; ) {
      const { value: piece, done } = await reader.read().catch(brokenOff);
      if (done) break;
      try {
        parser.write(piece);
        waiting = complete.length > 0 ? 0 : waiting + piece.length;
        if (waiting > ELEMENT_LIMIT) throw new Error("an element is too long");
      } catch (error) {
        throw confused(error);
      }
      yield* complete.splice(0);
    }
  } finally {
    // If the iteration ends early, the node does not begin the rest.
    await reader.cancel().catch(() => {});
  }
  if (!parser.isEnded) brokenOff();
}

/** An answer that ended in the middle. */
export function brokenOff(cause?: unknown): never {
  const sentence = "the node ended before its answer did";
  throw new Unavailable("unavailable", sentence, undefined, { cause });
}

/** An answer that is something else. */
export function confused(cause: unknown): Failed {
  const why = cause instanceof Error ? cause.message : String(cause);
  const sentence = `the node's answer cannot be parsed: ${why}: is it of the same version?`;
  return new Failed("failed", sentence, undefined, { cause });
}
