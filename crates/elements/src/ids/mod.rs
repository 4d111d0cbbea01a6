//! Intrusion detection: signatures that are searched for in the payloads of flows.

mod grams;
pub mod rules;
mod search;

crate::elements! {
    flow_ids: FlowIDS;
}
