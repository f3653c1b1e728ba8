//! Completion inside the template tags of prompts and tasks, such as `{{ stages.build.output }}`.

use orchestra_config::{STAGE_FIELDS, TEMPLATE_FILTERS, TEMPLATE_TESTS, variable_description};
use orchestra_graph::{NodeIndex, Span, is_identifier};

use crate::candidate::{Candidate, Candidates, Completing};
use crate::protocol::CompletionItemKind;
use crate::template_scope::TemplateScope;

/// The namespace of the results of stages.
const STAGES: &str = "stages.";

/// The words that begin a statement of a template.
const STATEMENTS: &[(&str, &str)] = &[
    ("if", "a part that is written only if something holds"),
    ("elif", "a further case of an `if`"),
    ("else", "the part for all other cases"),
    ("endif", "the end of an `if`"),
    ("for", "a part that is written for each item of a list"),
    ("endfor", "the end of a `for`"),
    ("set", "a variable of the template"),
];

/// The words after which an expression goes on.
const OPERATORS: &[&str] = &["and", "or", "not", "in", "if", "elif", "else"];

/// The part of a template tag at the end of an incomplete text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateCursor<'t> {
    /// A variable, with its members.
    Variable { word: &'t str },
    /// A filter after `|`.
    Filter { word: &'t str },
    /// A test after `is`.
    Test { word: &'t str },
    /// The word that begins a statement.
    Statement { word: &'t str },
    /// Text around the tags, or a part of a tag in which nothing is named.
    Other,
}

impl<'t> TemplateCursor<'t> {
    /// Finds the part at the end of a text, which is the part of a template before the cursor.
    pub(crate) fn at_end(before: &'t str) -> TemplateCursor<'t> {
        match open_tag(before) {
            Some((tag, is_statement)) => in_tag(tag, is_statement),
            None => TemplateCursor::Other,
        }
    }

    /// Returns the word that is being typed.
    pub(crate) fn word(self) -> &'t str {
        match self {
            TemplateCursor::Variable { word }
            | TemplateCursor::Filter { word }
            | TemplateCursor::Test { word }
            | TemplateCursor::Statement { word } => word,
            TemplateCursor::Other => "",
        }
    }

    /// Returns what fits at the position.
    pub(crate) fn candidates(self, scope: &TemplateScope) -> Vec<Candidate> {
        let named = |names: &[&str], detail: &str| -> Vec<Candidate> {
            let names = names.iter();
            names
                .map(|name| Candidate::new(*name, CompletionItemKind::FUNCTION, detail))
                .collect()
        };
        match self {
            TemplateCursor::Variable { word } => variables(scope, word),
            TemplateCursor::Filter { .. } => named(TEMPLATE_FILTERS, "filter"),
            TemplateCursor::Test { .. } => named(TEMPLATE_TESTS, "test"),
            TemplateCursor::Statement { .. } => {
                let words = STATEMENTS.iter();
                words
                    .map(|(word, doc)| Candidate::new(*word, CompletionItemKind::KEYWORD, *doc))
                    .collect()
            }
            TemplateCursor::Other => Vec::new(),
        }
    }
}

/// Returns the candidates inside a template tag of a prompt; none in the text around the tags.
pub(crate) fn template(
    completing: &Completing<'_>,
    node: Option<NodeIndex>,
    before: &str,
    quoted: bool,
) -> Candidates {
    let cursor = TemplateCursor::at_end(before);
    if !quoted || cursor == TemplateCursor::Other {
        return completing.whole(Vec::new());
    }
    let mut scope = TemplateScope::default();
    scope.add(&completing.opened.analysis, node);
    completing.part(cursor.candidates(&scope), cursor.word())
}

/// Returns the candidates inside a template tag of a file.
pub(crate) fn template_in_file(text: &str, offset: u32, scope: &TemplateScope) -> Candidates {
    let before = text.get(..offset as usize).unwrap_or_default();
    let cursor = TemplateCursor::at_end(before);
    let rest = text.get(offset as usize..).unwrap_or_default();
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let typed = u32::try_from(cursor.word().len()).unwrap_or_default();
    let is_named = cursor != TemplateCursor::Other;
    let length = if is_named {
        u32::try_from(length).unwrap_or_default()
    } else {
        0
    };
    Candidates {
        list: cursor.candidates(scope),
        replaced: Span::new(offset.saturating_sub(typed), offset + length),
    }
}

/// Returns whether a character is part of a variable with its members.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

/// Returns the text of the tag that is open at the end of a text, and whether it is a statement.
fn open_tag(before: &str) -> Option<(&str, bool)> {
    let opened = before.rfind("{{").max(before.rfind("{%"))?;
    let tag = before.get(opened + 2..)?;
    let is_statement = before.get(opened..)?.starts_with("{%");
    let is_open = !tag.contains("}}") && !tag.contains("%}");
    is_open.then_some((tag, is_statement))
}

fn in_tag(tag: &str, is_statement: bool) -> TemplateCursor<'_> {
    let word = typed(tag);
    let before = tag.get(..tag.len() - word.len()).unwrap_or_default();
    if is_in_string(before) {
        return TemplateCursor::Other;
    }
    let before = before.trim_end().trim_start_matches('-').trim_start();
    if is_statement && before.is_empty() {
        return TemplateCursor::Statement { word };
    }
    let last = typed(before);
    let is_operator = OPERATORS.contains(&last) && last.len() <= before.len();
    match before.chars().next_back() {
        Some('|') => TemplateCursor::Filter { word },
        _ if last == "is" || last == "not" && before.trim_end_matches("not").trim_end().ends_with(" is") => {
            TemplateCursor::Test { word }
        }
        // After an operand there is an operator, and after `set`, `for` and the like a new name.
        Some(c) if (is_part(c) || matches!(c, ')' | ']' | '"' | '\'')) && !is_operator => {
            TemplateCursor::Other
        }
        // Members of anything but a path are not known.
        _ if word.starts_with('.') => TemplateCursor::Other,
        _ => TemplateCursor::Variable { word },
    }
}

/// Returns the path that is being typed at the end of a tag.
fn typed(tag: &str) -> &str {
    let start = tag.rfind(|c| !is_part(c)).map_or(0, |at| {
        let rest = tag.get(at..).and_then(|rest| rest.chars().next());
        at + rest.map_or(1, char::len_utf8)
    });
    tag.get(start..).unwrap_or_default()
}

/// Returns whether a string is open at the end of a tag.
fn is_in_string(tag: &str) -> bool {
    let mut quote = None;
    for c in tag.chars() {
        quote = match (quote, c) {
            (Some(open), c) if c == open => None,
            (None, '"' | '\'') => Some(c),
            (quote, _) => quote,
        };
    }
    quote.is_some()
}

fn variables(scope: &TemplateScope, word: &str) -> Vec<Candidate> {
    if let Some(path) = word.strip_prefix(STAGES) {
        return match path.split_once('.') {
            Some((id, _)) if scope.stages.contains_key(id) => {
                let fields = STAGE_FIELDS.iter().map(|field| {
                    let path = format!("{STAGES}{id}.{field}");
                    Candidate::new(path, CompletionItemKind::FIELD, "result of the latest visit")
                        .doc(variable_description(field).unwrap_or_default())
                });
                fields.collect()
            }
            Some(_) => Vec::new(),
            None => {
                let stages = scope.stages.iter().filter(|(id, _)| is_identifier(id));
                stages
                    .map(|(id, stage)| {
                        let rank = if stage.is_own { 6 } else { 1 };
                        Candidate::new(format!("{STAGES}{id}"), CompletionItemKind::CLASS, stage.detail)
                            .rank(rank)
                    })
                    .collect()
            }
        };
    }
    let mut list: Vec<Candidate> = Vec::new();
    for (name, variable) in &scope.variables {
        // A key whose parts are no names needs brackets.
        if !name.split('.').all(is_identifier) {
            continue;
        }
        let candidate = Candidate::new(name, CompletionItemKind::VARIABLE, &*variable.detail);
        list.push(candidate.doc(&*variable.doc).rank(variable.rank));
    }
    if !scope.stages.is_empty() {
        list.push(Candidate::new(STAGES, CompletionItemKind::MODULE, "results of stages").rank(1));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::TemplateCursor::{Filter, Other, Statement, Test, Variable};
    use super::*;

    #[test]
    fn each_part_of_a_tag_is_found() {
        for (before, expected) in [
            ("Is {{ pa", Variable { word: "pa" }),
            ("Is {{ a.b }} and {{", Variable { word: "" }),
            ("{{- pa", Variable { word: "pa" }),
            (
                "{% if stages.build.ou",
                Variable {
                    word: "stages.build.ou",
                },
            ),
            ("{% for x in it", Variable { word: "it" }),
            ("{% for x", Other),
            ("{% set x", Other),
            ("{% set x = sc", Variable { word: "sc" }),
            ("{% en", Statement { word: "en" }),
            ("{%- ", Statement { word: "" }),
            ("{{ a|up", Filter { word: "up" }),
            ("{{ a | ", Filter { word: "" }),
            ("{{ a|upper ~ ", Variable { word: "" }),
            ("{{ a is de", Test { word: "de" }),
            ("{{ a is not de", Test { word: "de" }),
            ("{{ not de", Variable { word: "de" }),
            ("{{ a ", Other),
            ("{{ a b", Other),
            ("{{ f(a, b", Variable { word: "b" }),
            ("{{ a[0].b", Other),
            ("{{ a | default(\"no", Other),
            ("{{ schön", Variable { word: "schön" }),
            ("Is {{ pa }} right", Other),
            ("Is { pa", Other),
        ] {
            assert_eq!(TemplateCursor::at_end(before), expected, "{before}");
        }
    }
}
