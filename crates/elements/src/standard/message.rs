use crate::prelude::*;

/// Prints a message when it is configured.
///
/// # Example
/// ```click
/// Message("this configuration is only an example", WARNING);
/// ```
///
/// # See also
/// Print
#[derive(Element)]
#[element(ports = "0/0")]
pub struct Message {
    /// The message.
    #[arg(mandatory)]
    message: String,
    /// The kind of message. An ERROR keeps the router from starting.
    #[arg(positional, name = "TYPE", with = KeywordArg, kind = "MESSAGE, WARNING or ERROR",
        default = "MESSAGE".into(), default_text = "MESSAGE")]
    severity: String,
}

impl Element for Message {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let severity = match self.severity.as_str() {
            "MESSAGE" => Severity::Info,
            "WARNING" => Severity::Warning,
            "ERROR" => return Err(args.fail(&self.message)),
            _ => return Err(args.fail("unrecognized message type")),
        };
        args.message(severity, &self.message);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn messages_and_warnings_are_printed() {
        let mut rig = Rig::new("Message(\"well done\"); Message(careful, WARNING);");
        let printed = rig.printed().join("\n");
        assert!(printed.contains("  well done\n"), "{printed}");
        assert!(printed.contains("  warning: careful"), "{printed}");
    }

    #[test]
    fn errors_keep_the_router_from_starting() {
        Rig::refuses("Message(broken, ERROR);", "  broken\n");
        Rig::refuses("Message(broken, LOUD);", "unrecognized message type");
    }
}
