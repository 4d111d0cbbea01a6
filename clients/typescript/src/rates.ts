// Counters as rates.

import type { PortStats } from "./models.js";

/** What a port received and sent, a second; "received" from its own point of view. */
export interface Rate {
  /** When the counters were looked at: milliseconds since 1970. */
  time: number;
  /** Seconds since the look before. */
  seconds: number;
  /** The interface or VNIC. */
  name: string;
  link: string;
  rxFrames: number;
  rxBytes: number;
  txFrames: number;
  txBytes: number;
  /** Frames dropped, of all reasons. */
  dropped: number;
}

/** The rates between two looks. A switch that was replaced counts from 0. */
export function rate(before: PortStats, now: PortStats, seconds: number): Rate {
  const each = (old: number, recent: number) => (recent >= old ? recent - old : recent) / seconds;
  const sum = (drops: Record<string, number>) => Object.values(drops).reduce((a, b) => a + b, 0);
  return {
    time: Date.now(),
    seconds,
    name: now.name,
    link: now.link,
    rxFrames: each(before["rx-frames"], now["rx-frames"]),
    rxBytes: each(before["rx-bytes"], now["rx-bytes"]),
    txFrames: each(before["tx-frames"], now["tx-frames"]),
    txBytes: each(before["tx-bytes"], now["tx-bytes"]),
    dropped: each(sum(before.drops), sum(now.drops)),
  };
}
