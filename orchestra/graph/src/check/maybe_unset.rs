//! `maybe_unset`: a declared value is read where it may be missing (rules T3, T4).

use std::collections::HashSet;

use crate::analysis::{Analysis, EdgeCondition};
use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::declared::declares_values;
use crate::check::input::Input;
use crate::check::path_text::show;
use crate::check::properties::Properties;
use crate::check::value_reads::value_reads;
use crate::condition::{Expression, parse_condition};
use crate::contract::{Contract, plain_key};
use crate::diagnostic::Diagnostic;
use crate::flow::{self, End, Path, Presence, Steps};
use crate::loaded::Loaded;
use crate::lock::Positions;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;
use crate::table::{Mapping, Pipeline};
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "maybe_unset",
    severity: Severity::Error,
    summary: "a declared value is read where it may be missing",
    source: "rules T3, T4",
    text: include_str!("../../tests/rules/maybe_unset.md"),
};

/// The rule for the runs of a locked version that go on with the pipeline.
pub(crate) static RESUMED: Page = Page {
    code: "resume_unset",
    severity: Severity::Error,
    summary: "a waiting run of a locked version lacks a value that is read later",
    source: "rule U3",
    text: include_str!("../../tests/rules/resume_unset.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

/// Maximum number of stages that a diagnostic lists.
const MAX_SETTERS: usize = 3;

/// The declared values of a pipeline that may be missing when a stage begins (rule T3).
///
/// Everything that reads a value outside of the graph, such as a prompt template, asks it for a diagnostic.
///
/// ```
/// use orchestra_graph::{MissingValues, Source, load};
/// let text = r#"digraph {
///     start -> review
///     review [type=review, outputs="score: int"]
///     review -> publish
///     review -> repair [condition="outcome=fail"]
///     publish [type=publish]
///     repair -> publish -> exit
///     repair [type=repair]
/// }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let analysis = loaded.analysis();
/// let mut missing = MissingValues::new(&analysis).expect("a value is declared");
/// let node = |id| loaded.graph.find(id).expect("it is declared");
/// assert!(missing.read(node("publish"), "score", Default::default()).is_some());
/// assert!(missing.read(node("exit"), "other", Default::default()).is_none(), "not declared");
/// ```
pub struct MissingValues<'g> {
    properties: Properties<'g>,
    presence: Presence,
    /// The rule of the diagnostics.
    rule: &'static Page,
}

impl<'g> MissingValues<'g> {
    /// Follows the runs of a pipeline. Returns `None` if it declares nothing, or has errors that come first.
    pub fn new(analysis: &'g Analysis<'g>) -> Option<MissingValues<'g>> {
        if !declares_values(analysis.graph()) {
            return None;
        }
        let pipeline = Pipeline::from_analysis(analysis)?;
        let contract = Contract::from_pipeline(&pipeline);
        if contract.is_empty() {
            return None;
        }
        let steps = Steps::new(pipeline, &flow::outcomes(analysis));
        Some(MissingValues {
            properties: Properties::new(analysis),
            presence: Presence::new(steps, contract),
            rule: &RULE,
        })
    }

    /// Follows also the runs of a locked version that go on with the pipeline, from each position at which they may wait.
    /// The pipeline must have no values that are missing otherwise. The diagnostics are those of `resume_unset`.
    ///
    /// ```
    /// use orchestra_graph::{MissingValues, Source, load};
    /// let of = |text: &str| load(Source::new("a.dot", text), &Default::default());
    /// let old = of("digraph { start -> ask; ask [shape=hexagon]; ask -> publish [label=Ship]; publish [type=p]; publish -> exit }");
    /// let new = of(r#"digraph { start -> rate -> ask; rate [type=rate, outputs="score: int"]; rate -> exit [condition="outcome=fail"]
    ///     ask [shape=hexagon]; ask -> publish [label=Ship]; publish [type=p]; publish -> exit }"#);
    /// let analysis = new.analysis();
    /// let publish = new.graph.find("publish").expect("declared");
    /// let mut missing = MissingValues::new(&analysis).expect("a value is declared");
    /// assert!(missing.read(publish, "score", Default::default()).is_none());
    /// let mut missing = MissingValues::resumed(&analysis, &old).expect("a value is declared");
    /// let found = missing.read(publish, "score", Default::default()).expect("a run that waits at `ask` has no score");
    /// assert_eq!(found.code, "resume_unset");
    /// ```
    pub fn resumed(analysis: &'g Analysis<'g>, locked: &Loaded) -> Option<MissingValues<'g>> {
        let mut missing = MissingValues::new(analysis)?;
        let positions = Positions::new(locked)?;
        let mapping = Mapping::between(positions.presence.pipeline(), missing.presence.pipeline());
        let entries = positions.entries(&mapping, missing.presence.declared());
        missing.presence.enter(entries);
        missing.rule = &RESUMED;
        Some(missing)
    }

    /// Returns the contract of the pipeline.
    pub fn contract(&self) -> &Contract {
        self.presence.contract()
    }

    /// Returns whether a declared value may be missing when a run enters a node. A value that is not declared counts as
    /// missing.
    pub fn may_be_missing(&self, node: NodeIndex, key: &str) -> bool {
        let key = self.presence.declared().position(key);
        self.presence.is_incomplete() || key.is_none_or(|key| self.presence.missing_at(key, node).is_some())
    }

    /// Returns whether a declared value may be set when a run enters a node.
    ///
    /// ```
    /// use orchestra_graph::{MissingValues, Source, load};
    /// let text = r#"digraph { start -> a -> exit; a [type=a, outputs="x: int"] }"#;
    /// let loaded = load(Source::new("a.dot", text), &Default::default());
    /// let analysis = loaded.analysis();
    /// let missing = MissingValues::new(&analysis).expect("a value is declared");
    /// let node = |id| loaded.graph.find(id).expect("it is declared");
    /// assert!(missing.may_be_set(node("exit"), "x") && !missing.may_be_set(node("a"), "x"));
    /// ```
    pub fn may_be_set(&self, node: NodeIndex, key: &str) -> bool {
        let Some(key) = self.presence.declared().position(key) else {
            return false;
        };
        let states = self.presence.states_of(node).into_iter();
        let mut known = states.filter_map(|state| self.presence.known(state));
        self.presence.is_incomplete() || known.any(|known| known.may_be_set(key))
    }

    /// Returns whether a declared value may be missing when a node has ended, or has ended without a failure.
    pub(crate) fn may_be_missing_after(
        &mut self,
        node: NodeIndex,
        key: &str,
        without_failures: bool,
    ) -> bool {
        let Some(key) = self.presence.declared().position(key) else {
            return true;
        };
        for state in self.presence.states_of(node) {
            for (end, known) in self.presence.after(state) {
                let is_excluded = without_failures && self.presence.word(end) == "fail";
                if !is_excluded && known.may_be_missing(key) {
                    return true;
                }
            }
        }
        self.presence.is_incomplete()
    }

    /// Returns whether a declared value may be missing when a run has ended as a success. A value that is not declared
    /// counts as missing.
    ///
    /// ```
    /// use orchestra_graph::{MissingValues, Source, load};
    /// let text = r#"digraph { start -> a -> exit; a [type=a, outputs="x: int, y: int?"] }"#;
    /// let loaded = load(Source::new("a.dot", text), &Default::default());
    /// let analysis = loaded.analysis();
    /// let missing = MissingValues::new(&analysis).expect("values are declared");
    /// assert!(!missing.may_be_missing_at_end("x") && missing.may_be_missing_at_end("y"));
    /// ```
    pub fn may_be_missing_at_end(&self, key: &str) -> bool {
        let key = self.presence.declared().position(key);
        self.presence.is_incomplete() || key.is_none_or(|key| self.presence.may_be_missing_at_end(key))
    }

    /// Returns the error for a read of a value by a template when a stage begins. Returns `None` if the value is set on
    /// every path to the stage, or not declared. The span is the position of the read in its own text.
    pub fn read(&mut self, node: NodeIndex, key: &str, span: Span) -> Option<Diagnostic> {
        let otherwise = format!("or write `{{{{ {} | default(..) }}}}`", plain_key(key));
        self.read_at_entry(node, key, span, &otherwise)
    }

    /// Returns the error for a value that a stage gives to its child.
    pub(crate) fn read_by_child(&mut self, node: NodeIndex, key: &str, span: Span) -> Option<Diagnostic> {
        self.read_at_entry(node, key, span, "or make the input of the child optional")
    }

    fn read_at_entry(
        &mut self,
        node: NodeIndex,
        key: &str,
        span: Span,
        otherwise: &str,
    ) -> Option<Diagnostic> {
        let at = self.presence.declared().position(key)?;
        let state = self.presence.missing_at(at, node)?;
        let reader = self.properties.id(node);
        let message = format!("`{}` may not be set when `{reader}` reads it", plain_key(key));
        let diagnostic = Diagnostic::from_rule(self.rule, message, span).node(reader);
        Some(self.explain(diagnostic, at, state, None, otherwise))
    }

    /// Adds a path on which the value is missing, what sets it, and how to fix the error.
    fn explain(
        &mut self,
        diagnostic: Diagnostic,
        key: usize,
        state: usize,
        end: Option<End>,
        otherwise: &str,
    ) -> Diagnostic {
        let name = self.presence.declared().name(key).to_owned();
        let path = self.presence.path(state, end);
        let shown = show(&self.properties, &path);
        let is_resumed = self.rule.code == RESUMED.code;
        let how = match path.first() {
            Some((first, _)) if is_resumed => format!(
                "it is missing, for example, if a run of the locked version waits at `{}` and goes on: {shown}",
                self.properties.id(*first)
            ),
            _ => format!("it is missing, for example, on the path {shown}"),
        };
        let mut diagnostic = diagnostic.note(how);
        let mut helps = Vec::new();
        if is_resumed {
            helps.push("keep the old version for such runs with `orchestra lock --accept`".to_owned());
        }
        let input = self.contract().inputs().iter().find(|input| input.key == name);
        match input.map(|input| input.optional) {
            Some(true) => {
                diagnostic = diagnostic.note(format!("`{name}` is an optional input"));
                helps.push("make the input required".to_owned());
            }
            Some(false) => {
                let note =
                    format!("`{name}` is an input, but a restart keeps only the keys of `restart_keep`");
                diagnostic = diagnostic.note(note);
                helps.push(format!("add `{name}` to `restart_keep`"));
            }
            None => {}
        }
        let setters = self.setters(&name, state, &path);
        for setter in &setters {
            diagnostic = diagnostic.note(&*setter.note);
        }
        let is_restart = |(_, left): &(NodeIndex, Option<String>)| {
            left.as_deref().is_some_and(|left| left.ends_with("restart"))
        };
        if input.is_none() && path.iter().any(is_restart) {
            let note = "a restart keeps only the keys of `restart_keep`, an attribute of the graph";
            diagnostic = diagnostic.note(note);
            helps.push(format!("add `{name}` to `restart_keep`"));
        }
        // The last stage on the path that could have set the value, else any.
        let on_path = path.iter().rev().find_map(|(node, left)| {
            let setter = setters.iter().find(|setter| setter.node == *node)?;
            Some((setter, left))
        });
        let id = |setter: &Setter| self.properties.id(setter.node);
        helps.extend(match (on_path, setters.first()) {
            (Some((setter, Some(left))), _) if setter.is_certain => Some(format!(
                "lead this path elsewhere after `{}` ({left})",
                id(setter)
            )),
            (Some((setter, _)), _) => Some(format!("let `{}` always set it", id(setter))),
            (None, Some(setter)) if setter.in_branch => Some(format!(
                "read it in the branch of `{}`, or set it after the join",
                id(setter)
            )),
            (None, Some(setter)) => Some(format!("lead this path through `{}`", id(setter))),
            (None, None) => None,
        });
        helps.push(otherwise.to_owned());
        diagnostic.help(helps.join(", "))
    }

    /// Returns the stages that set a key, with a note for each.
    fn setters(&self, key: &str, reader: usize, path: &Path) -> Vec<Setter> {
        let source = self.properties.analysis.source();
        let contract = self.contract();
        let mut setters = Vec::new();
        for (at, node) in self.properties.nodes() {
            let outputs = contract.all_outputs(at);
            let Some(field) = outputs.iter().find(|field| field.key == key) else {
                continue;
            };
            let has = |word| contract.outputs(at, word).iter().any(|known| known.key == key);
            let in_branch = self.presence.is_in_other_block(at, reader);
            let how = match (field.optional, has("success")) {
                _ if in_branch => "sets it in a branch, and nothing that a branch sets reaches the join",
                _ if !path.iter().any(|(node, _)| *node == at) => "sets it, but is not on this path",
                (false, _) => "sets it only if it succeeds",
                (true, true) => "does not always set it",
                (true, false) if has("fail") => "may set it if it fails",
                (true, false) => "sets it only after some outcomes",
            };
            let position = source.position(node.span.start);
            let (line, column) = (position.line, position.column);
            setters.push(Setter {
                node: at,
                is_certain: !field.optional,
                in_branch,
                note: format!("`{}` {how} ({}:{line}:{column})", node.id, source.name()),
            });
        }
        setters.truncate(MAX_SETTERS);
        setters
    }

    /// Returns the keys that a condition on an edge of a node needs although they may be missing, each with such a state
    /// and end of the node.
    fn needed_after(&mut self, node: NodeIndex, condition: &Expression) -> Vec<(usize, usize, End)> {
        let mut found: Vec<(usize, usize, End)> = Vec::new();
        for state in self.presence.states_of(node) {
            for (end, known) in self.presence.after(state) {
                let word = self.presence.word(end).to_owned();
                for key in self
                    .presence
                    .needed(condition, Some((node, &word)), &known)
                    .iter()
                {
                    if !found.iter().any(|(found, ..)| *found == key) {
                        found.push((key, state, end));
                    }
                }
            }
        }
        found
    }

    /// Returns the keys that a condition needs when a run enters a node, although they may be missing, each with such a
    /// state.
    fn needed_at(&self, node: NodeIndex, condition: &Expression) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for state in self.presence.states_of(node) {
            let Some(known) = self.presence.known(state) else {
                continue;
            };
            for key in self.presence.needed(condition, None, known).iter() {
                if !found.iter().any(|(found, _)| *found == key) {
                    found.push((key, state));
                }
            }
        }
        found
    }

    /// Returns the error for a condition that needs a key.
    fn of_condition(
        &mut self,
        attribute: &Attribute,
        key: usize,
        state: usize,
        end: Option<End>,
    ) -> Diagnostic {
        let name = self.presence.declared().name(key).to_owned();
        let text = attribute.value.as_str().unwrap_or_default();
        let written = [format!("context.{name}"), name.clone()];
        let range = written
            .iter()
            .find_map(|key| Some((text.find(key.as_str())?, key.len())));
        let (start, length) = range.unwrap_or_default();
        let analysis = self.properties.analysis;
        let span = analysis.inside(attribute.value_span, start..start + length);
        let message = format!("`{name}` may not be set when this condition reads it");
        let diagnostic = Diagnostic::from_rule(self.rule, message, span)
            .label("a missing value counts as empty, and makes this comparison true");
        let otherwise = format!(
            "or say what counts without it: `context.{name} != '' && ..` does not hold then, and `context.{name} = '' || ..` does"
        );
        self.explain(diagnostic, key, state, end, &otherwise)
    }
}

/// A stage that sets a value.
struct Setter {
    node: NodeIndex,
    /// `true` if every success of the stage sets it.
    is_certain: bool,
    /// `true` if the stage is in a branch of a block that the reader is not in.
    in_branch: bool,
    note: String,
}

impl MissingValues<'_> {
    /// Reports the values that nodes read when a run enters them although they may be missing.
    pub(crate) fn read_by_nodes(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        for read in value_reads(self.properties.analysis) {
            let otherwise = format!(
                "or let only runs with `context.{} != \'\'` enter this stage",
                plain_key(read.key)
            );
            diagnostics.extend(self.read_at_entry(read.node, read.key, read.span, &otherwise));
        }
    }

    /// Reports the values that conditions read although they may be missing.
    pub(crate) fn read_by_conditions(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        let analysis = self.properties.analysis;
        let graph = analysis.graph();
        let mut reported: HashSet<(Span, usize)> = HashSet::new();
        for (at, edge) in graph.indexed_edges() {
            let Some(attribute) = edge.attributes.get(Known::Condition) else {
                continue;
            };
            let EdgeCondition::Parsed(condition) = analysis.condition(at) else {
                continue;
            };
            for (key, state, end) in self.needed_after(edge.from, condition) {
                if reported.insert((attribute.value_span, key)) {
                    let found = self.of_condition(attribute, key, state, Some(end));
                    diagnostics.push(found.edge(&*graph.node(edge.from).id, &*graph.node(edge.to).id));
                }
            }
        }
        // The conditions of goal gates are evaluated before the run enters the exit.
        for node in &graph.nodes {
            let Some(attribute) = node.attributes.get(Known::GoalGate) else {
                continue;
            };
            if let (Some(Ok(condition)), Some(exit)) =
                (attribute.value.as_str().map(parse_condition), analysis.exit())
            {
                for (key, state) in self.needed_at(exit, &condition) {
                    if reported.insert((attribute.value_span, key)) {
                        let found = self.of_condition(attribute, key, state, None);
                        diagnostics.push(found.node(&*node.id));
                    }
                }
            }
        }
    }
}

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(mut missing) = MissingValues::new(input.analysis) else {
        return;
    };
    missing.read_by_conditions(diagnostics);
    missing.read_by_nodes(diagnostics);
    if missing.presence.is_incomplete() {
        let attribute = input.graph().attributes.get(Known::Inputs);
        let span = attribute.map_or(input.graph().span, |attribute| attribute.value_span);
        diagnostics.push(
            Diagnostic::from_rule(&RULE, "the declared values cannot be checked", span)
                .note("too many conditions or edges meet at some nodes of the pipeline")
                .help("split these nodes, or move a part of the pipeline to a file of its own"),
        );
    }
}
