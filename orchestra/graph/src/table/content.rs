//! The content of the graph, its nodes and its edges as lists of named values, for comparisons and fingerprints.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{
    Constant, EdgeRow, End, ErrorPolicy, FanOut, JoinPolicy, NodeRow, Pipeline, Role, Routing, Rows,
};
use crate::attribute::is_drawing_attribute;
use crate::condition::{Expression, parse_condition};
use crate::kind;
use crate::model::{EdgeIndex, NodeIndex};
use crate::value::format_duration;

/// The attributes whose whole effect is in other values of the table: the kind, the role, and the values from the
/// stylesheet.
const SPENT: &[&str] = &["class", "model_stylesheet", "shape", "type"];

/// A named value of the graph, a node or an edge.
#[derive(Clone, Debug)]
pub(super) struct Entry<'p> {
    pub(super) name: &'p str,
    pub(super) value: Constant<Cow<'p, str>>,
    /// The text to compare instead of the value: the normal form of a condition, without spaces and needless quotes.
    normal: Option<String>,
    /// `true` for a column of the row, `false` for an attribute as written.
    column: bool,
    /// The entries from which a column follows, of its owner or of the graph. If one of them changed, the change of the
    /// column is not reported separately.
    pub(super) from: &'static [&'static str],
}

impl PartialEq for Entry<'_> {
    fn eq(&self, other: &Entry<'_>) -> bool {
        let same = match (&self.normal, &other.normal) {
            (None, None) => same(&self.value, &other.value),
            (own, other) => own == other,
        };
        same && self.key() == other.key()
    }
}

/// Returns `true` if two values have the same written form.
fn same(one: &Constant<Cow<'_, str>>, other: &Constant<Cow<'_, str>>) -> bool {
    match (one, other) {
        (Constant::Float(one), Constant::Float(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

impl<'p> Entry<'p> {
    fn column(name: &'static str, value: Constant<Cow<'p, str>>, from: &'static [&'static str]) -> Entry<'p> {
        Entry {
            name,
            value,
            normal: None,
            column: true,
            from,
        }
    }

    /// Returns the key of the entry, which is unique within its owner.
    pub(super) fn key(&self) -> (&'p str, bool) {
        (self.name, self.column)
    }

    /// Writes the entry as one line.
    pub(super) fn write(&self, out: &mut String) {
        out.push_str("  ");
        if self.column {
            out.push('.');
            out.push_str(self.name);
        } else {
            quote(self.name, out);
        }
        out.push('=');
        match &self.value {
            Constant::String(text) => match &self.normal {
                Some(normal) => out.push_str(normal),
                None => quote(text, out),
            },
            Constant::Integer(number) => drop(write!(out, "{number}")),
            // Written with a decimal point, so that it differs from every whole number.
            Constant::Float(number) => drop(write!(out, "{number:?}")),
            Constant::Boolean(value) => drop(write!(out, "{value}")),
            Constant::Duration(duration) if duration.subsec_nanos() % 1_000_000 == 0 => {
                out.push_str(&format_duration(*duration));
            }
            Constant::Duration(duration) => drop(write!(out, "{}ns", duration.as_nanos())),
        }
        out.push('\n');
    }
}

/// Writes a text in quotes with escapes, so that its end is unambiguous.
pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// A pipeline with its conditions in normal form.
pub(super) struct Content<'p> {
    pipeline: &'p Pipeline,
    conditions: Vec<String>,
}

impl<'p> Content<'p> {
    pub(super) fn new(pipeline: &'p Pipeline) -> Content<'p> {
        let conditions = pipeline.conditions();
        Content {
            pipeline,
            conditions: conditions.map(|condition| normal(condition.text())).collect(),
        }
    }

    pub(super) fn pipeline(&self) -> &'p Pipeline {
        self.pipeline
    }

    /// Returns the normal form of an edge's condition; empty if the edge has none.
    pub(super) fn condition(&self, row: &EdgeRow) -> &str {
        let condition = row.condition.and_then(|at| self.conditions.get(at as usize));
        condition.map_or("", String::as_str)
    }

    /// Returns the entries of the graph.
    pub(super) fn graph(&self) -> Vec<Entry<'p>> {
        let pipeline = self.pipeline;
        let settings = &pipeline.settings;
        let mut entries = vec![
            Entry::column("name", text(&pipeline.name), &[]),
            Entry::column("start", self.id(pipeline.start), &[]),
            Entry::column("exit", self.id(pipeline.exit), &[]),
        ];
        self.attributes(pipeline.graph_attributes, true, &mut entries);
        let routing = match settings.routing {
            Routing::FiveStep => "five_step",
            Routing::FirstMatch => "first_match",
        };
        let number = |number: u32| Constant::Integer(number.into());
        entries.extend([
            Entry::column("routing", text(routing), &["routing"]),
            Entry::column(
                "max_node_visits",
                number(settings.max_node_visits),
                &["max_node_visits"],
            ),
            Entry::column(
                "failure_breaker",
                number(settings.failure_breaker),
                &["failure_breaker"],
            ),
            Entry::column(
                "max_goal_gate_reroutes",
                number(settings.max_goal_gate_reroutes),
                &["max_goal_gate_reroutes"],
            ),
            Entry::column("max_restarts", number(settings.max_restarts), &["max_restarts"]),
        ]);
        self.target("retry_target", settings.retry_target, RETRY_TARGET, &mut entries);
        let fallback = settings.fallback_retry_target;
        self.target("fallback_retry_target", fallback, FALLBACK, &mut entries);
        entries
    }

    /// Returns the entries of a node, except its id and the pipeline that it runs.
    pub(super) fn node(&self, at: NodeIndex) -> Vec<Entry<'p>> {
        let stage = self.pipeline.stage(at);
        let row = stage.row();
        let kind = stage.kind();
        let role = match row.role {
            Role::Start => "start",
            Role::Exit => "exit",
            Role::Routing => "routing",
            Role::Work => "work",
        };
        let mut entries = vec![
            Entry::column("kind", text(kind), &[]),
            Entry::column("role", text(role), &["kind"]),
        ];
        // The handler of a custom kind may read an attribute that is also a Graphviz attribute, such as `target`.
        self.attributes(row.attributes, kind::BUILT_IN.contains(&kind), &mut entries);
        self.flow(row, &mut entries);
        if let Some(fan_out) = &row.fan_out {
            self.fan_out(fan_out, &mut entries);
        }
        entries
    }

    fn flow(&self, row: &'p NodeRow, entries: &mut Vec<Entry<'p>>) {
        let flag = |name, value, from| Entry::column(name, Constant::Boolean(value), from);
        let time = |name, value, from| Entry::column(name, Constant::Duration(value), from);
        let retry = &row.retry;
        entries.extend([
            flag("on_failure_route", row.on_failure_route, &["on_failure", "kind"]),
            self.goal_gate(row),
            flag("allow_partial", row.allow_partial, &["allow_partial", "kind"]),
            Entry::column(
                "attempts",
                Constant::Integer(retry.attempts.into()),
                &["max_retries", "default_max_retries", "retry_policy"],
            ),
            time(
                "retry_initial_delay",
                retry.initial_delay,
                &["retry_initial_delay", "retry_policy"],
            ),
            Entry::column(
                "retry_backoff_factor",
                Constant::Float(retry.backoff_factor),
                &["retry_backoff_factor", "retry_policy"],
            ),
            time(
                "retry_max_delay",
                retry.max_delay,
                &["retry_max_delay", "retry_policy"],
            ),
            flag("retry_jitter", retry.jitter, &["retry_jitter", "retry_policy"]),
        ]);
        if let Some(word) = match row.end {
            End::Unstated => None,
            End::Fail => Some("fail"),
            End::Success => Some("success"),
        } {
            entries.push(Entry::column("end", text(word), &["end"]));
        }
        if let Some(limit) = row.max_visits {
            let limit = Constant::Integer(limit.into());
            entries.push(Entry::column("max_visits", limit, &["max_visits"]));
        }
        self.target("retry_target", row.retry_target, RETRY_TARGET, entries);
        self.target(
            "fallback_retry_target",
            row.fallback_retry_target,
            FALLBACK,
            entries,
        );
    }

    fn goal_gate(&self, row: &'p NodeRow) -> Entry<'p> {
        const FROM: &[&str] = &["goal_gate"];
        let at = row.goal_condition.map(|at| at as usize);
        let normal = at.and_then(|at| self.conditions.get(at));
        match self.pipeline.goal_condition(row).zip(normal) {
            Some((condition, normal)) => Entry {
                normal: Some(normal.clone()),
                ..Entry::column("goal_gate", text(condition.text()), FROM)
            },
            None => Entry::column("goal_gate", Constant::Boolean(row.goal_gate), FROM),
        }
    }

    fn fan_out(&self, fan_out: &FanOut, entries: &mut Vec<Entry<'p>>) {
        let policy = match fan_out.join_policy {
            JoinPolicy::WaitAll => "wait_all".to_owned(),
            JoinPolicy::KOfN(count) => format!("k_of_n {count}"),
            JoinPolicy::FirstSuccess => "first_success".to_owned(),
            JoinPolicy::Quorum(fraction) => format!("quorum {fraction:?}"),
        };
        let errors = match fan_out.error_policy {
            ErrorPolicy::FailFast => "fail_fast",
            ErrorPolicy::Continue => "continue",
            ErrorPolicy::Ignore => "ignore",
        };
        entries.extend([
            Entry::column("join", self.id(fan_out.join), &[]),
            Entry::column(
                "join_policy",
                Constant::String(Cow::Owned(policy)),
                &["join_policy", "join_k", "join_quorum", "kind"],
            ),
            Entry::column("error_policy", text(errors), &["error_policy", "kind"]),
            Entry::column(
                "max_parallel",
                Constant::Integer(fan_out.max_parallel.into()),
                &["max_parallel", "kind"],
            ),
        ]);
        if let Some(most) = fan_out.foreach_max {
            entries.push(Entry::column(
                "foreach_max",
                Constant::Integer(most.into()),
                &["foreach_max", "kind"],
            ));
        }
    }

    /// Returns the entries of an edge, except its ends.
    pub(super) fn edge(&self, at: EdgeIndex) -> Vec<Entry<'p>> {
        let row = self.pipeline.edge(at);
        let mut entries = Vec::new();
        if !row.label.is_empty() {
            entries.push(Entry::column("label", text(self.pipeline.text(row.label)), &[]));
        }
        if let Some(condition) = self.pipeline.condition(row) {
            entries.push(Entry {
                normal: Some(self.condition(row).to_owned()),
                ..Entry::column("condition", text(condition.text()), &[])
            });
        }
        if row.weight != 0 {
            entries.push(Entry::column("weight", Constant::Integer(row.weight), &[]));
        }
        for (name, holds) in [
            ("loop_restart", row.loop_restart),
            ("allow_revisit", row.allow_revisit),
        ] {
            if holds {
                entries.push(Entry::column(name, Constant::Boolean(true), &[]));
            }
        }
        if let Some(limit) = row.max_revisits {
            entries.push(Entry::column(
                "max_revisits",
                Constant::Integer(limit.into()),
                &[],
            ));
        }
        self.attributes(row.attributes, true, &mut entries);
        entries
    }

    /// Adds the attributes as written, sorted by name. Leaves drawing attributes out if `drawn` is `true`, because then
    /// nothing can read them.
    fn attributes(&self, rows: Rows, drawn: bool, entries: &mut Vec<Entry<'p>>) {
        let says = |name: &str| !(SPENT.contains(&name) || drawn && is_drawing_attribute(name));
        let attributes = self.pipeline.attributes(rows);
        let mut attributes: Vec<_> = attributes.filter(|(name, _)| says(name)).collect();
        attributes.sort_by_key(|(name, _)| *name);
        attributes.dedup_by_key(|(name, _)| *name);
        entries.extend(attributes.into_iter().map(|(name, value)| Entry {
            name,
            value: value.map(Cow::Borrowed),
            normal: None,
            column: false,
            from: &[],
        }));
    }

    fn target(
        &self,
        name: &'static str,
        target: Option<NodeIndex>,
        from: &'static [&'static str],
        entries: &mut Vec<Entry<'p>>,
    ) {
        if let Some(target) = target {
            entries.push(Entry::column(name, self.id(target), from));
        }
    }

    fn id(&self, node: NodeIndex) -> Constant<Cow<'p, str>> {
        text(self.pipeline.stage(node).id())
    }
}

const RETRY_TARGET: &[&str] = &["retry_target"];
const FALLBACK: &[&str] = &["fallback_retry_target"];

fn text(text: &str) -> Constant<Cow<'_, str>> {
    Constant::String(Cow::Borrowed(text))
}

/// Returns the normal form of a condition, without spaces and needless quotes and parentheses. It is derived from the
/// text, which compiled and loaded tables both have. A condition that does not parse, as in first-match routing, is
/// quoted as it is.
fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    match parse_condition(text) {
        Ok(expression) => write_expression(&expression, &mut out),
        Err(_) => quote(text, &mut out),
    }
    out
}

fn write_expression(expression: &Expression, out: &mut String) {
    let parts = |word: &str, parts: &[Expression], out: &mut String| {
        out.push('(');
        out.push_str(word);
        for part in parts {
            out.push(' ');
            write_expression(part, out);
        }
        out.push(')');
    };
    let texts = |word: &str, texts: &[&str], out: &mut String| {
        out.push('(');
        out.push_str(word);
        for text in texts {
            out.push(' ');
            quote(text, out);
        }
        out.push(')');
    };
    match expression {
        Expression::All(all) => parts("all", all, out),
        Expression::Any(any) => parts("any", any, out),
        Expression::Not(part) => parts("not", std::slice::from_ref(part), out),
        Expression::Truthy(key) => texts("true", &[key], out),
        Expression::Compare {
            key,
            comparison,
            literal,
        } => texts(comparison.sign(), &[key, literal], out),
        Expression::Matches { key, pattern } => texts("matches", &[key, pattern.as_str()], out),
        Expression::HasOutput(key) => texts("has", &[key], out),
        Expression::OutputIs { key, value } => texts("is", &[key, &value.to_string()], out),
        Expression::Failed(failed) => texts("failed", &[if *failed { "true" } else { "false" }], out),
    }
}
