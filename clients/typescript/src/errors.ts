// What the node did not do, as exceptions: one class for each kind of the API's errors.

import type { GuestOutcome, Kind } from "./models.js";

/** The node did not do what was asked. */
export class WeirError extends Error {
  /** What became of each guest, if guests were to be changed. */
  outcomes: GuestOutcome[] = [];

  /**
   * @param kind The API's word for errors of this kind.
   * @param sentence What was wrong, where, and what would be right.
   * @param field The field of the request that is wrong, if one is.
   */
  constructor(
    readonly kind: string,
    readonly sentence: string,
    readonly field?: string,
    options?: ErrorOptions,
  ) {
    super(sentence, options);
    this.name = new.target.name;
  }

  /** The exception of a kind; a plain WeirError for one that is not known here. */
  static of(kind: string, sentence: string, field?: string | null, options?: ErrorOptions): WeirError {
    const known = Object.hasOwn(KINDS, kind) ? KINDS[kind as Kind] : WeirError;
    return new known(kind, sentence, field ?? undefined, options);
  }
}

/** The request itself is wrong. */
export class Invalid extends WeirError {}
/** The client may not do that. */
export class Forbidden extends WeirError {}
/** Nothing has that name. */
export class NotFound extends WeirError {}
/** The resource has no such method. */
export class NotAllowed extends WeirError {}
/** The request's body came too slowly. */
export class Late extends WeirError {}
/** The name or address is taken. */
export class Exists extends WeirError {}
/** Something else uses it. */
export class InUse extends WeirError {}
/** The request's body is too long. */
export class TooLarge extends WeirError {}
/** The request's body has another content type than JSON. */
export class NotJson extends WeirError {}
/** The host, the switch or the guest refused. */
export class Refused extends WeirError {}
/** The node or its switch is not running, or does not answer. */
export class Unavailable extends WeirError {}
/** The node failed; nothing was changed. */
export class Failed extends WeirError {}

// The compiler asks for a class of each kind that the description has.
const KINDS: Record<Kind, typeof WeirError> = {
  invalid: Invalid,
  forbidden: Forbidden,
  "not-found": NotFound,
  "not-allowed": NotAllowed,
  late: Late,
  exists: Exists,
  "in-use": InUse,
  "too-large": TooLarge,
  "not-json": NotJson,
  refused: Refused,
  unavailable: Unavailable,
  failed: Failed,
};

/** What the node refused, in its words. */
export async function refusal(response: Response): Promise<WeirError> {
  try {
    const { kind, error, field } = (await response.json()) as Record<string, string | undefined>;
    if (kind && error) return WeirError.of(kind, error, field);
  } catch {
    // Something else answered: it is told below.
  }
  return new Failed("failed", `the node answered ${response.status} without a reason`);
}
