//! Results as tables of Markdown.

use std::fmt::Write;

use serde_json::Value;

/// A part's tables; empty for a skipped part.
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
            &["frame, bytes", "", "Mpps", "Gb/s"],
            &rows("results"),
            &["frame_bytes", "mode", "mpps", "gbps"],
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

/// A value as text of a table.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) if text.is_empty() => "–".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => {
            format!("{:.0}", number.as_f64().unwrap_or(0.0) + 0.0)
        }
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(" / "),
        other => other.to_string(),
    }
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A field of a row; `NAME/INDEX` is an element of an array.
fn field<'r>(row: &'r Value, name: &str) -> &'r Value {
    row.pointer(&format!("/{name}")).unwrap_or(&Value::Null)
}

/// A table of some fields of rows. Numbers are aligned to the right.
fn grid(heads: &[&str], rows: &[Value], fields: &[&str]) -> String {
    let mut text = line(&heads.iter().map(|head| (*head).into()).collect::<Vec<_>>());
    let rules = fields.iter().map(|name| {
        let is_text = rows.iter().any(|row| field(row, name).is_string());
        if is_text { "---" } else { "---:" }.to_string()
    });
    text += &line(&rules.collect::<Vec<_>>());
    for row in rows {
        let cells = fields.iter().map(|name| cell(field(row, name)));
        text += &line(&cells.collect::<Vec<_>>());
    }
    text
}

/// A table with a column for each row of the results, and a line for each of some fields.
fn transposed(heads: &[String], rows: &[Value], lines: &[(&str, &str)]) -> String {
    let mut text = line(&[&[String::new()], heads].concat());
    text += &line(&[&["---".into()], vec!["---:".into(); heads.len()].as_slice()].concat());
    for (name, key) in lines {
        let cells = rows.iter().map(|row| cell(field(row, key)));
        text += &line(
            &std::iter::once((*name).into())
                .chain(cells)
                .collect::<Vec<_>>(),
        );
    }
    text
}

fn firewall(rows: &[Value], figures: &Value) -> String {
    let mut text = grid(
        &[
            "firewall",
            "Mpps, all arrive",
            "lost",
            "Mpps, flooded",
            "TCP, Gb/s: segments",
            "1500 bytes",
        ],
        rows,
        &[
            "forwarder",
            "mpps",
            "lost",
            "flooded_mpps",
            "tcp_gbps",
            "tcp_whole_gbps",
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
    let heads = polling
        .iter()
        .map(|row| format!("{}, {} %", cell(&row["wall"]), cell(&row["load_percent"])));
    let mut text = transposed(
        &heads.collect::<Vec<_>>(),
        polling,
        &[
            ("arrived, Mpps", "arrived_mpps"),
            ("the path's capacity, Mpps", "capacity_mpps"),
            ("median, µs", "median_us"),
            ("99th percentile, µs", "p99_us"),
            ("99th, median of tenths of a second, µs", "usual_p99_us"),
            ("99.9th, µs", "p999_us"),
            ("frames above 20 µs, %", "late_percent"),
            ("host alone: 99th, µs", "host_p99_us"),
            ("host alone: frames above 20 µs, %", "host_late_percent"),
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

/// The row of each rate with the largest deviation.
fn furthest_off(rows: &[Value]) -> Vec<Value> {
    let off = |row: &Value| row["off_percent"].as_f64().unwrap_or(0.0).abs();
    let mut furthest: Vec<Value> = Vec::new();
    for row in rows {
        let known = furthest
            .iter_mut()
            .find(|known| known["rate"] == row["rate"]);
        match known {
            Some(known) if off(row) > off(known) => *known = row.clone(),
            Some(_) => {}
            None => furthest.push(row.clone()),
        }
    }
    furthest
}

/// The worst deviation of each rate, the shares, and the effect of a flood.
fn limits(accuracy: &[Value], fairness: &[Value], isolation: &[Value]) -> String {
    let mut text = grid(
        &[
            "limit",
            "worst case: frame, bytes",
            "on",
            "off, %",
            "off in short stretches, %",
            "interrupted, %",
        ],
        &furthest_off(accuracy),
        &[
            "rate",
            "frame_bytes",
            "limit_on",
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
            "flood, Mpps",
            "arrived, change in %",
            "median delay, µs: alone",
            "beside the flood",
            "99th, µs: alone",
            "beside the flood",
            "median round trip, µs: alone",
            "beside the flood",
        ],
        isolation,
        &[
            "receiver",
            "flooder",
            "frame_bytes",
            "flood_mpps",
            "arrived_change_percent",
            "delay_us/0/0",
            "delay_us/1/0",
            "delay_us/0/1",
            "delay_us/1/1",
            "round_trip_us/0/0",
            "round_trip_us/1/0",
        ],
    );
    text
}
