//! `graph`: draws a pipeline.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;

use orchestra_graph::{
    Attribute, Graph, Key, Known, NodeIndex, NodeState, Origin, PictureOptions, Value, print_mermaid,
};
use serde_json::json;

use crate::args::{Format, GraphArgs, Lints, Picture};
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::report::diagnostics::print_reports;
use crate::runs::Runs;
use crate::terminal::Terminal;

pub(crate) fn graph(
    args: &GraphArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let loaded = pipelines.load(&args.file, &Lints::default())?;
    // An invalid graph is drawn too, because the picture may show the error.
    if loaded.report.has_errors() {
        let format = if terminal.json { Format::Json } else { Format::Text };
        print_reports(terminal, &loaded, format);
    }
    let format = match args.format {
        Some(format) => format,
        None => default_format(args.output.as_deref())?,
    };
    let picture = match &args.run {
        Some(run) => Some(RunPicture::new(
            &Runs::new(&args.runs, program),
            run,
            &loaded.graph,
        )?),
        None => None,
    };
    let text = match &picture {
        Some(picture) => picture.draw(format)?,
        None => draw(&loaded.graph, &PictureOptions::default(), format)?,
    };
    match &args.output {
        Some(path) => {
            std::fs::write(path, format!("{}\n", text.trim_end())).map_err(|error| {
                CliError::usage(
                    "unwritable_file",
                    format!("cannot write `{}`: {error}", path.display()),
                )
            })?;
            terminal.progress(&format!("wrote {}", path.display()));
            if terminal.json {
                terminal.object(&json!({"schema": "orchestra.graph/1", "file": args.file, "output": path}));
            }
        }
        None if terminal.json => {
            terminal.object(&json!({"schema": "orchestra.graph/1", "file": args.file, "picture": text}));
        }
        None if format == Picture::Dot => terminal.data(text.trim_end()),
        None => terminal.result(text.trim_end()),
    }
    Ok(if loaded.report.has_errors() {
        Exit::Invalid
    } else {
        Exit::Ok
    })
}

fn default_format(output: Option<&Path>) -> Result<Picture, CliError> {
    let Some(path) = output else {
        return Ok(if std::io::stdout().is_terminal() {
            Picture::Text
        } else {
            Picture::Svg
        });
    };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") | None => Ok(Picture::Svg),
        Some("dot" | "gv") => Ok(Picture::Dot),
        Some("mmd" | "mermaid") => Ok(Picture::Mermaid),
        Some("txt") => Ok(Picture::Text),
        Some(other) => Err(
            CliError::usage("picture_format", format!("`.{other}` is not a picture format"))
                .help("end the file in `.svg`, `.dot`, `.mmd` or `.txt`, or say which by `--format`"),
        ),
    }
}

fn draw(graph: &Graph, options: &PictureOptions, format: Picture) -> Result<String, CliError> {
    match format {
        Picture::Dot => Ok(orchestra_picture::dot(graph, options)),
        Picture::Mermaid => Ok(print_mermaid(graph, options)),
        Picture::Text => Ok(orchestra_picture::text(graph)),
        Picture::Svg => orchestra_picture::best_svg(graph, options)
            .map_err(|error| CliError::usage("picture", format!("cannot draw the pipeline: {error}"))),
    }
}

/// A graph with the states and transitions of a run.
struct RunPicture {
    graph: Graph,
    options: PictureOptions,
}

impl RunPicture {
    fn new(runs: &Runs, name: &str, graph: &Graph) -> Result<RunPicture, CliError> {
        let folder = runs.find(name)?;
        let (index, name) = runs.index_of(&folder)?;
        let mut options = PictureOptions::default();
        for node in &graph.nodes {
            // Nodes that the run has not reached also get a state, so that a run without stages is drawn as such.
            options.states.insert(node.id.to_string(), NodeState::Pending);
        }
        for totals in index.node_totals(&name)? {
            options.states.insert(totals.node, totals.state);
        }
        let counts = index.edge_counts(&name)?.into_iter();
        let counts = counts.filter(|count| count.taken > 0);
        let counts = counts
            .map(|count| ((count.from, count.edge), count.taken))
            .collect();
        Ok(RunPicture {
            graph: with_counts(graph, &counts),
            options,
        })
    }

    fn draw(&self, format: Picture) -> Result<String, CliError> {
        let mut text = draw(&self.graph, &self.options, format)?;
        // Text output cannot rely on colours.
        if format == Picture::Text {
            text.push('\n');
            for state in NodeState::ALL {
                let nodes = self.graph.nodes.iter().map(|node| &*node.id);
                let nodes: Vec<&str> = nodes
                    .filter(|id| self.options.states.get(*id) == Some(&state))
                    .collect();
                if !nodes.is_empty() {
                    let word = if state == NodeState::Pending {
                        "not reached"
                    } else {
                        state.word()
                    };
                    text.push_str(&format!("{word}: {}\n", nodes.join(", ")));
                }
            }
        }
        Ok(text)
    }
}

/// The number of times that a run followed an edge, by its node and its number among the edges that leave the node.
type EdgeCounts = BTreeMap<(String, u32), u64>;

/// Adds the counts to the labels of the edges.
fn with_counts(graph: &Graph, counts: &EdgeCounts) -> Graph {
    let mut graph = graph.clone();
    let mut leaving: BTreeMap<NodeIndex, u32> = BTreeMap::new();
    for edge in &mut graph.edges {
        let next = leaving.entry(edge.from).or_default();
        let number = std::mem::replace(next, *next + 1);
        let from = graph.nodes.get(edge.from.at()).map(|node| node.id.to_string());
        let Some(count) = from.and_then(|from| counts.get(&(from, number))) else {
            continue;
        };
        let label = edge
            .attributes
            .filled(Known::Label)
            .map(|label| format!("{label} "));
        let span = edge.from_span;
        let label = Attribute {
            key: Key::Known(Known::Label),
            value: Value::String(format!("{}x{count}", label.unwrap_or_default()).into()),
            key_span: span,
            value_span: span,
            origin: Origin::Transform,
        };
        edge.attributes.set(label);
    }
    graph
}
