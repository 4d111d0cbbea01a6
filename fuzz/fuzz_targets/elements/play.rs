//! What is done to a router.

use elements::testing::{Cable, Collect, Inject, Puller, Rig};
use libfuzzer_sys::Corpus;
use packet::Packet;
use router::{ElementId, HandlerFlags, Llrpc, Status};

use crate::input::Input;
use crate::packets::Model;
use crate::setup::{self, Setup};

/// Most operations of an input.
const OPERATIONS: usize = 200;
/// Most rounds of tasks and timers in an operation.
const ROUNDS: usize = 48;
/// Packets that are kept to be sent once more.
const KEPT: usize = 32;

struct Play {
    rig: Rig,
    setup: Setup,
    cables: [Cable; 2],
    injects: Vec<String>,
    collects: Vec<String>,
    pullers: Vec<String>,
    kept: Vec<Packet>,
}

/// Plays an input.
pub fn play(setup: Setup, mut input: Input<'_>) -> Corpus {
    let cables = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 3]].map(Cable::new);
    let named = [("eth0", &cables[0]), ("eth1", &cables[1])];
    let Some(rig) = setup.rig(&named) else {
        return Corpus::Keep;
    };
    let mut play = Play {
        rig,
        setup,
        cables,
        injects: Vec::new(),
        collects: Vec::new(),
        pullers: Vec::new(),
        kept: Vec::new(),
    };
    play.look();
    for _ in 0..OPERATIONS {
        if input.is_empty() || !play.operate(&mut input) {
            break;
        }
        play.tidy();
    }
    play.kept.clear();
    assert_eq!(play.rig.end(), 0, "packets are still out of the pool");
    Corpus::Keep
}

impl Play {
    /// Looks at what there is in a new router.
    fn look(&mut self) {
        let graph = self.rig.router.graph();
        setup::reached(graph);
        self.injects = setup::elements_of::<Inject>(graph);
        self.collects = setup::elements_of::<Collect>(graph);
        self.pullers = setup::elements_of::<Puller>(graph);
    }

    /// Does one thing; returns whether there is a point in going on.
    fn operate(&mut self, input: &mut Input<'_>) -> bool {
        match input.byte() & 15 {
            0 | 1 => self.push(input, 1),
            2 => {
                let count = input.byte() as usize;
                self.push(input, 1 + count % 70);
            }
            3 => self.again(input),
            4 => self.pull(input),
            5 => self.read(input),
            6 => self.write(input),
            7 => return self.advance(input),
            8 => return self.run(input.byte() as usize),
            9 => return self.swap(input),
            10 => self.configure(input),
            11 => {
                let cable = input.choose(self.cables.len());
                self.cables[cable].arrive(&Model::new(input).data);
            }
            12 => {
                let cable = input.choose(self.cables.len());
                self.cables[cable].sent();
                self.cables[cable].make_room(input.byte() as usize);
            }
            13 => self.call(input),
            14 => self.read_all(),
            _ => self.kept.clear(),
        }
        true
    }

    /// Takes what was collected and printed.
    fn tidy(&mut self) {
        for name in &self.collects {
            self.kept.extend(self.rig.collected(name));
        }
        let over = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..over);
        self.rig.printed();
    }

    fn id(&self, name: &str) -> ElementId {
        let id = self.rig.router.find(name);
        id.expect("the names are those of the router")
    }

    fn push(&mut self, input: &mut Input<'_>, count: usize) {
        let inject = input.choose(self.injects.len());
        let model = Model::new(input);
        let Some(inject) = self.injects.get(inject) else {
            return;
        };
        let id = self.id(inject);
        self.rig.router.with(id, |_, cx| {
            for _ in 0..count {
                if let Some(packet) = model.packet(cx.pool()) {
                    cx.emit(0, packet);
                }
            }
        });
    }

    /// Pushes a packet that an element sent.
    fn again(&mut self, input: &mut Input<'_>) {
        let inject = input.choose(self.injects.len());
        let packet = input.choose(self.kept.len());
        let Some(inject) = self.injects.get(inject) else {
            return;
        };
        if packet < self.kept.len() {
            let (id, packet) = (self.id(inject), self.kept.swap_remove(packet));
            self.rig.router.with(id, |_, cx| cx.emit(0, packet));
        }
    }

    fn pull(&mut self, input: &mut Input<'_>) {
        let (puller, most) = (input.choose(self.pullers.len()), input.choose(64) + 1);
        if let Some(puller) = self.pullers.get(puller) {
            self.kept.extend(self.rig.pull(puller, most));
        }
    }

    /// An element, or the router.
    fn element(&self, input: &mut Input<'_>) -> Option<ElementId> {
        let elements = self.rig.router.graph().elements.len();
        let choice = input.byte() as usize;
        (elements > 0 && choice != 255).then(|| ElementId::new(choice % elements))
    }

    /// A handler that can do what `flag` says.
    fn handler(
        &mut self,
        element: Option<ElementId>,
        flag: HandlerFlags,
        choice: u8,
    ) -> Option<String> {
        let mut handlers = self.rig.router.handlers(element);
        handlers.retain(|spec| spec.flags.has(flag));
        let at = choice as usize % handlers.len().max(1);
        handlers.get(at).map(|spec| spec.name.to_string())
    }

    fn read(&mut self, input: &mut Input<'_>) {
        let element = self.element(input);
        let name = self.handler(element, HandlerFlags::READ, input.byte());
        let parameter = self.setup.tame(input.string());
        if let Some(name) = name {
            let _ = self.rig.router.read(element, &name, &parameter);
        }
    }

    fn read_all(&mut self) {
        for i in 0..self.rig.router.graph().elements.len() {
            let element = Some(ElementId::new(i));
            for spec in self.rig.router.handlers(element) {
                if spec.flags.has(HandlerFlags::READ) {
                    let _ = self.rig.router.read(element, &spec.name, "");
                }
            }
        }
    }

    fn write(&mut self, input: &mut Input<'_>) {
        let element = self.element(input);
        let name = self.handler(element, HandlerFlags::WRITE, input.byte());
        let value = self.setup.tame(input.string());
        if let Some(name) = name {
            let _ = self.rig.router.write(element, &name, &value);
        }
    }

    /// Configures an element anew while packets flow.
    fn configure(&mut self, input: &mut Input<'_>) {
        let element = self.element(input);
        let config = self.setup.tame(input.string());
        if element.is_some() {
            let _ = self.rig.router.write(element, "config", &config);
        }
    }

    fn run(&mut self, rounds: usize) -> bool {
        for _ in 0..rounds.min(ROUNDS) {
            match self.rig.step() {
                Status::Busy => self.tidy(),
                Status::Idle(_) => break,
                Status::Stopped => return false,
            }
        }
        true
    }

    /// Lets time pass, up to three hours, and stops on the way where timers are due.
    fn advance(&mut self, input: &mut Input<'_>) -> bool {
        let (mantissa, shift) = (u64::from(input.byte()), input.byte());
        let mut left = mantissa << (shift % 36);
        for _ in 0..ROUNDS {
            match self.rig.step() {
                Status::Stopped => return false,
                Status::Busy => {}
                Status::Idle(None) => break,
                Status::Idle(Some(at)) => {
                    let now = self.rig.router.runtime().embedding.steady();
                    let pause = at.since(now).min(left);
                    self.rig.pause(pause);
                    left -= pause;
                    if left == 0 {
                        break;
                    }
                }
            }
            self.tidy();
        }
        self.rig.pause(left);
        self.run(ROUNDS)
    }

    /// Another configuration takes the place of this one.
    fn swap(&mut self, input: &mut Input<'_>) -> bool {
        let config = self.setup.config(Some(input.string()));
        if self.rig.try_swap(&config).is_err() {
            return true;
        }
        self.look();
        !setup::circles(self.rig.router.graph())
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let call = match input.byte() & 7 {
            0 | 1 => Llrpc::GET_RATE,
            2 | 3 => Llrpc::GET_COUNT,
            4 => Llrpc::GET_SWITCH,
            5 | 6 => Llrpc::SET_SWITCH,
            _ => Llrpc(u32::from(input.word()) | u32::from(input.word()) << 16),
        };
        let Some(element) = self.element(input) else {
            return;
        };
        let mut data = input.bytes(4).to_vec();
        data.resize(call.size(), 0);
        // Few elements have one.
        let _ = self.rig.router.llrpc(element, call, &mut data);
    }
}
