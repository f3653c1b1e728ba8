//! `output_conflict`: two declarations give a key different types (rule T1).

use std::collections::HashMap;

use crate::check::Check;
use crate::check::input::Input;
use crate::contract::ValueType;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

static RULE: Page = Page {
    code: "output_conflict",
    severity: Severity::Error,
    summary: "two declarations give a key different types",
    source: "rule T1",
    text: include_str!("../../tests/rules/output_conflict.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let declarations = input.declarations();
    let mut types: HashMap<&str, (&ValueType, Span, String)> = HashMap::new();
    for written in declarations {
        for entry in written.entries.iter().flatten() {
            let Some((value_type, _)) = &entry.declared else {
                continue;
            };
            let span = written.span(input, entry.range.clone());
            let Some((first, at, owner)) = types.get(entry.key.as_str()) else {
                types.insert(&entry.key, (value_type, span, written.owner(input)));
                continue;
            };
            if *first == value_type {
                continue;
            }
            let message = format!("`{}` is declared as `{value_type}` and as `{first}`", entry.key);
            let diagnostic = Diagnostic::from_rule(&RULE, message, span)
                .label(format!("`{value_type}` here"))
                .related(*at, format!("{owner} declares it as `{first}`"))
                .help("give the key one type, or use two keys");
            diagnostics.push(match written.node {
                Some(node) => diagnostic.node(input.id(node)),
                None => diagnostic,
            });
        }
    }
}
