use alloc::string::String;

use router::args::{Args, Failed, KeywordArg, Severity};
use router::{Class, Cx, Declared, Element};

/// Prints a message when it is configured.
///
/// # Arguments
/// - `MESSAGE` (string): the message.
/// - `TYPE` (MESSAGE, WARNING or ERROR; MESSAGE): how it is shown. An ERROR keeps the router from
///   starting.
///
/// # Ports
/// None.
///
/// # Handlers
/// None of its own.
///
/// # Example
/// ```click
/// Message("this configuration is only an example", WARNING);
/// ```
///
/// # See also
/// Print
#[derive(Default)]
pub struct Message;

impl Class for Message {
    const NAME: &'static str = "Message";
    const PORTS: &'static str = "0/0";
}

impl Declared for Message {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut message, mut kind) = (String::new(), String::from("MESSAGE"));
        args.mandatory_positional("MESSAGE", &mut message)
            .positional_with("TYPE", KeywordArg, &mut kind)
            .complete()?;
        let severity = match kind.as_str() {
            "MESSAGE" => Severity::Info,
            "WARNING" => Severity::Warning,
            "ERROR" => return Err(args.fail(message)),
            _ => return Err(args.fail("unrecognized message type")),
        };
        args.message(severity, message);
        Ok(())
    }
}

impl Element for Message {}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn messages_and_warnings_are_printed() {
        let mut rig = Rig::new("Message(\"well done\"); Message(careful, WARNING);");
        let printed = rig.printed().join("\n");
        assert!(printed.contains("  well done\n"), "{printed}");
        assert!(printed.contains("  warning: careful"), "{printed}");
    }

    #[test]
    fn errors_keep_the_router_from_starting() {
        let errors = Rig::errors("Message(broken, ERROR);");
        assert!(errors.contains("  broken\n"), "{errors}");
        let errors = Rig::errors("Message(broken, LOUD);");
        assert!(errors.contains("unrecognized message type"), "{errors}");
    }
}
