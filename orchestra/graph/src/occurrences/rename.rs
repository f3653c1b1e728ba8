//! Renaming: the edits that replace a name at all of its occurrences, or the reason why they would change its meaning.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use super::labels;
use super::occurrences;
use super::symbol::{Form, Occurrence, Symbol};
use crate::analysis::{Analysis, EXIT_IDS, EdgeCondition, START_IDS};
use crate::attribute::Known;
use crate::check::{is_lossy, reserved_node_id};
use crate::choice::{Choice, choice_named};
use crate::contract::key_error;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::label::{label_text, normalize_label};
use crate::loaded::Loaded;
use crate::lower::lower;
use crate::model::{Edge, NodeIndex};
use crate::reserved::KeyOwner;
use crate::syntax::literal::is_word;
use crate::syntax::words::is_keyword;
use crate::syntax::{Limits, is_identifier, parse, shorten};
use crate::text::{Source, Span};

/// A replacement of a part of a text.
///
/// ```
/// use orchestra_graph::{Span, TextEdit};
/// let edit = TextEdit::new(Span::new(4, 8), "work");
/// assert_eq!(edit.new_text, "work");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextEdit {
    /// The part that is replaced.
    pub span: Span,
    /// The text that replaces it.
    pub new_text: String,
}

impl TextEdit {
    /// Creates an edit.
    pub fn new(span: Span, new_text: impl Into<String>) -> TextEdit {
        TextEdit {
            span,
            new_text: new_text.into(),
        }
    }
}

/// The reason why a name cannot be replaced.
///
/// ```
/// use orchestra_graph::{Renaming, Source, Symbol, load};
/// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit; work [prompt=Go] }"), &Default::default());
/// let error = Renaming::new(&loaded, &Symbol::Node("work".into()), "my-work").unwrap_err();
/// assert_eq!(error.message, "`my-work` is not a node id");
/// assert!(error.help.contains("letters, digits and `_`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenameError {
    /// The problem, in one line.
    pub message: String,
    /// A hint on how to fix the problem.
    pub help: String,
}

impl RenameError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> RenameError {
        RenameError {
            message: message.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for RenameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for RenameError {}

/// The edits that replace a name in the text of a pipeline.
///
/// ```
/// use orchestra_graph::{Renaming, Source, Symbol, load};
/// let text = r#"digraph { graph [assert="handled(work)"]; start -> work -> exit; work [prompt=Go] }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let renaming = Renaming::new(&loaded, &Symbol::Node("work".into()), "build")?;
/// assert_eq!(renaming.apply(text), text.replace("work", "build"));
/// # Ok::<(), orchestra_graph::RenameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Renaming {
    /// The edits, in the order of the text. They do not overlap.
    pub edits: Vec<TextEdit>,
    /// What else the new name changes.
    pub notes: Vec<String>,
}

impl Renaming {
    /// Creates the edits that replace a name everywhere in a pipeline.
    ///
    /// # Errors
    /// Returns why the name cannot be replaced by this one: it is invalid, reserved or used already, the old one
    /// has a meaning of its own, or a part of the text cannot be read.
    pub fn new(loaded: &Loaded, symbol: &Symbol, name: &str) -> Result<Renaming, RenameError> {
        let found = occurrences(loaded);
        if symbol.name() == name {
            return Ok(Renaming {
                edits: Vec::new(),
                notes: Vec::new(),
            });
        }
        if let Some(lost) = loaded.report.diagnostics.iter().find(|found| hides_names(found)) {
            let position = loaded.source.position(lost.span.start);
            return Err(RenameError::new(
                format!(
                    "a part of `{}` cannot be read: {}",
                    loaded.source.name(),
                    lost.message
                ),
                format!("fix line {} first, so that every use is found", position.line),
            ));
        }
        check_name(loaded, &found, symbol, name)?;
        let notes = match symbol {
            Symbol::Node(old) => new_orders(loaded, old, name),
            _ => Vec::new(),
        };
        let mut renaming = Renaming {
            edits: edits(&loaded.source, &found, symbol, name),
            notes,
        };
        if matches!(symbol, Symbol::Label { .. }) {
            renaming.notes = new_keys(loaded, &renaming)?;
        }
        Ok(renaming)
    }

    /// Returns a text with the edits.
    pub fn apply(&self, text: &str) -> String {
        let mut changed = String::with_capacity(text.len());
        let mut at = 0;
        for edit in &self.edits {
            changed.push_str(text.get(at..edit.span.start as usize).unwrap_or_default());
            changed.push_str(&edit.new_text);
            at = edit.span.end as usize;
        }
        changed.push_str(text.get(at..).unwrap_or_default());
        changed
    }
}

/// Returns whether names may be lost because of an error.
fn hides_names(diagnostic: &Diagnostic) -> bool {
    let unread = ["assertion_syntax", "stylesheet_syntax"];
    is_lossy(diagnostic) || diagnostic.is_error() && unread.contains(&diagnostic.code)
}

/// Returns the edits at the occurrences of a symbol.
fn edits(source: &Source, found: &[Occurrence], symbol: &Symbol, name: &str) -> Vec<TextEdit> {
    // A value may contain several occurrences, and is quoted as a whole.
    let mut by_literal: BTreeMap<Span, Vec<&Occurrence>> = BTreeMap::new();
    for occurrence in found.iter().filter(|found| found.symbol == *symbol) {
        by_literal.entry(occurrence.literal).or_default().push(occurrence);
    }
    let mut edits = Vec::new();
    for (literal, found) in by_literal {
        let replaced = found.iter().filter_map(|occurrence| {
            let new_text = replacement(source, occurrence, name)?;
            Some(TextEdit::new(occurrence.span, new_text))
        });
        let inner = Renaming {
            edits: replaced.collect(),
            notes: Vec::new(),
        };
        if inner.edits.is_empty() {
            continue;
        }
        let written = source.slice(literal);
        let id = found.iter().find_map(|found| match found.form {
            Form::Id { first } => Some(first),
            _ => None,
        });
        let is_quoted = written.starts_with('"');
        let needs_quotes = |word: &str| !is_word(word) || id.is_some_and(|first| is_keyword(word, first));
        let whole = inner.shifted(literal).apply(written);
        let was_needed = is_quoted && id.is_some() && needs_quotes(symbol.name());
        if !is_quoted && needs_quotes(&whole) {
            edits.push(TextEdit::new(literal, format!("\"{whole}\"")));
        } else if was_needed && !needs_quotes(name) {
            edits.push(TextEdit::new(literal, name));
        } else {
            edits.extend(inner.edits);
        }
    }
    edits
}

impl Renaming {
    /// Returns the edits for a part of the text.
    fn shifted(&self, part: Span) -> Renaming {
        let shift = |at: u32| at.saturating_sub(part.start);
        let shifted = self.edits.iter().map(|edit| TextEdit {
            span: Span::new(shift(edit.span.start), shift(edit.span.end)),
            new_text: edit.new_text.clone(),
        });
        Renaming {
            edits: shifted.collect(),
            notes: Vec::new(),
        }
    }
}

/// Returns the text that replaces an occurrence; `None` if it is right as it is.
fn replacement(source: &Source, occurrence: &Occurrence, name: &str) -> Option<String> {
    let old = occurrence.symbol.name();
    let first_letter = |text: &str| text.chars().next().map(|c| c.to_lowercase().to_string());
    match occurrence.form {
        Form::Plain | Form::Id { .. } => Some(name.to_owned()),
        Form::ChoiceKey => (first_letter(old) != first_letter(name)).then(|| name.to_owned()),
        Form::New => Some(format!("{name}={}", source.slice(occurrence.span))),
        Form::Old => Some(format!("{}={name}", source.slice(occurrence.span))),
        Form::Literal { quoted: true } => Some(name.to_owned()),
        Form::Literal { quoted: false } if name.chars().all(labels::is_plain) => Some(name.to_owned()),
        Form::Literal { quoted: false } => Some(format!("'{name}'")),
        // A condition can read a key without `context.` only if the key has a dot.
        Form::BareKey if !name.contains('.') => Some(format!("context.{name}")),
        Form::BareKey => Some(name.to_owned()),
    }
}

/// Checks a new label.
fn check_label(loaded: &Loaded, node: Option<&str>, old: &str, label: &str) -> Result<(), RenameError> {
    let shown = shorten(label);
    let is_text = |c: char| !c.is_control() && !matches!(c, '"' | '\'' | '\\');
    if label.trim().is_empty() || label.trim() != label || !label.chars().all(is_text) {
        return Err(RenameError::new(
            format!("`{shown}` is not a label"),
            "write a text without quotes, backslashes and line breaks",
        ));
    }
    if label_text(label) != label {
        return Err(RenameError::new(
            format!("`{shown}` begins with the key of an answer"),
            "name the text alone; the key stays as it is",
        ));
    }
    let analysis = loaded.analysis();
    if labels::is_tested_in_part(&analysis) {
        return Err(RenameError::new(
            "a condition of the pipeline tests labels in a way that no renaming can follow",
            "compare whole labels with `=` or `!=`",
        ));
    }
    let is_other = normalize_label(label) != normalize_label(old);
    if is_other && labels::Labels::new(&analysis).is_taken(node, label) {
        return Err(RenameError::new(
            format!("the label `{shown}` is used already"),
            "choose another label",
        ));
    }
    Ok(())
}

/// Compares the choices of all gates before and after a renaming. Returns a note for each key that differs.
fn new_keys(loaded: &Loaded, renaming: &Renaming) -> Result<Vec<String>, RenameError> {
    let lowered = |text: &str| {
        let source = Source::new(loaded.source.name(), text);
        let (graph, _) = lower(&source, &parse(&source, &Limits::default()).file);
        (source, graph)
    };
    let (old, new) = (
        lowered(loaded.source.text()),
        lowered(&renaming.apply(loaded.source.text())),
    );
    let (before, after) = (Analysis::new(&old.1, &old.0), Analysis::new(&new.1, &new.0));
    let changed = || {
        RenameError::new(
            "with this label, an answer would lead elsewhere",
            "choose another label, or give the answers keys, as in `[K] label`",
        )
    };
    let (old, new) = (labels::all_choices(&before), labels::all_choices(&after));
    let invalid = |analysis: &Analysis<'_>| {
        let edges = analysis.graph().indexed_edges();
        edges
            .filter(|(at, _)| matches!(analysis.condition(*at), EdgeCondition::Invalid(..)))
            .count()
    };
    if old.len() != new.len() || invalid(&before) != invalid(&after) {
        return Err(changed());
    }
    let named = labels::named_keys(&before);
    let mut notes = Vec::new();
    for ((gate, old), (_, new)) in old.iter().zip(&new) {
        let leads = |choices: &[Choice]| {
            choices
                .iter()
                .map(|choice| (choice.edge, choice.to))
                .collect::<Vec<_>>()
        };
        let default = |analysis: &Analysis<'_>, choices: &[Choice]| {
            let graph = analysis.graph();
            let names = choices
                .iter()
                .map(|choice| [&*choice.key, &*choice.label, &*graph.node(choice.to).id]);
            let wanted = graph.node(*gate).attributes.filled(Known::DefaultChoice);
            wanted.and_then(|wanted| choice_named(names, wanted))
        };
        if leads(old) != leads(new) {
            return Err(changed());
        }
        for (old, new) in old.iter().zip(new).filter(|(old, new)| old.key != new.key) {
            if [&old.key, &new.key]
                .iter()
                .any(|key| named.contains(&key.to_lowercase()))
            {
                return Err(RenameError::new(
                    format!(
                        "the key of the answer `{}` would become `{}`, and the pipeline names keys",
                        new.label, new.key
                    ),
                    format!(
                        "write the key into the label first: `[{}] {}`",
                        old.key, old.label
                    ),
                ));
            }
            notes.push(format!(
                "the key of the answer `{}` is now `{}`",
                new.label, new.key
            ));
        }
        if default(&before, old) != default(&after, new) {
            return Err(changed());
        }
    }
    Ok(notes)
}

fn check_name(loaded: &Loaded, found: &[Occurrence], symbol: &Symbol, name: &str) -> Result<(), RenameError> {
    let shown = shorten(name);
    match symbol {
        Symbol::Node(old) => check_id(loaded, old, name)?,
        Symbol::Key(old) | Symbol::ChildKey { key: old, .. } => {
            if KeyOwner::of_key(old).is_some() {
                return Err(RenameError::new(
                    format!("`{old}` is a key of the engine"),
                    "only keys that stages set can be renamed",
                ));
            }
            if let Some(error) = key_error(name) {
                return Err(RenameError::new(error.message, error.help));
            }
        }
        Symbol::Label { node, label } => return check_label(loaded, node.as_deref(), label, name),
        Symbol::Outcome(old) if crate::condition::OUTCOME_WORDS.contains(&&**old) => {
            return Err(RenameError::new(
                format!("the outcome `{old}` is built in"),
                "only outcomes that a node declares with `outcomes` can be renamed",
            ));
        }
        Symbol::ChildFile(_) | Symbol::PromptFile(_) | Symbol::Kind(_) => {
            return Err(RenameError::new(
                format!("the {symbol} is not named in pipelines alone"),
                "rename what it names, and then its uses",
            ));
        }
        _ => {}
    }
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(RenameError::new(
            format!("`{shown}` is not a name"),
            "use letters, digits, `_`, `-` and `.`",
        ));
    }
    let same_kind = found
        .iter()
        .filter(|found| std::mem::discriminant(&found.symbol) == std::mem::discriminant(symbol));
    let is_same_file = |other: &Symbol| match (other, symbol) {
        (Symbol::ChildKey { file, .. }, Symbol::ChildKey { file: own, .. }) => file == own,
        _ => true,
    };
    let mut same_kind = same_kind.filter(|found| is_same_file(&found.symbol));
    if let Some(other) = same_kind.find(|found| found.symbol.name() == name) {
        let position = loaded.source.position(other.span.start);
        return Err(RenameError::new(
            format!("the {} is used already, in line {}", other.symbol, position.line),
            "choose another name",
        ));
    }
    Ok(())
}

/// Checks a new id of a node.
fn check_id(loaded: &Loaded, old: &str, id: &str) -> Result<(), RenameError> {
    let shown = shorten(id);
    if !is_identifier(id) {
        return Err(RenameError::new(
            format!("`{shown}` is not a node id"),
            "a node id is a letter or `_`, then letters, digits and `_`; text for people belongs in a `label`",
        ));
    }
    if let Some(reason) = reserved_node_id::reason(id) {
        return Err(RenameError::new(
            format!("the id `{shown}` {reason}"),
            format!("choose another id, for instance `{shown}_stage`"),
        ));
    }
    let graph = &loaded.graph;
    let mut others = graph.nodes.iter().filter(|node| *node.id != *old);
    if let Some(twin) = others.find(|node| node.id.to_lowercase() == id.to_lowercase()) {
        let message = if *twin.id == *id {
            format!("the pipeline already has a node `{id}`")
        } else {
            format!("`{id}` differs from the node `{}` only in case", twin.id)
        };
        return Err(RenameError::new(message, "choose another id"));
    }
    let analysis = loaded.analysis();
    let Some(node) = graph.find(old) else {
        return Ok(());
    };
    let ends = [
        (
            START_IDS,
            kind::START,
            "start",
            "Mdiamond",
            analysis.is_start(node),
        ),
        (EXIT_IDS, kind::EXIT, "exit", "Msquare", analysis.is_exit(node)),
    ];
    for (ids, of_kind, what, shape, is_end) in ends {
        let is_by_id = is_end && ids.contains(&old) && graph.node(node).kind() != of_kind;
        if is_by_id && !ids.contains(&id) {
            return Err(RenameError::new(
                format!("`{old}` is the {what} of the pipeline because of its id"),
                format!("set `shape={shape}` on it first"),
            ));
        }
        if !is_end && ids.contains(&id) {
            return Err(RenameError::new(
                format!("a node `{id}` is the {what} of a pipeline"),
                "choose another id",
            ));
        }
    }
    Ok(())
}

/// Returns a note for each node whose choice between edges of equal weight depends on the id: the lowest one wins.
fn new_orders(loaded: &Loaded, old: &str, new: &str) -> Vec<String> {
    let (graph, analysis) = (&loaded.graph, loaded.analysis());
    let Some(renamed) = graph.find(old) else {
        return Vec::new();
    };
    let is_first_match = graph.attributes.text(Known::Routing) == Some("first_match");
    let mut seen: HashSet<NodeIndex> = HashSet::new();
    let mut notes = Vec::new();
    for into in analysis.incoming(renamed) {
        let edge = graph.edge(*into);
        let chosen = !matches!(analysis.kind(edge.from), kind::WAIT_HUMAN | kind::START);
        if is_first_match || !chosen || !seen.insert(edge.from) {
            continue;
        }
        let is_tie = |other: &Edge| other.to != renamed && other.weight() == edge.weight();
        let mut others = analysis
            .outgoing(edge.from)
            .iter()
            .map(|other| graph.edge(*other));
        let id = |other: &Edge| &*graph.node(other.to).id;
        let swapped = others.find(|other| is_tie(other) && (old < id(other)) != (new < id(other)));
        if let Some(other) = swapped {
            let (from, other) = (&graph.node(edge.from).id, id(other));
            let first = if new < other { new } else { other };
            notes.push(format!(
                "where nothing else decides between `{new}` and `{other}` after `{from}`, the lower id decides: now `{first}`"
            ));
        }
    }
    notes
}
