//! The documentation of a generated module: goal, diagram, and tables of nodes, declared values and limits.

use std::fmt::Write as _;

use orchestra_graph::table::{Constant, EdgeRow, Pipeline};
use orchestra_graph::{
    Contract, Field, Graph, NodeIndex, PictureOptions, RunLimits, declared_outputs, print_mermaid,
};

/// Maximum number of nodes for which the documentation has a diagram and a table; larger ones would be unreadable.
const MAX_NODES: usize = 200;

/// Returns the documentation of the module in Markdown.
pub(crate) fn markdown(pipeline: &Pipeline, diagram: Option<String>, limits: Option<&RunLimits>) -> String {
    let mut text = format!(
        "Pipeline `{}`, compiled from `{}`.\n",
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
    if let Some(diagram) = diagram {
        let _ = write!(
            text,
            "\n```mermaid\n{}\n```\n",
            diagram.trim_end().replace("```", "` ` `")
        );
    }
    text.push_str("\n| Node | Kind | Label | Next |\n|---|---|---|---|\n");
    for at in 0..count {
        let stage = pipeline.stage(NodeIndex(at as u32));
        let next: Vec<String> = stage
            .edges()
            .map(|(_, edge)| describe_edge(pipeline, edge))
            .collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            inline(stage.id()),
            plain(stage.kind()),
            plain(stage.label()),
            next.join("<br>")
        );
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
            // rustc refuses comments with characters that change the direction of text.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
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

/// Returns the diagram of a graph in Mermaid syntax, or `None` if the graph is too large to be readable.
pub(crate) fn diagram(graph: &Graph) -> Option<String> {
    (graph.nodes.len() <= MAX_NODES).then(|| print_mermaid(graph, &PictureOptions::default()))
}
