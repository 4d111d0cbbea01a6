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
mod source;
