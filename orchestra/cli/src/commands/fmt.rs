//! `fmt`: formats pipelines canonically, and keeps their comments.

use std::io::Read;
use std::path::Path;

use orchestra_engine::Disk;
use orchestra_graph::{Limits, Report, format, parse_bytes};
use serde_json::json;

use crate::args::{FmtArgs, Format};
use crate::error::{CliError, Exit};
use crate::project::files::write_file;
use crate::project::pipelines::Pipelines;
use crate::report::diagnostics::print_report;
use crate::terminal::format::count;
use crate::terminal::{Paint, Terminal};

pub(crate) fn fmt(args: &FmtArgs, pipelines: &Pipelines, terminal: &Terminal) -> Result<Exit, CliError> {
    let (mut changed, mut invalid) = (0, 0);
    for file in &args.files {
        if pipelines.entry(file).is_some() {
            return Err(CliError::usage(
                "compiled_pipeline",
                format!("`{file}` is compiled into this program"),
            )
            .help("name the pipeline's file instead"));
        }
        let bytes = read(file)?;
        let name = if file == "-" { "<stdin>" } else { file };
        let parsed = parse_bytes(name, &bytes, &Limits::default());
        let Some(text) = format(&parsed) else {
            invalid += 1;
            let format = if terminal.json { Format::Json } else { Format::Text };
            print_report(terminal, &Report::new(parsed.source, parsed.diagnostics), format);
            continue;
        };
        let differs = text.as_bytes() != bytes;
        changed += usize::from(differs);
        if file == "-" {
            if !args.check {
                terminal.data(text.trim_end_matches('\n'));
            }
            continue;
        }
        if differs && !args.check {
            write_file(Path::new(file), text.as_bytes())?;
        }
        if terminal.json {
            terminal.object(&json!({"schema": "orchestra.fmt/1", "file": file, "changed": differs}));
        } else if differs {
            let word = if args.check { "would change" } else { "formatted" };
            terminal.progress(&format!("{word} {file}"));
        }
    }
    if !terminal.json && args.files != ["-"] {
        let word = if args.check {
            "not in canonical form"
        } else {
            "changed"
        };
        let summary = format!("{}: {changed} {word}", count(args.files.len(), "file"));
        terminal.progress(&terminal.paint(Paint::Dim, &summary));
    }
    Ok(match (invalid, changed) {
        (1.., _) => Exit::Invalid,
        (0, 1..) if args.check => Exit::RunFailed,
        _ => Exit::Ok,
    })
}

fn read(file: &str) -> Result<Vec<u8>, CliError> {
    // Reading one byte more than the limit lets the parser report the oversized file with a position.
    let most = Limits::default().bytes as u64 + 1;
    let bytes = if file == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(most).read_to_end(&mut bytes);
        read.map(|_| bytes)
    } else {
        Disk::read_at_most(file, most)
    };
    bytes.map_err(|error| CliError::usage("unreadable_file", format!("cannot read `{file}`: {error}")))
}
