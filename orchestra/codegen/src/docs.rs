//! The documentation of a generated module: goal, diagram, table of nodes.

use std::fmt::Write as _;

use orchestra_graph::table::{EdgeRow, Pipeline};
use orchestra_graph::{Graph, NodeIndex, PictureOptions, print_mermaid};

/// Pipelines with more nodes are documented without diagram and table: nobody would read them.
const MOST: usize = 200;

/// The text of the module's documentation, in Markdown.
pub(crate) fn of(pipeline: &Pipeline, diagram: Option<String>) -> String {
    let mut text = format!(
        "Pipeline `{}`, compiled from `{}`.\n",
        inline(&pipeline.name),
        inline(&pipeline.file)
    );
    if !pipeline.goal().is_empty() {
        let _ = write!(text, "\n**Goal:** {}\n", inline(pipeline.goal()));
    }
    let count = pipeline.nodes.len();
    if count > MOST {
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
        let next: Vec<String> = stage.edges().map(|(_, edge)| way(pipeline, edge)).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            inline(stage.id()),
            cell(stage.kind()),
            cell(stage.label()),
            next.join("<br>")
        );
    }
    text
}

fn way(pipeline: &Pipeline, edge: &EdgeRow) -> String {
    let target = inline(pipeline.stage(edge.to).id());
    let mut way = format!("`{target}`");
    if !edge.label.is_empty() {
        let _ = write!(way, " ({})", cell(&edge.label));
    }
    if let Some(condition) = pipeline.condition(edge) {
        let _ = write!(way, " if `{}`", inline(&condition.text).replace('|', "\\|"));
    }
    way
}

/// A text for one line, inside back quotes.
fn inline(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '`' => '\'',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

/// A text for a cell of a table, where no sign has a meaning.
fn cell(text: &str) -> String {
    let mut cell = String::new();
    for character in text.chars().take(120) {
        if character.is_control() {
            cell.push(' ');
            continue;
        }
        if matches!(character, '|' | '*' | '_' | '[' | ']' | '<' | '>' | '`' | '\\') {
            cell.push('\\');
        }
        cell.push(character);
    }
    cell
}

/// The picture of a graph in Mermaid's words; none where nobody could read it.
pub(crate) fn diagram(graph: &Graph) -> Option<String> {
    (graph.nodes.len() <= MOST).then(|| print_mermaid(graph, &PictureOptions::default()))
}
