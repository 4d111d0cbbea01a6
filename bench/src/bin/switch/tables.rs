//! Results as tables of Markdown.

use std::fmt::Write;

use serde_json::Value;

/// A part's table, or tables; empty for a part that was left out.
pub fn table(part: &str, figures: &Value) -> String {
    if let Some(sentence) = figures["left_out"].as_str() {
        return format!("\n{sentence}\n\n");
    }
    let rows = |field: &str| figures[field].as_array().cloned().unwrap_or_default();
    let text = match part {
        "firewall" => firewall(&rows("rows"), figures),
        "delay" => delay(&rows("polling"), &rows("asleep")),
        "guests" => grid(
            &["guests", "slots of a ring", "frame, bytes", "Mpps", "Gb/s"],
            &rows("rows"),
            &["guests", "ring_slots", "frame_bytes", "mpps", "gbps"],
        ),
        "port_to_port" => grid(
            &["frame, bytes", "", "Mpps", "Gb/s", "lane's ns a frame"],
            &rows("results"),
            &["frame_bytes", "mode", "mpps", "gbps", "lane_ns"],
        ),
        "lookup" => grid(
            &["lookup function", "ns a frame"],
            &rows("results"),
            &["function", "ns_per_frame"],
        ),
        "host_links" => grid(
            &["socket", "frame, bytes", "Mpps", "switch's ns a frame"],
            &rows("results"),
            &["socket", "frame_bytes", "mpps", "switch_cpu_ns_per_frame"],
        ),
        "vhost_rings" => grid(
            &["rings", "frame, bytes", "ns a frame"],
            &rows("results"),
            &["rings", "frame_bytes", "ns_per_frame"],
        ),
        "vhost" => grid(
            &[
                "rings",
                "frame, bytes",
                "delivered, Mpps",
                "Gb/s",
                "lane busy, %",
                "lane's ns a frame",
            ],
            &rows("results"),
            &[
                "rings",
                "frame_bytes",
                "delivered_mpps",
                "delivered_gbps",
                "lane_busy_percent",
                "lane_ns_per_frame",
            ],
        ),
        "limits" => limits(&rows("accuracy"), &rows("fairness"), &rows("isolation")),
        _ => String::new(),
    };
    format!("\n{text}\n")
}

/// A value as it stands in a table.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => {
            format!("{:.0}", number.as_f64().unwrap_or(0.0))
        }
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(" / "),
        other => other.to_string(),
    }
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A table of some fields of rows. What is a number stands to the right.
fn grid(heads: &[&str], rows: &[Value], fields: &[&str]) -> String {
    let mut text = line(&heads.iter().map(|head| (*head).into()).collect::<Vec<_>>());
    let rules = fields.iter().map(|field| {
        let is_text = rows.iter().any(|row| row[*field].is_string());
        if is_text { "---" } else { "---:" }.to_string()
    });
    text += &line(&rules.collect::<Vec<_>>());
    for row in rows {
        text += &line(
            &fields
                .iter()
                .map(|field| cell(&row[*field]))
                .collect::<Vec<_>>(),
        );
    }
    text
}

fn firewall(rows: &[Value], figures: &Value) -> String {
    let mut text = grid(
        &[
            "60-byte frames",
            "Mpps, all arrive",
            "lost",
            "machine's ns a frame",
            "Mpps, flooded",
            "machine's ns a frame",
        ],
        rows,
        &[
            "forwarder",
            "mpps",
            "lost",
            "machine_ns_per_frame",
            "flooded_mpps",
            "flooded_machine_ns_per_frame",
        ],
    );
    text += "\n";
    text += &grid(
        &[
            "TCP",
            "Gb/s, segments",
            "machine's s a GB",
            "Gb/s, 1500 bytes",
            "machine's s a GB",
        ],
        rows,
        &[
            "forwarder",
            "tcp_gbps",
            "tcp_machine_s_per_gb",
            "tcp_whole_gbps",
            "tcp_whole_machine_s_per_gb",
        ],
    );
    let ahead = &figures["ahead"];
    let _ = writeln!(
        text,
        "\nThe best of Weir over the best peer: {} in frames of which all arrive, {} flooded, {} in TCP with segments, {} with packets of 1500 bytes.",
        cell(&ahead["mpps"]),
        cell(&ahead["flooded_mpps"]),
        cell(&ahead["tcp_gbps"]),
        cell(&ahead["tcp_whole_gbps"]),
    );
    for sentence in figures["left_out"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{}.", cell(sentence));
    }
    text
}

fn delay(polling: &[Value], asleep: &[Value]) -> String {
    let mut text = grid(
        &[
            "wall",
            "load, %",
            "Mpps",
            "of",
            "median, µs",
            "99th, µs",
            "in most tenths of a second",
            "99.9th, µs",
            "above 20 µs, %",
            "host alone, 99th, µs",
            "above 20 µs, %",
            "host's pauses a second",
            "of its time, %",
        ],
        polling,
        &[
            "wall",
            "load_percent",
            "arrived_mpps",
            "capacity_mpps",
            "median_us",
            "p99_us",
            "usual_p99_us",
            "p999_us",
            "late_percent",
            "host_p99_us",
            "host_late_percent",
            "host_pauses_a_second",
            "host_pauses_percent",
        ],
    );
    text += "\n";
    text += &grid(
        &["one frame, all asleep", "median, µs", "99th, µs"],
        asleep,
        &["path", "median_us", "p99_us"],
    );
    text
}

/// The worst deviations of each rate, the shares, and what a flood changes.
fn limits(accuracy: &[Value], fairness: &[Value], isolation: &[Value]) -> String {
    let mut text = grid(
        &[
            "limit",
            "frame, bytes",
            "on",
            "Mb/s",
            "off, %",
            "off in short stretches, %",
            "interrupted, %",
        ],
        accuracy,
        &[
            "rate",
            "frame_bytes",
            "limit_on",
            "mbps",
            "off_percent",
            "typical_off_percent",
            "interrupted_percent",
        ],
    );
    text += "\n";
    text += &grid(
        &[
            "receiver",
            "frame, bytes",
            "shares",
            "part over share",
            "Gb/s",
        ],
        fairness,
        &[
            "receiver",
            "frame_bytes",
            "shares",
            "part_over_share",
            "gbps",
        ],
    );
    text += "\n";
    text += &grid(
        &[
            "receiver",
            "flooder",
            "frame, bytes",
            "arrived, alone / beside a flood",
            "change, %",
            "delay, µs (median / 99th, alone / beside)",
            "median's change, µs",
            "%",
            "round trip, µs",
            "median's change, %",
            "flood, Mpps",
            "woken, %",
        ],
        isolation,
        &[
            "receiver",
            "flooder",
            "frame_bytes",
            "arrived",
            "arrived_change_percent",
            "delay_us",
            "added_us",
            "median_change_percent",
            "round_trip_us",
            "round_trip_change_percent",
            "flood_mpps",
            "woken_percent",
        ],
    );
    text
}
