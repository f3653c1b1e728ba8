//! `graph`: a picture of a pipeline.

use std::io::IsTerminal;
use std::path::Path;

use orchestra_graph::{Graph, PictureOptions, print_dot, print_mermaid};
use serde_json::json;

use crate::args::{Format, GraphArgs, Lints, Picture};
use crate::error::{CliError, Exit};
use crate::pipelines::{Pipelines, print_reports};
use crate::terminal::Terminal;

pub(crate) fn graph(args: &GraphArgs, pipelines: &Pipelines, terminal: &Terminal) -> Result<Exit, CliError> {
    let loaded = pipelines.load(&args.file, &Lints::default())?;
    // A faulty graph is drawn all the same: the picture may show the fault.
    if loaded.report.has_errors() {
        let format = if terminal.json { Format::Json } else { Format::Text };
        print_reports(terminal, &loaded, format);
    }
    let format = match args.format {
        Some(format) => format,
        None => by_default(args.output.as_deref())?,
    };
    let text = draw(&loaded.graph, format)?;
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
        None => terminal.result(text.trim_end()),
    }
    Ok(if loaded.report.has_errors() {
        Exit::Invalid
    } else {
        Exit::Ok
    })
}

fn by_default(output: Option<&Path>) -> Result<Picture, CliError> {
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
            CliError::usage("picture_format", format!("`.{other}` is no form of picture"))
                .help("end the file in `.svg`, `.dot`, `.mmd` or `.txt`, or say which by `--format`"),
        ),
    }
}

fn draw(graph: &Graph, format: Picture) -> Result<String, CliError> {
    let options = PictureOptions::default();
    match format {
        Picture::Dot => Ok(print_dot(graph, &options)),
        Picture::Mermaid => Ok(print_mermaid(graph, &options)),
        Picture::Text => Ok(orchestra_picture::text(graph)),
        Picture::Svg => orchestra_picture::best_svg(graph, &options)
            .map_err(|error| CliError::usage("picture", format!("cannot draw the pipeline: {error}"))),
    }
}
