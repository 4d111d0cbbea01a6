// A mirror: sends each frame back to its sender.
//
// Source and destination address are exchanged; the rest of the frame stays as it is. It is for
// measuring a path from one of its ends.
//
//   weir run mirror --link port=dev:eth1
//   weir read mirror mirrored.rate
//
// # Handlers
//
// - `mirrored.count`, `mirrored.byte_count`, `mirrored.rate` (read): frames, bytes, and frames a
//   second that were sent back.
// - `mirrored.reset` (write): sets the counters to 0.

FromNetfront(port) -> mirrored :: Counter -> EtherMirror -> ToNetfront(port);
