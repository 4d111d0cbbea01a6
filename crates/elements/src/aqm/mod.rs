//! Active queue management: dropping before queues are full, so that senders slow down.

mod average;
mod control_law;
mod managed;
mod red_core;

crate::elements! {
    adaptive_red: AdaptiveRED;
    codel: CoDel;
    pi: PI;
    red: RED;
}
