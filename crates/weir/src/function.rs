//! `weir function`: the configurations that come with the program, and their manual pages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use node::error::{Error, Result};
use node::function::{Declaration, FUNCTIONS, Function, find, suggest};

use crate::nouns::output::print;

/// Shows the manual page of a function, or lists all functions.
///
/// A function is a configuration that comes with the program. `weir run NAME` runs it, and `-p` gives
/// values to its parameters.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir function\n  weir function router\n  weir function router --config >my-router.click"
)]
pub struct FunctionArgs {
    /// The function.
    name: Option<PathBuf>,
    /// Print the configuration instead.
    #[arg(long, requires = "name")]
    config: bool,
    /// Write all pages into a directory, in Markdown.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "name")]
    markdown: Option<PathBuf>,
}

/// Runs `weir function`.
pub fn run(args: &FunctionArgs) -> Result<()> {
    let Some(name) = &args.name else {
        return match &args.markdown {
            Some(directory) => write_markdown(directory),
            None => print(&list()),
        };
    };
    let Some(function) = find(name) else {
        return Err(Error::invalid(format_args!(
            "there is no function ‘{}’{}: `weir function` lists all",
            name.display(),
            suggest(name)
        )));
    };
    print(&match args.config {
        true => function.text.to_string(),
        false => page(function),
    })
}

/// All functions, a line for each.
fn list() -> String {
    let width = FUNCTIONS.iter().map(|function| function.name.len()).max();
    let width = width.unwrap_or(0);
    let line = |function: &Function| {
        let summary = function.declaration().summary;
        format!("{:width$}  {summary}\n", function.name)
    };
    FUNCTIONS.iter().map(line).collect()
}

/// A function's page for a terminal.
pub fn page(function: &Function) -> String {
    let declaration = function.declaration();
    let mut text = format!("{}: {}\n\n", function.name, plain(&declaration.summary));
    for line in declaration.text.lines() {
        match line.strip_prefix("# ") {
            Some(heading) => text += &heading.to_uppercase(),
            None => text += &plain(line),
        }
        text.push('\n');
    }
    text += "\nPARAMETERS\n";
    text += match declaration.parameters.is_empty() {
        true => "None.\n",
        false => "",
    };
    for parameter in &declaration.parameters {
        let _ = writeln!(
            text,
            "{} ({}) [{}]\n    {}",
            parameter.name,
            parameter.kind.help(),
            plain(parameter.default),
            plain(&parameter.text)
        );
    }
    text
}

/// Text without Markdown's marks for code.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// Every page in Markdown, with its file's name, and an index.
pub fn markdown() -> Vec<(String, String)> {
    let page = |function: &Function| (format!("{}.md", function.name), markdown_page(function));
    let mut pages: Vec<_> = FUNCTIONS.iter().map(page).collect();
    let mut index = String::from(
        "# Functions\n\nConfigurations that come with the program. `weir run NAME` runs one, `-p NAME=VALUE` \
         gives a parameter a value, and `weir function NAME` shows the same page.\n\n\
         | function | purpose |\n| --- | --- |\n",
    );
    for function in FUNCTIONS {
        let summary = function.declaration().summary.replace('|', "\\|");
        let _ = writeln!(index, "| [{0}]({0}.md) | {summary} |", function.name);
    }
    pages.push(("README.md".into(), index));
    pages
}

fn markdown_page(function: &Function) -> String {
    let declaration = function.declaration();
    let mut text = format!("# {}\n\n{}\n\n", function.name, declaration.summary);
    prose(&mut text, &declaration);
    text += "## Parameters\n\n";
    text += match declaration.parameters.is_empty() {
        true => "None.\n",
        false => "| parameter | kind | default | meaning |\n| --- | --- | --- | --- |\n",
    };
    for parameter in &declaration.parameters {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let default = match parameter.default {
            "" => String::new(),
            default => format!("`{}`", cell(default)),
        };
        let (kind, meaning) = (parameter.kind.help(), cell(&parameter.text));
        let _ = writeln!(
            text,
            "| `{}` | {} | {default} | {meaning} |",
            parameter.name,
            cell(&kind)
        );
    }
    let _ = writeln!(
        text,
        "\nThe configuration: [examples/functions/{0}.click](../../examples/functions/{0}.click).",
        function.name
    );
    text
}

/// The description, with lines that are indented as blocks of code. Such a block follows an empty line;
/// other indented lines go on with an item of a list.
fn prose(text: &mut String, declaration: &Declaration) {
    for paragraph in declaration.text.split("\n\n") {
        let lines = paragraph.lines().map(|line| line.strip_prefix("  "));
        match lines.collect::<Option<Vec<_>>>() {
            Some(code) => {
                let language = match code[0].starts_with("weir ") {
                    true => "sh",
                    false => "text",
                };
                let _ = writeln!(text, "```{language}\n{}\n```\n", code.join("\n"));
            }
            None => {
                let heading = paragraph.strip_prefix("# ");
                let _ = match heading {
                    Some(heading) => writeln!(text, "## {heading}\n"),
                    None => writeln!(text, "{paragraph}\n"),
                };
            }
        }
    }
}

fn write_markdown(directory: &Path) -> Result<()> {
    let failed =
        |error: std::io::Error| Error::failed(format_args!("{}: {error}", directory.display()));
    std::fs::create_dir_all(directory).map_err(failed)?;
    for (name, text) in markdown() {
        std::fs::write(directory.join(name), text).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::click::Source;

    #[test]
    fn every_function_is_right_with_its_defaults_and_all_parameters_are_used() {
        for function in FUNCTIONS {
            let source = Source::expression(function.text.into()).unwrap();
            let checked = crate::check::source_text(&source, &[]);
            let said = checked.diagnostics.to_string();
            assert!(checked.router.is_some() && said.is_empty(), "{said}");
            let declaration = function.declaration();
            assert!(declaration.summary.ends_with('.'), "{}", function.name);
            let defined = function.text.matches("\ndefine($").count();
            assert_eq!(declaration.parameters.len(), defined, "{}", function.name);
            for parameter in &declaration.parameters {
                let forms = [
                    format!("${}", parameter.name),
                    format!("${{{}}}", parameter.name),
                ];
                let used = forms.iter().map(|form| function.text.matches(form).count());
                let used: usize = used.sum();
                assert!(used > 1, "{}: {}", function.name, parameter.name);
                assert!(parameter.text.ends_with('.'), "{}", parameter.name);
            }
        }
    }

    #[test]
    fn the_committed_pages_are_up_to_date() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions");
        let pages = markdown();
        for (name, text) in &pages {
            let committed = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
            assert!(committed == *text, "{name} is out of date: run `make docs`");
        }
        for entry in std::fs::read_dir(&directory).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let known = pages.iter().any(|(page, _)| *page == name);
            assert!(known, "{name} is of no function: remove it");
        }
    }
}
