//! Click's analysis group: traces and their aggregates.

#[cfg(feature = "host")]
pub mod dumps;

crate::elements! {
    adjust_timestamp: AdjustTimestamp;
    erase_ip_payload: EraseIPPayload;
    set_timestamp_delta: SetTimestampDelta;
    store_timestamp: StoreTimestamp;
    time_range: TimeRange;
    time_sorted_sched: TimeSortedSched;
    timestamp_accum: TimestampAccum;
}
