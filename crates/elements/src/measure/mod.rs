//! Measurements: a source of traffic whose packets say when they were sent and in which order, and a
//! sink that tells from them rate, loss, order and delay.

mod histogram;
mod sequences;
mod stamp;

crate::elements! {
    traffic_sink: TrafficSink;
    traffic_source: TrafficSource;
}
