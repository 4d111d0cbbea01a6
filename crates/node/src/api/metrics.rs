//! `GET /metrics`: all counters in Prometheus's text format. Each scrape builds its own set of series, so that removed
//! resources disappear.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge, with_local_recorder};
use metrics_exporter_prometheus::PrometheusBuilder;

use netkernel::protocol::Limits;

use crate::model::{
    ApplicationStatus, FlowStats, GuestState, LaneStats, NsmStatus, PortStats, Scrape, State,
};

/// Counters of lanes that are nanoseconds.
const TIMES: [&str; 3] = ["busy", "idle", "asleep"];

/// A process's counter of processor time.
const CPU: &str = "cpu_seconds_total";

/// All counters, as Prometheus reads them.
pub fn render(scrape: &Scrape) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    with_local_recorder(&recorder, || record(scrape));
    let mut text = recorder.handle().render();
    // The recorder's counters are whole numbers; times are counters all the same.
    let lanes = TIMES.map(|time| format!("lane_{time}_seconds_total"));
    let processes = ["guest", "nsm", "application"].map(|what| format!("{what}_{CPU}"));
    for time in lanes.iter().chain(&processes) {
        let name = format!("# TYPE weir_{time}");
        text = text.replace(&format!("{name} gauge"), &format!("{name} counter"));
    }
    text
}

fn record(scrape: &Scrape) {
    let node = &scrape.node;
    let version = node.version.clone();
    gauge!("weir_node_info", "version" => version).set(1.0);
    describe_gauge!("weir_node_info", "1, with the node's version.");
    counter!("weir_switch_restarts_total").absolute(node.switch_restarts);
    describe_counter!(
        "weir_switch_restarts_total",
        "Switches that this node started because the last one ended."
    );
    let counts = [
        ("links", "Links and stubs.", node.links),
        ("vnics", "VNICs.", node.vnics),
        ("flows", "Flows.", node.flows),
        ("guests", "Guests.", node.guests),
        ("nsms", "Network stack modules.", node.nsms),
        (
            "applications",
            "Applications of network stack modules.",
            node.applications,
        ),
    ];
    for (what, help, count) in counts {
        gauge!(format!("weir_{what}")).set(count as f64);
        describe_gauge!(format!("weir_{what}"), help);
    }
    gauge!("weir_settled_flows").set(node.settled_flows as f64);
    describe_gauge!(
        "weir_settled_flows",
        "Flows whose packets the kernel passes on, in one direction each."
    );
    if !scrape.ports.is_empty() {
        describe("port", PortStats::counted());
    }
    for (port, guest) in &scrape.ports {
        let guest = guest.clone().unwrap_or_default();
        let labels = [
            ("port", port.name.clone()),
            ("link", port.link.clone()),
            ("guest", guest),
        ];
        count("port", port.counters(), &labels);
        drops("port", port, &labels);
    }
    if !scrape.port_lanes.is_empty() {
        describe("port_lane", PortStats::counted());
    }
    for port in &scrape.port_lanes {
        let lane = port.lane.unwrap_or_default().to_string();
        let labels = [("port", port.name.clone()), ("lane", lane)];
        count("port_lane", port.counters(), &labels);
        drops("port_lane", port, &labels);
    }
    let is_time = |(name, _): &(&str, u64)| TIMES.contains(name);
    let mut counted = LaneStats::counted();
    counted.retain(|(name, _)| !TIMES.contains(name));
    if !scrape.lanes.is_empty() {
        describe("lane", counted);
    }
    for lane in &scrape.lanes {
        let labels = [("lane", lane.lane.to_string())];
        let (times, others): (Vec<_>, Vec<_>) = lane.counters().partition(is_time);
        count("lane", others.into_iter(), &labels);
        for (name, nanoseconds) in times {
            let metric = format!("weir_lane_{name}_seconds_total");
            let help = format!("Time that the lane was {name}.");
            describe_gauge!(metric.clone(), Unit::Seconds, help);
            gauge!(metric, &labels).set(nanoseconds as f64 / 1e9);
        }
        gauge!("weir_lane_queues", &labels).set(lane.queues);
        describe_gauge!("weir_lane_queues", "Queues that the lane serves.");
    }
    if !scrape.flows.is_empty() {
        describe("flow", FlowStats::counted());
    }
    for flow in &scrape.flows {
        let labels = [("flow", flow.name.clone()), ("link", flow.link.clone())];
        count("flow", flow.counters(), &labels);
    }
    stacks(scrape);
    for guest in &scrape.guests {
        let labels = [("guest", guest.name.clone())];
        let status = &guest.status;
        let up = matches!(status.state, GuestState::Running | GuestState::Unhealthy);
        gauge!("weir_guest_up", &labels).set(f64::from(u8::from(up)));
        describe_gauge!("weir_guest_up", "1 while the guest runs and is not paused.");
        if !guest.spec.health.is_empty() {
            let healthy = status.state == GuestState::Running;
            gauge!("weir_guest_healthy", &labels).set(f64::from(u8::from(healthy)));
            describe_gauge!(
                "weir_guest_healthy",
                "1 while the guest runs and its checks pass."
            );
        }
        counter!("weir_guest_restarts_total", &labels).absolute(status.restarts.into());
        describe_counter!("weir_guest_restarts_total", "Restarts of the guest.");
        gauge!("weir_guest_memory_bytes", &labels).set(guest.spec.memory() as f64);
        describe_gauge!(
            "weir_guest_memory_bytes",
            Unit::Bytes,
            "Private memory of the guest."
        );
        cpu("guest", status.cpu_s, &labels);
        resident("guest", status.resident, &labels);
        if let Some(ms) = status.boot_ms {
            gauge!("weir_guest_boot_seconds", &labels).set(ms / 1e3);
            describe_gauge!(
                "weir_guest_boot_seconds",
                Unit::Seconds,
                "Time from the order to start the guest to its main loop."
            );
        }
    }
}

/// Network stack modules and the applications that they serve.
fn stacks(scrape: &Scrape) {
    if !scrape.nsms.is_empty() {
        describe("nsm", NsmStatus::counted());
    }
    for nsm in &scrape.nsms {
        let labels = [("nsm", nsm.name.clone())];
        let (status, spec) = (&nsm.status, &nsm.spec);
        up("nsm", status.state == State::Up, &labels);
        count("nsm", status.counters(), &labels);
        sockets("nsm", status.sockets, spec.limits(), &labels);
        restarts("nsm", status.restarts, &labels);
        cpu("nsm", status.cpu_s, &labels);
        resident("nsm", status.resident, &labels);
    }
    if !scrape.applications.is_empty() {
        describe("application", ApplicationStatus::counted());
    }
    for application in &scrape.applications {
        let (status, spec) = (&application.status, &application.spec);
        let labels = [
            ("application", application.name.clone()),
            ("nsm", spec.nsm.clone()),
        ];
        up("application", status.state == State::Up, &labels);
        count("application", status.counters(), &labels);
        sockets("application", status.sockets, spec.limits(), &labels);
        restarts("application", status.restarts, &labels);
        cpu("application", status.cpu_s, &labels);
        gauge!("weir_application_processes", &labels).set(status.processes as f64);
        let help = "Processes that use sockets.";
        describe_gauge!("weir_application_processes", help);
    }
}

type Labels<const N: usize> = [(&'static str, String); N];

/// What a resource is called in a sentence.
fn called(what: &str) -> &str {
    if what == "nsm" { "NSM" } else { what }
}

fn up<const N: usize>(what: &str, up: bool, labels: &Labels<N>) {
    let metric = format!("weir_{what}_up");
    describe_gauge!(
        metric.clone(),
        format!("1 while the {} runs.", called(what))
    );
    gauge!(metric, labels).set(f64::from(u8::from(up)));
}

fn restarts<const N: usize>(what: &str, count: u32, labels: &Labels<N>) {
    let metric = format!("weir_{what}_restarts_total");
    describe_counter!(metric.clone(), format!("Restarts of the {}.", called(what)));
    counter!(metric, labels).absolute(count.into());
}

fn cpu<const N: usize>(what: &str, seconds: Option<f64>, labels: &Labels<N>) {
    let Some(seconds) = seconds else { return };
    let metric = format!("weir_{what}_{CPU}");
    describe_gauge!(metric.clone(), Unit::Seconds, "Processor time used.");
    gauge!(metric, labels).set(seconds);
}

fn resident<const N: usize>(what: &str, bytes: Option<u64>, labels: &Labels<N>) {
    let Some(bytes) = bytes else { return };
    let metric = format!("weir_{what}_resident_memory_bytes");
    let help = "Memory that the process has in use.";
    describe_gauge!(metric.clone(), Unit::Bytes, help);
    gauge!(metric, labels).set(bytes as f64);
}

/// Sockets in use, and limits where there are any.
fn sockets<const N: usize>(what: &str, sockets: usize, limits: Limits, labels: &Labels<N>) {
    let metric = format!("weir_{what}_sockets");
    describe_gauge!(metric.clone(), "Sockets in use.");
    gauge!(metric, labels).set(sockets as f64);
    if let Some(most) = limits.sockets {
        let metric = format!("weir_{what}_limit_sockets");
        describe_gauge!(metric.clone(), "Most sockets: `conns`.");
        gauge!(metric, labels).set(most);
    }
    if let Some(most) = limits.bytes_per_second {
        let metric = format!("weir_{what}_limit_bytes_per_second");
        describe_gauge!(metric.clone(), "Most bytes a second, both ways: `maxbw`.");
        gauge!(metric, labels).set(most as f64);
    }
}

/// Says what counters count; with what labels, [`count`] says.
fn describe(what: &str, counted: Vec<(&'static str, String)>) {
    for (name, help) in counted {
        describe_counter!(format!("weir_{what}_{name}_total"), help);
    }
}

/// Counters by the names that `stat` shows.
fn count<const N: usize>(
    what: &str,
    counters: impl Iterator<Item = (&'static str, u64)>,
    labels: &[(&'static str, String); N],
) {
    for (name, value) in counters {
        counter!(format!("weir_{what}_{name}_total"), labels).absolute(value);
    }
}

/// Frames dropped, by reason.
fn drops<const N: usize>(what: &str, port: &PortStats, labels: &[(&'static str, String); N]) {
    let metric = format!("weir_{what}_dropped_frames_total");
    describe_counter!(metric.clone(), "Frames dropped, by reason.");
    for (reason, frames) in &port.drops {
        let reason = [("reason", reason.clone())];
        let labels: Vec<_> = labels.iter().cloned().chain(reason).collect();
        counter!(metric.clone(), &labels).absolute(*frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Application, Guest, LaneStats, NodeStatus, Nsm, Spec};

    #[test]
    fn counters_have_prometheus_names_and_labels() {
        let mut port = PortStats {
            name: "g0".into(),
            link: "lan".into(),
            rx_frames: 3,
            rx_bytes: 294,
            ..PortStats::default()
        };
        port.drops.insert("spoofed-ip".into(), 2);
        let mut guest = Guest::example();
        guest.status.cpu_s = Some(1.25);
        guest.status.resident = Some(1 << 20);
        let scrape = Scrape {
            node: NodeStatus::default(),
            ports: vec![(port, Some("fw".into()))],
            port_lanes: Vec::new(),
            lanes: vec![LaneStats {
                busy: 1_500_000_000,
                ..LaneStats::default()
            }],
            flows: Vec::new(),
            guests: vec![guest],
            nsms: vec![Nsm::example()],
            applications: vec![Application::example()],
        };
        let text = render(&scrape);
        let lines = |start| {
            text.lines()
                .filter(move |line: &&str| line.starts_with(start))
        };
        assert_eq!(lines("# HELP ").count(), lines("# TYPE ").count(), "{text}");
        assert!(lines("# HELP ").all(|line| line.ends_with('.')), "{text}");
        for line in [
            "weir_port_rx_frames_total{port=\"g0\",link=\"lan\",guest=\"fw\"} 3",
            "weir_port_rx_bytes_total{port=\"g0\",link=\"lan\",guest=\"fw\"} 294",
            "weir_port_dropped_frames_total{port=\"g0\",link=\"lan\",guest=\"fw\",reason=\"spoofed-ip\"} 2",
            "# HELP weir_port_rx_bytes_total Bytes received, from the Ethernet header on.",
            "# HELP weir_nsm_sent_bytes_total Bytes that the NSM was given to send.",
            "# TYPE weir_lane_busy_seconds_total counter",
            "weir_lane_busy_seconds_total{lane=\"0\"} 1.5",
            "weir_guest_up{guest=\"fw\"} 1",
            "weir_guest_boot_seconds{guest=\"fw\"} 0.0015",
            "# TYPE weir_guest_cpu_seconds_total counter",
            "weir_guest_cpu_seconds_total{guest=\"fw\"} 1.25",
            "weir_guest_resident_memory_bytes{guest=\"fw\"} 1048576",
            "weir_nsm_up{nsm=\"stack1\"} 1",
            "weir_nsm_requests_total{nsm=\"stack1\"} 1200",
            "# TYPE weir_nsm_cpu_seconds_total counter",
            "weir_nsm_cpu_seconds_total{nsm=\"stack1\"} 0.5",
            "weir_application_sent_bytes_total{application=\"curl-4711\",nsm=\"stack1\"} 78",
            "weir_application_limit_sockets{application=\"curl-4711\",nsm=\"stack1\"} 100",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}:\n{text}");
        }
    }
}
