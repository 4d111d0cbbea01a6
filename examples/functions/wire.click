// A wire: passes frames between two interfaces, unchanged.
//
// Frames from interface `a` leave by `b`, and the reverse. It shows the cost of a guest in a path,
// and is where a function of one's own begins.
//
//   weir run wire --link a=dev:eth1 --link b=dev:eth2
//   weir read wire there.rate
//
// # Handlers
//
// - `there.count`, `there.byte_count`, `there.rate` (read): frames, bytes, and frames a second
//   from `a` to `b`; `back` from `b` to `a`.
// - `there.reset`, `back.reset` (write): set the counters to 0.

FromNetfront(a) -> there :: Counter -> ToNetfront(b);
FromNetfront(b) -> back :: Counter -> ToNetfront(a);
