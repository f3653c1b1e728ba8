//! The documentation of a generated module: goal, picture, and tables of nodes, declared values and limits.

use std::fmt::Write as _;

use orchestra_graph::table::{Constant, EdgeRow, Pipeline};
use orchestra_graph::{Contract, Field, Graph, NodeIndex, RunLimits, declared_outputs};

use crate::picture::{self, changes_direction};

/// Maximum number of nodes for which the documentation has a picture and tables; larger ones would be unreadable.
const MAX_NODES: usize = 200;

/// The input for the documentation of a generated module.
pub(crate) struct Documentation<'d> {
    pub(crate) pipeline: &'d Pipeline,
    /// The names of the nodes in the module, in the order of the node table.
    pub(crate) variants: &'d [String],
    /// The graph for the picture. `None` if it has errors.
    pub(crate) graph: Option<&'d Graph>,
    /// The limits of its runs. `None` if it has errors.
    pub(crate) limits: Option<&'d RunLimits>,
    /// The paths of the handlers that the pipeline is bound to.
    pub(crate) handlers: Vec<String>,
}

/// Returns the documentation of the module in Markdown.
pub(crate) fn markdown(of: &Documentation<'_>) -> String {
    let (pipeline, limits) = (of.pipeline, of.limits);
    let mut text = format!(
        "\nPipeline `{}`, compiled from `{}`.\n",
        inline(&pipeline.name),
        inline(&pipeline.file)
    );
    if !pipeline.goal().is_empty() {
        let _ = write!(text, "\n**Goal:** {}\n", plain(pipeline.goal()));
    }
    let count = pipeline.nodes.len();
    if count > MAX_NODES {
        let _ = write!(text, "\n{count} nodes, {} edges.\n", pipeline.edges.len());
        return text;
    }
    let address = |id: &str| {
        let at = pipeline.stages().position(|stage| stage.id() == id)?;
        of.variants
            .get(at)
            .map(|variant| format!("nodes/enum.{variant}.html"))
    };
    if let Some(graph) = of.graph {
        let _ = write!(text, "\n{}\n", picture::markdown(graph, &address));
    }
    text.push_str("\n| Node | Kind | Label | Next |\n|---|---|---|---|\n");
    for (at, variant) in of.variants.iter().enumerate() {
        let stage = pipeline.stage(NodeIndex(at as u32));
        let next: Vec<String> = stage
            .edges()
            .map(|(_, edge)| describe_edge(pipeline, edge))
            .collect();
        let _ = writeln!(
            text,
            "| [`{}`](nodes/enum.{variant}.html) | {} | {} | {} |",
            inline(stage.id()),
            plain(stage.kind()),
            plain(stage.label()),
            next.join("<br>")
        );
    }
    if !of.handlers.is_empty() {
        let handlers: Vec<String> = of
            .handlers
            .iter()
            .map(|path| format!("[`{path}`]({path})"))
            .collect();
        let _ = write!(text, "\nIts handlers: {}.\n", handlers.join(", "));
    }
    text.push_str(&declared_values(pipeline));
    if let Some(limits) = limits {
        if let Some(Constant::String(assertions)) = pipeline.attribute("assert") {
            let _ = write!(text, "\nEvery run satisfies `{}`.\n", inline(assertions));
        }
        text.push_str(&limit_table(limits));
    }
    text
}

/// Returns the declared inputs and outputs in Markdown; empty if there are none.
fn declared_values(pipeline: &Pipeline) -> String {
    let list = |fields: &[Field]| {
        let fields = fields
            .iter()
            .map(|field| format!("`{}`", inline(&field.to_string())));
        fields.collect::<Vec<_>>().join(", ").replace('|', "\\|")
    };
    let mut text = String::new();
    let contract = Contract::from_pipeline(pipeline);
    if !contract.inputs().is_empty() {
        let _ = write!(
            text,
            "\nA run starts with the inputs {}.\n",
            list(contract.inputs())
        );
    }
    let outputs: Vec<(&str, Vec<Field>)> = pipeline
        .stages()
        .map(|stage| (stage.id(), declared_outputs(stage)))
        .filter(|(_, outputs)| !outputs.is_empty())
        .collect();
    if !outputs.is_empty() {
        text.push_str("\n| Node | Outputs |\n|---|---|\n");
    }
    for (node, outputs) in outputs {
        let _ = writeln!(text, "| `{}` | {} |", inline(node), list(&outputs));
    }
    text
}

/// Returns the table of limits in Markdown.
fn limit_table(limits: &RunLimits) -> String {
    let mut text = format!(
        "\nA run has at most {} visits and {} attempts.\n\n| Node | Visits | Attempts | Limited by |\n|---|---|---|---|\n",
        count(limits.visits),
        count(limits.attempts)
    );
    for limit in &limits.nodes {
        let (visits, attempts) = (count(limit.visits), count(limit.attempts));
        let _ = writeln!(
            text,
            "| `{}` | {visits} | {attempts} | {} |",
            inline(&limit.node),
            limit.reason
        );
    }
    text
}

fn count(number: u64) -> String {
    match number {
        u64::MAX => "any number of".to_owned(),
        number => number.to_string(),
    }
}

fn describe_edge(pipeline: &Pipeline, edge: &EdgeRow) -> String {
    let target = inline(pipeline.stage(edge.to).id());
    let mut text = format!("`{target}`");
    if !edge.label.is_empty() {
        let _ = write!(text, " ({})", plain(pipeline.text(edge.label)));
    }
    if let Some(condition) = pipeline.condition(edge) {
        let _ = write!(text, " if `{}`", inline(condition.text()).replace('|', "\\|"));
    }
    text
}

/// Returns a text as a single line that can be enclosed in backticks.
fn inline(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '`' => '\'',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

/// Returns a user's text as a short single line, with all characters escaped that have a meaning in Markdown.
pub(crate) fn plain(text: &str) -> String {
    const MAX_CHARACTERS: usize = 160;
    let mut plain = String::new();
    for character in text.chars().take(MAX_CHARACTERS) {
        match character {
            character if changes_direction(character) => {}
            character if character.is_control() => plain.push(' '),
            character => {
                if character.is_ascii_punctuation()
                    && !matches!(character, '.' | ',' | '-' | '\'' | '?' | '/')
                {
                    plain.push('\\');
                }
                plain.push(character);
            }
        }
    }
    if text.chars().nth(MAX_CHARACTERS).is_some() {
        plain.push_str(" ..");
    }
    plain
}
