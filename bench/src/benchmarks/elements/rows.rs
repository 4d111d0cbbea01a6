//! The rows of `bench/elements.click`, whose head describes the format.

/// The file.
pub struct Rows {
    /// What belongs to every row.
    prelude: &'static str,
    pub rows: Vec<Row>,
    /// Classes that no row measures, with the reason.
    pub unmeasured: Vec<(&'static str, &'static str)>,
}

/// A measured configuration.
pub struct Row {
    pub name: &'static str,
    /// The programs that run it, if not all that have its classes.
    pub programs: Option<Vec<&'static str>>,
    text: &'static str,
}

/// The rows as they are measured.
pub const FILE: &str = include_str!("../../../elements.click");

impl Row {
    /// Whether the configuration has a word.
    pub fn mentions(&self, word: &str) -> bool {
        let part = |c: char| !c.is_alphanumeric() && c != '_' && c != '$';
        self.text.split(part).any(|its| its == word)
    }

    /// The handlers that count the packets that come through.
    pub fn counts(&self) -> Vec<&'static str> {
        [
            ("Ring", "r/q.length"),
            ("drain", "drain/p/c.count"),
            ("end", "end/c.count"),
            ("out", "out.count"),
        ]
        .into_iter()
        .filter(|(word, _)| self.mentions(word))
        .map(|(_, handler)| handler)
        .collect()
    }
}

impl Rows {
    /// The rows of a file.
    ///
    /// # Errors
    /// A sentence about the first wrong line.
    pub fn read(file: &'static str) -> Result<Rows, String> {
        let mut parts = file.split("\n== ");
        let mut rows = Rows {
            prelude: parts.next().unwrap_or_default(),
            rows: Vec::new(),
            unmeasured: Vec::new(),
        };
        for part in parts {
            let (head, text) = part.split_once('\n').unwrap_or((part, ""));
            let empty = text.lines().all(|line| {
                let line = line.trim();
                line.is_empty() || line.starts_with("//")
            });
            match (head.split_once(": "), empty) {
                (Some((classes, reason)), true) => {
                    let classes = classes.split_whitespace();
                    rows.unmeasured.extend(classes.map(|class| (class, reason)));
                }
                (None, false) => {
                    let (name, programs) = match head.split_once(" (") {
                        Some((name, programs)) => {
                            let names = programs.trim_end_matches(')').split(", ");
                            (name, Some(names.collect()))
                        }
                        None => (head, None),
                    };
                    rows.rows.push(Row {
                        name,
                        programs,
                        text,
                    });
                }
                (Some(_), false) => {
                    return Err(format!(
                        "== {head}: a reason is followed by no configuration."
                    ));
                }
                (None, true) => {
                    return Err(format!(
                        "== {head}: a configuration is missing, or a reason: \"== CLASS: REASON\"."
                    ));
                }
            }
        }
        Ok(rows)
    }

    /// The configuration of `row` with these values of `$` names.
    pub fn config(&self, row: &Row, values: &[(&str, String)]) -> String {
        let mut text = String::new();
        for (name, value) in values {
            text += &format!("define(${name} {value});\n");
        }
        text += self.prelude;
        text += "\n";
        for (word, class) in [("out", "Discard"), ("drain", "Drain"), ("end", "End")] {
            if row.mentions(word) {
                text += &format!("{word} :: {class};\n");
            }
        }
        text + row.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The class that a row measures.
    fn measured_class(row: &Row) -> &'static str {
        row.name.split(',').next().unwrap_or(row.name)
    }

    #[test]
    fn every_class_is_measured_or_listed_with_a_reason() {
        let rows = Rows::read(FILE).unwrap();
        let library = elements::library();
        for class in library.iter() {
            if class.refused.is_some() {
                continue;
            }
            let measured = rows
                .rows
                .iter()
                .any(|row| measured_class(row) == class.name);
            let listed = rows.unmeasured.iter().any(|(name, _)| *name == class.name);
            assert!(
                measured != listed,
                "{}: {}, in bench/elements.click",
                class.name,
                if measured {
                    "a row and a reason against one"
                } else {
                    "neither a row nor a reason"
                }
            );
        }
    }

    #[test]
    fn rows_name_classes_that_exist_and_use_them() {
        let rows = Rows::read(FILE).unwrap();
        let library = elements::library();
        let found = |class: &str| library.find(class).is_some_and(|found| found.name == class);
        let mut names = std::collections::BTreeSet::new();
        for row in &rows.rows {
            let class = measured_class(row);
            assert!(found(class), "{class}: no such class");
            assert!(names.insert(row.name), "{}: twice", row.name);
            let used = row.mentions(class)
                || ["Discard", "InfiniteSource", "Queue", "Unqueue"].contains(&class);
            assert!(used, "{}: the class is not used", row.name);
        }
        for (class, _) in &rows.unmeasured {
            assert!(found(class), "{class}: no such class");
        }
    }

    #[test]
    fn a_row_without_a_configuration_is_an_error() {
        for file in [
            "\n== Strip\n// nothing\n",
            "\n== Strip: a reason\nIdle -> Discard\n",
        ] {
            assert!(Rows::read(file).is_err());
        }
    }
}
