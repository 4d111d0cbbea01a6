//! The element reference in Markdown.

use std::fmt::Write as _;

use router::Page;

use super::{PAGES, page};

/// Every file of the reference, with its name: a page for each class and an index.
pub fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<_> = PAGES
        .iter()
        .map(|page| (format!("{}.md", page.name), render(page)))
        .collect();
    pages.push(("README.md".into(), index()));
    pages
}

fn index() -> String {
    let mut text = String::from(
        "# Elements\n\nThe element classes by group. `weir element NAME` shows the same pages.\n",
    );
    let mut group = "";
    for page in PAGES.iter() {
        if page.group() != group {
            group = page.group();
            let _ = write!(text, "\n## {group}\n\n| class | purpose |\n| --- | --- |\n");
        }
        let summary = page.text.split("\n\n").next().unwrap_or("");
        let summary = summary.replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(text, "| [{0}]({0}.md) | {summary} |", page.name);
    }
    text + &segments() + &second_names()
}

/// The classes that take packets which stand for several.
fn segments() -> String {
    let mut text = String::from(
        "\n## Segments\n\nIn a guest, a segmented packet stands for up to 64 KB of a TCP stream or for \
         several UDP datagrams, and its transport checksum may be incomplete: the egress port \
         segments it and completes the checksum if its link needs that. The classes below take \
         segmented packets. If the packets of an interface can reach a class that is not listed, \
         all packets of the interface arrive cut and complete. Counters count segments.\n\n",
    );
    let names = PAGES.iter().filter(|page| page.segments);
    let links: Vec<_> = names
        .map(|page| format!("[{0}]({0}.md)", page.name))
        .collect();
    let _ = writeln!(text, "{}.", links.join(", "));
    text
}

/// The classes that have a page under another name.
fn second_names() -> String {
    let mut text = String::from("\n## Second names\n\n| class | is |\n| --- | --- |\n");
    let library = elements::library();
    let mut names: Vec<_> = library
        .iter()
        .flat_map(|class| class.aliases.iter().map(|alias| (*alias, class.name)))
        .collect();
    names.sort_unstable();
    for (name, own) in names {
        let _ = writeln!(text, "| {name} | [{own}]({own}.md) |");
    }
    text
}

fn render(page: &Page) -> String {
    let mut text = format!("# {}\n\n", page.name);
    let segments = if page.segments {
        " · takes [segments](README.md#segments)"
    } else {
        ""
    };
    let (group, ports, processing) = (page.group(), page.ports, page.processing);
    let _ = writeln!(
        text,
        "Group `{group}` · ports `{ports}` · processing `{processing}`{segments}\n",
    );
    let (mut code, mut see_also) = (false, false);
    for line in page::text(page).lines() {
        if line.starts_with("```") {
            code = !code;
        }
        match line.strip_prefix("# ") {
            Some(heading) if !code => {
                see_also = heading == "See also";
                let _ = writeln!(text, "## {heading}\n");
            }
            _ if see_also => {
                let _ = writeln!(text, "{}", linked(line));
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

/// A line of class names, with links to the classes' pages where there are any.
fn linked(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let name = word.trim_end_matches([',', '.']);
        match PAGES.iter().any(|page| page.name == name) {
            true => format!("[{name}]({name}.md){}", &word[name.len()..]),
            false => word.to_string(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
