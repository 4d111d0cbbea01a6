//! The tables of `docs/cluster.md`.

use std::fmt::Write;

use crate::balancers::BALANCERS;
use crate::filters::FILTERS;
use crate::properties::{ALL, Property};
use crate::unit::Unit;
use crate::weights::WEIGHTS;
use crate::{BUILT_IN, BuiltIn};

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn units<Kind: ?Sized>(kind: &str, rows: &[Unit<Kind>]) -> String {
    let mut table = format!("| {kind} | does | properties |\n| --- | --- | --- |\n");
    for row in rows {
        let properties = names(row.properties.iter().map(|property| property.name));
        writeln!(
            table,
            "| `{}` | {} | {properties} |",
            row.name, row.description
        )
        .unwrap();
    }
    table
}

fn policies(rows: &[BuiltIn]) -> String {
    let mut table =
        "| policy | does | weights of its own | balancer |\n| --- | --- | --- | --- |\n"
            .to_string();
    for row in rows {
        let policy = row.policy();
        let common = |name: &&String| {
            BUILT_IN
                .iter()
                .all(|row| row.policy().weights.contains_key(*name))
        };
        let own = policy.weights.keys().filter(|name| !common(name));
        let own = own.map(|name| format!("`{name}` × {}", policy.weights[name]));
        let own = own.collect::<Vec<_>>().join(", ");
        writeln!(
            table,
            "| `{}` | {} | {own} | `{}` |",
            row.name, row.description, policy.balancer
        )
        .unwrap();
    }
    table
}

fn properties(rows: &[&Property]) -> String {
    let mut table = "| property | is | values | default |\n| --- | --- | --- | --- |\n".to_string();
    for row in rows {
        let Property {
            name,
            description,
            least,
            most,
            default,
        } = row;
        writeln!(
            table,
            "| `{name}` | {description} | {least} to {most} | {default} |"
        )
        .unwrap();
    }
    table
}

/// `docs/cluster.md` from `<!-- NAME -->` to the next comment is the table. With `WRITE_DOCS=1`, it is written.
#[test]
fn the_documentation_has_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cluster.md");
    let mut page = std::fs::read_to_string(path).unwrap();
    for (name, table) in [
        ("policies", policies(BUILT_IN)),
        ("filters", units("filter", FILTERS)),
        ("weights", units("weight", WEIGHTS)),
        ("balancers", units("balancer", BALANCERS)),
        ("properties", properties(ALL)),
    ] {
        let start = format!("<!-- {name} -->\n");
        let from = page.find(&start).expect(name) + start.len();
        let to = from + page[from..].find("<!--").expect(name);
        if std::env::var_os("WRITE_DOCS").is_some() {
            page.replace_range(from..to, &table);
            std::fs::write(path, &page).unwrap();
        } else {
            assert_eq!(&page[from..to], table, "WRITE_DOCS=1 writes {path}");
        }
    }
}

/// The blocks of a language in `docs/cluster.md`.
fn blocks(language: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/cluster.md");
    let start = format!("```{language}\n");
    let parts = page.split(&start).skip(1);
    let ends = parts.filter_map(|part| part.split_once("```"));
    ends.map(|(block, _)| block.to_string()).collect()
}

#[test]
fn the_policy_of_the_documentation_is_one() {
    let blocks = blocks("toml");
    // The other one is a cluster's file.
    let block = blocks.iter().find(|block| block.starts_with("filters"));
    let policy: crate::Policy = toml::from_str(block.unwrap()).unwrap();
    crate::Scheduler::new("documented", policy, &[]).unwrap();
}

#[test]
fn the_plugin_of_the_documentation_works() {
    let blocks = blocks("python");
    let example = include_str!("../../../../examples/plugins/fewest_guests.py");
    assert_eq!(blocks, [example]);
    super::plugins::documented(example);
}
