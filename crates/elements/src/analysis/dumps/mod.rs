//! The part of the analysis group that reads and writes files.

pub mod summary;

crate::elements! {
    from_ip_summary_dump: FromIPSummaryDump;
    to_ip_summary_dump: ToIPSummaryDump;
}

mod output;
mod source;
