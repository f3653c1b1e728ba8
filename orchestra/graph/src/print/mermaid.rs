//! Pictures as Mermaid, for Markdown.

use std::fmt::Write;

use super::{Clusters, NodeState, PictureOptions, caption, cluster_label, faces, is_restart, wrap};
use crate::model::Graph;

/// Prints a graph as a Mermaid flowchart.
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load, print_mermaid};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// let text = print_mermaid(&loaded.graph, &PictureOptions::default());
/// assert!(text.contains("n0 --> n1"));
/// ```
pub fn print_mermaid(graph: &Graph, options: &PictureOptions) -> String {
    let direction = graph
        .attributes
        .find("rankdir")
        .map(|attribute| attribute.value.to_string());
    let direction = direction
        .as_deref()
        .filter(|word| matches!(*word, "LR" | "RL" | "BT"))
        .unwrap_or("TD");
    let mut out = format!("flowchart {direction}\n");
    let faces = faces(graph, options);
    let mut clusters = Clusters::new(graph);
    // The open boxes, innermost last. Mermaid closes each with `end`.
    let mut open: Vec<std::vec::IntoIter<u32>> = Vec::new();
    let mut inside = None;
    loop {
        let pad = "    ".repeat(open.len() + 1);
        for node in clusters.nodes.remove(&inside).unwrap_or_default() {
            if let Some(face) = faces.get(node.at()) {
                let (left, right) = brackets(face.shape);
                let _ = writeln!(out, "{pad}n{}{left}\"{}\"{right}", node.0, text(&face.lines));
            }
        }
        open.push(clusters.children.remove(&inside).unwrap_or_default().into_iter());
        let next = loop {
            match open.last_mut().map(Iterator::next) {
                None => break None,
                Some(Some(child)) => break Some(child),
                Some(None) => {
                    open.pop();
                    if !open.is_empty() {
                        let _ = writeln!(out, "{}end", "    ".repeat(open.len()));
                    }
                }
            }
        };
        let Some(child) = next else {
            break;
        };
        let label = text(&wrap(cluster_label(graph, child).unwrap_or_default(), 60));
        let label = if label.is_empty() { " ".to_owned() } else { label };
        let _ = writeln!(out, "{}subgraph s{child}[\"{label}\"]", "    ".repeat(open.len()));
        inside = Some(child);
    }
    for edge in &graph.edges {
        let arrow = if is_restart(edge) { "-.->" } else { "-->" };
        let caption = caption(edge, options.wrap);
        let _ = if caption.is_empty() {
            writeln!(out, "    n{} {arrow} n{}", edge.from.0, edge.to.0)
        } else {
            writeln!(
                out,
                "    n{} {arrow}|\"{}\"| n{}",
                edge.from.0,
                text(&caption),
                edge.to.0
            )
        };
    }
    for state in NodeState::ALL {
        let nodes: Vec<String> = faces
            .iter()
            .enumerate()
            .filter(|(_, face)| face.state == Some(state))
            .map(|(at, _)| format!("n{at}"))
            .collect();
        if !nodes.is_empty() {
            let paint = state.paint();
            let _ = writeln!(
                out,
                "    classDef {state} fill:{},stroke:{},color:{}",
                paint.fill, paint.line, paint.text
            );
            let _ = writeln!(out, "    class {} {state}", nodes.join(","));
        }
    }
    out
}

fn brackets(shape: &str) -> (&'static str, &'static str) {
    match shape {
        "Mdiamond" | "Msquare" => ("([", "])"),
        "circle" => ("((", "))"),
        "doublecircle" => ("(((", ")))"),
        "hexagon" | "tripleoctagon" | "octagon" | "doubleoctagon" => ("{{", "}}"),
        "diamond" => ("{", "}"),
        "component" | "folder" | "tab" => ("[[", "]]"),
        "parallelogram" => ("[/", "/]"),
        "house" | "trapezium" => ("[/", "\\]"),
        "invhouse" | "invtrapezium" => ("[\\", "/]"),
        "cylinder" => ("[(", ")]"),
        "ellipse" | "oval" => ("(", ")"),
        _ => ("[", "]"),
    }
}

/// Joins lines for Mermaid. Characters that are special in Mermaid, HTML or Markdown are written as references.
fn text(lines: &[String]) -> String {
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            out.push_str("<br/>");
        }
        for character in line.chars() {
            match character {
                '"' | '#' | '&' | '<' | '>' | '`' | '\\' | '*' | '_' | '|' | '~' | ';' => {
                    let _ = write!(out, "#{};", character as u32);
                }
                _ if character.is_control() => out.push(' '),
                _ => out.push(character),
            }
        }
    }
    out
}
