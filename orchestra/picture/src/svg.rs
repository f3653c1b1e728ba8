//! The SVG writer.

use std::fmt::Write;

use orchestra_graph::{Graph, NodeState, PictureOptions};

use crate::error::PictureError;
use crate::scene::{
    Figure, FigureForm, LEADING, Scene, SceneCluster, SceneEdge, SceneNode, SceneText, scene,
};

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
    Ok(write(&scene(graph, options)?, None))
}

/// Draws a graph like [`svg`], with links from its nodes. `link` returns the address for the id of a node.
///
/// # Errors
///
/// Fails under the same conditions as [`svg`].
///
/// ```
/// use orchestra_graph::{PictureOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// let link = |id: &str| (id == "start").then(|| "start.html".to_owned());
/// let svg = orchestra_picture::svg_with_links(&loaded.graph, &PictureOptions::default(), &link)?;
/// assert_eq!(svg.matches("<a href=\"start.html\">").count(), 1);
/// # Ok::<(), orchestra_picture::PictureError>(())
/// ```
pub fn svg_with_links(
    graph: &Graph,
    options: &PictureOptions,
    link: &dyn Fn(&str) -> Option<String>,
) -> Result<String, PictureError> {
    Ok(write(&scene(graph, options)?, Some(link)))
}

/// Returns the address of a link for the id of a node.
type Link<'l> = &'l dyn Fn(&str) -> Option<String>;

fn write(scene: &Scene, link: Option<Link<'_>>) -> String {
    let mut body = String::new();
    for cluster in &scene.clusters {
        write_cluster(&mut body, cluster);
    }
    for edge in &scene.edges {
        write_edge(&mut body, edge);
    }
    // Captions are drawn above all lines, and nodes above both.
    for edge in &scene.edges {
        write_caption(&mut body, edge);
    }
    for node in &scene.nodes {
        match link.and_then(|link| link(&node.id)) {
            Some(address) => {
                let _ = write!(body, "<a href=\"{}\">", escaped(&address));
                write_node(&mut body, node);
                body.push_str("</a>\n");
            }
            None => write_node(&mut body, node),
        }
    }
    // Readers of the screen do not read what is inside an image.
    let role = if link.is_some() { "group" } else { "img" };
    if let Some(heading) = &scene.heading {
        let look = "class=\"title\" text-anchor=\"middle\" font-weight=\"bold\"";
        write_text(&mut body, heading, look);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"orchestra-picture\" role=\"{role}\" width=\"{w:.0}\" \
         height=\"{h:.0}\" viewBox=\"{x:.1} {y:.1} {w:.1} {h:.1}\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n{body}</svg>\n",
        w = scene.width,
        h = scene.height,
        x = scene.x,
        y = scene.y,
        title = escaped(&scene.title),
    )
}

fn write_cluster(out: &mut String, cluster: &SceneCluster) {
    let SceneCluster {
        x,
        y,
        width,
        height,
        label,
    } = cluster;
    let _ = write!(
        out,
        "<g class=\"cluster\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\"/>",
    );
    write_text(out, label, "font-weight=\"bold\"");
    out.push_str("</g>\n");
}

/// Returns the attributes that identify an edge.
fn identity(edge: &SceneEdge) -> String {
    let (from, to) = (escaped(&edge.from), escaped(&edge.to));
    format!(
        "data-from=\"{from}\" data-to=\"{to}\" data-number=\"{}\"",
        edge.number
    )
}

fn write_edge(out: &mut String, edge: &SceneEdge) {
    let restart = if edge.restart { " restart" } else { "" };
    let _ = writeln!(
        out,
        "<g class=\"edge{restart}\" {}><path d=\"{}\"/><polygon points=\"{}\"/></g>",
        identity(edge),
        edge.path,
        list(&edge.arrow)
    );
}

fn write_caption(out: &mut String, edge: &SceneEdge) {
    let Some(caption) = &edge.caption else {
        return;
    };
    let _ = write!(
        out,
        "<g class=\"edge\" {}><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"4\"/>",
        identity(edge),
        caption.x,
        caption.y,
        caption.width,
        caption.height
    );
    write_text(out, &caption.text, "text-anchor=\"middle\"");
    out.push_str("</g>\n");
}

fn write_node(out: &mut String, node: &SceneNode) {
    const RUNNING: &str = NodeState::Running.word();
    const RETRYING: &str = NodeState::Retrying.word();
    const SKIPPED: &str = NodeState::Skipped.word();
    let state = node.state.map_or(String::new(), |state| format!(" {state}"));
    let (line, dashed) = match node.state {
        Some(RUNNING | RETRYING) => ("2.6", ""),
        Some(SKIPPED) => ("1.4", " stroke-dasharray=\"5 3\""),
        _ => ("1.4", ""),
    };
    let _ = write!(
        out,
        "<g class=\"node{state}\" data-node=\"{id}\" transform=\"translate({:.1} {:.1})\"><title>{id}</title>",
        node.x,
        node.y,
        id = escaped(&node.id),
    );
    let border = format!(
        "fill=\"{}\" stroke=\"{}\" stroke-width=\"{line}\"{dashed}",
        node.fill, node.line
    );
    let thin = format!("fill=\"none\" stroke=\"{}\" stroke-width=\"1.1\"", node.line);
    for figure in &node.figures {
        write_figure(out, figure, if figure.filled { &border } else { &thin });
    }
    let look = format!("text-anchor=\"middle\" fill=\"{}\"", node.color);
    write_text(out, &node.text, &look);
    out.push_str("</g>\n");
}

fn write_figure(out: &mut String, figure: &Figure, paint: &str) {
    let _ = match &figure.form {
        FigureForm::Box {
            x,
            y,
            width,
            height,
            radius,
        } => write!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius:.1}\" {paint}/>",
        ),
        FigureForm::Ellipse { rx, ry } => write!(out, "<ellipse rx=\"{rx:.1}\" ry=\"{ry:.1}\" {paint}/>"),
        FigureForm::Polygon { points } => {
            let points = list(points);
            write!(
                out,
                "<polygon points=\"{points}\" stroke-linejoin=\"round\" {paint}/>"
            )
        }
        FigureForm::Polyline { points } => write!(out, "<polyline points=\"{}\" {paint}/>", list(points)),
    };
}

fn list(points: &[[f64; 2]]) -> String {
    let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

fn write_text(out: &mut String, text: &SceneText, look: &str) {
    let step = text.size * LEADING;
    // The base line is about a third of the font size below the middle of a line.
    let top = text.y - (text.lines.len() as f64 - 1.0) * step / 2.0 + text.size * 0.35;
    for (at, line) in text.lines.iter().enumerate() {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{}\" {look}>{}</text>",
            text.x,
            top + at as f64 * step,
            text.size,
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
