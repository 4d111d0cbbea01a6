//! What a script consists of: instructions, as its arguments give them.

use click::config::shift_space;

use crate::prelude::*;

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As if it fell off its end.
    End,
    Exit,
    /// The driver is asked to stop, too.
    Stop,
    /// With a message, unquoted if so.
    Error {
        unquote: bool,
    },
}

/// Where a jump goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Instruction(usize),
    End(Ending),
}

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptOp {
    /// Where a script starts that does not start with waiting.
    Start,
    /// Waits for a number of steps.
    Pause(u32),
    /// Waits for a time, or a step.
    Wait,
    Print {
        newline: bool,
        unquote: bool,
    },
    Read {
        unquote: bool,
    },
    Write {
        unquote: bool,
    },
    /// Sets the variable of that number.
    Set {
        variable: usize,
        unquote: bool,
    },
    /// Sets a variable when the script is initialized.
    Init {
        variable: usize,
        unquote: bool,
        export: bool,
    },
    Label,
    Goto(Target),
    Return {
        unquote: bool,
    },
    End(Ending),
}

/// One instruction.
#[derive(Clone, Debug)]
pub(super) struct ScriptInstruction {
    pub op: ScriptOp,
    /// Its text, not yet expanded; of a jump, the condition.
    pub text: String,
    /// How often it blocked, of what it waits for.
    pub done: u32,
}

/// A script's instructions and the names of its variables.
#[derive(Debug, Default)]
pub(super) struct ScriptProgram {
    pub instructions: Vec<ScriptInstruction>,
    /// Names and values. Variable 0 is what `return` returns.
    pub variables: Vec<(String, String)>,
}

impl ScriptProgram {
    /// Takes the instructions in `texts`; what is wrong goes to `args`. A driver script without
    /// any waits for the driver to stop.
    pub fn compile(texts: &[String], driver: bool, args: &Args<'_>) -> ScriptProgram {
        let mut program = ScriptProgram::default();
        program.variable("_");
        let mut jumps = Vec::new();
        for text in texts {
            let (word, rest) = shift_space(text);
            if word.is_empty() {
                continue;
            }
            if program.add(word, rest.trim_end(), &mut jumps).is_none() {
                args.error(format_args!("syntax error at ‘{word}’"));
            }
        }
        for (at, label) in jumps {
            match program.label(&label) {
                Some(target) => program.instructions[at].op = ScriptOp::Goto(target),
                None => args.error(format_args!("no such label ‘{label}’")),
            }
        }
        if program.instructions.is_empty() && driver {
            program.push(ScriptOp::Pause(1), "");
        }
        let end = if driver { Ending::Stop } else { Ending::End };
        program.push(ScriptOp::End(end), "");
        program
    }

    fn push(&mut self, op: ScriptOp, text: &str) {
        let starts = matches!(op, ScriptOp::Pause(_) | ScriptOp::Wait | ScriptOp::Start);
        if self.instructions.is_empty() && !starts {
            self.push(ScriptOp::Start, "");
        }
        self.instructions.push(ScriptInstruction {
            op,
            text: text.to_string(),
            done: 0,
        });
    }

    /// Adds the instruction `word text`; `None` if it is not right. Jumps to be resolved are added
    /// to `jumps`.
    fn add(&mut self, word: &str, text: &str, jumps: &mut Vec<(usize, String)>) -> Option<()> {
        let (name, unquote) = split_quiet(word);
        let op = match name {
            "print" | "printn" => ScriptOp::Print {
                newline: name == "print",
                unquote,
            },
            #[cfg(feature = "host")]
            "save" | "append" => {
                let (handler, file) = shift_space(text);
                let file = if file.is_empty() { "-" } else { file };
                let arrow = if name == "save" { ">" } else { ">>" };
                let print = ScriptOp::Print {
                    newline: true,
                    unquote: false,
                };
                self.push(print, &alloc::format!("{arrow}{file} {handler}"));
                return Some(());
            }
            "read" => ScriptOp::Read { unquote },
            "write" => ScriptOp::Write { unquote },
            "return" => ScriptOp::Return { unquote },
            "set" | "init" | "export" => return self.add_set(name, text, unquote),
            "error" => ScriptOp::End(Ending::Error { unquote }),
            "wait" if text.is_empty() => ScriptOp::Pause(1),
            "wait" | "wait_for" | "wait_time" => ScriptOp::Wait,
            "pause" | "wait_step" | "wait_stop" => {
                let count = match text {
                    "" => Some(1),
                    text => router::args::Context::blank().parse(text).ok(),
                };
                self.push(ScriptOp::Pause(count?), "");
                return Some(());
            }
            "label" => {
                let (label, more) = shift_space(text);
                if label.is_empty() || !more.is_empty() {
                    return None;
                }
                ScriptOp::Label
            }
            "goto" => {
                let (label, condition) = shift_space(text);
                self.push(ScriptOp::Goto(Target::Instruction(0)), condition);
                if !label.is_empty() {
                    jumps.push((self.instructions.len() - 1, label.to_string()));
                }
                return Some(());
            }
            "end" | "exit" | "stop" | "loop" if !text.is_empty() => return None,
            "loop" => ScriptOp::Goto(Target::Instruction(0)),
            name => ScriptOp::End(end(name)?),
        };
        self.push(op, text);
        Some(())
    }

    fn add_set(&mut self, name: &str, text: &str, unquote: bool) -> Option<()> {
        let (variable, value) = shift_space(text);
        if variable.is_empty() || (name == "set" && value.is_empty()) {
            return None;
        }
        let variable = self.variable(variable);
        let op = match name {
            "set" => ScriptOp::Set { variable, unquote },
            _ => ScriptOp::Init {
                variable,
                unquote,
                export: name == "export",
            },
        };
        self.push(op, value);
        Some(())
    }

    /// The number of a variable, which is added if it is new.
    pub fn variable(&mut self, name: &str) -> usize {
        self.find_variable(name).unwrap_or_else(|| {
            self.variables.push((name.to_string(), String::new()));
            self.variables.len() - 1
        })
    }

    pub fn find_variable(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|(known, _)| known == name)
    }

    /// Where a jump to `label` goes.
    pub fn label(&self, label: &str) -> Option<Target> {
        let named = |i: &ScriptInstruction| i.op == ScriptOp::Label && i.text == label;
        match self.instructions.iter().position(named) {
            Some(at) => Some(Target::Instruction(at)),
            None if matches!(label, "begin" | "loop") => Some(Target::Instruction(0)),
            None => end(label).map(Target::End),
        }
    }

    /// The variables that can be read by handlers.
    pub fn exported(&self) -> impl Iterator<Item = &(String, String)> {
        self.instructions.iter().filter_map(|i| match i.op {
            ScriptOp::Init {
                variable,
                export: true,
                ..
            } => self.variables.get(variable),
            _ => None,
        })
    }
}

/// The end that a word names.
fn end(name: &str) -> Option<Ending> {
    Some(match name {
        "end" => Ending::End,
        "exit" => Ending::Exit,
        "stop" => Ending::Stop,
        "error" => Ending::Error { unquote: false },
        "errorq" => Ending::Error { unquote: true },
        _ => return None,
    })
}

/// An instruction's name without the `q` that asks for its text to be unquoted.
fn split_quiet(word: &str) -> (&str, bool) {
    const BOTH: &[&str] = &[
        "print", "printn", "read", "write", "set", "init", "export", "return", "error",
    ];
    match word.strip_suffix('q') {
        Some(name) if BOTH.contains(&name) => (name, true),
        _ => (word, false),
    }
}
