use super::source::SourcePace;
use crate::prelude::*;

/// Makes packets of random bytes as fast as it can.
///
/// # Example
/// ```click
/// RandomSource(64, LIMIT 100, STOP true) -> Queue -> Unqueue -> Discard;
/// ```
///
/// # See also
/// InfiniteSource, RatedSource
#[derive(Element)]
#[element(ports = "0/1", processing = "a", live, handlers)]
pub struct RandomSource {
    /// Length of each packet, 0 to 65535 bytes.
    #[arg(mandatory, read, calm)]
    length: i32,
    #[flatten]
    pace: SourcePace,
}

fn is_length(length: i32) -> bool {
    (0..1 << 16).contains(&length)
}

fn make(cx: &mut Cx<'_>, length: usize, batch: &mut Batch, most: usize, now: i64) -> usize {
    for made in 0..most {
        let Some(mut packet) = cx.pool().packet(packet::HEADROOM, length) else {
            return made;
        };
        let random = cx.random();
        for word in packet.data_mut().chunks_mut(8) {
            let bytes = random.next_u64().to_ne_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
        packet.set_timestamp(now);
        if batch.push(packet).is_err() {
            return made;
        }
    }
    most
}

#[handlers]
impl RandomSource {
    /// The argument LENGTH.
    #[write]
    fn write_length(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), &'static str> {
        let length = cx.names().parse(value).ok();
        let length = length.filter(|length| is_length(*length));
        self.length = length.ok_or("length must be an integer from 0 to 65535")?;
        Ok(())
    }
}

impl RandomSource {
    #[inline]
    fn call_end(&mut self, cx: &mut Cx<'_>) {
        if let Some(call) = self.pace.take_end() {
            let _ = call.write_from(cx, self);
        }
    }
}

impl Element for RandomSource {
    fn configured(&mut self, cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if !is_length(self.length) {
            return Err(args.fail(format_args!("bad length {}", self.length)));
        }
        self.pace.configured(cx, args)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        self.pace.initialize(cx)
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let length = self.length as usize;
        let ran = self
            .pace
            .run_task(cx, task, length, |cx, batch, most, now| {
                make(cx, length, batch, most, now)
            });
        self.call_end(cx);
        ran
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        let length = self.length as usize;
        self.pace.pull(cx, batch, most, |cx, batch, most, now| {
            make(cx, length, batch, most, now)
        });
        self.call_end(cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn packets_are_random_and_of_the_length() {
        let mut rig = Rig::new("s :: RandomSource(67, LIMIT 50, STOP true) -> c :: Collect;");
        rig.run();
        let data = rig.data("c");
        assert!(data.len() == 50 && data.iter().all(|packet| packet.len() == 67));
        let ones: u32 = data.iter().flatten().map(|byte| byte.count_ones()).sum();
        assert!((12_400..14_400).contains(&ones), "{ones} of 26800 bits");
        assert!(data.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn it_can_be_pulled_from() {
        let mut rig = Rig::new("s :: RandomSource(1, LIMIT 2) -> p :: Puller;");
        assert_eq!(rig.pull("p", 5).len(), 2);
        assert!(rig.pull("p", 5).is_empty());
        rig.write("s.reset", "");
        rig.write("s.length", "9");
        assert_eq!(rig.pull("p", 1)[0].len(), 9);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, message) in [
            ("", "LENGTH: required argument missing"),
            ("65536", "bad length 65536"),
            ("-1", "bad length -1"),
            ("5, BURST 0", "burst size must be >= 1"),
            (
                "5, END_CALL 1.5, STOP true",
                "END_CALL: no element named '1'\n  END_CALL: parse error\n",
            ),
            ("5, END_CALL stop, STOP true", "mutually exclusive"),
        ] {
            Rig::refuses(
                &alloc::format!("RandomSource({arguments}) -> Discard;"),
                message,
            );
        }
    }
}
