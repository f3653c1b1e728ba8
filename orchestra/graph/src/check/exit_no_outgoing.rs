//! `exit_no_outgoing`: an edge leads on from the exit (Attractor 7.2).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::{Diagnostic, Severity};

pub(crate) static CHECK: Check = Check {
    code: "exit_no_outgoing",
    severity: Severity::Error,
    summary: "an edge leads on from the exit",
    source: "Attractor 7.2",
    whole: false,
    run,
};

fn run(input: &Input<'_>, faults: &mut Vec<Diagnostic>) {
    let Some(exit) = input.analysis.exit() else {
        return;
    };
    let id = input.id(exit);
    for edge in input.analysis.outgoing(exit) {
        let edge = input.edge(*edge);
        faults.push(
            Diagnostic::error(
                CHECK.code,
                format!("an edge leads on from the exit `{id}`"),
                edge.from_span,
            )
            .label("the run ends here")
            .note("the edge would never be taken")
            .help(format!(
                "let the edge begin at the stage before `{id}`, or give `{id}` another shape"
            ))
            .node(id)
            .edge(id, input.id(edge.to)),
        );
    }
}
