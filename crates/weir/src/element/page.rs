//! A manual page as text: the class's declaration, as Markdown.

use std::fmt::Write as _;

use router::{ArgumentDoc, HandlerDoc, HandlerFlags, Page};

/// The sections of a page, each with a heading `# …`, after the description.
pub fn text(page: &Page) -> String {
    let (description, sections) = split(page.text);
    let mut text = description.trim_end().to_string() + "\n";
    for (heading, generated) in [
        ("Arguments", arguments(page)),
        ("Ports", ports(page)),
        ("Handlers", handlers(page)),
    ] {
        let own = section(sections, heading);
        let _ = write!(text, "\n# {heading}\n");
        let body = [generated.trim_end(), own.trim()].join("\n");
        let body = match body.trim() {
            "" if heading == "Handlers" => "None of its own.",
            "" => "None.",
            body => body,
        };
        let _ = writeln!(text, "{body}");
    }
    for heading in headings(sections) {
        if !["Arguments", "Ports", "Handlers"].contains(&heading) {
            let _ = write!(
                text,
                "\n# {heading}\n{}\n",
                section(sections, heading).trim()
            );
        }
    }
    text
}

/// The description, and the sections after it.
fn split(text: &str) -> (&str, &str) {
    match text.find("\n# ") {
        Some(at) => text.split_at(at + 1),
        None => (text, ""),
    }
}

fn headings(sections: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    sections.lines().filter_map(move |line| {
        code ^= line.starts_with("```");
        line.strip_prefix("# ").filter(|_| !code)
    })
}

/// What stands under a heading.
fn section<'t>(sections: &'t str, heading: &str) -> &'t str {
    let start = format!("# {heading}\n");
    let Some(at) = sections.find(&start) else {
        return "";
    };
    let rest = &sections[at + start.len()..];
    rest.find("\n# ").map_or(rest, |end| &rest[..end])
}

/// A usage line and a line for each argument.
fn arguments(page: &Page) -> String {
    if page.arguments.is_empty() {
        return String::new();
    }
    let usage: Vec<_> = page.arguments.iter().map(usage).collect();
    let mut text = format!("`{}({})`\n\n", page.name, usage.join(", "));
    for argument in &page.arguments {
        let kind = [
            Some(argument.kind).filter(|kind| !kind.is_empty()),
            argument.default,
        ];
        let kind: Vec<_> = kind.into_iter().flatten().collect();
        let kind = match kind[..] {
            [] => String::new(),
            _ => format!(" ({})", kind.join(", ")),
        };
        let _ = writeln!(
            text,
            "- `{}`{kind}: {}",
            argument.keyword,
            sentence(argument.text)
        );
    }
    text
}

/// An argument in the usage line: by position, or with its keyword.
fn usage(argument: &ArgumentDoc) -> String {
    let keyword = argument.keyword;
    let name = if argument.positional {
        keyword.to_string()
    } else {
        format!("{keyword} …")
    };
    if argument.mandatory {
        name
    } else {
        format!("[{name}]")
    }
}

/// A doc comment as the end of a line.
fn sentence(text: &str) -> String {
    let text = text.replace('\n', " ");
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            format!("{}{second}{}", first.to_lowercase(), letters.as_str())
        }
        _ => text,
    }
}

/// A line for each handler; what reads and what writes one handler is one line.
fn handlers(page: &Page) -> String {
    let mut text = String::new();
    for (i, handler) in page.handlers.iter().enumerate() {
        let same = |other: &&HandlerDoc| other.name == handler.name;
        if page.handlers[..i].iter().any(|other| same(&other)) {
            continue;
        }
        let all: Vec<_> = page.handlers.iter().filter(same).collect();
        let flags = all
            .iter()
            .fold(HandlerFlags::NONE, |flags, doc| flags.with(doc.flags));
        let mut texts: Vec<_> = all.iter().map(|doc| sentence(doc.text)).collect();
        texts.dedup();
        let texts = texts.join(" Written: ");
        let _ = writeln!(text, "- `{}` ({}): {texts}", handler.name, access(flags));
    }
    text
}

fn access(flags: HandlerFlags) -> String {
    let words = [
        (HandlerFlags::READ, "read"),
        (HandlerFlags::PARAMETER, "with a parameter"),
        (HandlerFlags::WRITE, "write"),
        (HandlerFlags::DEPRECATED, "deprecated"),
    ];
    let words = words.into_iter().filter(|(flag, _)| flags.has(*flag));
    words.map(|(_, word)| word).collect::<Vec<_>>().join(", ")
}

/// One side's ports: how many, of which kinds, what for.
struct Side<'p> {
    word: &'static str,
    least: usize,
    /// `None`: any number.
    most: Option<usize>,
    kinds: Vec<&'static str>,
    texts: &'p [&'static str],
    /// As many as there are on the other side.
    equal: bool,
}

impl Side<'_> {
    fn new<'p>(
        word: &'static str,
        count: &str,
        processing: &str,
        texts: &'p [&'static str],
    ) -> Side<'p> {
        let (least, most) = match count.split_once('-') {
            Some((least, most)) => (least, most.parse().ok()),
            None => (count, count.parse().ok()),
        };
        let kinds = processing.chars().filter_map(|code| match code {
            'h' => Some("push"),
            'l' => Some("pull"),
            'a' => Some("agnostic"),
            _ => None,
        });
        Side {
            word,
            least: least.parse().unwrap_or(0),
            most,
            kinds: kinds.collect(),
            texts,
            equal: count.starts_with('='),
        }
    }

    fn kind(&self, port: usize) -> &'static str {
        let kind = self.kinds.get(port).or(self.kinds.last());
        kind.copied().unwrap_or("agnostic")
    }

    /// `one or two outputs`.
    fn number(&self) -> String {
        let words = ["no", "one", "two", "three", "four"];
        let word = |n: usize| words.get(n).map_or(n.to_string(), |word| word.to_string());
        let plural = if self.most == Some(1) { "" } else { "s" };
        let number = match (self.least, self.most) {
            _ if self.equal => "as many".into(),
            (0, None) => "any number of".into(),
            (least, None) => format!("{} or more", word(least)),
            (0, Some(0)) => "no".into(),
            (least, Some(most)) if least == most => word(most),
            (least, Some(most)) if most == least + 1 => {
                format!("{} or {}", word(least), word(most))
            }
            (least, Some(most)) => format!("{} to {}", word(least), word(most)),
        };
        format!("{number} {}{plural}", self.word)
    }

    /// A line for each port that has a text.
    fn lines(&self) -> String {
        let mut text = String::new();
        let many = self.most != Some(self.texts.len()) && self.texts.len() == 1;
        for (port, what) in self.texts.iter().enumerate() {
            let kind = self.kind(port);
            let _ = if many && self.most != Some(1) {
                writeln!(text, "- {}s ({kind}): {what}", self.word)
            } else if port >= self.least {
                writeln!(text, "- {} {port} ({kind}, optional): {what}", self.word)
            } else {
                writeln!(text, "- {} {port} ({kind}): {what}", self.word)
            };
        }
        text
    }
}

/// The numbers and kinds of inputs and outputs, and their purposes.
fn ports(page: &Page) -> String {
    let (inputs, outputs) = page
        .ports
        .split_once('/')
        .unwrap_or((page.ports, page.ports));
    let kinds = page.processing.split_once('/');
    let (taking, giving) = kinds.unwrap_or((page.processing, page.processing));
    let inputs = Side::new("input", inputs, taking, page.inputs);
    let outputs = Side::new("output", outputs, giving, page.outputs);
    let mut number = format!("{}, {}", inputs.number(), outputs.number());
    let sides = [&inputs, &outputs];
    let mut kinds: Vec<_> = sides
        .iter()
        .filter(|side| side.most != Some(0))
        .flat_map(|side| (0..side.kinds.len()).map(|port| side.kind(port)))
        .collect();
    kinds.dedup();
    if let [kind] = kinds[..] {
        let _ = write!(number, ", {kind}");
    } else if page.inputs.is_empty() && page.outputs.is_empty() {
        for side in sides.iter().filter(|side| side.most != Some(0)) {
            let _ = write!(number, "; {}s {}", side.word, side.kinds.join(", then "));
        }
    }
    let first = number.remove(0).to_uppercase();
    let lines = inputs.lines() + &outputs.lines();
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!("{first}{number}.\n{gap}{lines}")
}
