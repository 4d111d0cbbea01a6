//! Chains of functions on real traffic: a guest for each function, and one guest for all.

use crate::common::{Host, LIMIT, pings, until};
use weir::lab::{Namespace, Runner};

const RULES: &str = "allow from inside icmp\nallow from inside tcp dst port 80\n";

/// What the firewall and the NAT behind it are told: a row of networks from the client's to the
/// server's.
const PARAMETERS: [(&str, &str); 11] = [
    ("firewall.inside_ip", "192.168.1.1"),
    ("firewall.inside_net", "192.168.1.0/24"),
    ("firewall.outside_ip", "10.2.0.1"),
    ("firewall.outside_net", "10.2.0.0/24"),
    ("firewall.default", "10.2.0.2_2"),
    ("nat44.inside_ip", "10.2.0.2"),
    ("nat44.inside_net", "192.168.1.0/24"),
    ("nat44.inside_gateway", "10.2.0.1"),
    ("nat44.outside_ip", "198.51.100.2"),
    ("nat44.outside_net", "198.51.100.0/24"),
    ("nat44.gateway", "198.51.100.1"),
];

/// A client, and a web server that only the NAT's address reaches.
struct Ends {
    host: Host,
    client: Namespace,
    server: Namespace,
    _service: weir::lab::Service,
}

impl Ends {
    fn new() -> Ends {
        let host = Host::new();
        host.ok("stub create lan");
        host.ok("stub create wan");
        let client = host.namespace("lan", "client0", "192.168.1.10/24", Some("192.168.1.1"));
        let server = host.namespace("wan", "server0", "198.51.100.1/24", None);
        host.config("page", "served");
        host.config("rules", RULES);
        let words = format!("-u -m http.server 80 --directory {}", host.folder.display());
        let service = server.service("python3", &words).unwrap();
        Ends {
            host,
            client,
            server,
            _service: service,
        }
    }

    /// `weir chain VERB …` with all parameters.
    fn chain(&self, words: &str) -> String {
        let mut arguments: Vec<String> = words.split(' ').map(String::from).collect();
        let rules = format!("firewall.rules={}/rules", self.host.folder.display());
        let given = PARAMETERS.map(|(name, value)| format!("{name}={}", value.replace('_', " ")));
        for parameter in given.into_iter().chain([rules]) {
            arguments.extend(["-p".into(), parameter]);
        }
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let output = self.host.weir(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The client pings the server and fetches a page, and is not let to another port.
    fn is_served(&self) {
        // Another guest has another address.
        for host in [&self.client, &self.server] {
            let flush = host.command("ip", "neighbor flush all");
            Runner::default().run(flush, LIMIT).unwrap();
        }
        pings(&self.client, "198.51.100.1");
        let fetch = |port: u16| {
            let url = format!("-s -m 3 http://198.51.100.1:{port}/page");
            let output = Runner::default().output(self.client.command("curl", &url), LIMIT);
            output.unwrap().stdout
        };
        until("the page does not come", || fetch(80) == b"served");
        let words = format!(
            "-m http.server 81 --directory {}",
            self.host.folder.display()
        );
        let _other = self.server.service("python3", &words).unwrap();
        until("the server does not serve", || {
            let url = "-s -m 3 http://198.51.100.1:81/page";
            let output = Runner::default().output(self.server.command("curl", url), LIMIT);
            output.unwrap().stdout == b"served"
        });
        assert_eq!(fetch(81), b"", "the firewall is passed by");
    }

    /// What a handler of a guest of the chain says.
    fn read(&self, guest: &str, handler: &str) -> String {
        self.host.ok(&format!("read {guest} {handler}"))
    }
}

#[test]
fn a_firewall_and_a_nat_in_guests_of_their_own() {
    let ends = Ends::new();
    let made = ends.chain("chain create edge firewall nat44 --between lan wan");
    assert!(made.contains("+ guest ‘edge-nat44’"), "{made}");
    ends.is_served();
    let mappings = ends.read("edge-nat44", "nat.mappings");
    assert!(mappings.contains("192.168.1.10"), "{mappings}");
    let hits = ends.read("edge-firewall", "rules.hits");
    assert!(!hits.starts_with("0 "), "{hits}");
    let host = &ends.host;
    host.shows("ls -p -o guest", "edge-firewall\nedge-nat44\n");
    host.refuses(
        "chain create edge wire --between lan wan",
        "there is a wire ‘edge’ already",
    );
    host.ok("wire delete edge");
    host.shows("ls -p -o guest", "");
    host.shows("stub show -p -o link", "lan\nwan\n");
    host.shows("vnic show -p -o vnic", "client0\nserver0\n");
}

#[test]
fn a_firewall_and_a_nat_in_one_guest() {
    let ends = Ends::new();
    ends.chain("chain create edge firewall nat44 --between lan wan --fuse");
    ends.is_served();
    let mappings = ends.read("edge", "nat44/nat.mappings");
    assert!(mappings.contains("192.168.1.10"), "{mappings}");
    let hits = ends.read("edge", "firewall/rules.hits");
    assert!(!hits.starts_with("0 "), "{hits}");
    let host = &ends.host;
    // It has as much memory as two guests.
    host.shows("ls -p -o guest,memory", "edge:8388608\n");
    host.shows("stub show -p -o link", "lan\nwan\n");
    // The same configuration as a guest of its own.
    host.ok("wire delete edge");
    let fused = ends.chain("chain fuse firewall nat44");
    let file = host.config("edge.click", &fused);
    host.ok(&format!(
        "create edge {file} --link inside=lan --link outside=wan"
    ));
    ends.is_served();
}

#[test]
fn a_file_with_a_chain_gets_what_the_chain_stands_for() {
    let ends = Ends::new();
    let host = &ends.host;
    let parameters =
        PARAMETERS.map(|(name, value)| format!("{name} = '{}'", value.replace('_', " ")));
    let rules = host.folder.join("rules");
    let wire = |functions: &str, fuse: bool| {
        let text = format!(
            "wire = 'office'\nexisting = ['lan', 'wan']\n[chain.edge]\nfunctions = {functions}\n\
             between = ['lan', 'wan']\nfuse = {fuse}\nguest = {{ memory = '16M' }}\n\
             [chain.edge.parameters]\nfirewall.rules = '{}'\n{}\n",
            rules.display(),
            parameters.join("\n")
        );
        host.file("office.toml", &text)
    };
    let file = wire("['firewall', 'nat44']", false);
    host.ok(&format!("wire apply {file}"));
    ends.is_served();
    host.shows(
        "ls -p -o guest,memory",
        "edge-firewall:16777216\nedge-nat44:16777216\n",
    );
    // A function more, while it runs: of those before, nothing is recreated.
    let pid = host.ok("ls -p -o pid edge-firewall");
    let file = wire("['firewall', 'nat44', 'ids']", false);
    let steps = host.ok(&format!("wire apply {file}"));
    assert!(!steps.contains("- guest ‘edge-firewall’"), "{steps}");
    assert_eq!(host.ok("ls -p -o pid edge-firewall"), pid);
    ends.is_served();
    assert_ne!(ends.read("edge-ids", "there.count"), "0\n");
    // All in one.
    let file = wire("['firewall', 'nat44', 'ids']", true);
    host.ok(&format!("wire apply {file}"));
    host.shows("ls -p -o guest", "edge\n");
    ends.is_served();
    // Its exported form stands by itself.
    let exported = host.ok("wire export office");
    assert!(!exported.contains("[chain"), "{exported}");
    let copy = host.config("copy.toml", &exported);
    host.shows(&format!("wire diff {copy}"), "");
    // A stub that the wire does not make has to be there.
    let wrong = host.file("wrong.toml", "wire = 'w'\nexisting = ['nowhere']\n");
    host.refuses(&format!("wire apply {wrong}"), "no link ‘nowhere’");
}

#[test]
fn a_function_is_tried_between_a_generator_and_a_sink() {
    let host = Host::new();
    let words =
        "chain create trial generator wire sink --fuse -p generator.count=1000 -p generator.rate=0";
    host.ok(words);
    until("packets are missing", || {
        host.ok("read trial sink/sink.count") == "1000\n"
    });
    host.shows("read trial wire/there.count", "1000\n");
    host.shows("vnic show -p", "");
}

#[test]
fn mistakes_in_chains_are_told() {
    let host = Host::new();
    host.ok("stub create lan");
    for (words, expected) in [
        (
            "wire mirror wire --between lan lan",
            "‘mirror’ has 1 interface: a function has two in a chain, or one at its ends",
        ),
        (
            "wire:c wire --between lan lan",
            "‘wire’ has no interface ‘c’: its interfaces are a, b",
        ),
        (
            "wire wier --between lan lan",
            "wier: there is neither a file nor a function ‘wier’; did you mean ‘wire’?",
        ),
        (
            "firewall firewall --between lan lan -p firewall3.rules=x",
            "the chain has no function ‘firewall3’: its functions are firewall, firewall2",
        ),
        (
            "firewall nat44 --between lan lan -p nat44.gateway=x",
            "nat44: gateway=x: write an IPv4 address, as in 10.0.0.1",
        ),
        (
            "firewall nat44 --between lan lan -p gateway=x",
            "‘gateway=x’ is not FUNCTION.NAME=VALUE",
        ),
        (
            "firewall nat44 --between lan",
            "‘between’ needs a stub or link for each open side of the chain: 2, not 1",
        ),
        (
            "firewall nat44 --between lan dev:",
            "‘dev:’ is no link: write the name of a stub or link, or tap:NAME",
        ),
        (
            "wire monitor --between lan lan",
            "‘monitor’ has a further interface: give it a stub or link, as in monitor.export=lan",
        ),
        (
            "wire wire --between lan lan --link wire.x=lan",
            "‘wire’ has no further interface ‘x’ besides the two in the row",
        ),
        (
            "monitor monitor --between lan lan --fuse --link monitor.export=lan --link monitor2.export=lan",
            "‘monitor’ and ‘monitor2’ both have an outer interface ‘export’",
        ),
        ("wire --between lan nowhere", "no link ‘nowhere’"),
    ] {
        host.refuses(&format!("chain create c {words}"), expected);
    }
    host.refuses(
        "chain create a-long-name wire --between lan lan --fuse --ring-slots 3",
        "ring",
    );
    host.refuses(
        "chain create a-longer-name wire --between lan lan",
        "a chain's name has at most 11 letters",
    );
    host.shows("ls -p", "");
}
