//! A graph as text for terminals.

use std::collections::BTreeMap;
use std::fmt::Write;

use ascii_dag::{Graph as Drawn, LabelOverflow, RenderOptions};
use orchestra_graph::{Edge, Graph, print};

use crate::order::back_edges;

/// Maximum number of nodes in a drawing; larger graphs are listed, because a drawing would be unreadable.
const MAX_NODES: usize = 80;
const MAX_EDGES: usize = 160;
/// Maximum width of a drawing in characters.
const MAX_WIDTH: usize = 200;
const MAX_NAME: usize = 40;
const MAX_CAPTION: usize = 32;

/// Draws a graph with characters. Edges that lead back are listed below the drawing. A graph that is too large or too
/// wide for a drawing is listed.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> work -> exit; work -> work }"), &Default::default());
/// let text = orchestra_picture::text(&loaded.graph);
/// assert!(text.contains("[work]") && text.contains("work -> work"));
/// ```
pub fn text(graph: &Graph) -> String {
    if graph.nodes.is_empty() {
        return "(no nodes)\n".to_owned();
    }
    if graph.nodes.len() > MAX_NODES || graph.edges.len() > MAX_EDGES {
        return list(graph);
    }
    let back = back_edges(graph);
    let drawing = drawing(graph, &back);
    if drawing.lines().any(|line| line.chars().count() > MAX_WIDTH) {
        return list(graph);
    }
    let mut text = String::new();
    for line in drawing.trim_end().lines().map(str::trim_end) {
        if !(line.is_empty() && text.ends_with("\n\n")) {
            let _ = writeln!(text, "{line}");
        }
    }
    if back.contains(&true) {
        text.push_str("\nBack:\n");
        for (edge, _) in graph.edges.iter().zip(&back).filter(|(_, back)| **back) {
            let _ = writeln!(
                text,
                "  {} -> {}{}",
                name(graph, edge.from.at()),
                name(graph, edge.to.at()),
                note(edge)
            );
        }
    }
    text
}

fn drawing(graph: &Graph, back: &[bool]) -> String {
    let names: Vec<String> = (0..graph.nodes.len()).map(|node| name(graph, node)).collect();
    // Edges between the same nodes share one line.
    let mut captions: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for (edge, _) in graph.edges.iter().zip(back).filter(|(_, back)| !**back) {
        let shared = captions.entry((edge.from.at(), edge.to.at())).or_default();
        shared.extend(caption(edge));
    }
    let captions: Vec<((usize, usize), String)> = captions
        .into_iter()
        .map(|(ends, captions)| (ends, captions.join(" / ")))
        .collect();
    let mut drawn = Drawn::new();
    for (index, name) in names.iter().enumerate() {
        drawn.add_node(index, name.as_str());
    }
    for ((from, to), caption) in &captions {
        let caption = Some(caption.as_str()).filter(|caption| !caption.is_empty());
        drawn.add_edge(*from, *to, caption);
    }
    let mut options = RenderOptions::plain();
    options.plan.label_policy.overflow = LabelOverflow::Legend;
    options.emit.render_legend = true;
    drawn.compute_layout().render_string(&options)
}

/// Lists every node with its outgoing edges, in the order of the file.
fn list(graph: &Graph) -> String {
    let mut outgoing: Vec<Vec<&Edge>> = vec![Vec::new(); graph.nodes.len()];
    for edge in &graph.edges {
        if let Some(edges) = outgoing.get_mut(edge.from.at()) {
            edges.push(edge);
        }
    }
    let mut text = String::new();
    for (node, edges) in outgoing.iter().enumerate() {
        let _ = writeln!(text, "{}", name(graph, node));
        for edge in edges {
            let _ = writeln!(text, "  -> {}{}", name(graph, edge.to.at()), note(edge));
        }
    }
    text
}

fn name(graph: &Graph, node: usize) -> String {
    let id = graph.nodes.get(node).map_or("", |node| &*node.id);
    shortened(id, MAX_NAME)
}

fn caption(edge: &Edge) -> Option<String> {
    let lines = print::caption(edge, usize::MAX / 4);
    (!lines.is_empty()).then(|| shortened(&lines.join(", "), MAX_CAPTION))
}

fn note(edge: &Edge) -> String {
    let caption = caption(edge).map_or_else(String::new, |caption| format!("  ({caption})"));
    if print::is_restart(edge) {
        format!("{caption}  (restarts the run)")
    } else {
        caption
    }
}

/// Returns a text as a single line of at most `max` characters.
fn shortened(text: &str, max: usize) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = characters.by_ref().take(max).collect();
    if characters.next().is_some() {
        short.pop();
        short.push('\u{2026}');
    }
    short
}
