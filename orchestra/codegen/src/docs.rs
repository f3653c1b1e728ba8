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
        let _ = write!(text, "\n**Goal:** {}\n", plain(pipeline.goal()));
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
            plain(stage.kind()),
            plain(stage.label()),
            next.join("<br>")
        );
    }
    text
}

fn way(pipeline: &Pipeline, edge: &EdgeRow) -> String {
    let target = inline(pipeline.stage(edge.to).id());
    let mut way = format!("`{target}`");
    if !edge.label.is_empty() {
        let _ = write!(way, " ({})", plain(&edge.label));
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

/// A text of the user's in which no sign has a meaning for Markdown, short enough for a line.
pub(crate) fn plain(text: &str) -> String {
    const LONGEST: usize = 160;
    let mut plain = String::new();
    for character in text.chars().take(LONGEST) {
        match character {
            // Signs that turn the direction of text are refused in comments by rustc.
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
    if text.chars().nth(LONGEST).is_some() {
        plain.push_str(" ..");
    }
    plain
}

/// The picture of a graph in Mermaid's words; none where nobody could read it.
pub(crate) fn diagram(graph: &Graph) -> Option<String> {
    (graph.nodes.len() <= MOST).then(|| print_mermaid(graph, &PictureOptions::default()))
}
