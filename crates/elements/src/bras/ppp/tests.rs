//! Sessions against peers that keep to the rules, and peers that do not.

use core::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::bras::control::{Entry, Options, Outbox, add_option};
use crate::bras::layer::Opinion;
use crate::bras::secrets::Secrets;

/// The code of PAP's request.
const PROOF: u8 = 1;
const SECOND: u64 = 1_000_000_000;
const ADDRESS: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 9);
const DNS: Ipv4Addr = Ipv4Addr::new(9, 9, 9, 9);

fn settings(methods: Methods) -> Settings {
    Settings {
        mru: 1492,
        methods,
        name: "weir".into(),
        address: Ipv4Addr::new(100, 64, 0, 1),
        dns: [DNS, Ipv4Addr::UNSPECIFIED],
        ip6: true,
        echo: 10 * SECOND,
        failures: 3,
        setup: 30 * SECOND,
    }
}

/// A client's options of LCP.
struct Client {
    magic: u32,
    mru: u16,
    /// How it authenticates.
    method: Method,
    /// What the concentrator asks it to.
    asked: core::cell::Cell<Method>,
}

impl Negotiate for Client {
    const PROTOCOL: u16 = protocol::LCP;

    fn request(&self) -> Options {
        let mut options = Options::new();
        add_option(&mut options, 1, &self.mru.to_be_bytes());
        add_option(&mut options, 5, &self.magic.to_be_bytes());
        options
    }

    fn judge(&self, option: Entry<'_>, _env: &mut Env<'_>) -> Opinion {
        let own: &[u8] = match self.method {
            Method::Chap => &[0xc2, 0x23, 5],
            Method::Pap => &[0xc0, 0x23],
        };
        match option.kind {
            3 if option.data != own => Opinion::better(own),
            3 => {
                self.asked.set(self.method);
                Opinion::Good
            }
            _ => Opinion::Good,
        }
    }

    fn suggested(&mut self, option: Entry<'_>, _env: &mut Env<'_>) -> bool {
        if let (1, &[a, b]) = (option.kind, option.data) {
            self.mru = u16::from_be_bytes([a, b]);
        }
        true
    }

    fn rejected(&mut self, _option: Entry<'_>) -> bool {
        true
    }
}

/// A client's options of IPCP.
struct Wishes {
    address: Ipv4Addr,
    dns: Option<Ipv4Addr>,
    second: Option<Ipv4Addr>,
}

impl Negotiate for Wishes {
    const PROTOCOL: u16 = protocol::IPCP;

    fn request(&self) -> Options {
        let mut options = Options::new();
        add_option(&mut options, 3, &self.address.octets());
        for (kind, server) in [(129, self.dns), (131, self.second)] {
            if let Some(server) = server {
                add_option(&mut options, kind, &server.octets());
            }
        }
        options
    }

    fn judge(&self, _option: Entry<'_>, _env: &mut Env<'_>) -> Opinion {
        Opinion::Good
    }

    fn suggested(&mut self, option: Entry<'_>, _env: &mut Env<'_>) -> bool {
        let address = Ipv4Addr::from_octets(*option.data.first_chunk().unwrap());
        match option.kind {
            3 => self.address = address,
            _ => self.dns = Some(address),
        }
        true
    }

    fn rejected(&mut self, option: Entry<'_>) -> bool {
        assert_eq!(option.kind, 131);
        self.second = None;
        true
    }
}

/// A machine with what its packets are made with.
struct Machine {
    secrets: Secrets,
    random: Random,
    out: Outbox,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let mut random = Random::new(seed);
        Machine {
            secrets: Secrets::new(&mut random),
            random,
            out: Outbox::default(),
        }
    }

    fn env(&mut self, now: u64) -> Env<'_> {
        Env {
            now,
            secrets: &mut self.secrets,
            random: &mut self.random,
            out: &mut self.out,
        }
    }

    /// Takes what it sends.
    fn sent(&mut self) -> Vec<(u16, Vec<u8>)> {
        let packets = self.out.packets();
        let packets = packets.map(|(protocol, packet)| (protocol, packet.to_vec()));
        let packets = packets.collect();
        self.out.clear();
        packets
    }
}

/// A concentrator's session, and a client.
struct Pair {
    now: u64,
    settings: Settings,
    server: Machine,
    ppp: Ppp,
    notes: Vec<Note>,
    client: Machine,
    lcp: Layer<Client>,
    ipcp: Layer<Wishes>,
    is_right: bool,
}

impl Pair {
    fn new(methods: Methods, method: Method) -> Pair {
        let settings = settings(methods);
        let (mut server, mut client) = (Machine::new(1), Machine::new(2));
        let ppp = Ppp::new(&settings, &mut server.env(0));
        let mut lcp = Layer::new(Client {
            magic: 77,
            mru: 1400,
            method,
            asked: core::cell::Cell::new(Method::Chap),
        });
        open(&mut lcp, &mut client.env(0));
        Pair {
            now: 0,
            settings,
            server,
            ppp,
            notes: Vec::new(),
            client,
            lcp,
            ipcp: Layer::new(Wishes {
                address: Ipv4Addr::UNSPECIFIED,
                dns: Some(Ipv4Addr::UNSPECIFIED),
                second: Some(Ipv4Addr::UNSPECIFIED),
            }),
            is_right: true,
        }
    }

    /// Does what a server does with a note.
    fn note(&mut self, note: Option<Note>) {
        let Some(note) = note else { return };
        self.notes.push(note);
        if note != Note::Credentials {
            return;
        }
        let env = &mut self.server.env(self.now);
        let note = match self.is_right {
            true => {
                let grant = Grant {
                    address: ADDRESS,
                    interface_id: None,
                };
                self.ppp.accept(grant, &self.settings, env);
                None
            }
            false => self.ppp.reject("no", env),
        };
        self.notes.extend(note);
    }

    fn server_gets(&mut self, number: u16, packet: &[u8]) {
        let env = &mut self.server.env(self.now);
        let note = self.ppp.receive(number, packet, &self.settings, env);
        self.note(note);
    }

    fn client_gets(&mut self, number: u16, packet: &[u8]) {
        let control = Control::parse(packet).unwrap();
        let env = &mut self.client.env(self.now);
        let own = |code, data: &[u8], env: &mut Env<'_>| {
            let (id, number) = match code {
                PROOF => (1, protocol::PAP),
                _ => (control.id, number),
            };
            env.out.send(number, Control { code, id, data });
        };
        match (number, control.code) {
            (protocol::LCP, code::ECHO_REQUEST) => own(10, &77u32.to_be_bytes(), env),
            (protocol::LCP, _) => {
                let change = self.lcp.receive(control, env);
                if change == Some(Change::Up) && self.lcp.options.asked.get() == Method::Pap {
                    own(PROOF, b"\x03ann\x01s", env);
                }
            }
            (protocol::CHAP, 1) => own(2, b"\x10................ann", env),
            (protocol::CHAP, 3) | (protocol::PAP, 2) if self.ipcp.state() == State::Initial => {
                open(&mut self.ipcp, env);
            }
            (protocol::IPCP, _) => {
                // The word of success may have been lost.
                if self.ipcp.state() == State::Initial {
                    open(&mut self.ipcp, env);
                }
                self.ipcp.receive(control, env);
            }
            (protocol::IPV6CP, _) => {
                let data = [&protocol::IPV6CP.to_be_bytes()[..], packet].concat();
                let packet = Control {
                    code: code::PROTOCOL_REJECT,
                    id: 9,
                    data: &data,
                };
                env.out.send(protocol::LCP, packet);
            }
            _ => {}
        }
    }

    /// Lets time pass, and packets, of which those that `lost` says are lost.
    fn run(&mut self, time: Range<u64>, mut lost: impl FnMut() -> bool) {
        self.now = time.start;
        while self.now < time.end {
            let env = &mut self.server.env(self.now);
            let note = self.ppp.tick(&self.settings, env);
            self.note(note);
            let env = &mut self.client.env(self.now);
            self.lcp.tick(env);
            self.ipcp.tick(env);
            for _ in 0..20 {
                for (number, packet) in self.client.sent() {
                    if !lost() {
                        self.server_gets(number, &packet);
                    }
                }
                for (number, packet) in self.server.sent() {
                    if !lost() {
                        self.client_gets(number, &packet);
                    }
                }
            }
            self.now += SECOND / 2;
        }
    }
}

#[test]
fn a_client_gets_an_address_and_dns() {
    for (methods, method) in [
        (Methods::Any, Method::Chap),
        (Methods::Any, Method::Pap),
        (Methods::Only(Method::Pap), Method::Pap),
    ] {
        let mut pair = Pair::new(methods, method);
        pair.run(0..2 * SECOND, || false);
        assert!(pair.ppp.is_up() && pair.ppp.is_authentic());
        assert_eq!(pair.notes, [Note::Credentials, Note::Up]);
        assert_eq!(pair.ppp.user(), b"ann");
        let wishes = &pair.ipcp.options;
        assert_eq!((wishes.address, wishes.dns), (ADDRESS, Some(DNS)));
        assert_eq!((wishes.second, pair.lcp.options.mru), (None, 1492));
        // Echo requests are answered for as long as the client is there.
        pair.run(2 * SECOND..200 * SECOND, || false);
        assert!(pair.ppp.is_up());
        pair.run(200 * SECOND..260 * SECOND, || true);
        assert_eq!(pair.notes[2..], [Note::Down, Note::Ended]);
        assert_eq!(pair.ppp.cause, Cause::LostCarrier);
    }
}

#[test]
fn a_client_without_a_common_method_is_turned_away() {
    let mut pair = Pair::new(Methods::Only(Method::Chap), Method::Pap);
    pair.run(0..40 * SECOND, || false);
    assert!(!pair.notes.contains(&Note::Credentials));
    assert_eq!(pair.notes.last(), Some(&Note::Ended));
}

#[test]
fn a_client_with_a_wrong_proof_is_turned_away() {
    let mut pair = Pair::new(Methods::Any, Method::Chap);
    pair.is_right = false;
    pair.run(0..10 * SECOND, || false);
    assert_eq!(pair.notes, [Note::Credentials, Note::Ended]);
    assert_eq!(pair.ppp.phase(), Phase::Terminate);
}

#[test]
fn a_client_ends_its_session_or_begins_again() {
    let mut pair = Pair::new(Methods::Any, Method::Chap);
    pair.run(0..SECOND, || false);
    // It forgot all, and asks for options: it has to prove itself again.
    pair.lcp = Layer::new(Client {
        magic: 78,
        mru: 1492,
        method: Method::Pap,
        asked: core::cell::Cell::new(Method::Chap),
    });
    pair.ipcp = Layer::new(Wishes {
        address: ADDRESS,
        dns: None,
        second: None,
    });
    open(&mut pair.lcp, &mut pair.client.env(SECOND));
    pair.run(SECOND..9 * SECOND, || false);
    assert_eq!(
        pair.notes[1..],
        [Note::Up, Note::Down, Note::Credentials, Note::Up]
    );
    pair.lcp.event(Event::Close, &mut pair.client.env(pair.now));
    pair.run(9 * SECOND..20 * SECOND, || false);
    assert_eq!(pair.notes[5..], [Note::Down, Note::Ended]);
    assert_eq!(pair.ppp.cause, Cause::UserRequest);
}

proptest! {
    /// Loss delays a session, and nothing else.
    #[test]
    fn sessions_come_up_though_packets_are_lost(seed: u64, pap: bool) {
        let method = if pap { Method::Pap } else { Method::Chap };
        let mut pair = Pair::new(Methods::Any, method);
        pair.settings.setup = 600 * SECOND;
        let mut random = Random::new(seed);
        // A client of PAP asks once: here it does not lose that.
        pair.run(0..3 * SECOND, || !pap && random.below(4) == 0);
        pair.run(3 * SECOND..40 * SECOND, || false);
        prop_assert!(pair.ppp.is_up(), "{:?}", pair.notes);
    }

    /// A peer that sends anything gets at most a few short packets for each of its own, and ends when it
    /// falls silent, or before.
    #[test]
    fn any_peer_is_bounded(
        steps in proptest::collection::vec(
            (0usize..8, 0u8..13, 0u8..6, proptest::collection::vec(0u8..9, 0..24), 0u64..4, any::<bool>()),
            0..60,
        ),
    ) {
        let protocols = [
            protocol::LCP, protocol::LCP, protocol::PAP, protocol::CHAP, protocol::IPCP,
            protocol::IPV6CP, protocol::IPV4, 0x8281,
        ];
        let mut pair = Pair::new(Methods::Any, Method::Chap);
        // Half the peers keep to the rules at first.
        if steps.len() % 2 == 0 {
            pair.run(0..SECOND, || false);
        }
        let mut ended = false;
        for (number, code, id, data, wait, is_whole) in steps {
            pair.now += wait * SECOND;
            let mut packet = Vec::new();
            Control { code, id, data: &data }.write(&mut packet);
            if !is_whole {
                packet.truncate(data.len());
            }
            pair.server_gets(protocols[number], &packet);
            let sent = pair.server.sent();
            prop_assert!(sent.len() <= 4, "{} packets", sent.len());
            let bytes: usize = sent.iter().map(|(_, packet)| packet.len()).sum();
            prop_assert!(bytes <= 4 * (packet.len() + 64));
            ended |= pair.notes.contains(&Note::Ended);
        }
        pair.client.out.clear();
        let now = pair.now;
        pair.run(now..now + 120 * SECOND, || true);
        ended |= pair.notes.contains(&Note::Ended);
        prop_assert!(ended, "{:?} {:?}", pair.notes, pair.ppp.phase());
        prop_assert!(!pair.ppp.is_up());
    }
}
