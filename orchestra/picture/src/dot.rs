//! Pictures as DOT, the language that Graphviz reads.

use graphviz_rust::dot_structures::{
    Attribute, Edge as EdgeStatement, EdgeTy, Graph as DotGraph, GraphAttributes, Id, Node as NodeStatement,
    NodeId, Stmt, Subgraph, Vertex,
};
use graphviz_rust::printer::{DotPrinter, PrinterContext};
use orchestra_graph::print::{Clusters, Face, caption, cluster_label, faces, is_restart, wrap};
use orchestra_graph::{Attributes, Edge, Graph, Known, NodeState, PictureOptions};

/// Prints a graph as DOT that Graphviz accepts and lays out well.
///
/// A pipeline file may contain keys and values that Graphviz rejects, such as `human.default_choice` or `15m`. This
/// function prints only what a picture needs, all of it quoted.
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// let dot = orchestra_picture::dot(&loaded.graph, &PictureOptions::default());
/// assert!(dot.contains("\"start\" -> \"exit\""));
/// ```
pub fn dot(graph: &Graph, options: &PictureOptions) -> String {
    let mut builder = Builder {
        graph,
        faces: faces(graph, options),
        clusters: Clusters::new(graph),
        wrap: options.wrap,
    };
    let mut context = PrinterContext::default();
    context.with_semi().with_indent_step(4);
    let mut text = builder.build().print(&mut context);
    text.push('\n');
    text
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

/// The builder of the DOT statements of a graph.
struct Builder<'g> {
    graph: &'g Graph,
    faces: Vec<Face<'g>>,
    clusters: Clusters,
    wrap: usize,
}

impl Builder<'_> {
    fn build(&mut self) -> DotGraph {
        let graph = self.graph;
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
        let node = [
            ("fontname", FONT),
            ("fontsize", "12"),
            ("penwidth", "1.2"),
            ("margin", "0.16,0.08"),
        ];
        let edge = [
            ("fontname", FONT),
            ("fontsize", "10"),
            ("color", "#7b8794"),
            ("fontcolor", "#5b6673"),
            ("arrowsize", "0.7"),
        ];
        let of_graph = attributes(merged(own, &graph.attributes, OF_GRAPH));
        let mut stmts = vec![
            Stmt::GAttribute(GraphAttributes::Graph(of_graph)),
            Stmt::GAttribute(GraphAttributes::Node(attributes(owned(&node)))),
            Stmt::GAttribute(GraphAttributes::Edge(attributes(owned(&edge)))),
        ];
        self.block(None, &mut stmts);
        stmts.extend(graph.edges.iter().filter_map(|edge| self.edge(edge)));
        DotGraph::DiGraph {
            id: quoted(&graph.name),
            strict: false,
            stmts,
        }
    }

    /// Adds the nodes and boxes directly inside a box.
    fn block(&mut self, cluster: Option<u32>, stmts: &mut Vec<Stmt>) {
        for node in self.clusters.nodes.remove(&cluster).unwrap_or_default() {
            let Some((node, face)) = self.graph.nodes.get(node.at()).zip(self.faces.get(node.at())) else {
                continue;
            };
            let except = match face.state {
                Some(_) => HIDES_STATE,
                None => &[],
            };
            let kept: Vec<&str> = OF_NODE
                .iter()
                .copied()
                .filter(|key| !except.contains(key))
                .collect();
            stmts.push(Stmt::Node(NodeStatement {
                id: node_id(&node.id),
                attributes: attributes(merged(of_face(face), &node.attributes, &kept)),
            }));
        }
        for child in self.clusters.children.remove(&cluster).unwrap_or_default() {
            let label = cluster_label(self.graph, child).unwrap_or_default();
            let label = label_text(&wrap(label, 60));
            let own = [
                ("label", label.as_str()),
                ("style", "rounded,filled"),
                ("color", "#c5ccd6"),
                ("fillcolor", "#94a3b81f"),
                ("fontcolor", "#6b7280"),
                ("labeljust", "l"),
                ("margin", "14"),
            ];
            let mut inner = vec![Stmt::GAttribute(GraphAttributes::Graph(attributes(owned(&own))))];
            self.block(Some(child), &mut inner);
            stmts.push(Stmt::Subgraph(Subgraph {
                id: quoted(&format!("cluster_{child}")),
                stmts: inner,
            }));
        }
    }

    /// Returns the statement of an edge. Returns `None` if the edge lacks an end.
    fn edge(&self, edge: &Edge) -> Option<Stmt> {
        let from = self.graph.nodes.get(edge.from.at())?;
        let to = self.graph.nodes.get(edge.to.at())?;
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
        Some(Stmt::Edge(EdgeStatement {
            ty: EdgeTy::Pair(Vertex::N(node_id(&from.id)), Vertex::N(node_id(&to.id))),
            attributes: attributes(merged(own, &edge.attributes, OF_EDGE)),
        }))
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

/// Returns the DOT form of attributes whose values are escaped.
fn attributes(attributes: Vec<(&str, String)>) -> Vec<Attribute> {
    attributes
        .into_iter()
        .map(|(key, value)| Attribute(Id::Plain(key.to_owned()), in_quotes(&value)))
        .collect()
}

fn node_id(id: &str) -> NodeId {
    NodeId(quoted(id), None)
}

fn quoted(text: &str) -> Id {
    in_quotes(&escaped(text))
}

fn in_quotes(escaped: &str) -> Id {
    Id::Escaped(format!("\"{escaped}\""))
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
