use proptest::prelude::*;

use super::*;

const ALL: &str = "maxbw=100M,priority=high,share=200,cpus=0+1,lanes=2,vlan=7,mtu=1400,\
                   protection=mac-nospoof+ip-nospoof,allowed-ips=10.0.0.2+fd00::/8,\
                   flood-limit=1000,delay=5ms,jitter=250us,loss=0.1%";

#[test]
fn properties_are_shown_as_they_are_read() {
    let properties: PortProperties = ALL.parse().unwrap();
    assert_eq!(properties.to_string(), ALL);
    assert_eq!(properties.maxbw.unwrap().bits(), 100_000_000);
    assert_eq!(properties.delay.get(), 5_000);
    assert_eq!(properties.loss.of_a_billion(), 1_000_000);
    let json = serde_json::to_string(&properties).unwrap();
    assert!(
        json.contains(r#""allowed-ips":["10.0.0.2","fd00::/8"]"#),
        "{json}"
    );
    assert!(json.contains(r#""maxbw":"100M""#), "{json}");
    assert_eq!(
        serde_json::from_str::<PortProperties>(&json).unwrap(),
        properties
    );
    assert_eq!(
        serde_json::to_string(&PortProperties::default()).unwrap(),
        "{}"
    );
    assert_eq!(PortProperties::default().to_string(), "");
}

#[test]
fn lists_go_on_behind_commas_as_with_dladm() {
    let text = "protection=mac-nospoof,restricted,maxbw=2G,cpus=1-3";
    let properties: PortProperties = text.parse().unwrap();
    assert_eq!(
        properties.to_string(),
        "maxbw=2G,cpus=1+2+3,protection=mac-nospoof+restricted"
    );
}

#[test]
fn properties_are_set_and_reset_one_by_one() {
    let mut properties: PortProperties = ALL.parse().unwrap();
    properties.set_all("maxbw=1G,share=1").unwrap();
    assert_eq!(properties.get("maxbw").as_deref(), Some("1G"));
    assert!(properties.set_all("share=5,loss=2").is_err());
    assert_eq!(properties.share.get(), 1, "all or none");
    for name in PortProperties::NAMES {
        properties.reset(name).unwrap();
    }
    assert_eq!(properties, PortProperties::default());
    assert!(properties.reset("colour").is_err());
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let refused = |text: &str| match text.parse::<PortProperties>() {
        Err(error) => error.to_string(),
        Ok(properties) => properties.check(1500, &[0, 1]).unwrap_err().to_string(),
    };
    assert_eq!(
        refused("vlan=4095"),
        "vlan=4095 is invalid: a VLAN is a number from 1 to 4094"
    );
    assert_eq!(
        refused("maxbw=0"),
        "maxbw=0 is invalid: a rate is a number above 0 with K, M (if none is given) or G for bits \
         a second, at most 400G"
    );
    assert_eq!(
        refused("loss=1"),
        "loss=1 is invalid: a loss is from 0% to 100%, with the sign and at most seven decimal places"
    );
    assert_eq!(
        refused("maxbw=12K"),
        "maxbw=12K is invalid: with an MTU of 1500, one frame a second needs 12.144K"
    );
    assert_eq!(
        refused("cpus=1+7"),
        "cpus=7 is invalid: this host has CPUs 0+1"
    );
    assert_eq!(
        refused("delay=1ms,jitter=2ms"),
        "jitter=2ms is invalid: it is at most the delay, 1ms"
    );
    assert!(refused("protection=ip-nospoof").contains("needs allowed-ips"));
    assert!(refused("colour=red").starts_with("no property ‘colour’: the properties are maxbw, "));
    assert_eq!(
        refused("maxbw"),
        "‘maxbw’ has no value: write it as maxbw=VALUE"
    );
    assert_eq!(
        refused("=5,share=1"),
        "‘=5’ has no name: write it as NAME=VALUE"
    );
    assert_eq!(
        refused("share=1,share=2"),
        "‘share’ is given twice: give it once"
    );
    for wrong in [
        "share=0",
        "share=1001",
        "loss=101%",
        "delay=11s",
        "delay=5",
        "mtu=67",
        "mtu=70000",
        "flood-limit=0",
        "cpus=3-1",
        "lanes=0",
        "lanes=17",
        "priority=urgent",
        "protection=all",
        "=5",
        "loss=",
    ] {
        refused(wrong);
    }
}

#[test]
fn a_message_may_not_say_more_than_the_command_line() {
    let odd: PortProperties = serde_json::from_str(r#"{"mtu":1,"flood-limit":0}"#).unwrap();
    assert!(odd.check(1500, &[0]).is_err());
    assert!(serde_json::from_str::<PortProperties>(r#"{"vlan":0}"#).is_err());
    assert!(serde_json::from_str::<PortProperties>(r#"{"color":1}"#).is_err());
    let odd = DomainProperties {
        aging: 0,
        ..DomainProperties::default()
    };
    assert!(odd.check().is_err());
}

#[test]
fn flows_have_attributes_that_go_together() {
    let text =
        "local_ip=10.0.0.0/24,remote_ip=10.1.0.1,transport=tcp,local_port=80,dsfield=0xb8:0xfc";
    let attributes: FlowAttributes = text.parse().unwrap();
    assert_eq!(attributes.to_string(), text);
    assert_eq!(
        "transport=132"
            .parse::<FlowAttributes>()
            .unwrap()
            .to_string(),
        "transport=sctp"
    );
    let refused = |text: &str| text.parse::<FlowAttributes>().unwrap_err().to_string();
    assert!(refused("").contains("needs an attribute"));
    assert!(refused("local_port=80").contains("needs transport"));
    assert!(refused("transport=icmp,local_port=80").contains("needs transport"));
    assert!(refused("local_ip=10.0.0.1,remote_ip=fd00::1").contains("both IPv4 or both IPv6"));
    assert!(refused("dsfield=0xff:0xfc").contains("a DS field is"));
    assert!(refused("colour=1").contains("the properties are local_ip, "));
    let properties: FlowProperties = "maxbw=10M,priority=low".parse().unwrap();
    assert_eq!(properties.to_string(), "maxbw=10M,priority=low");
}

#[test]
fn domains_have_properties_too() {
    let text = "lookup=hash,aging=60,mac-limit=8,speed=1G";
    let mut properties: DomainProperties = text.parse().unwrap();
    assert_eq!(properties.to_string(), text);
    let json = serde_json::to_string(&properties).unwrap();
    assert_eq!(
        serde_json::from_str::<DomainProperties>(&json).unwrap(),
        properties
    );
    for name in DomainProperties::NAMES {
        properties.reset(name).unwrap();
    }
    assert_eq!(properties, serde_json::from_str("{}").unwrap());
    assert!(
        "lookup=click"
            .parse::<DomainProperties>()
            .unwrap_err()
            .to_string()
            .contains("file")
    );
}

#[test]
fn a_row_says_all_that_there_is_to_say_of_a_property() {
    let schema = PortProperties::schema();
    let field = |name: &str| schema["properties"][name].clone();
    assert_eq!(
        field("mtu"),
        serde_json::json!({
            "type": ["integer", "null"], "minimum": 68, "maximum": 65535, "x-unit": "bytes",
            "x-values": "from 68 to 65535 bytes",
            "description": "Largest IP packet; default: the link's.",
        })
    );
    assert_eq!(
        field("priority")["enum"],
        serde_json::json!(["low", "medium", "high"])
    );
    assert_eq!(field("share")["default"], 100);
    assert_eq!(field("delay")["default"], "0us");
    assert_eq!(field("allowed-ips")["items"]["type"], "string");
    assert_eq!(field("cpus")["items"]["type"], "integer");
    assert_eq!(field("maxbw")["x-unit"], "bits a second");
    assert_eq!(field("maxbw")["default"], serde_json::Value::Null);
    let properties = schema["properties"].as_object().unwrap();
    for name in PortProperties::NAMES {
        let about = properties[name]["description"].as_str().unwrap();
        assert!(about.ends_with('.') && !about.contains(". "), "{about}");
    }
    assert_eq!(properties.len(), PortProperties::NAMES.len());
    assert_eq!(
        DomainProperties::schema()["properties"]["aging"]["default"],
        300
    );
    let help = FlowProperties::help();
    assert!(help.contains("VALUE: low, medium or high\n"), "{help}");
}

#[test]
fn the_whole_form_has_what_the_usual_one_leaves_out() {
    let whole = DomainProperties::default().serialize_whole(serde_json::value::Serializer);
    let expected = serde_json::json!({ "lookup": "learning", "aging": 300, "mac-limit": 1024 });
    assert_eq!(whole.unwrap(), expected);
    let given: Vec<_> = "loss=1%,share=7"
        .parse::<PortProperties>()
        .unwrap()
        .given()
        .collect();
    assert_eq!(
        given,
        [("share", "7".to_string()), ("loss", "1%".to_string())]
    );
}

/// `docs/properties.md` from `<!-- NAME -->` to the next comment is the table. With
/// `WRITE_DOCS=1`, it is written.
#[test]
fn the_documentation_has_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/properties.md");
    let mut page = std::fs::read_to_string(path).unwrap();
    for (name, table) in [
        ("ports", PortProperties::markdown()),
        ("domains", DomainProperties::markdown()),
        ("flow attributes", FlowAttributes::markdown()),
        ("flows", FlowProperties::markdown()),
        ("nsms", NsmProperties::markdown()),
        ("applications", ApplicationProperties::markdown()),
    ] {
        let start = format!("<!-- {name} -->\n");
        let from = page.find(&start).expect(name) + start.len();
        let to = from + page[from..].find("<!--").expect(name);
        if std::env::var_os("WRITE_DOCS").is_some() {
            page.replace_range(from..to, &table);
            std::fs::write(path, &page).unwrap();
        } else {
            assert_eq!(&page[from..to], table, "WRITE_DOCS=1 writes {path}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "([a-z-]{0,8}[=,+]?[0-9a-zA-Z.:/%]{0,6}[,+=]?){0,6}") {
        let _ = text.parse::<DomainProperties>();
        let _ = text.parse::<FlowAttributes>();
        let _ = text.parse::<FlowProperties>();
        let _ = text.parse::<ApplicationProperties>();
        let _ = text.parse::<NsmProperties>();
        if let Ok(properties) = text.parse::<PortProperties>() {
            prop_assert_eq!(properties.to_string().parse(), Ok(properties));
        }
    }
}
