use crate::prelude::*;
use crate::rewriter::input::Input;
use crate::rewriter::key::FlowKey;
use crate::rewriter::mapper::Mapper;

/// Most nodes of all patterns together: half a MiB.
const NODES_MAX: usize = 1 << 16;
/// Most places that are drawn, those of servers between the given ones included: some 0.1 s.
const DRAWS_MAX: usize = 1 << 24;
/// Places are numbers below this.
const PLACES: u32 = 1 << 31;

/// Tells rewriters to use one of several patterns, the same for all flows of a source address.
///
/// An input of IPRewriter or a similar element may name this element instead of a pattern. The
/// patterns' nodes lie on a circle, and a source address gets the pattern of the next node
/// (consistent hashing): when a pattern is added or removed, few addresses change theirs.
///
/// # Example
/// ```click
/// servers :: SourceIPHashMapper(50 1, - - 10.0.0.1 - 0 1 0, - - 10.0.0.2 - 0 1 1);
/// rw :: IPRewriter(servers, drop);
/// Idle -> [0] rw [0] -> Discard;
/// Idle -> [1] rw [1] -> Discard;
/// ```
///
/// # See also
/// RoundRobinIPMapper, IPRewriter, IPRewriterPatterns
#[derive(Element)]
#[element(ports = "0/0", phase = phase::DEFAULT - 1, provides(Mapper))]
pub struct SourceIPHashMapper {
    /// First `NNODES SEED`, two integers: how many nodes each pattern has, and where the places on
    /// the circle begin. More nodes share the load more evenly; 65536 of all patterns together are
    /// most. Then the patterns: each with its outputs as RoundRobinIPMapper has it, and a number
    /// from 0 to 65535 behind it, `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT SERVER`. The numbers say
    /// where the nodes are: those of the lowest number are the first pattern's, and so on. So
    /// patterns should stand in the order of their numbers, and a number only once.
    #[arg(rest, name = "PATTERN", kind = "numbers, then any number of patterns")]
    patterns: Vec<String>,
    inputs: Vec<Input>,
    /// Places on the circle in order, and whose they are.
    circle: Vec<(u32, u32)>,
}

/// Where the address stands on the circle: neighbours far apart.
fn place(address: Ipv4Addr) -> u32 {
    let octets = address.octets();
    let spread = u32::from(octets[0]) << 24 | 1;
    u32::from_le_bytes(octets).wrapping_mul(spread) % i32::MAX as u32
}

/// Which of `nodes` nodes in order is the root of a binary search tree of least depth, whose lowest
/// level is filled from the left.
fn root(nodes: usize) -> usize {
    let half = (nodes + 1).next_power_of_two() / 2;
    let lowest = nodes + 1 - half;
    (half / 2 + lowest.min(half / 2)).saturating_sub(1)
}

/// Splits the server's number off a pattern.
fn server<'t>(text: &'t str, context: &Context<'_>) -> Result<(&'t str, u16), &'static str> {
    let bad = "bad server ID in pattern spec";
    let (pattern, number) = text.trim_end().rsplit_once([' ', '\t', '\n']).ok_or(bad)?;
    let number = context.parse::<i32>(number).ok();
    let number = number.and_then(|number| u16::try_from(number).ok());
    Ok((pattern, number.ok_or(bad)?))
}

/// Reads `NNODES SEED`.
fn nodes_and_seed(text: &str, context: &Context<'_>) -> Result<(usize, i32), &'static str> {
    let words = click::config::split_space(text);
    let [nodes, seed] = words.as_slice() else {
        return Err("requires 2 config params: numnodes seed");
    };
    let nodes = context.parse::<i32>(nodes).ok().filter(|nodes| *nodes > 0);
    let nodes = nodes.ok_or("number of nodes must be an integer")?;
    let seed = context
        .parse(seed)
        .map_err(|_| "hash seed must be an integer")?;
    Ok((nodes.unsigned_abs() as usize, seed))
}

impl Element for SourceIPHashMapper {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let Some((parameters, patterns)) = self.patterns.split_first() else {
            return Err(args.fail("no hash seed given"));
        };
        match patterns.len() {
            0 => return Err(args.fail("no patterns given")),
            1 => args.warning("only one pattern given"),
            _ => {}
        }
        let parameters = nodes_and_seed(parameters, &args.context());
        let (nodes, seed) = parameters.map_err(|error| args.fail(error))?;
        if nodes.saturating_mul(patterns.len()) > NODES_MAX {
            return Err(args.fail(format_args!(
                "too many nodes; max {NODES_MAX} of all patterns"
            )));
        }
        let mut servers = Vec::new();
        for text in patterns {
            let parsed = server(text, &args.context()).map_err(String::from);
            let parsed = parsed.and_then(|(pattern, number)| {
                let input = Input::parse_pattern(pattern, usize::MAX, cx, &args.context())?;
                Ok((input, number))
            });
            match parsed {
                Ok((input, number)) => {
                    self.inputs.push(input);
                    servers.push(number);
                }
                Err(error) => args.error(error),
            }
        }
        servers.sort_unstable();
        if servers.windows(2).any(|pair| pair[0] == pair[1]) {
            args.warning("a server ID occurs twice: the last pattern is never used");
        }
        servers.dedup();
        let draws = servers
            .last()
            .map_or(0, |last| (usize::from(*last) + 1) * nodes);
        if draws > DRAWS_MAX {
            return Err(args.fail(format_args!(
                "server IDs too large; max {} with {nodes} nodes each",
                DRAWS_MAX / nodes - 1
            )));
        }
        // Servers that do not occur have their places, too, so that the others keep theirs.
        let mut random = Random::repeating(seed as u32);
        for server in 0..=servers.last().copied().unwrap_or(0) {
            let index = servers.binary_search(&server);
            for _ in 0..nodes {
                let place = random.below(PLACES);
                if let Ok(index) = index {
                    self.circle.push((place, index as u32));
                }
            }
        }
        self.circle.sort_unstable();
        args.finish()
    }
}

impl SourceIPHashMapper {
    /// The pattern for a source address.
    fn input(&self, source: Ipv4Addr) -> Option<&Input> {
        let place = place(source);
        let behind = self.circle.partition_point(|(node, _)| *node < place);
        // Behind the last node comes the root of the tree that Click keeps the nodes in.
        let next = self.circle.get(behind);
        let (_, index) = next.or_else(|| self.circle.get(root(self.circle.len())))?;
        self.inputs.get(*index as usize)
    }
}

impl Mapper for SourceIPHashMapper {
    fn outputs(&self) -> Vec<[u16; 2]> {
        self.inputs.iter().map(|input| input.outputs).collect()
    }

    fn map(
        &mut self,
        cx: &mut Cx<'_>,
        key: FlowKey,
        taken: &dyn Fn(FlowKey) -> bool,
    ) -> Option<(FlowKey, [u16; 2])> {
        self.input(key.source())?.map(cx, key, taken)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// Which of the servers with these numbers each of 1000 sources gets.
    fn servers(numbers: &[u32]) -> Vec<u32> {
        let patterns: Vec<_> = (numbers.iter())
            .map(|number| format!("- - 10.0.0.{number} - 0 0 {number}"))
            .collect();
        let mut rig = Rig::new(&format!(
            "m :: SourceIPHashMapper(100 7, {});
             i :: Inject -> CheckIPHeader -> rw :: IPRewriter(m) -> c :: Collect;",
            patterns.join(", ")
        ));
        (0..1000u32)
            .map(|n| {
                let source = Ipv4Addr::from_bits(0x0102_0000 + n);
                for port in [1, 2] {
                    rig.push("i", &udp((source, port), ([9; 4].into(), 80), &[]));
                }
                let out = rig.data("c");
                assert_eq!(out[0][16..20], out[1][16..20], "one server a source");
                u32::from(out[0][19])
            })
            .collect()
    }

    #[test]
    fn sources_keep_their_server_when_others_come_and_go() {
        let (three, two) = (servers(&[1, 2, 3]), servers(&[1, 3]));
        for server in [1, 2, 3] {
            let share = three.iter().filter(|s| **s == server).count();
            assert!(
                (200..470).contains(&share),
                "server {server} has {share} of 1000"
            );
        }
        for (before, after) in three.into_iter().zip(two) {
            assert!(before == after || before == 2);
        }
    }

    #[test]
    fn servers_are_those_that_click_chooses() {
        // What Click 2.1 answers with the same arguments, where the C library is glibc.
        for (arguments, servers) in [
            (
                "100 7, - - 10.0.0.0 - 0 0 1, - - 10.0.0.1 - 0 0 2, - - 10.0.0.2 - 0 0 5",
                "22211222011211220210201202110002",
            ),
            (
                "37 -5, - - 10.0.0.0 - 0 0 0, - - 10.0.0.1 - 0 0 3",
                "00010000100101100000110101111101",
            ),
            // Behind the last node: the root's.
            (
                "1 3, - - 10.0.0.0 - 0 0 7, - - 10.0.0.1 - 0 0 2, - - 10.0.0.2 - 0 0 9",
                "20020112101010011011110111112212",
            ),
        ] {
            let mut rig = Rig::new(&format!(
                "m :: SourceIPHashMapper({arguments});
                 i :: Inject -> CheckIPHeader -> rw :: IPRewriter(m) -> c :: Collect;"
            ));
            for n in 0..32u8 {
                let source = Ipv4Addr::new(n.wrapping_mul(37) % 223 + 1, n, 5, n.wrapping_mul(91));
                rig.push("i", &udp((source, 1), ([9; 4].into(), 80), &[]));
            }
            let chosen = rig
                .data("c")
                .into_iter()
                .map(|packet| char::from(b'0' + packet[19]));
            assert_eq!(chosen.collect::<String>(), servers);
        }
    }

    #[test]
    fn a_server_that_occurs_twice_is_a_warning() {
        let mut rig =
            Rig::new("SourceIPHashMapper(2 1, - - 10.0.0.1 - 0 0 4, - - 10.0.0.2 - 0 0 4);");
        let warning = "warning: a server ID occurs twice: the last pattern is never used";
        assert!(rig.printed().iter().any(|line| line.contains(warning)));
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, message) in [
            ("", "no hash seed given"),
            ("5 1", "no patterns given"),
            (
                "5, - - - - 0 0 1",
                "requires 2 config params: numnodes seed",
            ),
            ("0 1, - - - - 0 0 1", "number of nodes must be an integer"),
            ("5 x, - - - - 0 0 1", "hash seed must be an integer"),
            (
                "5 1, - - - - 0 0 -1, - - - - 0 0 1",
                "bad server ID in pattern spec",
            ),
            ("5 1, -", "bad server ID in pattern spec"),
            (
                "5 1, - - - - 0 0 65536, - - - - 0 0 1",
                "bad server ID in pattern spec",
            ),
            (
                "1000 1, - - - - 0 0 16777, - - - - 0 0 1",
                "server IDs too large; max 16776 with 1000 nodes each",
            ),
            ("5 1, - x - - 0 0 1", "bad source port"),
            (
                "40000 1, - - - - 0 0 1, - - - - 0 0 2",
                "too many nodes; max 65536",
            ),
            (
                "5 1, - - - - 0 0 1, - - - - 0 1 2",
                "output port out of range in r :: SourceIPHashMapper pattern 1",
            ),
        ] {
            let errors = Rig::errors(&format!(
                "r :: SourceIPHashMapper({arguments}); Idle -> IPRewriter(r) -> Discard;"
            ));
            assert!(errors.contains(message), "{arguments}: {errors}");
        }
    }
}
