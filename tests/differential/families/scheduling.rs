//! Switches, schedulers and queues.

use crate::case::Case;
use crate::packets::{self, Ip};
use crate::random::Random;

const SWITCHES: &str = "Switch|Switch(1)|Switch(-1)|Switch(7)|RoundRobinSwitch|HashSwitch(12, 8)|\
    HashSwitch(16, 4)|HashSwitch(0, 1)|HashSwitch(100, 4)|PaintSwitch|PaintSwitch(ANNO 17)|StrideSwitch(1, 2, 3)|\
    StrideSwitch(5, 1, 1)|StaticSwitch(2)|Tee|Hub|PaintTee(1)|IPClassifier(tcp, udp, -)|\
    RatedSplitter(2)|BandwidthRatedSplitter(100)|Meter(1)|CheckLength(30)";
/// Not StrideSched as it should be: Click's charges inputs for pulls that find nothing.
const SCHEDULERS: &str = "RoundRobinSched|PrioSched|DRRSched|DRRSched(100)|DRRSched(1)|PullSwitch(0)|PullSwitch(1)|PullSwitch(-1)|\
    StaticPullSwitch(1)|TimeSortedSched|SimpleRoundRobinSched|SimplePrioSched|SimplePullSwitch(2)|\
    RoundRobinSched(1)|StrideSched(x, 1, 1)|StrideSched(1, 1)";
const QUEUES: &str = "Queue|Queue(2)|Queue(5)|SimpleQueue(3)|NotifierQueue(3)|FrontDropQueue(3)|\
    MixedQueue(4)|FullNoteQueue(4)|Queue(0)|ThreadSafeQueue(3)|QuickNoteQueue(3)";
const PULLS: &str = "Null|PullNull|Shaper(1)|BandwidthShaper(10)|Counter|Strip(1)|Suppressor|PullTee|\
    Burster(1)|CheckLength(40)|DelayShaper(0.5)|RatedUnqueue(1)|Block(0)|RandomSample(1)|RandomSample(0)|\
    Truncate(30)|Paint(3)|SetTimestamp(5)|LinkUnqueue(0.1, 1000)|TimedUnqueue(1, 2)|Unqueue|DelayUnqueue(0.5)|BandwidthRatedUnqueue(50)";

pub fn make(random: &mut Random, size: usize) -> Case {
    let mut case = Case::default();
    let switch = random.one(SWITCHES).to_string();
    case.config.push("d :: Discard;".into());
    case.config.push(format!("sw :: {switch};"));
    case.config
        .push("FromDump(packets.pcap, STOP true) -> CheckIPHeader -> sw;".into());
    let outputs = match switch.split('(').next().unwrap_or("") {
        "PaintTee" | "RatedSplitter" | "BandwidthRatedSplitter" | "Meter" | "CheckLength" => 2,
        _ => 3,
    };
    if random.chance(40) {
        for output in 0..outputs {
            case.config
                .push(format!("sw[{output}] -> Print({output}, -1) -> d;"));
        }
    } else {
        queues(random, outputs, &mut case);
    }
    case.packets = packets::stamped(random, size * 3, |random| {
        let protocol = *random.pick(&[1, 6, 17]);
        Ip::new(random, protocol).bytes()
    });
    if case
        .config
        .iter()
        .any(|line| line.contains("TimeSortedSched"))
    {
        // Packets of one time leave Click's in the order of a heap.
        for (at, packet) in (0..).zip(&mut case.packets) {
            packet.time += at;
        }
    }
    case
}

/// Queues behind the switch, a scheduler behind them, and a script that starts and changes it.
fn queues(random: &mut Random, outputs: usize, case: &mut Case) {
    let pull = random.one(PULLS);
    let copies = ["Tee", "Hub"]
        .iter()
        .any(|class| case.config[1].contains(class));
    let scheduler = match random.one(SCHEDULERS) {
        "TimeSortedSched" if copies => "RoundRobinSched",
        scheduler => scheduler,
    };
    case.config.push(format!("sched :: {scheduler};"));
    for output in 0..outputs {
        case.config
            .push(format!("q{output} :: {};", random.one(QUEUES)));
        case.config
            .push(format!("sw[{output}] -> q{output} -> [{output}] sched;"));
        case.handlers.push(format!(
            "q{output}.{}",
            random.one("length|highwater_length|drops|capacity|config")
        ));
    }
    let way = match pull.contains("Unqueue") || pull == "Burster(1)" {
        true => format!("sched -> p :: {pull} -> Print(out, -1) -> d;"),
        false if pull == "PullTee" => "sched -> p :: PullTee -> Print(out, -1) -> u :: Unqueue -> d; p[1] -> Print(tee, -1) -> d;".to_string(),
        false => format!("sched -> p :: {pull} -> Print(out, -1) -> u :: Unqueue -> d;"),
    };
    case.config.push(way);
    case.config.push("DriverManager(".into());
    for _ in 0..random.below(4) {
        let step = match random.below(8) {
            0 => format!("write sched.switch {},", random.within(0..=4) as i32 - 1),
            1 => format!("write sw.switch {},", random.within(0..=4) as i32 - 1),
            2 => format!(
                "write q0.{},",
                random.one("reset|drop_calls|reset_counts|capacity 1")
            ),
            3 => format!(
                "write sched.tickets{} {},",
                random.below(3),
                random.below(5)
            ),
            4 => format!(
                "write p.{},",
                random.one("reset|rate 1|active0 false|active0 true|delay 1|active false")
            ),
            5 => "print $(q0.length),".to_string(),
            _ => format!("wait {}s,", random.one("0.1|0.5|1|2.5")),
        };
        case.config.push(step);
    }
    // Not a whole number of seconds: timers expire then.
    case.config.push("wait 100.3s, stop);".into());
}
