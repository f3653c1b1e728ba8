//! Checks that the reference lists every attribute as in the table.

use orchestra_graph::{ATTRIBUTE_FAMILIES, ATTRIBUTES, Scopes};

const BEGIN: &str = "--test it reference` -->\n";
const END: &str = "<!-- end of attributes -->";

fn table() -> String {
    let mut table =
        String::from("\n| Attribute | On | Value | Default | What it does |\n|---|---|---|---|---|\n");
    for spec in ATTRIBUTES {
        let aliases: String = spec
            .aliases
            .iter()
            .map(|alias| format!(" (also `{alias}`)"))
            .collect();
        let default = spec
            .default
            .map_or_else(String::new, |default| format!("`{default}`"));
        let value = spec.ty.describe();
        let value = value.split(" such as").next().unwrap();
        let row = [
            format!("`{}`{aliases}", spec.name),
            positions(spec.scopes),
            value.to_owned(),
            default,
            spec.doc.to_owned(),
        ];
        table.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    for family in ATTRIBUTE_FAMILIES {
        let (name, positions) = (
            format!("{}{}", family.prefix, family.member),
            positions(family.scopes),
        );
        table.push_str(&format!(
            "| `{name}` | {positions} | text |  | {} |\n",
            family.doc
        ));
    }
    table + "\n"
}

fn positions(scopes: Scopes) -> String {
    let positions = [
        (scopes.graph, "graph"),
        (scopes.node, "node"),
        (scopes.edge, "edge"),
    ];
    let positions: Vec<&str> = positions
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, position)| *position)
        .collect();
    positions.join(", ")
}

#[test]
fn the_reference_lists_every_attribute() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../REFERENCE.md");
    let text = std::fs::read_to_string(path).unwrap();
    let start = text.find(BEGIN).unwrap() + BEGIN.len();
    let end = text.find(END).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{}{}{}", &text[..start], table(), &text[end..])).unwrap();
        return;
    }
    assert_eq!(&text[start..end], table(), "run this test with UPDATE=1");
}
