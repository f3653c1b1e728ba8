//! Checks of task templates: their syntax, and the names that they use.

use std::ops::Range;

use minijinja::Environment;
use orchestra_graph::Page;

use crate::limits::exceeded_limit;
use crate::rules;
use crate::scan::{Use, names};
use crate::suggestion::{Hint, suggestion};
use crate::template::{environment, message_of, range_of};
use crate::variables::Variables;

/// Maximum number of diagnostics reported for one template.
const MAX_DIAGNOSTICS: usize = 20;

/// A diagnostic of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateDiagnostic {
    pub(crate) rule: &'static Page,
    pub(crate) message: String,
    /// The byte range in the template.
    pub(crate) range: Range<usize>,
    pub(crate) hint: Hint,
}

/// Checks a template and returns its diagnostics.
pub(crate) fn check(text: &str, variables: &Variables) -> Vec<TemplateDiagnostic> {
    if let Some((range, message)) = exceeded_limit(text) {
        let help = "write it in parts; longer texts belong in the values of the run";
        return vec![TemplateDiagnostic {
            rule: &rules::TEMPLATE_SYNTAX,
            message,
            range,
            hint: help.into(),
        }];
    }
    let environment = environment();
    let template = match environment.template_from_named_str("task", text) {
        Ok(template) => template,
        Err(error) => {
            return vec![TemplateDiagnostic {
                rule: &rules::TEMPLATE_SYNTAX,
                message: message_of(&error),
                range: range_of(&error, text),
                hint: "templates use the syntax of Jinja2: `{{ variable }}`, `{% if .. %}`, `{% for .. %}`"
                    .into(),
            }];
        }
    };
    let mut open = template.undeclared_variables(true);
    let roots = template.undeclared_variables(false);
    let global = |name: &str| environment.globals().any(|(known, _)| known == name);
    let mut diagnostics = Vec::new();
    let mut unmatched = open.clone();
    for name in names(text) {
        if diagnostics.len() == MAX_DIAGNOSTICS {
            return diagnostics;
        }
        let word = name.dotted.as_str();
        let (kind, known): (_, Vec<&str>) = match name.what {
            Use::Variable => {
                unmatched.remove(word);
                let path = name.path.join(".");
                if open.contains(word) && !global(word) && !variables.knows(&path) {
                    // Report each variable once.
                    open.remove(word);
                    diagnostics.push(unknown_variable(&path, name.range, variables));
                }
                continue;
            }
            Use::Function => {
                unmatched.remove(word);
                if !roots.contains(word) || global(word) {
                    continue;
                }
                let known = environment.globals().map(|(name, _)| name).collect();
                ("function", known)
            }
            Use::Filter if !exists(&environment, word, "filter") => ("filter", TEMPLATE_FILTERS.to_vec()),
            Use::Test if !exists(&environment, word, "test") => ("test", TEMPLATE_TESTS.to_vec()),
            Use::Filter | Use::Test => continue,
        };
        diagnostics.push(TemplateDiagnostic {
            rule: &rules::TEMPLATE_SYNTAX,
            message: format!("unknown {kind} `{word}`"),
            range: name.range,
            hint: suggestion(word, &known),
        });
    }
    // Report variables that the engine finds but the scan does not.
    for path in unmatched.into_iter().take(MAX_DIAGNOSTICS) {
        if !global(&path) && !variables.knows(&path) {
            let start = text.find(path.split('.').next().unwrap_or_default()).unwrap_or(0);
            diagnostics.push(unknown_variable(&path, start..start, variables));
        }
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.range.start);
    diagnostics
}

fn unknown_variable(path: &str, range: Range<usize>, variables: &Variables) -> TemplateDiagnostic {
    TemplateDiagnostic {
        rule: &rules::TEMPLATE_VARIABLE,
        message: format!("nothing sets the variable `{path}`"),
        range,
        hint: variables.hint(path),
    }
}

/// Returns `true` if the engine has a filter or test of a name, by evaluating the engine's tests `filter` and `test`.
fn exists(environment: &Environment<'_>, name: &str, kind: &str) -> bool {
    let expression = environment.compile_expression_owned(format!("'{name}' is {kind}"));
    let answer = expression.and_then(|expression| expression.eval(()));
    answer.is_ok_and(|answer| answer.is_true())
}

/// The filters that templates may use.
///
/// ```
/// assert!(orchestra_config::TEMPLATE_FILTERS.contains(&"default"));
/// ```
pub const TEMPLATE_FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// The tests that templates may use after `is`.
///
/// ```
/// assert!(orchestra_config::TEMPLATE_TESTS.contains(&"defined"));
/// ```
pub const TEMPLATE_TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    fn diagnostics(text: &str) -> Vec<String> {
        let mut variables = Variables::built_in();
        ["pr_diff", "plan", "api.version"]
            .iter()
            .for_each(|key| variables.add(key));
        let diagnostics = check(text, &variables).into_iter();
        diagnostics
            .map(|diagnostic| format!("{} {}", &text[diagnostic.range], diagnostic.message))
            .collect()
    }

    #[test]
    fn known_variables_are_known_in_all_their_forms() {
        let text = "{{ goal }}{{ pr_diff | trim }}{{ plan.steps[0].title }}{{ human.gate.text }}{{ human['gate'] }}\
            {% for step in plan.steps %}{{ loop.index }}{{ step.title }}{% endfor %}{{ api.version.major }}\
            {% set x = 1 %}{{ x }}{{ range(3) | join(sep=goal) if goal is defined }}{{ plan.items() }}";
        assert_eq!(diagnostics(text), Vec::<String>::new());
    }

    #[test]
    fn unknown_names_are_reported_with_their_positions() {
        for (text, diagnostic) in [
            ("a {{ pr_dif }}", "pr_dif nothing sets the variable `pr_dif`"),
            (
                "{{ human.gate.txt }}",
                "human.gate.txt nothing sets the variable `human.gate.txt`",
            ),
            (
                "{{ human['gaet'].text }}",
                "human['gaet'].text nothing sets the variable `human.gaet.text`",
            ),
            ("{{ x.items() }}", "x nothing sets the variable `x`"),
            (
                "{% for a in b %}{{ a }}{% endfor %}",
                "b nothing sets the variable `b`",
            ),
            ("{{ goal | uper }}", "uper unknown filter `uper`"),
            ("{% filter uper %}a{% endfilter %}", "uper unknown filter `uper`"),
            ("{{ goal is defnied }}", "defnied unknown test `defnied`"),
            ("{{ include('x') }}", "include unknown function `include`"),
            ("{{ debug() }}", "debug unknown function `debug`"),
        ] {
            assert_eq!(diagnostics(text), [diagnostic], "{text}");
        }
        let [diagnostic] = &*diagnostics("{% include 'x' %}") else {
            panic!("a template of its own reads no other");
        };
        assert!(diagnostic.contains("unknown statement include"), "{diagnostic}");
    }

    #[test]
    fn the_lists_for_suggestions_hold_what_the_engine_has() {
        let environment = environment();
        for name in TEMPLATE_FILTERS {
            assert!(exists(&environment, name, "filter"), "{name}");
        }
        for name in TEMPLATE_TESTS {
            assert!(exists(&environment, name, "test"), "{name}");
        }
    }
}
