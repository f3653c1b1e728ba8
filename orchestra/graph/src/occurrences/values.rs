//! The names in the values of attributes, found by the parsers that the checks use.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::value::RawValue;

use super::collect::{Collector, Text};
use super::symbol::{Form, OccurrenceRole, Symbol};
use crate::assertion::{Claim, Name, parse_assertions};
use crate::ast::Attribute;
use crate::attribute::{AttributeFamily, AttributeType, FOREIGN_CHILD, Known, Scope, key_pairs};
use crate::child_reader::joined;
use crate::condition::{Comparison, STAGES, VISITS, clauses, is_label, stage_outcome};
use crate::contract::{OUTPUTS_OF, parse_declarations, plain_key};
use crate::model::NodeIndex;
use crate::prompt_files;
use crate::stylesheet::{Selector, parse_stylesheet};
use crate::text::{comma_separated, range_of, trimmed};
use crate::value_source::ValueSource;

/// The keys, after whose prefix the id of a node follows, up to the suffix.
const NODE_KEYS: &[(&str, &str)] = &[
    (VISITS, ""),
    ("internal.retry_count.", ""),
    ("parallel.branch.", ".status"),
];

/// The keys whose value is the id of a node.
const NODE_VALUES: &[&str] = &["current_node", "last_stage", "parallel.fan_in.best_id"];

impl<'l> Collector<'l> {
    /// Adds the names in an attribute. The owner is the node that has it; `None` for graph, edges and defaults.
    pub(super) fn attribute(&mut self, attribute: &'l Attribute, scope: Scope, owner: Option<NodeIndex>) {
        let text = Text {
            text: self.text(attribute),
            literal: attribute.value_span,
        };
        let key = &*attribute.key.text;
        let known = Known::find(key).filter(|known| known.spec().scopes.contains(scope));
        if known == Some(Known::Label) && scope == Scope::Edge {
            let range = trimmed(text.text, 0..text.text.len());
            return self.label(text, range, self.from(), (OccurrenceRole::Declaration, true));
        }
        if let Some(known) = known {
            return self.known(known, text, owner);
        }
        if scope == Scope::Node && key == FOREIGN_CHILD {
            return self.file(Symbol::ChildFile, text);
        }
        match AttributeFamily::find(key).filter(|(family, _)| family.scopes.contains(scope)) {
            Some((family, _)) if *family == *AttributeFamily::TOOL_ENV_FROM => self.value_source(text),
            Some((family, word)) if *family == *AttributeFamily::OUTPUTS => {
                let literal = attribute.key.span;
                let name = Text { text: key, literal };
                self.reference(
                    Symbol::Outcome(word.to_owned()),
                    name,
                    OUTPUTS_OF.len()..key.len(),
                );
                self.declarations(text);
            }
            _ => {}
        }
    }

    fn known(&mut self, known: Known, text: Text<'l>, owner: Option<NodeIndex>) {
        match known {
            Known::Condition
            | Known::GoalGate
            | Known::StopCondition
            | Known::GuardIntervene
            | Known::GuardEscalate => self.condition(text),
            Known::ConditionValue => self.condition_value(text),
            Known::Assert => self.assertions(text),
            Known::ModelStylesheet => self.stylesheet(text),
            Known::Inputs | Known::Outputs => self.declarations(text),
            Known::OutputKeys => self.keys(text, OccurrenceRole::Declaration),
            Known::RestartKeep => self.keys(text, OccurrenceRole::Reference),
            Known::SubpipelineInputs => self.pairs(text, owner, true),
            Known::SubpipelineOutputs => self.pairs(text, owner, false),
            Known::ToolStdin => self.value_source(text),
            Known::Foreach => self.key(
                text,
                trimmed(text.text, 0..text.text.len()),
                OccurrenceRole::Reference,
            ),
            Known::DefaultChoice => {
                if let Some(gate) = owner {
                    self.answer(gate, text, trimmed(text.text, 0..text.text.len()), true);
                }
            }
            Known::Outcomes => self.words(Symbol::Outcome, text, OccurrenceRole::Declaration),
            Known::Class => self.words(Symbol::Class, text, OccurrenceRole::Declaration),
            Known::AgentTools => self.words(Symbol::Tool, text, OccurrenceRole::Reference),
            Known::SubpipelineFile | Known::ChildDotfile => self.file(Symbol::ChildFile, text),
            Known::PromptFile => self.file(Symbol::PromptFile, text),
            Known::Prompt => {
                if let Some(file) = prompt_files::named(text.text) {
                    self.path(Symbol::PromptFile, text, file);
                }
            }
            Known::Type => self.whole(Symbol::Kind, text),
            Known::Agent => self.whole(Symbol::Agent, text),
            Known::AgentRole => self.whole(Symbol::Role, text),
            Known::AgentPersona => self.whole(Symbol::Persona, text),
            Known::AgentPersonality => self.whole(Symbol::Personality, text),
            Known::AgentTask => self.whole(Symbol::Task, text),
            Known::Backend => self.whole(Symbol::Backend, text),
            Known::LlmModel => self.whole(Symbol::Model, text),
            Known::LlmProvider => self.whole(Symbol::Provider, text),
            Known::Repo => self.whole(Symbol::Repository, text),
            known if known.spec().ty == AttributeType::Node => self.whole(Symbol::Node, text),
            _ => {}
        }
    }

    /// Adds a value that is one name.
    fn whole(&mut self, symbol: fn(String) -> Symbol, text: Text<'l>) {
        let range = trimmed(text.text, 0..text.text.len());
        let name = text.text.get(range.clone()).unwrap_or_default().to_owned();
        self.reference(symbol(name), text, range);
    }

    fn words(&mut self, symbol: fn(String) -> Symbol, text: Text<'l>, role: OccurrenceRole) {
        for range in comma_separated(text.text) {
            let name = text.text.get(range.clone()).unwrap_or_default().to_owned();
            self.add(symbol(name), text, range, (role, Form::Plain));
        }
    }

    fn file(&mut self, symbol: fn(String) -> Symbol, text: Text<'l>) {
        self.path(symbol, text, text.text.trim());
    }

    fn path(&mut self, symbol: fn(String) -> Symbol, text: Text<'l>, file: &str) {
        if let Some(range) = range_of(text.text, file)
            && !file.is_empty()
        {
            self.reference(symbol(joined(self.loaded.source.name(), file)), text, range);
        }
    }

    /// Adds a context key, which may be written with `context.`.
    fn key(&mut self, text: Text<'l>, range: Range<usize>, role: OccurrenceRole) {
        let plain = plain_key(text.text.get(range.clone()).unwrap_or_default());
        let range = range.end - plain.len()..range.end;
        self.add(Symbol::Key(plain.to_owned()), text, range, (role, Form::Plain));
    }

    fn keys(&mut self, text: Text<'l>, role: OccurrenceRole) {
        for range in comma_separated(text.text) {
            self.key(text, range, role);
        }
    }

    fn declarations(&mut self, text: Text<'l>) {
        for entry in parse_declarations(text.text) {
            let range = match entry {
                Ok(entry) => Some(entry.range),
                Err(error) => error.key,
            };
            if let Some(range) = range {
                self.key(text, range, OccurrenceRole::Declaration);
            }
        }
    }

    /// Adds the keys of `subpipeline.inputs` and `subpipeline.outputs`. In the former, the new keys are those of the
    /// child.
    fn pairs(&mut self, text: Text<'l>, owner: Option<NodeIndex>, is_input: bool) {
        let graph = &self.loaded.graph;
        let file = owner.and_then(|owner| graph.node(owner).attributes.filled(Known::SubpipelineFile));
        let file = file.map(|file| joined(self.loaded.source.name(), file.trim()));
        for (new, old) in key_pairs(text.text).unwrap_or_default() {
            let is_single = std::ptr::eq(new, old);
            for (key, side) in [(new, Form::New), (old, Form::Old)] {
                let Some(range) = range_of(text.text, key) else {
                    continue;
                };
                let is_of_child = (side == Form::New) == is_input;
                let role = if side == Form::New && !is_of_child {
                    OccurrenceRole::Declaration
                } else {
                    OccurrenceRole::Reference
                };
                let form = if is_single { side } else { Form::Plain };
                let plain = plain_key(key);
                let range = range.end - plain.len()..range.end;
                if !is_of_child {
                    self.add(Symbol::Key(plain.to_owned()), text, range, (role, form));
                } else if let Some(file) = &file {
                    let (file, key) = (file.clone(), plain.to_owned());
                    self.add(Symbol::ChildKey { file, key }, text, range, (role, form));
                }
            }
        }
    }

    fn value_source(&mut self, text: Text<'l>) {
        let (symbol, name): (fn(String) -> Symbol, _) = match ValueSource::parse(text.text) {
            Some(ValueSource::Context(key)) => (Symbol::Key, key),
            Some(ValueSource::Stage { node, .. }) => (Symbol::Node, node),
            None => return,
        };
        if let Some(range) = range_of(text.text, name) {
            self.reference(symbol(name.to_owned()), text, range);
        }
    }

    fn condition(&mut self, text: Text<'l>) {
        for clause in clauses(text.text) {
            let key = text.text.get(clause.key.clone()).unwrap_or_default();
            let plain = plain_key(key);
            match node_of_key(key) {
                Some(node) => {
                    if let Some(range) = range_of(text.text, node) {
                        self.reference(Symbol::Node(node.to_owned()), text, range);
                    }
                }
                None => {
                    let range = clause.key.end - plain.len()..clause.key.end;
                    let form = if plain == key { Form::BareKey } else { Form::Plain };
                    let symbol = Symbol::Key(plain.to_owned());
                    self.add(symbol, text, range, (OccurrenceRole::Reference, form));
                }
            }
            let Some(range) = clause.literal else {
                continue;
            };
            let literal = text.text.get(range.clone()).unwrap_or_default();
            let is_whole = matches!(clause.comparison, Some(Comparison::Equal | Comparison::NotEqual));
            if !is_whole {
                continue;
            }
            if NODE_VALUES.contains(&plain) {
                // Branches of one fan-out to the same node are numbered: `lint~2`.
                let id = literal.split_once('~').map_or(literal, |(id, _)| id);
                let range = range.start..range.start + id.len();
                self.reference(Symbol::Node(id.to_owned()), text, range);
            } else if plain == "outcome" || stage_outcome(key).is_some() {
                self.reference(Symbol::Outcome(literal.to_owned()), text, range);
            } else if is_label(plain) {
                match self.unlabelled(literal) {
                    Some(id) => self.reference(Symbol::Node(id.to_owned()), text, range),
                    None => self.label(text, range, self.from(), (OccurrenceRole::Reference, false)),
                }
            }
        }
    }

    /// Adds the key of a `condition_value`: the whole text, or the key of a JSON object.
    fn condition_value(&mut self, text: Text<'l>) {
        let range = trimmed(text.text, 0..text.text.len());
        let written = text.text.get(range.clone()).unwrap_or_default();
        let object = serde_json::from_str::<BTreeMap<String, &RawValue>>(written).ok();
        let key = match &object {
            Some(object) => ["key", "check_output_key"]
                .iter()
                .find_map(|name| object.get(*name)),
            None if written.starts_with('{') => return,
            None => return self.key(text, unquoted(written, range), OccurrenceRole::Reference),
        };
        if let Some(key) = key
            && let Some(range) = range_of(text.text, key.get())
        {
            self.key(text, unquoted(key.get(), range), OccurrenceRole::Reference);
        }
    }

    fn assertions(&mut self, text: Text<'l>) {
        for assertion in parse_assertions(text.text).into_iter().flatten() {
            match assertion.claim {
                Claim::Requires {
                    target,
                    stage,
                    result,
                    since,
                } => {
                    for name in [&target, &stage].into_iter().chain(&since) {
                        self.node_name(text, name);
                    }
                    if let Some(result) = result {
                        self.result(text, &stage, &result);
                    }
                }
                Claim::Handled { stage } | Claim::AtMost { stage, .. } => self.node_name(text, &stage),
                Claim::Total { .. } => {}
            }
        }
    }

    fn node_name(&mut self, text: Text<'l>, name: &Name) {
        self.reference(Symbol::Node(name.text.clone()), text, name.range.clone());
    }

    /// Adds the result that an assertion requires of a stage: an answer at a gate, or an outcome.
    fn result(&mut self, text: Text<'l>, stage: &Name, result: &Name) {
        let Some(stage) = self.loaded.graph.find(&stage.text) else {
            return;
        };
        let written = text.text.get(result.range.clone()).unwrap_or_default();
        let Some(at) = written.find(&result.text) else {
            return;
        };
        let start = result.range.start + at;
        let range = start..start + result.text.len();
        if self.analysis.kind(stage) == crate::kind::WAIT_HUMAN {
            self.answer(stage, text, range, false);
        } else {
            self.reference(Symbol::Outcome(result.text.clone()), text, range);
        }
    }

    fn stylesheet(&mut self, text: Text<'l>) {
        for rule in parse_stylesheet(text.text).0 {
            // The selector without its `#` or `.`.
            let name = rule.range.start + 1..rule.range.end;
            match rule.selector {
                Selector::Id(id) => self.reference(Symbol::Node(id), text, name),
                Selector::Class(class) => self.reference(Symbol::Class(class), text, name),
                Selector::All | Selector::Shape(_) => {}
            }
            for declaration in rule.declarations {
                let symbol = match declaration.property {
                    Known::LlmModel => Symbol::Model(declaration.value),
                    Known::LlmProvider => Symbol::Provider(declaration.value),
                    _ => continue,
                };
                self.reference(symbol, text, declaration.range);
            }
        }
    }
}

/// Returns the range without the quotes of a JSON string.
fn unquoted(written: &str, range: Range<usize>) -> Range<usize> {
    let is_quoted = written.len() > 1 && written.starts_with('"') && written.ends_with('"');
    if is_quoted {
        range.start + 1..range.end - 1
    } else {
        range
    }
}

/// Returns the node that a key of a condition names.
fn node_of_key(key: &str) -> Option<&str> {
    if key.starts_with(STAGES) {
        return stage_outcome(key);
    }
    let plain = plain_key(key);
    let node = NODE_KEYS
        .iter()
        .find_map(|(prefix, suffix)| plain.strip_prefix(prefix)?.strip_suffix(suffix))?;
    (!node.is_empty()).then_some(node)
}
