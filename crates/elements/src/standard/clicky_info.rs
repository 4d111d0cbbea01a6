use crate::prelude::*;

/// Holds text for Clicky, a program that draws configurations.
///
/// It does nothing. Its arguments are not read; the `config` handler shows them.
///
/// # Arguments
/// - `STYLE TEXT` and others: whatever Clicky understands.
///
/// # Example
/// ```click
/// ClickyInfo(STYLE #c { decorations: activity });
/// InfiniteSource(LIMIT 10) -> c :: Counter -> Discard;
/// ```
///
/// # See also
/// AlignmentInfo, ScheduleInfo
#[derive(Element)]
#[element(ports = "0/0", raw)]
pub struct ClickyInfo;

impl Element for ClickyInfo {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.take_raw();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn any_text_is_held() {
        let mut rig = Rig::new("x :: ClickyInfo(STYLE @import test.ccss, FOO { a: b }, 3);");
        assert_eq!(
            rig.read("x.config"),
            "STYLE @import test.ccss, FOO { a: b }, 3"
        );
    }
}
