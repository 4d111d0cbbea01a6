use crate::prelude::*;
use crate::rewriter::input::Input;
use crate::rewriter::key::FlowKey;
use crate::rewriter::mapper::Mapper;

/// Most nodes of all patterns together: half a MiB.
const NODES_MAX: usize = 1 << 16;

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
    /// behind it, `SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT SERVER`. A pattern's nodes are where its
    /// `SERVER` puts them.
    #[arg(rest, name = "PATTERN", kind = "numbers, then any number of patterns")]
    patterns: Vec<String>,
    inputs: Vec<Input>,
    /// Places on the circle in order, and whose they are.
    circle: Vec<(u32, u32)>,
}

/// Where the address stands on the circle: neighbours far apart.
fn place(address: Ipv4Addr) -> u32 {
    Random::new(address.to_bits().into()).next_u32()
}

/// Splits the server's number off a pattern.
fn server<'t>(text: &'t str, context: &Context<'_>) -> Result<(&'t str, u32), &'static str> {
    let bad = "bad server ID in pattern spec";
    let (pattern, number) = text.trim_end().rsplit_once([' ', '\t', '\n']).ok_or(bad)?;
    let number = context.parse::<i32>(number).ok();
    let number = number.and_then(|number| u32::try_from(number).ok());
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
        for text in patterns {
            let parsed = server(text, &args.context()).map_err(String::from);
            let parsed = parsed.and_then(|(pattern, number)| {
                let input = Input::parse_pattern(pattern, usize::MAX, cx, &args.context())?;
                Ok((input, number))
            });
            match parsed {
                Ok((input, number)) => {
                    let index = self.inputs.len() as u32;
                    self.inputs.push(input);
                    let mut random = Random::new(u64::from(seed as u32) << 32 | u64::from(number));
                    self.circle
                        .extend((0..nodes).map(|_| (random.next_u32(), index)));
                }
                Err(error) => args.error(error),
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
        let (_, index) = self.circle.get(behind).or(self.circle.first())?;
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
