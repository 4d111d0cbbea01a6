use alloc::string::{String, ToString};

use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, phase};

use crate::values;

/// Starts random numbers from a seed, so that every run of a router makes the same choices.
///
/// Choices among equals, such as the ports that IPRewriter's patterns give, RandomSwitch's outputs
/// and Script's `random`, are then also those that Click makes with this seed where the C library is
/// glibc. Without a seed, or without this element, a router starts from one that nobody knows. A
/// seed is for the thread that this element is on.
///
/// # Arguments
/// - `SEED` (integer): the seed.
///
/// # Ports
/// None.
///
/// # Handlers
/// - `seed` (read, write): the seed. Writing it starts anew; an empty one is unknown.
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
#[derive(Default)]
pub struct RandomSeed {
    seed: Option<u32>,
}

impl Class for RandomSeed {
    const NAME: &'static str = "RandomSeed";
    const PORTS: &'static str = "0/0";
    const PHASE: i32 = phase::INFO;
}

impl Declared for RandomSeed {
    fn configure(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut seed = None;
        args.positional("SEED", &mut seed).complete()?;
        self.seed = seed;
        cx.seed_random(seed);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read_write("seed");
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "seed" => Ok(self.seed.map_or(String::new(), |seed| seed.to_string())),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "seed" if value.trim().is_empty() => {
                self.seed = None;
                cx.set_config(String::new());
            }
            "seed" => values::argument(cx, 0, "SEED", value, &mut self.seed)?,
            _ => return Err(HandlerError::Unknown),
        }
        cx.seed_random(self.seed);
        Ok(())
    }
}

impl Element for RandomSeed {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::testing::Rig;

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
        assert_eq!((choices(&mut rig), rig.read("x.seed")), (first.clone(), "1".into()));
        rig.write("x.seed", "5");
        assert_ne!(choices(&mut rig), first);
        rig.write("x.config", "1");
        assert_eq!(choices(&mut rig), first);
        rig.write("x.seed", "");
        assert_eq!((rig.read("x.seed"), rig.read("x.config")), Default::default());
        assert!(rig.try_write("x.seed", "y").is_err());
    }
}
