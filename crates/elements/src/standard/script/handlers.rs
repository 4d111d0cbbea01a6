//! A script's arguments and handlers.

use super::calculate;
use super::machine::{Request, ScriptMachine};
#[cfg(feature = "host")]
use super::output;
use super::program::ScriptProgram;
use super::script_type::ScriptType;
use super::words::Words;
use crate::prelude::*;

const READ: HandlerFlags = HandlerFlags::READ;
const READ_WITH: HandlerFlags = READ.with(HandlerFlags::PARAMETER);
/// Handlers of every element, which the router answers.
const EVERYWHERE: &[&str] = &["name", "class", "config", "ports", "handlers"];

impl ScriptMachine {
    /// Compiles the script; its type is `default` if TYPE does not say.
    pub fn complete(
        &mut self,
        cx: &mut Cx<'_>,
        args: &Args<'_>,
        default: Option<ScriptType>,
    ) -> Result<(), Failed> {
        self.manages = default == Some(ScriptType::Driver);
        let ports = cx.inputs() + cx.outputs() > 0;
        let said = ScriptType::parse(&self.type_text).map_err(|e| args.fail(e))?;
        self.script_type = match said.or(default) {
            Some(script_type) => script_type,
            None if ports => ScriptType::Packet,
            None => ScriptType::Active,
        };
        if self.script_type == ScriptType::Driver && !cx.manage_driver() {
            return Err(args.fail("router has more than one driver script"));
        }
        if self.script_type == ScriptType::Packet && cx.inputs() == 0 {
            return Err(args.fail("PACKET script must have inputs"));
        }
        if self.script_type != ScriptType::Packet && ports {
            return Err(args.fail("ports allowed only on PACKET scripts"));
        }
        let driver = self.script_type == ScriptType::Driver;
        self.program = ScriptProgram::compile(&self.instructions, driver, args);
        args.finish()
    }

    /// Whether a variable of this name can be read as a handler, which it hides.
    fn exports(&self, name: &str) -> bool {
        self.program.exported().any(|(known, _)| known == name)
    }

    /// Whether a handler is listed by name.
    pub fn has(&self, name: &str) -> bool {
        let mut list = HandlerList::default();
        self.list_handlers(&mut list);
        EVERYWHERE.contains(&name) || list.find(name).is_some()
    }

    /// What can be done with a handler of this script; `None` if it has none of the name.
    pub fn flags(&self, name: &str) -> Option<HandlerFlags> {
        let mut list = HandlerList::default();
        self.list_handlers(&mut list);
        let everywhere = || EVERYWHERE.contains(&name).then_some(READ);
        let listed = list.find(name).or_else(everywhere);
        listed.or_else(|| list.flags(name))
    }
}

#[handlers]
impl ScriptMachine {
    /// Continues after the waiting instruction, or after that number of them.
    #[write]
    fn write_step(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.request(cx, Request::Step, "step", value, true)?;
        Ok(())
    }

    /// Continues at a label.
    #[write]
    fn write_goto(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.request(cx, Request::Goto, "goto", value, true)?;
        Ok(())
    }

    /// Runs the script with words; the value is its return value.
    #[read]
    fn read_run(&mut self, cx: &mut Cx<'_>, parameter: &str) -> Result<String, HandlerError> {
        self.request(cx, Request::Run, "run", parameter, false)
    }

    /// Runs the script with words.
    #[write]
    fn write_run(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        self.request(cx, Request::Run, "run", value, true)?;
        Ok(())
    }

    /// The variable of a name.
    #[read]
    fn get(&mut self, parameter: &str) -> Result<String, String> {
        let mut words = Words(parameter);
        let variable = words.next();
        if !words.0.is_empty() {
            return Err("too many arguments".to_string());
        }
        Ok(self.variable_mut(variable, false)?.clone())
    }

    /// Sets a variable.
    #[write]
    fn set(&mut self, value: &str) -> Result<(), String> {
        let (variable, value) = click::config::shift_space(value);
        *self.variable_mut(variable, true)? = value.to_string();
        Ok(())
    }

    /// Takes the first word off a variable, `args` if there is no name.
    #[read]
    fn shift(&mut self, parameter: &str) -> Result<String, String> {
        let mut words = Words(parameter);
        let variable = match words.next() {
            "" => "args",
            variable => variable,
        };
        if !words.0.is_empty() {
            return Err("too many arguments".to_string());
        }
        let slot = self.variable_mut(variable, false)?;
        let mut words = Words(slot);
        let first = words.next().to_string();
        *slot = words.0.to_string();
        Ok(first)
    }
}

impl DynamicHandlers for ScriptMachine {
    fn list_dynamic(&self, list: &mut HandlerList) {
        for name in calculate::NAMES.iter().filter(|name| !self.exports(name)) {
            match *name {
                "now" => list.read("now"),
                name if calculate::PRIVATE.contains(&name) => {
                    list.add(name, READ_WITH.with(HandlerFlags::PRIVATE))
                }
                name => list.read_with(name),
            };
        }
        #[cfg(feature = "host")]
        for name in output::host::NAMES {
            list.add(*name, READ_WITH.with(HandlerFlags::PRIVATE));
        }
        // Click lists what concerns variables behind the functions.
        list.move_last("get").move_last("set").move_last("shift");
        if self.script_type == ScriptType::Proxy {
            list.any();
        }
        for (name, _) in self.program.exported() {
            list.read(name.clone());
        }
    }

    fn read_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        parameter: &str,
    ) -> Result<String, HandlerError> {
        if calculate::NAMES.contains(&name) && !self.exports(name) {
            let own = |name: &str| self.flags(name);
            return Ok(calculate::calculate(cx, name, parameter, own)?);
        }
        #[cfg(feature = "host")]
        if output::host::NAMES.contains(&name) {
            return Ok(output::host::read(cx, name, parameter)?);
        }
        if let Some((_, value)) = self.program.exported().find(|(known, _)| known == name) {
            return Ok(value.clone());
        }
        if self.script_type == ScriptType::Proxy && name != "*" && !EVERYWHERE.contains(&name) {
            return self.request(cx, Request::Run, name, parameter, false);
        }
        Err(HandlerError::Unknown)
    }

    fn write_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        if self.script_type != ScriptType::Proxy || self.has(name) {
            return Err(HandlerError::Unknown);
        }
        self.request(cx, Request::Run, name, value, true)?;
        Ok(())
    }
}
