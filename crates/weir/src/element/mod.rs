//! `weir element`: the manual pages of the element classes, from the doc comments in their source.

mod markdown;
mod page;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::Args;
use router::{Library, Page};

pub use markdown::pages as markdown_pages;

use crate::host::print;

/// Shows the manual page of an element class, or lists all classes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir element\n  weir element IPFilter\n  weir element --markdown docs/elements"
)]
pub struct ElementArgs {
    /// The class.
    name: Option<String>,
    /// Write all pages into a directory, in Markdown.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "name")]
    markdown: Option<PathBuf>,
}

/// Runs `weir element`.
pub fn run(args: &ElementArgs) -> Result<(), PageError> {
    let text = match (&args.name, &args.markdown) {
        (_, Some(directory)) => return write_markdown(directory).map(drop),
        (Some(name), None) => show(find(name)?),
        (None, None) => list(),
    };
    print(&text).map_err(|error| PageError::Write {
        path: "standard output".into(),
        reason: crate::click::reason(&error),
    })
}

/// Every class's page, by group and name.
pub static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    let mut pages = elements::pages();
    pages.extend(click_lookup::pages());
    pages
});

/// Why there is no page to show.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// There is no such class.
    #[error("there is no element class ‘{name}’; `weir element` lists all")]
    Unknown {
        /// As it was asked for.
        name: String,
    },
    /// There is no such class, but a similar one.
    #[error("there is no element class ‘{name}’; did you mean ‘{near}’?")]
    Similar {
        /// As it was asked for.
        name: String,
        /// The class it may be.
        near: String,
    },
    /// A page could not be written.
    #[error("{path}: {reason}")]
    Write {
        /// The file.
        path: String,
        /// The system's error.
        reason: String,
    },
}

/// The first sentence of a page, on one line.
fn summary(page: &Page) -> String {
    let paragraph = page.text.split("\n\n").next().unwrap_or("");
    plain(&paragraph.replace('\n', " "))
}

/// Every class: a guest's, this machine's, and the switch's own.
pub fn library() -> Library {
    let mut library = elements::library();
    library.add(click_lookup::CLASSES);
    library
}

/// Text without Markdown's marks for code.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// The page of the class called `name`, upper and lower case being the same.
pub fn find(name: &str) -> Result<&'static Page, PageError> {
    let same = |page: &&Page| page.name == name;
    let alike = |page: &&Page| page.name.eq_ignore_ascii_case(name);
    let found = PAGES.iter().find(same);
    if let Some(page) = found.or_else(|| PAGES.iter().find(alike)) {
        return Ok(page);
    }
    if let Some(class) = library().find(name).filter(|class| class.name != name) {
        return find(class.name);
    }
    let name = name.to_string();
    Err(match library().nearest(&name) {
        Some(near) => PageError::Similar {
            near: near.to_string(),
            name,
        },
        None => PageError::Unknown { name },
    })
}

/// All classes by group, a line for each.
pub fn list() -> String {
    let mut text = String::new();
    let width = PAGES.iter().map(|page| page.name.len()).max().unwrap_or(0);
    let mut group = "";
    for page in PAGES.iter() {
        if page.group() != group {
            let blank = if group.is_empty() { "" } else { "\n" };
            group = page.group();
            let _ = writeln!(text, "{blank}{group}");
        }
        let _ = writeln!(text, "  {:width$}  {}", page.name, summary(page));
    }
    text
}

/// A page for a terminal.
pub fn show(page: &Page) -> String {
    let segments = if page.segments {
        ", takes segments"
    } else {
        ""
    };
    let (name, group) = (page.name, page.group());
    let (ports, processing) = (page.ports, page.processing);
    let mut text = format!("{name} ({group})\nports {ports}, processing {processing}{segments}\n");
    text.push('\n');
    let mut code = false;
    for line in page::text(page).lines() {
        if line.starts_with("```") {
            code = !code;
        } else if code {
            let _ = writeln!(text, "    {line}");
        } else if let Some(heading) = line.strip_prefix("# ") {
            let _ = writeln!(text, "{}", heading.to_uppercase());
        } else {
            let _ = writeln!(text, "{}", plain(line));
        }
    }
    text
}

/// Writes all pages as Markdown into a directory, with an index.
pub fn write_markdown(directory: &Path) -> Result<usize, PageError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| PageError::Write {
            path,
            reason: crate::click::reason(&error),
        }
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let pages = markdown_pages();
    for (name, text) in &pages {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(pages.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::click::Source;
    use router::{ElementId, HandlerFlags, HandlerSpec};

    #[test]
    fn every_class_has_a_page_in_shape() {
        let library = library();
        for class in library.iter().filter(|class| class.refused.is_none()) {
            let page = PAGES.iter().find(|page| page.name == class.name);
            let Some(page) = page else {
                panic!("{} has no page", class.name);
            };
            assert!(summary(page).ends_with('.'), "{}: summary", page.name);
            assert!(page.text.contains("# Example"), "{}: no example", page.name);
            let undocumented = page
                .arguments
                .iter()
                .find(|argument| argument.text.is_empty());
            assert!(undocumented.is_none(), "{}: {undocumented:?}", page.name);
            let undocumented = page.handlers.iter().find(|handler| handler.text.is_empty());
            assert!(undocumented.is_none(), "{}: {undocumented:?}", page.name);
        }
    }

    /// The elements in a page's example, as a router.
    fn example(page: &Page) -> Option<router::Router> {
        let block = page.text.split("```click\n").nth(1)?.split("```").next()?;
        let source = Source {
            name: page.name.into(),
            text: block.as_bytes().to_vec(),
        };
        crate::check::source_text(&source, &[]).router
    }

    #[test]
    fn a_page_lists_the_handlers_that_the_element_has() {
        let mut plain = example(find("Null").unwrap()).unwrap();
        let own = |router: &mut router::Router, class: &str| -> Option<Vec<HandlerSpec>> {
            let mut elements = router.graph().elements.iter();
            let index = elements.position(|element| element.class.name == class)?;
            Some(router.handlers(Some(ElementId::new(index))))
        };
        let common = own(&mut plain, "Null").unwrap();
        let mut wrong = String::new();
        for page in PAGES.iter() {
            let mut router = example(page);
            let Some(had) = router.as_mut().and_then(|router| own(router, page.name)) else {
                let _ = writeln!(wrong, "{}: the example has no such element", page.name);
                continue;
            };
            let text = page::text(page);
            for spec in &had {
                let stem = spec.name.trim_end_matches(|c: char| c.is_ascii_digit());
                let said = page.handlers.iter().any(|doc| doc.name == spec.name)
                    || text.contains(&format!("`{}`", spec.name))
                    || (stem != spec.name && text.contains(&format!("`{stem}0`")));
                let known = common.iter().any(|common| common.name == spec.name);
                if !said && !known && !spec.flags.has(HandlerFlags::DEPRECATED) {
                    let _ = writeln!(wrong, "{}: {} is not on the page", page.name, spec.name);
                }
            }
            for doc in page.handlers.iter().filter(|doc| doc.when.is_none()) {
                let spec = had.iter().find(|spec| spec.name == doc.name);
                if !spec.is_some_and(|spec| spec.flags.has(doc.flags)) {
                    let _ = writeln!(wrong, "{}: {} is not the element's", page.name, doc.name);
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn every_example_is_right() {
        let mut wrong = String::new();
        for page in PAGES.iter() {
            let blocks = page.text.split("```click\n").skip(1);
            for block in blocks.filter_map(|rest| rest.split("```").next()) {
                let source = Source {
                    name: page.name.into(),
                    text: block.as_bytes().to_vec(),
                };
                let checked = crate::check::source_text(&source, &[]);
                if checked.router.is_none() {
                    let _ = write!(wrong, "{}", checked.diagnostics);
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn pages_are_found_by_any_case_and_nearness() {
        assert_eq!(find("counter").unwrap().name, "Counter");
        assert_eq!(find("toport").unwrap().group(), "switch");
        assert_eq!(find("RRSched").unwrap().name, "RoundRobinSched");
        let error = find("Conter").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no element class ‘Conter’; did you mean ‘Counter’?"
        );
        let error = find("Zzzzzzzzzzzz").unwrap_err().to_string();
        assert!(error.ends_with("`weir element` lists all"), "{error}");
    }

    #[test]
    fn the_committed_reference_is_up_to_date() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/elements");
        let regenerate = "run `cargo run -p weir -- element --markdown docs/elements`";
        let pages = markdown_pages();
        for (name, text) in &pages {
            let committed = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
            assert!(committed == *text, "{name} is out of date: {regenerate}");
        }
        for entry in std::fs::read_dir(&directory).expect("docs/elements is there") {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let known = pages.iter().any(|(page, _)| *page == name);
            assert!(known, "{name} is of no element: remove it");
        }
    }
}
