//! The scene of a graph: everything that a picture shows, as data with positions.

use std::collections::HashMap;
use std::fmt::Write;

use orchestra_graph::print::{self, Face, cluster_label, wrap};
use orchestra_graph::{Edge, Graph, Known, NodeIndex, NodeState, PictureOptions};
use serde::{Serialize, Serializer};

use crate::error::PictureError;
use crate::layout::{Positions, Route, Sizes, place};
use crate::measure::width;
use crate::shape::{Outline, Point, Shape, at};

/// The font sizes of nodes and headings, and of captions and clusters.
const SIZE: f64 = 13.0;
const SMALL: f64 = 11.0;
/// The height of a line, as a multiple of its font size.
pub(crate) const LEADING: f64 = 1.25;
const MARGIN: f64 = 16.0;
const ARROW: f64 = 8.0;
/// The colour of a text without a filled shape behind it, which must be readable on light and on dark pages.
const FREE_TEXT: &str = "#7b8794";

/// Everything that a picture of a graph shows, with its position. [`svg`](crate::svg) writes it as SVG; another program
/// can draw it by itself, for example to change the states of nodes without a new layout.
///
/// Coordinates are pixels; `y` grows downwards. Serialized, they are rounded to a tenth of a pixel.
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// let scene = orchestra_picture::scene(&loaded.graph, &PictureOptions::default())?;
/// let (start, exit) = (&scene.nodes[0], &scene.nodes[1]);
/// assert!(start.y < exit.y, "the start is above the exit");
/// assert_eq!((scene.edges[0].from.as_str(), scene.edges[0].to.as_str()), ("start", "exit"));
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Scene {
    /// The title of the graph.
    pub title: String,
    /// The left end of the picture.
    #[serde(serialize_with = "rounded")]
    pub x: f64,
    /// The top of the picture.
    #[serde(serialize_with = "rounded")]
    pub y: f64,
    /// The width of the picture.
    #[serde(serialize_with = "rounded")]
    pub width: f64,
    /// The height of the picture.
    #[serde(serialize_with = "rounded")]
    pub height: f64,
    /// The label of the graph.
    pub heading: Option<SceneText>,
    /// The drawn subgraphs, outer ones before inner ones.
    pub clusters: Vec<SceneCluster>,
    /// The edges, in the order of the file.
    pub edges: Vec<SceneEdge>,
    /// The nodes, in the order of their first mention.
    pub nodes: Vec<SceneNode>,
}

/// Lines of text around a centre.
///
/// ```
/// # use orchestra_graph::{PictureOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph { start -> exit; start [label=Begin] }"), &Default::default());
/// let scene = orchestra_picture::scene(&loaded.graph, &PictureOptions::default())?;
/// assert_eq!(scene.nodes[0].text.lines, ["Begin"]);
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SceneText {
    /// The lines.
    pub lines: Vec<String>,
    /// The horizontal centre, except for the label of a cluster: the left end.
    #[serde(serialize_with = "rounded")]
    pub x: f64,
    /// The vertical centre.
    #[serde(serialize_with = "rounded")]
    pub y: f64,
    /// The font size.
    pub size: f64,
}

/// A subgraph that is drawn as a box.
///
/// ```
/// # use orchestra_graph::{PictureOptions, Source, load};
/// let text = "digraph { start -> a -> exit; subgraph cluster_build { label=Build; a } }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let scene = orchestra_picture::scene(&loaded.graph, &PictureOptions::default())?;
/// assert_eq!(scene.clusters[0].label.lines, ["Build"]);
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SceneCluster {
    /// The left end.
    #[serde(serialize_with = "rounded")]
    pub x: f64,
    /// The top.
    #[serde(serialize_with = "rounded")]
    pub y: f64,
    /// The width.
    #[serde(serialize_with = "rounded")]
    pub width: f64,
    /// The height.
    #[serde(serialize_with = "rounded")]
    pub height: f64,
    /// The label.
    pub label: SceneText,
}

/// An edge.
///
/// ```
/// # use orchestra_graph::{PictureOptions, Source, load};
/// let text = r#"digraph { start -> t; t -> exit [label=Pass]; t -> exit [label=Skip] }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let scene = orchestra_picture::scene(&loaded.graph, &PictureOptions::default())?;
/// let skip = &scene.edges[2];
/// assert_eq!((skip.from.as_str(), skip.to.as_str(), skip.number), ("t", "exit", 1));
/// assert_eq!(skip.caption.as_ref().expect("it has a label").text.lines, ["Skip"]);
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SceneEdge {
    /// The id of the node that it leaves.
    pub from: String,
    /// The id of the node to which it leads.
    pub to: String,
    /// The number of the edge among those that leave the node, in the order of the file, starting at 0. Events name
    /// edges by it.
    pub number: u32,
    /// `true` if the edge restarts the run.
    pub restart: bool,
    /// The line, as the data of an SVG path.
    pub path: String,
    /// The corners of the arrow head, the tip first.
    #[serde(serialize_with = "rounded_points")]
    pub arrow: Vec<[f64; 2]>,
    /// The label and the condition. `None` if the edge has neither.
    pub caption: Option<SceneCaption>,
}

/// The caption of an edge: a text on a box.
///
/// ```
/// # use orchestra_graph::{PictureOptions, Source, load};
/// let text = r#"digraph { start -> exit [condition="outcome=success"] }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let scene = orchestra_picture::scene(&loaded.graph, &PictureOptions::default())?;
/// assert_eq!(scene.edges[0].caption.as_ref().expect("a condition").text.lines, ["outcome=success"]);
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SceneCaption {
    /// The left end of the box.
    #[serde(serialize_with = "rounded")]
    pub x: f64,
    /// The top of the box.
    #[serde(serialize_with = "rounded")]
    pub y: f64,
    /// The width of the box.
    #[serde(serialize_with = "rounded")]
    pub width: f64,
    /// The height of the box.
    #[serde(serialize_with = "rounded")]
    pub height: f64,
    /// The text.
    pub text: SceneText,
}

/// A node.
///
/// ```
/// use orchestra_graph::{NodeState, PictureOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default());
/// let mut options = PictureOptions::default();
/// options.states.insert("start".to_owned(), NodeState::Done);
/// let scene = orchestra_picture::scene(&loaded.graph, &options)?;
/// assert_eq!((scene.nodes[0].id.as_str(), scene.nodes[0].state), ("start", Some("done")));
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SceneNode {
    /// The id.
    pub id: String,
    /// The horizontal centre, to which figures and text are relative.
    #[serde(serialize_with = "rounded")]
    pub x: f64,
    /// The vertical centre, to which figures and text are relative.
    #[serde(serialize_with = "rounded")]
    pub y: f64,
    /// The width.
    #[serde(serialize_with = "rounded")]
    pub width: f64,
    /// The height.
    #[serde(serialize_with = "rounded")]
    pub height: f64,
    /// The shape; empty for a node without a border.
    pub figures: Vec<Figure>,
    /// The label.
    pub text: SceneText,
    /// The colour of the area.
    pub fill: &'static str,
    /// The colour of the border.
    pub line: &'static str,
    /// The colour of the text.
    pub color: &'static str,
    /// The name of the state. `None` if the picture shows no run.
    pub state: Option<&'static str>,
}

/// A part of the shape of a node, relative to its centre.
///
/// ```
/// # use orchestra_graph::{PictureOptions, Source, load};
/// use orchestra_picture::FigureForm;
/// let loaded = load(Source::new("a.dot", "digraph { start -> t -> exit; t [shape=diamond] }"), &Default::default());
/// let scene = orchestra_picture::scene(&loaded.graph, &PictureOptions::default())?;
/// let FigureForm::Polygon { points } = &scene.nodes[1].figures[0].form else { panic!("a diamond") };
/// assert_eq!(points.len(), 4);
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Figure {
    /// `true` if the figure has an area and the border of the node; `false` for thin lines inside.
    pub filled: bool,
    /// The form.
    #[serde(flatten)]
    pub form: FigureForm,
}

/// The form of a [`Figure`], serialized with its name as `form`.
///
/// ```
/// use orchestra_picture::FigureForm;
/// let form = FigureForm::Ellipse { rx: 20.04, ry: 12.0 };
/// assert_eq!(serde_json::to_string(&form)?, r#"{"form":"ellipse","rx":20.0,"ry":12.0}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum FigureForm {
    /// A rectangle.
    Box {
        /// The left end.
        #[serde(serialize_with = "rounded")]
        x: f64,
        /// The top.
        #[serde(serialize_with = "rounded")]
        y: f64,
        /// The width.
        #[serde(serialize_with = "rounded")]
        width: f64,
        /// The height.
        #[serde(serialize_with = "rounded")]
        height: f64,
        /// The radius of the corners.
        radius: f64,
    },
    /// An ellipse around the centre.
    Ellipse {
        /// Half the width.
        #[serde(serialize_with = "rounded")]
        rx: f64,
        /// Half the height.
        #[serde(serialize_with = "rounded")]
        ry: f64,
    },
    /// A closed line.
    Polygon {
        /// The corners.
        #[serde(serialize_with = "rounded_points")]
        points: Vec<[f64; 2]>,
    },
    /// An open line.
    Polyline {
        /// The points.
        #[serde(serialize_with = "rounded_points")]
        points: Vec<[f64; 2]>,
    },
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn rounded<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(tenths(*number))
}

fn rounded_points<S: Serializer>(points: &[[f64; 2]], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(points.iter().map(|point| point.map(tenths)))
}

/// Places everything that a picture of a graph shows, without any other program.
///
/// # Errors
///
/// Fails if the graph is too large for a picture, or if its nodes cannot be placed.
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// let scene = orchestra_picture::scene(&loaded.graph, &PictureOptions::default())?;
/// assert_eq!((scene.nodes.len(), scene.edges.len()), (2, 1));
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
pub fn scene(graph: &Graph, options: &PictureOptions) -> Result<Scene, PictureError> {
    let faces = print::faces(graph, options);
    let shapes: Vec<Shape> = faces.iter().map(shape_of).collect();
    let captions: Vec<Vec<String>> = graph
        .edges
        .iter()
        .map(|edge| print::caption(edge, options.wrap))
        .collect();
    let sizes = Sizes {
        nodes: shapes.iter().map(|shape| (shape.width, shape.height)).collect(),
        captions: captions.iter().map(|lines| caption_size(lines)).collect(),
    };
    let positions = place(graph, &sizes)?;
    let mut bounds = Bounds::default();
    let clusters = clusters(graph, &positions, &mut bounds);
    let mut leaving: HashMap<NodeIndex, u32> = HashMap::new();
    let mut edges = Vec::with_capacity(graph.edges.len());
    for ((edge, route), lines) in graph.edges.iter().zip(&positions.edges).zip(captions) {
        let next = leaving.entry(edge.from).or_default();
        let number = std::mem::replace(next, *next + 1);
        let ends = |index: NodeIndex| {
            let (middle, shape) = (*positions.nodes.get(index.at())?, shapes.get(index.at())?);
            Some((middle, shape))
        };
        // An edge with a missing end is not drawn.
        if let Some(ends) = ends(edge.from).zip(ends(edge.to)) {
            edges.extend(scene_edge(graph, edge, number, route, lines, ends, &mut bounds));
        }
    }
    let nodes = graph.nodes.iter().zip(faces).zip(shapes).zip(&positions.nodes);
    let nodes = nodes
        .map(|(((node, face), shape), middle)| scene_node(&node.id, face, shape, *middle, &mut bounds))
        .collect();
    let heading = heading(graph, &mut bounds);
    let (low, high) = bounds.0.unwrap_or_default();
    let corner = low - at(MARGIN, MARGIN);
    let size = high - low + at(MARGIN, MARGIN) * 2.0;
    Ok(Scene {
        title: graph.title().to_owned(),
        x: corner.x,
        y: corner.y,
        width: size.x,
        height: size.y,
        heading,
        clusters,
        edges,
        nodes,
    })
}

/// The corners of the area that is drawn on: the lowest and the highest coordinates.
#[derive(Default)]
struct Bounds(Option<(Point, Point)>);

impl Bounds {
    fn cover(&mut self, corner: Point, size: Point) {
        let far = corner + size;
        let (low, high) = self.0.unwrap_or((corner, far));
        self.0 = Some((
            at(low.x.min(corner.x), low.y.min(corner.y)),
            at(high.x.max(far.x), high.y.max(far.y)),
        ));
    }
}

fn text_size(lines: &[String], size: f64) -> (f64, f64) {
    let widest = lines.iter().map(|line| width(line, size)).fold(0.0, f64::max);
    (widest, lines.len().max(1) as f64 * size * LEADING)
}

fn caption_size(lines: &[String]) -> (f64, f64) {
    match text_size(lines, SMALL) {
        _ if lines.is_empty() => (0.0, 0.0),
        (width, height) => (width + 10.0, height + 6.0),
    }
}

fn shape_of(face: &Face<'_>) -> Shape {
    let (width, height) = text_size(&face.lines, SIZE);
    Shape::around(face.shape, width, height)
}

fn text_at(lines: Vec<String>, middle: Point, size: f64) -> SceneText {
    SceneText {
        lines,
        x: middle.x,
        y: middle.y,
        size,
    }
}

fn clusters(graph: &Graph, positions: &Positions, bounds: &mut Bounds) -> Vec<SceneCluster> {
    let cluster = |(subgraph, corner, size): &(u32, Point, Point)| {
        let label = wrap(cluster_label(graph, *subgraph).unwrap_or_default(), 60).join(" ");
        // A long label widens the box.
        let wide = at(size.x.max(width(&label, SMALL) + 20.0), size.y);
        bounds.cover(*corner, wide);
        let left = at(corner.x + 9.0, corner.y + 4.0 + SMALL * LEADING / 2.0);
        SceneCluster {
            x: corner.x,
            y: corner.y,
            width: wide.x,
            height: wide.y,
            label: text_at(vec![label], left, SMALL),
        }
    };
    positions.clusters.iter().map(cluster).collect()
}

fn scene_edge(
    graph: &Graph,
    edge: &Edge,
    number: u32,
    route: &Route,
    caption: Vec<String>,
    (from, to): ((Point, &Shape), (Point, &Shape)),
    bounds: &mut Bounds,
) -> Option<SceneEdge> {
    let points = clipped(route, edge.from == edge.to, from, to);
    let tip = points.last().copied()?;
    let before = points
        .len()
        .checked_sub(2)
        .and_then(|at| points.get(at).copied())?;
    let direction = before - tip;
    let back = direction * (ARROW / direction.length().max(0.01));
    let side = at(-back.y, back.x) * 0.42;
    let arrow = [tip, tip + back + side, tip + back - side];
    for point in &points {
        bounds.cover(*point - at(3.0, 3.0), at(6.0, 6.0));
    }
    let caption = route.caption.filter(|_| !caption.is_empty()).map(|middle| {
        let (width, height) = caption_size(&caption);
        let corner = at(middle.x - width / 2.0, middle.y - height / 2.0);
        bounds.cover(corner, at(width, height));
        SceneCaption {
            x: corner.x,
            y: corner.y,
            width,
            height,
            text: text_at(caption, middle, SMALL),
        }
    });
    let id = |node: NodeIndex| graph.node(node).id.to_string();
    Some(SceneEdge {
        from: id(edge.from),
        to: id(edge.to),
        number,
        restart: print::is_restart(edge),
        path: curve(&points, tip + back * 0.8),
        arrow: arrow.map(pair).to_vec(),
        caption,
    })
}

fn scene_node(id: &str, face: Face<'_>, shape: Shape, middle: Point, bounds: &mut Bounds) -> SceneNode {
    let size = at(shape.width, shape.height);
    bounds.cover(middle - size * 0.5, size);
    let mut figures = Vec::new();
    if shape.drawn {
        figures.push(figure(true, form_of(&shape.outline)));
        figures.extend(shape.inner.iter().map(|inner| figure(false, form_of(inner))));
        figures.extend(shape.lines.iter().map(|line| {
            let points = line.iter().copied().map(pair).collect();
            figure(false, FigureForm::Polyline { points })
        }));
        figures.extend(shape.lugs.iter().map(|(corner, size)| {
            let form = FigureForm::Box {
                x: corner.x,
                y: corner.y,
                width: size.x,
                height: size.y,
                radius: 0.0,
            };
            figure(true, form)
        }));
    }
    SceneNode {
        id: id.to_owned(),
        x: middle.x,
        y: middle.y,
        width: shape.width,
        height: shape.height,
        figures,
        text: text_at(face.lines, shape.text, SIZE),
        fill: face.paint.fill,
        line: face.paint.line,
        color: if shape.drawn { face.paint.text } else { FREE_TEXT },
        state: face.state.map(NodeState::word),
    }
}

fn heading(graph: &Graph, bounds: &mut Bounds) -> Option<SceneText> {
    let lines = wrap(graph.attributes.filled(Known::Label)?, 60);
    let (width, height) = text_size(&lines, SIZE);
    let (low, high) = bounds.0.unwrap_or_default();
    let middle = (low.x + high.x) / 2.0;
    let top = low.y - height - 10.0;
    bounds.cover(at(middle - width / 2.0, top), at(width, height));
    Some(text_at(lines, at(middle, top + height / 2.0), SIZE))
}

fn figure(filled: bool, form: FigureForm) -> Figure {
    Figure { filled, form }
}

fn form_of(outline: &Outline) -> FigureForm {
    match outline {
        Outline::Box(x, y, radius) => FigureForm::Box {
            x: -x,
            y: -y,
            width: 2.0 * x,
            height: 2.0 * y,
            radius: *radius,
        },
        Outline::Ellipse(x, y) => FigureForm::Ellipse { rx: *x, ry: *y },
        Outline::Polygon(corners) => FigureForm::Polygon {
            points: corners.iter().copied().map(pair).collect(),
        },
    }
}

fn pair(point: Point) -> [f64; 2] {
    [point.x, point.y]
}

/// Returns the points of an edge from border to border of the shapes.
fn clipped(route: &Route, own_loop: bool, from: (Point, &Shape), to: (Point, &Shape)) -> Vec<Point> {
    let inner: &[Point] = match route.points.as_slice() {
        // The route of a loop does not begin at the border, so all of its points are kept.
        points if own_loop => points,
        [_, inner @ .., _] => inner,
        _ => &[],
    };
    let first = inner.first().copied().unwrap_or(to.0);
    let last = inner.last().copied().unwrap_or(from.0);
    let mut points = vec![from.0 + from.1.border(first - from.0)];
    points.extend_from_slice(inner);
    points.push(to.0 + to.1.border(last - to.0));
    points
}

/// Returns a smooth line near the points (a cubic B-spline), which begins at the first point and ends at `end`.
///
/// The first and the last segment are straight, as required by the arrow head.
fn curve(points: &[Point], end: Point) -> String {
    let mut out = String::new();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return out;
    };
    let _ = write!(out, "M{:.1},{:.1}", first.x, first.y);
    if let (3.., [_, second, ..]) = (points.len(), points) {
        let start = (*first * 5.0 + *second) * (1.0 / 6.0);
        let _ = write!(out, "L{:.1},{:.1}", start.x, start.y);
        let next = points.iter().skip(2).chain([last]);
        for ((a, b), c) in points.iter().zip(points.iter().skip(1)).zip(next) {
            let (one, two) = ((*a * 2.0 + *b) * (1.0 / 3.0), (*a + *b * 2.0) * (1.0 / 3.0));
            let stop = (*a + *b * 4.0 + *c) * (1.0 / 6.0);
            let _ = write!(
                out,
                "C{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}",
                one.x, one.y, two.x, two.y, stop.x, stop.y
            );
        }
    }
    let _ = write!(out, "L{:.1},{:.1}", end.x, end.y);
    out
}
