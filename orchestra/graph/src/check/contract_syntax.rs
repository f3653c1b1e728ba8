//! `contract_syntax`: a declaration of inputs or outputs that cannot be read (rule T1).

use crate::check::Check;
use crate::check::declared::Written;
use crate::check::input::{Input, Once};
use crate::condition::OUTCOME_WORDS;
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "contract_syntax",
    severity: Severity::Error,
    summary: "a declaration of inputs or outputs cannot be read",
    source: "rule T1",
    text: include_str!("../../tests/rules/contract_syntax.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    for declarations in input.declarations() {
        if !once.first(declarations.attribute) {
            continue;
        }
        let owner = declarations.node.map(|node| input.id(node));
        let on_node = |diagnostic: Diagnostic| match owner {
            Some(id) => diagnostic.node(id),
            None => diagnostic,
        };
        let has_types = declarations.has_types();
        for entry in &declarations.entries {
            match entry {
                Err(error) => {
                    let span = declarations.span(input, error.range.clone());
                    let mut diagnostic =
                        Diagnostic::from_rule(&RULE, error.message.clone(), span).help(&*error.help);
                    if let Some(fix) = &error.fix {
                        diagnostic = diagnostic.fix(span, &**fix);
                    }
                    diagnostics.push(on_node(diagnostic));
                }
                // An input without a type is a name for templates.
                Ok(entry) if entry.declared.is_none() && declarations.node.is_some() => {
                    let span = declarations.span(input, entry.range.clone());
                    let key = crate::syntax::shorten(&entry.key);
                    let diagnostic =
                        Diagnostic::from_rule(&RULE, format!("the output `{key}` has no type"), span).help(
                            format!("write `{key}: text`, or `{key}: any` for a value of any type"),
                        );
                    diagnostics.push(on_node(if has_types {
                        diagnostic
                    } else {
                        diagnostic.severity(Severity::Warning).note(
                            "an output without a type is not declared; `output_keys` only requests keys",
                        )
                    }));
                }
                Ok(_) => {}
            }
        }
        diagnostics.extend(outcome(input, declarations).map(on_node));
    }
}

/// Returns the diagnostic for outputs of an outcome that the stage never has.
fn outcome(input: &Input<'_>, declarations: &Written<'_>) -> Option<Diagnostic> {
    let (word, node) = (declarations.word?, declarations.node?);
    let span = declarations.attribute.key_span;
    if word == "retry" {
        let message = "an attempt that ends with `retry` sets no outputs";
        let help = "declare the outputs of a success, or those of `fail`";
        return Some(Diagnostic::from_rule(&RULE, message, span).help(help));
    }
    let attributes = &input.node(node).attributes;
    let declared = || attributes.words(crate::attribute::Known::Outcomes);
    let is_known = OUTCOME_WORDS.contains(&word) || declared().any(|known| known == word);
    // A handler of the program may declare its outcomes in Rust.
    if is_known || !kind::BUILT_IN.contains(&input.kind(node)) {
        return None;
    }
    let message = format!("`{}` has no outcome `{word}`", input.id(node));
    let near = did_you_mean(word, OUTCOME_WORDS.iter().copied().chain(declared()));
    Some(Diagnostic::from_rule(&RULE, message, span).help(match near {
        Some(near) => format!("did you mean `outputs.{near}`?"),
        None => format!("declare it: `outcomes=\"{word}\"`"),
    }))
}
