//! Pictures as DOT, the language that Graphviz reads.

use std::fmt::Write;

use super::{Clusters, Face, NodeState, PictureOptions, caption, cluster_label, faces, is_restart, wrap};
use crate::attribute::Known;
use crate::attributes::Attributes;
use crate::model::{Edge, Graph};

/// Prints a graph as DOT that Graphviz accepts and lays out well.
///
/// A pipeline file may contain keys and values that Graphviz rejects, such as `human.default_choice` or `15m`. This
/// function prints only what a picture needs, all of it quoted.
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load, print_dot};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// let dot = print_dot(&loaded.graph, &PictureOptions::default());
/// assert!(dot.contains("\"start\" -> \"exit\""));
/// ```
pub fn print_dot(graph: &Graph, options: &PictureOptions) -> String {
    let mut printer = Printer {
        graph,
        faces: faces(graph, options),
        clusters: Clusters::new(graph),
        wrap: options.wrap,
        out: String::new(),
    };
    printer.print();
    printer.out
}

const FONT: &str = "Helvetica,Arial,sans-serif";

/// The drawing attributes that are copied from the file to the picture. Those that name files or addresses are not.
const OF_GRAPH: &[&str] = &[
    "bgcolor",
    "concentrate",
    "newrank",
    "nodesep",
    "ordering",
    "rankdir",
    "ranksep",
    "size",
    "splines",
];
const OF_NODE: &[&str] = &[
    "color",
    "fillcolor",
    "fontcolor",
    "group",
    "height",
    "margin",
    "penwidth",
    "peripheries",
    "style",
    "tooltip",
    "width",
    "xlabel",
];
const OF_EDGE: &[&str] = &[
    "arrowhead",
    "arrowsize",
    "arrowtail",
    "color",
    "constraint",
    "dir",
    "fontcolor",
    "headport",
    "minlen",
    "penwidth",
    "style",
    "tailport",
    "tooltip",
];
/// The drawing attributes that would hide the state of a run.
const HIDES_STATE: &[&str] = &["color", "fillcolor", "fontcolor", "penwidth", "style"];

struct Printer<'g> {
    graph: &'g Graph,
    faces: Vec<Face<'g>>,
    clusters: Clusters,
    wrap: usize,
    out: String,
}

impl Printer<'_> {
    fn print(&mut self) {
        let graph = self.graph;
        let _ = writeln!(self.out, "digraph {} {{", quoted(&graph.name));
        let mut own = vec![
            ("fontname", FONT.to_owned()),
            ("fontsize", "13".to_owned()),
            ("fontcolor", "#6b7280".to_owned()),
            ("nodesep", "0.4".to_owned()),
            ("ranksep", "0.5".to_owned()),
            ("bgcolor", "transparent".to_owned()),
            ("pad", "0.2".to_owned()),
        ];
        if let Some(label) = graph.attributes.filled(Known::Label) {
            own.push(("label", label_text(&wrap(label, 60))));
            own.push(("labelloc", "t".to_owned()));
        }
        self.attributes("    graph", merged(own, &graph.attributes, OF_GRAPH));
        let node = [
            ("fontname", FONT),
            ("fontsize", "12"),
            ("penwidth", "1.2"),
            ("margin", "0.16,0.08"),
        ];
        self.attributes("    node", owned(&node));
        let edge = [
            ("fontname", FONT),
            ("fontsize", "10"),
            ("color", "#7b8794"),
            ("fontcolor", "#5b6673"),
            ("arrowsize", "0.7"),
        ];
        self.attributes("    edge", owned(&edge));
        self.block(None, 1);
        for edge in &graph.edges {
            self.edge(edge);
        }
        self.out.push_str("}\n");
    }

    /// Prints the nodes and boxes directly inside a box.
    fn block(&mut self, cluster: Option<u32>, level: usize) {
        let pad = "    ".repeat(level);
        for node in self.clusters.nodes.remove(&cluster).unwrap_or_default() {
            let Some((node, face)) = self.graph.nodes.get(node.at()).zip(self.faces.get(node.at())) else {
                continue;
            };
            let own = of_face(face);
            let except = match face.state {
                Some(_) => HIDES_STATE,
                None => &[],
            };
            let kept: Vec<&str> = OF_NODE
                .iter()
                .copied()
                .filter(|key| !except.contains(key))
                .collect();
            let all = merged(own, &node.attributes, &kept);
            self.attributes(&format!("{pad}{}", quoted(&node.id)), all);
        }
        for child in self.clusters.children.remove(&cluster).unwrap_or_default() {
            let label = cluster_label(self.graph, child).unwrap_or_default();
            let label = label_text(&wrap(label, 60));
            let _ = writeln!(self.out, "{pad}subgraph \"cluster_{child}\" {{");
            let own = [
                ("label", label.as_str()),
                ("style", "rounded,filled"),
                ("color", "#c5ccd6"),
                ("fillcolor", "#94a3b81f"),
                ("fontcolor", "#6b7280"),
                ("labeljust", "l"),
                ("margin", "14"),
            ];
            self.attributes(&format!("{pad}    graph"), owned(&own));
            self.block(Some(child), level + 1);
            let _ = writeln!(self.out, "{pad}}}");
        }
    }

    fn edge(&mut self, edge: &Edge) {
        let ends = (
            self.graph.nodes.get(edge.from.at()),
            self.graph.nodes.get(edge.to.at()),
        );
        let (Some(from), Some(to)) = ends else {
            return;
        };
        let mut own = Vec::new();
        let caption = caption(edge, self.wrap);
        if !caption.is_empty() {
            // Spaces separate the text from the line of the edge.
            let lines: Vec<String> = caption.iter().map(|line| format!(" {line} ")).collect();
            own.push(("label", label_text(&lines)));
        }
        if is_restart(edge) {
            own.push(("style", "dashed".to_owned()));
        }
        let head = format!("    {} -> {}", quoted(&from.id), quoted(&to.id));
        let all = merged(own, &edge.attributes, OF_EDGE);
        self.attributes(&head, all);
    }

    fn attributes(&mut self, head: &str, attributes: Vec<(&str, String)>) {
        self.out.push_str(head);
        for (at, (key, value)) in attributes.iter().enumerate() {
            let before = if at == 0 { " [" } else { ", " };
            let _ = write!(self.out, "{before}{key}=\"{value}\"");
        }
        self.out
            .push_str(if attributes.is_empty() { ";\n" } else { "];\n" });
    }
}

fn of_face(face: &Face<'_>) -> Vec<(&'static str, String)> {
    let mut style = match face.shape {
        "box" | "rect" | "rectangle" => "rounded,filled",
        _ => "filled",
    }
    .to_owned();
    if face.state == Some(NodeState::Skipped) {
        style.push_str(",dashed");
    }
    let mut own = vec![
        ("label", label_text(&face.lines)),
        ("shape", escaped(face.shape)),
        ("style", style),
        ("fillcolor", face.paint.fill.to_owned()),
        ("color", face.paint.line.to_owned()),
        ("fontcolor", face.paint.text.to_owned()),
    ];
    if matches!(face.state, Some(NodeState::Running | NodeState::Retrying)) {
        own.push(("penwidth", "2.4".to_owned()));
    }
    own
}

fn owned<'k>(attributes: &[(&'k str, &str)]) -> Vec<(&'k str, String)> {
    attributes
        .iter()
        .map(|(key, value)| (*key, (*value).to_owned()))
        .collect()
}

/// Merges attributes of the file into our own. Those listed in `kept` replace ours or are appended.
fn merged<'k>(
    mut own: Vec<(&'k str, String)>,
    attributes: &Attributes,
    kept: &[&'k str],
) -> Vec<(&'k str, String)> {
    for key in kept {
        let Some(found) = attributes.find(key) else {
            continue;
        };
        let value = escaped(&found.value.to_string());
        match own.iter_mut().find(|(name, _)| name == key) {
            // A style from the file must not make filled nodes empty.
            Some((_, present)) if *key == "style" && present.contains("filled") => {
                if !value.trim().is_empty() {
                    *present = format!("filled,{value}");
                }
            }
            Some((_, present)) => *present = value,
            None => own.push((key, value)),
        }
    }
    own
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Returns a text escaped for use in quotes, without line ends and without Graphviz escapes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            _ if character.is_control() => out.push(' '),
            _ => out.push(character),
        }
    }
    out
}

/// Joins the lines of a label. Graphviz interprets character references in labels, so `&` is written as one.
fn label_text(lines: &[String]) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| escaped(&line.replace('&', "&amp;")))
        .collect();
    lines.join("\\n")
}
