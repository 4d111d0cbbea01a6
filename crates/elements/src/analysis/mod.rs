//! Click's analysis group: traces and their aggregates.

#[cfg(feature = "host")]
pub mod dumps;
mod ip_field;
mod numbering;
mod recording;

crate::elements! {
    adjust_timestamp: AdjustTimestamp;
    aggregate_counter: AggregateCounter;
    aggregate_filter: AggregateFilter;
    aggregate_first: AggregateFirst;
    aggregate_ip: AggregateIP;
    aggregate_ip_addr_pair: AggregateIPAddrPair;
    aggregate_ip_flows: AggregateIPFlows;
    aggregate_last: AggregateLast;
    aggregate_length: AggregateLength;
    aggregate_packet_counter: AggregatePacketCounter;
    aggregate_paint: AggregatePaint;
    anonymize_ip_addr: AnonymizeIPAddr;
    check_number_packet: CheckNumberPacket;
    erase_ip_payload: EraseIPPayload;
    multi_replay_unqueue: MultiReplayUnqueue;
    number_packet: NumberPacket;
    record_timestamp: RecordTimestamp;
    replay_unqueue: ReplayUnqueue;
    set_timestamp_delta: SetTimestampDelta;
    store_timestamp: StoreTimestamp;
    store_udp_time_seq_record: StoreUDPTimeSeqRecord;
    time_filter: TimeFilter;
    time_range: TimeRange;
    time_sorted_sched: TimeSortedSched;
    timestamp_accum: TimestampAccum;
    timestamp_diff: TimestampDiff;
}
