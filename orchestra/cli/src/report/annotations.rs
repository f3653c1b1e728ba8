//! Diagnostics as commands of a workflow runner, which shows them at the lines of a change.

use std::fmt::Write as _;

use orchestra_graph::Report;
use orchestra_graph::render::{self, DiagnosticObject};

/// Returns the diagnostics of a report in the format of workflow commands of GitHub Actions, one line each.
pub(crate) fn annotations(report: &Report) -> String {
    let lines = render::objects(report).into_iter().map(|object| line(&object));
    lines.collect::<Vec<_>>().join("\n")
}

fn line(object: &DiagnosticObject<'_>) -> String {
    let command = match object.severity {
        "note" => "notice",
        severity => severity,
    };
    let file = object.file.trim_start_matches("./");
    let mut line = format!(
        "::{command} file={},line={},endLine={},col={}",
        property(file),
        object.line,
        object.end_line,
        object.column,
    );
    // A last column is shown only within one line.
    if object.end_line == object.line && object.end_column > object.column {
        let _ = write!(line, ",endColumn={}", object.end_column - 1);
    }
    let mut message = object.message.to_owned();
    for note in object.notes {
        let _ = write!(message, "\nnote: {note}");
    }
    if let Some(help) = object.help {
        let _ = write!(message, "\nhelp: {help}");
    }
    let _ = write!(line, ",title={}::{}", property(object.code), data(&message));
    line
}

/// Escapes a message. Its further lines cannot be commands.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use orchestra_graph::{Diagnostic, Source, Span};

    use super::*;

    #[test]
    fn each_diagnostic_is_one_command_whatever_it_contains() {
        let source = Source::new("./a,b:c.dot", "digraph {\n  start -> exit\n}\n");
        let diagnostics = vec![
            Diagnostic::error("demo", "100 %", Span::new(12, 17))
                .note("so")
                .help("fix\n::error::forged"),
            Diagnostic::warning("demo", "wide", Span::new(8, 27)),
        ];
        let text = annotations(&Report::new(source, diagnostics));
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "::warning file=a%2Cb%3Ac.dot,line=1,endLine=3,col=9,title=demo::wide",
                "::error file=a%2Cb%3Ac.dot,line=2,endLine=2,col=3,endColumn=7,title=demo::100 %25%0Anote: so\
                 %0Ahelp: fix%0A::error::forged",
            ]
        );
    }
}
