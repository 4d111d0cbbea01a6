//! Virtual wires that become others, or whose parts were changed by hand.

use std::process::Command;

use crate::common::{Host, not_root};

/// The routes of a namespace that somebody set.
fn routes(namespace: &str) -> String {
    let output = Command::new("ip")
        .args(["-n", namespace, "route", "show", "proto", "static"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_vnic_goes_with_the_routes_by_it() {
    if not_root() {
        return;
    }
    let host = Host::new();
    let n = format!("{}-n", host.prefix);
    let wire = |routes: &str, vnics: &str| {
        let text = format!(
            "wire = 'w'\n[stub.@s]\n[stub.@t]\n[namespace.@-n]\nroutes = [{routes}]\n{vnics}"
        );
        host.file("w.toml", &text)
    };
    let vnic = |name: &str, link: &str, address: &str| {
        format!("[vnic.{name}]\nlink = '{link}'\nnamespace = '@-n'\naddresses = ['{address}']\n")
    };
    let apply = |file: &str| host.ok(&format!("wire apply {file}"));
    let first = vnic("@a", "@s", "10.12.0.1/24");
    let both = format!("{first}{}", vnic("@b", "@s", "10.12.1.1/24"));
    apply(&wire("'10.111.0.0/16 dev @b'", &both));
    let before = routes(&n);
    assert!(before.starts_with("10.111.0.0/16 dev "), "{before}");

    // A change without that VNIC, which cannot be made whole, is taken back.
    let socket = "[vnic.@z]\nlink = '@s'\nvhost-user = '/nonexistent/weir/socket'\n";
    let wrong = wire("'10.99.0.0/16 dev @a'", &format!("{first}{socket}"));
    let refusal = host.refusals(&format!("wire apply {wrong}"));
    assert!(refusal.ends_with("nothing was changed"), "{refusal}");
    assert_eq!(routes(&n), before);

    apply(&wire("'10.99.0.0/16 dev @a'", &first));
    assert_eq!(
        routes(&n),
        format!("10.99.0.0/16 dev {}a scope link \n", host.prefix)
    );
    // Under another name, and then on another switch.
    let renamed = vnic("@c", "@s", "10.12.0.1/24");
    apply(&wire("'10.99.0.0/16 dev @c'", &renamed));
    apply(&wire("'10.99.0.0/16 dev @c'", &renamed.replace("@s", "@t")));
    let file = wire(
        "'10.99.0.0/16 dev @c', '10.98.0.0/16 via 10.12.0.2'",
        &renamed.replace("@s", "@t"),
    );
    apply(&file);
    assert_eq!(host.ok(&format!("wire diff {file}")), "");
    assert_eq!(routes(&n).lines().count(), 2, "{}", routes(&n));
    host.ok("wire delete w");
}
