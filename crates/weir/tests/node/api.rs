//! The API over its socket: what it answers can be sent back, what it counts is what it shows.

use node::error::Kind;
use node::model::{
    Class, Entry, Flow, Guest, Link, Nsm, Object, PortStats, Purge, Spec, State, Stub,
    SwitchFunction, Vnic, Wire,
};
use serde_json::json;
use switch::port::PortKind;

use crate::common::{Host, assert_contains, pinging, until};

/// Removes a resource and makes it again of what the API answered.
#[track_caller]
fn sent_back<S: Spec>(host: &Host, name: &str) {
    let client = host.client();
    let is = client.show::<S>(name).unwrap();
    client.delete::<S>(name).unwrap();
    let missing = client.show::<S>(name).unwrap_err();
    assert_eq!(missing.kind, Kind::NotFound, "{missing}");
    // The kernel may have the name of an interface a moment longer.
    let mut made = client.create(&is);
    until("it is made again", || {
        if made.as_ref().is_err_and(|error| error.kind == Kind::Exists) {
            made = client.create(&is);
        }
        made.is_ok()
    });
    assert_eq!(made.unwrap().spec, is.spec);
    assert_eq!(client.show::<S>(name).unwrap().spec, is.spec);
}

/// Replaces a resource by itself.
#[track_caller]
fn put_back<S: Spec>(host: &Host, name: &str) {
    let client = host.client();
    let is = client.show::<S>(name).unwrap();
    assert_eq!(client.put(&is).unwrap().spec, is.spec);
}

#[test]
fn what_the_api_answers_can_be_sent_back() {
    let host = Host::new();
    let client = host.client();
    let tap = format!("{}t", host.prefix);
    host.ok("stub create lan --mtu 1600");
    host.ok("switch set lan --lookup flow-table --aging 60 --speed 1G");
    sent_back::<Stub>(&host, "lan");
    put_back::<Stub>(&host, "lan");
    assert_eq!(
        client.show::<Stub>("lan").unwrap().status.class,
        Class::Stub
    );
    host.ok(&format!("link attach {tap} --mode tap -p maxbw=1G"));
    sent_back::<Link>(&host, &tap);
    put_back::<Link>(&host, &tap);
    let link = client.show::<Link>(&tap).unwrap();
    assert_eq!(link.status.mode, Some(PortKind::Tap));
    assert_eq!(link.spec.port.to_string(), "maxbw=1G");
    host.ok("vnic create -l lan -p maxbw=100M,protection=mac-nospoof,delay=2ms g0");
    sent_back::<Vnic>(&host, "g0");
    put_back::<Vnic>(&host, "g0");
    host.ok("flow add -l g0 -a transport=tcp,local_port=80 -p maxbw=5M web");
    sent_back::<Flow>(&host, "web");
    put_back::<Flow>(&host, "web");
    // Its namespace has its name.
    let stack = format!("{}s", host.prefix);
    host.ok(&format!("nsm create {stack}"));
    sent_back::<Nsm>(&host, &stack);
    put_back::<Nsm>(&host, &stack);
    // A switch is there as long as its link.
    put_back::<SwitchFunction>(&host, "lan");
    let entry = Entry {
        flow: "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2".into(),
        port: "g0".into(),
        status: Default::default(),
    };
    client.add_entry("lan", &entry).unwrap();
    let [is] = client.entries("lan").unwrap().try_into().unwrap();
    client.remove_entry("lan", &is.flow).unwrap();
    assert_eq!(client.add_entry("lan", &is).unwrap(), is);
    // A guest on a link has a VNIC made for it, and says so in its status.
    client.remove_entry("lan", &is.flow).unwrap();
    let config = host.config("g.click", "FromNetfront(a) -> Discard;");
    host.ok(&format!(
        "create g {config} --link a={tap} --restart always"
    ));
    sent_back::<Guest>(&host, "g");
    put_back::<Guest>(&host, "g");
    let guest = client.show::<Guest>("g").unwrap();
    assert_eq!(guest.spec.interfaces["a"], tap);
    assert_eq!(guest.status.vnics["a"], "g.a");
    // What a list leaves out is not to be taken away.
    let listed = client.list::<Guest>().unwrap();
    let error = client.put(&listed[0]).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("config"), "{error}");
    // A wire is applied as it was answered.
    let file = host.file(
        "w.toml",
        "wire = 'w'\n[stub.@s]\naging = 9\n[vnic.@v]\nlink = '@s'\n",
    );
    host.ok(&format!("wire apply {file}"));
    let wire = client.show::<Wire>("w").unwrap();
    client.delete::<Wire>("w").unwrap();
    assert_eq!(client.apply(&wire.spec).unwrap().steps.len(), 2);
    assert!(client.apply(&wire.spec).unwrap().steps.is_empty());
    assert_eq!(client.show::<Wire>("w").unwrap().spec, wire.spec);
    let file = host.file(
        "x.toml",
        "wire = 'x'\n[stub.@x]\n[vnic.@y]\nlink = '@x'\n[guest.@g]\n\
         config = 'FromNetfront(a) -> Discard;'\ninterfaces = { a = '@y' }\n",
    );
    host.ok(&format!("wire apply {file}"));
    let whole = client.show::<Wire>("x").unwrap();
    let listed = client.list::<Wire>().unwrap();
    let mut listed = listed.into_iter().find(|wire| wire.name == "x").unwrap();
    for guest in listed.spec.guests.values_mut() {
        guest.memory = Some("8M".parse().unwrap());
    }
    let error = client.apply(&listed.spec).unwrap_err();
    assert!(error.error.contains("has no `config`"), "{error}");
    assert_eq!(client.show::<Wire>("x").unwrap().spec, whole.spec);
}

#[test]
fn fields_are_changed_by_put_and_patch_and_what_cannot_change_is_told() {
    let host = Host::new();
    let client = host.client();
    host.ok("stub create lan");
    // PUT makes what is not there.
    let mut vnic = Object::new("g0", Vnic::default());
    vnic.spec.link = "lan".into();
    let made = client.put(&vnic).unwrap();
    assert!(made.spec.mac.is_some());
    let changed = client.patch::<Vnic>("g0", &json!({"properties": {"maxbw": "9M", "share": 7}}));
    assert_eq!(
        changed.unwrap().spec.properties.to_string(),
        "maxbw=9M,share=7"
    );
    let reset = client.patch::<Vnic>("g0", &json!({"properties": {"maxbw": null}}));
    assert_eq!(reset.unwrap().spec.properties.to_string(), "share=7");
    // Without an address, the VNIC keeps its own.
    assert_eq!(client.put(&vnic).unwrap().spec.mac, made.spec.mac);
    let refused = |patch| client.patch::<Vnic>("g0", &patch).unwrap_err();
    let error = refused(json!({"link": "wan"}));
    assert_eq!(error.kind, Kind::InUse);
    assert_contains(&error.error, "only `properties` and `addresses` of");
    let error = refused(json!({"properties": {"colour": 1}}));
    assert!(
        error.error.contains("unknown field `properties.colour`"),
        "{error}"
    );
    let error = refused(json!({"properties": {"mtu": 9000}}));
    assert_eq!(
        (error.kind, error.field.as_deref()),
        (Kind::Invalid, Some("properties.mtu"))
    );
    let error = refused(json!({"properties": {"lanes": 9}}));
    assert_eq!(error.field.as_deref(), Some("properties.lanes"));
    let lookup = json!({"lookup": "flow-table", "default": "output:g9"});
    let error = client.patch::<SwitchFunction>("lan", &lookup).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("default"), "{error}");
    let error = client.put(&Object::new("g1", vnic.spec)).map(|_| ());
    assert!(error.is_ok(), "another name is another VNIC");
    // A flow that cannot be changed stays as it was.
    host.ok("flow add -l lan -a transport=tcp,local_port=80 -p maxbw=5M web");
    let changed = client.patch::<Flow>("web", &json!({"properties": {"maxbw": "9M"}}));
    assert_eq!(changed.unwrap().spec.properties.to_string(), "maxbw=9M");
    host.ok("flow add -l lan -a transport=tcp,local_port=53 dns");
    let clash = json!({"attributes": {"local_port": null, "remote_port": 80}});
    let error = client.patch::<Flow>("web", &clash).unwrap_err();
    assert_contains(
        &error.error,
        "some traffic belongs to the flow and to ‘dns’",
    );
    let web = client.show::<Flow>("web").unwrap();
    assert_eq!(web.status.state, State::Up);
    assert_eq!(web.spec.properties.to_string(), "maxbw=9M");
    let frames = client.flow_stats().unwrap();
    assert_eq!(frames.len(), 2);
    // A new configuration of a guest holds for its next start, too.
    let config = "Idle -> c :: Counter -> Discard;".to_string();
    let guest = Guest {
        config: config.clone(),
        ..Guest::default()
    };
    let made = client.create(&Object::new("g", guest)).unwrap();
    let other = config.replace("c ::", "d ::");
    let changed = client.patch::<Guest>("g", &json!({"config": other, "restart": "always"}));
    let changed = changed.unwrap();
    assert_eq!(changed.spec.config, other);
    assert_eq!(changed.status.pid, made.status.pid);
    assert_eq!(host.ok("read g d.count"), "0\n");
    let pending = client
        .patch::<Guest>("g", &json!({"memory": "8M"}))
        .unwrap();
    assert_eq!(pending.status.pending, ["memory"]);
    assert_eq!(pending.status.pid, made.status.pid);
    let error = client
        .patch::<Guest>("g", &json!({"memory": "8X"}))
        .unwrap_err();
    assert_eq!(
        (error.kind, error.field.as_deref()),
        (Kind::Invalid, Some("memory"))
    );
    // Everything is removed only if that is confirmed.
    let error = client.purge(&Purge { confirm: false }).unwrap_err();
    assert_eq!(
        (error.kind, error.field.as_deref()),
        (Kind::Invalid, Some("confirm"))
    );
    assert_eq!(error.error.lines().count(), 1);
    assert_eq!(host.ok("ls -p -o guest,state"), "g:running\n");
}

/// The value of a series.
fn value(text: &str, series: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let line = line.unwrap_or_else(|| panic!("there is no {series}:\n{text}"));
    line.trim().parse().unwrap()
}

#[test]
fn metrics_are_what_stat_shows_while_traffic_flows() {
    let host = Host::new();
    let (one, _two) = host.lan("10.85.0");
    host.ok("flow add -l lan -a transport=icmp -p maxbw=10M pings");
    let client = host.client();
    let mut ping = pinging(&one, "10.85.0.2", 5);
    until("traffic flows", || {
        client.stats_of("a0").unwrap().rx_frames > 10
    });
    for _ in 0..20 {
        let before = client.metrics().unwrap();
        let stats = client.stats().unwrap();
        let (lanes, flows) = (client.lanes().unwrap(), client.flow_stats().unwrap());
        let after = client.metrics().unwrap();
        let within = |series: String, shown: u64| {
            let (least, most) = (value(&before, &series), value(&after, &series));
            assert!(
                (least..=most).contains(&shown),
                "{series}: {least} {shown} {most}"
            );
        };
        assert_eq!(stats.len(), 2);
        for port in &stats {
            let PortStats { name, link, .. } = port;
            for (counter, shown) in port.counters() {
                let labels = format!("port=\"{name}\",link=\"{link}\",guest=\"\"");
                within(format!("weir_port_{counter}_total{{{labels}}}"), shown);
            }
        }
        for (counter, shown) in lanes[0].counters() {
            if !["busy", "idle", "asleep"].contains(&counter) {
                within(format!("weir_lane_{counter}_total{{lane=\"0\"}}"), shown);
            }
        }
        for (counter, shown) in flows[0].counters() {
            let labels = "flow=\"pings\",link=\"lan\"";
            within(format!("weir_flow_{counter}_total{{{labels}}}"), shown);
        }
    }
    let text = client.metrics().unwrap();
    assert_contains(&text, "# TYPE weir_port_rx_bytes_total counter");
    assert_contains(&text, "# TYPE weir_lane_busy_seconds_total counter");
    ping.kill().unwrap();
    ping.wait().unwrap();
}

#[test]
fn a_node_logs_for_people_or_as_json() {
    let mut host = Host::with(&["--log", "json"]);
    let first = host.said.lock().unwrap()[0].clone();
    let event: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(event["level"], "INFO");
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("the node is ready at "), "{first}");
    host.end("-TERM");
}
