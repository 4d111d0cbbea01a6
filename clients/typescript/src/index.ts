// A node's client, for browsers and Node. In Node, "@weir/client/node" connects by a Unix socket
// or with a certificate.

import createClient, { type Client as Paths, type ClientOptions } from "openapi-fetch";
import { elements } from "./elements.js";
import { events } from "./events.js";
import { refusal, Unavailable, WeirError } from "./errors.js";
import type { Action, Guest, GuestOutcome, GuestSeries, LogLine, NodeEvent, PortStats } from "./models.js";
import { type Rate, rate } from "./rates.js";
import type { operations, paths } from "./schema.js";

export * from "./errors.js";
export type * from "./models.js";
export type { Rate } from "./rates.js";
export type { components, operations, paths } from "./schema.js";

/** The data of an answer of `Client.api`, which throws a WeirError if there is none. */
export async function data<T>(answer: Promise<{ data?: T }>): Promise<T> {
  return (await answer).data as T;
}

/** What is followed: what the operation's query says, and `last`, the number of the last one had. */
type Followed<Operation extends keyof operations> = Omit<
  NonNullable<operations[Operation]["parameters"]["query"]>,
  "follow"
> & { last?: number };

/** A node: one host's links, VNICs, flows and guests. Nothing is sent until a method is called. */
export class Client {
  /** Any operation of the API, by method and path. An error is thrown as a WeirError. */
  readonly api: Paths<paths>;

  /** @param options `baseUrl` and what fetch takes. */
  constructor(options: ClientOptions & { baseUrl: string }) {
    this.api = createClient<paths>(options);
    this.api.use({
      async onResponse({ response }) {
        if (!response.ok) throw await refusal(response);
      },
      onError({ error }) {
        if (error instanceof WeirError) return error;
        const cause = error instanceof Error ? (error.cause ?? error) : error;
        const sentence = `the node at ${options.baseUrl} does not answer: ${cause}`;
        return new Unavailable("unavailable", sentence, undefined, { cause });
      },
    });
  }

  /** Creates a guest, which runs when the promise is resolved. */
  createGuest(body: Guest): Promise<Guest> {
    return data(this.api.POST("/v1/guests", { body }));
  }

  showGuest(name: string): Promise<Guest> {
    return data(this.api.GET("/v1/guests/{name}", { params: { path: { name } } }));
  }

  /** Guests by names and patterns; without any, all. Their configurations are omitted. */
  listGuests(...names: string[]): Promise<Guest[]> {
    const query = names.length > 0 ? { name: names.join(",") } : {};
    return data(this.api.GET("/v1/guests", { params: { query } }));
  }

  /** Starts guests, by names and patterns. */
  start(...guests: string[]): Promise<GuestOutcome[]> {
    return this.#all("start", guests);
  }

  /** Ends guests, which stay stopped until they are started. */
  stop(...guests: string[]): Promise<GuestOutcome[]> {
    return this.#all("stop", guests);
  }

  /** Ends guests and starts them again. */
  restart(...guests: string[]): Promise<GuestOutcome[]> {
    return this.#all("restart", guests);
  }

  /** Has guests stand still, with all of their state. */
  pause(...guests: string[]): Promise<GuestOutcome[]> {
    return this.#all("pause", guests);
  }

  /** Has guests go on that were paused. */
  resume(...guests: string[]): Promise<GuestOutcome[]> {
    return this.#all("resume", guests);
  }

  /** Ends and removes guests. */
  destroy(...guests: string[]): Promise<GuestOutcome[]> {
    return this.#all("destroy", guests);
  }

  /** Does something with guests. Has each as soon as it is done. */
  async *actOnGuests(action: Action, ...guests: string[]): AsyncGenerator<GuestOutcome, void> {
    const body = { action, guests };
    const answer = this.api.POST("/v1/guest-actions", { body, parseAs: "stream" });
    yield* elements<GuestOutcome>((await data(answer)) as ReadableStream<Uint8Array>);
  }

  /** Creates guests that differ by a number. Has each as soon as it runs. */
  async *createGuests(body: GuestSeries): AsyncGenerator<GuestOutcome, void> {
    const answer = this.api.POST("/v1/guest-series", { body, parseAs: "stream" });
    yield* elements<GuestOutcome>((await data(answer)) as ReadableStream<Uint8Array>);
  }

  /** Reads a handler, `ELEMENT.HANDLER`, of a guest. */
  async read(name: string, handler: string): Promise<string> {
    const params = { path: { name } };
    const answer = this.api.POST("/v1/guests/{name}/read", { params, body: { handler } });
    return (await data(answer)).value;
  }

  /** Writes a handler of a guest. */
  async write(name: string, handler: string, value = ""): Promise<string> {
    const params = { path: { name } };
    const answer = this.api.POST("/v1/guests/{name}/write", { params, body: { handler, value } });
    return (await data(answer)).value;
  }

  /** What happened, and goes on with what happens; `name` has names and patterns. */
  followEvents(options: Followed<"list-events"> = {}): AsyncGenerator<NodeEvent, void> {
    const { last, ...query } = options;
    return this.#events((stream) => this.api.GET("/v1/events", { params: { query }, ...stream }), last);
  }

  /** What a guest printed, and goes on with what it prints. */
  followGuestLog(name: string, options: Followed<"show-guest-log"> = {}): AsyncGenerator<LogLine, void> {
    const { last, ...query } = options;
    const params = { path: { name }, query };
    return this.#events((stream) => this.api.GET("/v1/guests/{name}/log", { params, ...stream }), last);
  }

  /** What guests printed, and goes on with what they print; `name` has names and patterns. */
  followGuestLogs(options: Followed<"list-guest-logs"> = {}): AsyncGenerator<LogLine, void> {
    const { last, ...query } = options;
    return this.#events((stream) => this.api.GET("/v1/guest-logs", { params: { query }, ...stream }), last);
  }

  /** The rates of interfaces and VNICs, every `interval` milliseconds; without names, of all. */
  async *rates(ports: string[] = [], interval = 1000): AsyncGenerator<Rate[], void> {
    let before = await this.#look(ports);
    let then = performance.now();
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, interval));
      const now = await this.#look(ports);
      const at = performance.now();
      const rates: Rate[] = [];
      for (const [name, port] of now) {
        const old = before.get(name);
        if (old) rates.push(rate(old, port, (at - then) / 1000));
      }
      yield rates;
      [before, then] = [now, at];
    }
  }

  /** The rates of a guest's VNICs, by the guest's names of its interfaces. */
  async *guestRates(guest: string, interval = 1000): AsyncGenerator<Record<string, Rate>, void> {
    const vnics = Object.entries((await this.showGuest(guest)).status?.vnics ?? {});
    const names = vnics.map(([, vnic]) => vnic);
    for await (const rates of this.rates(names, interval)) {
      const byName = new Map(rates.map((rate) => [rate.name, rate]));
      const found = vnics.flatMap(([name, vnic]) => {
        const rate = byName.get(vnic);
        return rate ? [[name, rate] as const] : [];
      });
      yield Object.fromEntries(found);
    }
  }

  /** Acts on guests. If one fails, the others are still done, and its error is thrown. */
  async #all(action: Action, guests: string[]): Promise<GuestOutcome[]> {
    const outcomes: GuestOutcome[] = [];
    for await (const outcome of this.actOnGuests(action, ...guests)) outcomes.push(outcome);
    const why = outcomes.find((outcome) => outcome.error)?.error;
    if (!why) return outcomes;
    const error = WeirError.of(why.kind, why.error, why.field);
    error.outcomes = outcomes;
    throw error;
  }

  async *#events<T>(
    ask: (stream: { parseAs: "stream"; headers: Record<string, string> }) => Promise<{ data?: unknown }>,
    last: number | undefined,
  ): AsyncGenerator<T, void> {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (last !== undefined) headers["last-event-id"] = `${last}`;
    const body = await data(ask({ parseAs: "stream", headers }));
    yield* events<T>(body as ReadableStream<Uint8Array>);
  }

  async #look(ports: string[]): Promise<Map<string, PortStats>> {
    const one = (name: string) => data(this.api.GET("/v1/stats/{name}", { params: { path: { name } } }));
    const all = () => data(this.api.GET("/v1/stats"));
    const stats = ports.length > 0 ? await Promise.all(ports.map(one)) : await all();
    return new Map(stats.map((port) => [port.name, port]));
  }
}
