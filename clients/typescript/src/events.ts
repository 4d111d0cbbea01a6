// Answers that are followed: server-sent events.

import { createParser } from "eventsource-parser";
import { brokenOff, confused, ELEMENT_LIMIT } from "./elements.js";

/** The data of the events of an answer, each as soon as it has arrived. */
export async function* events<T>(body: ReadableStream<Uint8Array>): AsyncGenerator<T, void> {
  const complete: T[] = [];
  const parser = createParser({
    onEvent: ({ data }) => complete.push(JSON.parse(data)),
    onError: (error) => {
      // A field that is not known here is nothing to us.
      if (error.type === "max-buffer-size-exceeded") throw error;
    },
    maxBufferSize: ELEMENT_LIMIT,
  });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { value: piece, done } = await reader.read().catch(brokenOff);
      if (done) break;
      try {
        parser.feed(decoder.decode(piece, { stream: true }));
      } catch (error) {
        throw confused(error);
      }
      yield* complete.splice(0);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
