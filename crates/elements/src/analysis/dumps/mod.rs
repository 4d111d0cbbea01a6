//! The part of the analysis group that reads and writes files.

pub mod summary;

crate::elements! {
    from_ip_summary_dump: FromIPSummaryDump;
    from_net_flow_summary_dump: FromNetFlowSummaryDump;
    to_ip_flow_dumps: ToIPFlowDumps;
    to_ip_summary_dump: ToIPSummaryDump;
}

pub(crate) mod output;
mod replay;

/// The distance in time of packets that `steps` steps lead from `first` to `end`, in nanoseconds,
/// rounded.
fn distance(first: i64, end: i64, steps: u32) -> i64 {
    let steps = i128::from(steps.max(1));
    let span = i128::from(end) - i128::from(first);
    (2 * span + steps).div_euclid(2 * steps) as i64
}
