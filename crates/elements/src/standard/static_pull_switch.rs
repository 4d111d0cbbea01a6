use crate::prelude::*;

/// Pulls from one input.
///
/// # Example
/// ```click
/// s :: StaticPullSwitch(1);
/// InfiniteSource(LIMIT 10) -> Queue -> [0]s;
/// InfiniteSource(LIMIT 10) -> Queue -> [1]s;
/// s -> Discard;
/// ```
///
/// # See also
/// PullSwitch, StaticSwitch
#[derive(Element)]
#[element(ports = "-/1", processing = "l", segments)]
pub struct StaticPullSwitch {
    /// The input; without an input of that number, pulls return nothing.
    #[arg(mandatory)]
    input: i32,
}

impl Element for StaticPullSwitch {
    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _batch: &mut Batch, most: usize) {
        if let Ok(input) = usize::try_from(self.input)
            && input < cx.inputs()
        {
            cx.pull_through(input, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn it_keeps_its_input() {
        for (input, pulled) in [(0, 1), (1, 2), (2, 0), (-1, 0)] {
            let mut rig = Rig::new(&alloc::format!(
                "a :: Inject -> Queue -> [0] s :: StaticPullSwitch({input}) -> p :: Puller;
                 b :: Inject -> Queue -> [1] s;"
            ));
            rig.push("a", &[1]);
            rig.push("b", &[2]);
            rig.push("b", &[2]);
            assert_eq!(rig.pull("p", 9).len(), pulled, "{input}");
        }
    }
}
