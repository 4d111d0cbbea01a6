use crate::prelude::*;

/// Seeds random numbers, so that every run of a router makes the same choices.
///
/// Choices among equals, such as the ports that IPRewriter's patterns give, RandomSwitch's outputs
/// and Script's `random`, are then also those that Click makes with this seed where the C library is
/// glibc. Without a seed, or without this element, a router starts from one that nobody knows. A
/// seed is for the thread that this element is on.
///
/// # Example
/// ```click
/// RandomSeed(1);
/// InfiniteSource(LIMIT 100) -> r :: RandomSwitch;
/// r[0] -> Discard;
/// r[1] -> Discard;
/// ```
///
/// # See also
/// RandomSwitch, RandomSample, IPRewriter, Script
#[derive(Element)]
#[element(ports = "0/0", phase = phase::INFO, live, handlers)]
pub struct RandomSeed {
    /// The seed.
    #[arg(positional, read, calm)]
    seed: Option<u32>,
}

#[handlers]
impl RandomSeed {
    /// Starts again from a seed; an empty one is unknown.
    #[write]
    fn write_seed(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        if value.trim().is_empty() {
            self.seed = None;
            cx.set_config(String::new());
        } else {
            let parse = <Option<u32> as router::args::Argument>::parse;
            self.seed = router::parse_value(cx, "SEED", value, parse, "")?;
            write_argument(cx, "SEED", Some(0), value);
        }
        cx.seed_random(self.seed);
        Ok(())
    }
}

impl Element for RandomSeed {
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        cx.seed_random(self.seed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// Outputs that packets leave by: the first few choices.
    fn choices(rig: &mut Rig) -> Vec<usize> {
        let mut choices = Vec::new();
        for _ in 0..40 {
            rig.push("i", &[0]);
            let output = ["a", "b", "c"].map(|name| rig.collected(name).len());
            choices.push(output.iter().position(|n| *n == 1).unwrap());
        }
        choices
    }

    const SWITCH: &str = "i :: Inject -> r :: RandomSwitch;
        r[0] -> a :: Collect; r[1] -> b :: Collect; r[2] -> c :: Collect;";

    #[test]
    fn the_same_seed_gives_the_same_choices() {
        let mut rig = Rig::new(&["x :: RandomSeed(1);", SWITCH].concat());
        let first = choices(&mut rig);
        // By glibc's random(), whose numbers are 1804289383, 846930886, 1681692777 and on.
        assert_eq!(first[..5], [2, 1, 2, 2, 2]);
        assert_ne!(choices(&mut rig), first);
        rig.write("x.seed", "1");
        assert_eq!(
            (choices(&mut rig), rig.read("x.seed")),
            (first.clone(), "1".into())
        );
        rig.write("x.seed", "5");
        assert_ne!(choices(&mut rig), first);
        rig.write("x.config", "1");
        assert_eq!(choices(&mut rig), first);
        rig.write("x.seed", "");
        assert_eq!(
            (rig.read("x.seed"), rig.read("x.config")),
            Default::default()
        );
        assert!(rig.try_write("x.seed", "y").is_err());
    }
}
