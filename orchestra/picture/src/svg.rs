//! The SVG writer.

use std::fmt::Write;

use orchestra_graph::print::{self, Face, cluster_label, wrap};
use orchestra_graph::{Edge, Graph, Known, NodeState, PictureOptions};

use crate::error::PictureError;
use crate::layout::{Positions, Route, Sizes, place};
use crate::measure::width;
use crate::shape::{Outline, Point, Shape, at};

const SIZE: f64 = 13.0;
const SMALL: f64 = 11.0;
const LEADING: f64 = 1.25;
const MARGIN: f64 = 16.0;
const ARROW: f64 = 8.0;

const STYLE: &str = "\
.orchestra-picture text{font-family:Helvetica,Arial,'Liberation Sans',sans-serif}\
.orchestra-picture .edge path{fill:none;stroke:#7b8794;stroke-width:1.3}\
.orchestra-picture .edge polygon{fill:#7b8794}\
.orchestra-picture .edge text{fill:#4b5563}\
.orchestra-picture .edge rect{fill:#ffffff;fill-opacity:.88}\
.orchestra-picture .cluster rect{fill:#94a3b8;fill-opacity:.12;stroke:#94a3b8;stroke-opacity:.7}\
.orchestra-picture .cluster text,.orchestra-picture .title{fill:#5b6673}\
.orchestra-picture .restart path{stroke-dasharray:6 4}\
@media (prefers-color-scheme:dark){\
.orchestra-picture .edge path{stroke:#8b98a7}\
.orchestra-picture .edge polygon{fill:#8b98a7}\
.orchestra-picture .edge text{fill:#c3ccd6}\
.orchestra-picture .edge rect{fill:#0d1117}\
.orchestra-picture .cluster text,.orchestra-picture .title{fill:#a8b3bf}}";

/// Draws a graph as SVG, without any other program. The background is transparent, and the picture is readable on light
/// and on dark pages.
///
/// # Errors
///
/// Fails if the graph is too large for a picture, or if its nodes cannot be placed.
///
/// ```
/// use orchestra_graph::{NodeState, PictureOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// let mut options = PictureOptions::default();
/// options.states.insert("start".to_owned(), NodeState::Done);
/// assert!(orchestra_picture::svg(&loaded.graph, &options)?.contains("class=\"node done\""));
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
pub fn svg(graph: &Graph, options: &PictureOptions) -> Result<String, PictureError> {
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
    let mut drawing = Drawing::default();
    drawing.clusters(graph, &positions);
    for ((edge, route), lines) in graph.edges.iter().zip(&positions.edges).zip(&captions) {
        drawing.edge(edge, route, lines, &positions, &shapes);
    }
    // Captions are drawn above all lines, and nodes above both.
    let captions = std::mem::take(&mut drawing.captions);
    drawing.body.push_str(&captions);
    for (((node, face), shape), middle) in graph.nodes.iter().zip(&faces).zip(&shapes).zip(&positions.nodes) {
        drawing.node(&node.id, face, shape, *middle);
    }
    Ok(drawing.finish(graph))
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

#[derive(Default)]
struct Drawing {
    body: String,
    captions: String,
    /// The corners of the area that has been drawn on: lowest and highest coordinates.
    bounds: Option<(Point, Point)>,
}

impl Drawing {
    fn cover(&mut self, corner: Point, size: Point) {
        let far = corner + size;
        let (low, high) = self.bounds.unwrap_or((corner, far));
        self.bounds = Some((
            at(low.x.min(corner.x), low.y.min(corner.y)),
            at(high.x.max(far.x), high.y.max(far.y)),
        ));
    }

    fn clusters(&mut self, graph: &Graph, positions: &Positions) {
        for (subgraph, corner, size) in &positions.clusters {
            let label = wrap(cluster_label(graph, *subgraph).unwrap_or_default(), 60).join(" ");
            // A long label widens the box.
            let wide = at(size.x.max(width(&label, SMALL) + 20.0), size.y);
            self.cover(*corner, wide);
            let _ = write!(
                self.body,
                "<g class=\"cluster\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\"/>",
                corner.x, corner.y, wide.x, wide.y
            );
            let middle = at(corner.x + 9.0, corner.y + 4.0 + SMALL * LEADING / 2.0);
            text(&mut self.body, &[label], middle, SMALL, "font-weight=\"bold\"");
            self.body.push_str("</g>\n");
        }
    }

    fn edge(
        &mut self,
        edge: &Edge,
        route: &Route,
        caption: &[String],
        positions: &Positions,
        shapes: &[Shape],
    ) {
        let ends = |index: usize| Some((*positions.nodes.get(index)?, shapes.get(index)?));
        let (Some(from), Some(to)) = (ends(edge.from.at()), ends(edge.to.at())) else {
            return;
        };
        let points = clipped(route, edge.from == edge.to, from, to);
        let (Some(tip), Some(before)) = (
            points.last().copied(),
            points.len().checked_sub(2).and_then(|at| points.get(at).copied()),
        ) else {
            return;
        };
        let restart = if print::is_restart(edge) { " restart" } else { "" };
        let _ = write!(self.body, "<g class=\"edge{restart}\"><path d=\"");
        let direction = before - tip;
        let back = direction * (ARROW / direction.length().max(0.01));
        curve(&mut self.body, &points, tip + back * 0.8);
        let side = at(-back.y, back.x) * 0.42;
        let (left, right) = (tip + back + side, tip + back - side);
        let _ = writeln!(
            self.body,
            "\"/><polygon points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/></g>",
            tip.x, tip.y, left.x, left.y, right.x, right.y
        );
        for point in &points {
            self.cover(*point - at(3.0, 3.0), at(6.0, 6.0));
        }
        if let (Some(middle), false) = (route.caption, caption.is_empty()) {
            let (width, height) = caption_size(caption);
            let corner = at(middle.x - width / 2.0, middle.y - height / 2.0);
            self.cover(corner, at(width, height));
            let _ = write!(
                self.captions,
                "<g class=\"edge\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\"/>",
                corner.x, corner.y
            );
            text(
                &mut self.captions,
                caption,
                middle,
                SMALL,
                "text-anchor=\"middle\"",
            );
            self.captions.push_str("</g>\n");
        }
    }

    fn node(&mut self, id: &str, face: &Face<'_>, shape: &Shape, middle: Point) {
        let size = at(shape.width, shape.height);
        self.cover(middle - size * 0.5, size);
        let (class, line) = match face.state {
            None => ("node".to_owned(), "1.4"),
            Some(NodeState::Running | NodeState::Retrying) => (format!("node {}", class_of(face)), "2.6"),
            Some(_) => (format!("node {}", class_of(face)), "1.4"),
        };
        let dashed = match face.state {
            Some(NodeState::Skipped) => " stroke-dasharray=\"5 3\"",
            _ => "",
        };
        let _ = write!(
            self.body,
            "<g class=\"{class}\" data-node=\"{id}\" transform=\"translate({:.1} {:.1})\"><title>{id}</title>",
            middle.x,
            middle.y,
            id = escaped(id),
        );
        if shape.drawn {
            let paint = format!(
                "fill=\"{}\" stroke=\"{}\" stroke-width=\"{line}\"{dashed}",
                face.paint.fill, face.paint.line
            );
            outline(&mut self.body, &shape.outline, &paint);
            let thin = format!(
                "fill=\"none\" stroke=\"{}\" stroke-width=\"1.1\"",
                face.paint.line
            );
            for inner in &shape.inner {
                outline(&mut self.body, inner, &thin);
            }
            for line in &shape.lines {
                let _ = write!(self.body, "<polyline points=\"{}\" {thin}/>", list(line));
            }
            for (corner, size) in &shape.lugs {
                let _ = write!(
                    self.body,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" {paint}/>",
                    corner.x, corner.y, size.x, size.y
                );
            }
        }
        // Text without a filled shape behind it needs a colour for light and for dark pages.
        let fill = if shape.drawn { face.paint.text } else { "#7b8794" };
        let look = format!("text-anchor=\"middle\" fill=\"{fill}\"");
        text(&mut self.body, &face.lines, shape.text, SIZE, &look);
        self.body.push_str("</g>\n");
    }

    fn finish(mut self, graph: &Graph) -> String {
        let heading = graph.attributes.filled(Known::Label).map(|label| wrap(label, 60));
        if let Some(lines) = &heading {
            let (width, height) = text_size(lines, SIZE);
            let (low, high) = self.bounds.unwrap_or_default();
            let middle = (low.x + high.x) / 2.0;
            let top = low.y - height - 10.0;
            self.cover(at(middle - width / 2.0, top), at(width, height));
            let anchor = at(middle, top + height / 2.0);
            text(
                &mut self.body,
                lines,
                anchor,
                SIZE,
                "class=\"title\" text-anchor=\"middle\" font-weight=\"bold\"",
            );
        }
        let (low, high) = self.bounds.unwrap_or_default();
        let corner = low - at(MARGIN, MARGIN);
        let size = high - low + at(MARGIN, MARGIN) * 2.0;
        let title = escaped(graph.title());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"orchestra-picture\" role=\"img\" width=\"{w:.0}\" \
             height=\"{h:.0}\" viewBox=\"{x:.1} {y:.1} {w:.1} {h:.1}\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n{body}</svg>\n",
            w = size.x,
            h = size.y,
            x = corner.x,
            y = corner.y,
            body = self.body,
        )
    }
}

fn class_of(face: &Face<'_>) -> &'static str {
    face.state.map_or("", NodeState::word)
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

/// Writes a smooth line near the points (a cubic B-spline), which begins at the first point and ends at `end`.
///
/// The first and the last segment are straight, as required by the arrow head.
fn curve(out: &mut String, points: &[Point], end: Point) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return;
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
}

fn outline(out: &mut String, outline: &Outline, paint: &str) {
    let _ = match outline {
        Outline::Box(x, y, radius) => write!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{radius:.1}\" {paint}/>",
            -x,
            -y,
            2.0 * x,
            2.0 * y
        ),
        Outline::Ellipse(x, y) => write!(out, "<ellipse rx=\"{x:.1}\" ry=\"{y:.1}\" {paint}/>"),
        Outline::Polygon(corners) => {
            write!(
                out,
                "<polygon points=\"{}\" stroke-linejoin=\"round\" {paint}/>",
                list(corners)
            )
        }
    };
}

fn list(points: &[Point]) -> String {
    let points: Vec<String> = points
        .iter()
        .map(|point| format!("{:.1},{:.1}", point.x, point.y))
        .collect();
    points.join(" ")
}

/// Writes lines of text around a centre.
fn text(out: &mut String, lines: &[String], middle: Point, size: f64, look: &str) {
    let step = size * LEADING;
    // The base line is about a third of the font size below the middle of a line.
    let top = middle.y - (lines.len() as f64 - 1.0) * step / 2.0 + size * 0.35;
    for (at, line) in lines.iter().enumerate() {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" {look}>{}</text>",
            middle.x,
            top + at as f64 * step,
            escaped(line)
        );
    }
}

/// Escapes text for XML and removes characters that XML cannot represent.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            _ if character.is_control() => {}
            _ => out.push(character),
        }
    }
    out
}
