//! Checks of a backend against the requirements of a stage.

use orchestra_graph::{Diagnostic, NodeIndex, Severity};

use crate::candidate::{Candidate, Location};
use crate::choose::Resolver;
use crate::rules;
use crate::settings::{BackendKind, Mode};

/// The attributes that name hooks, each with the severity of a backend that ignores it. The pre hook is a guard.
const HOOKS: [(&str, Severity); 2] = [
    ("tool_hooks.pre", Severity::Error),
    ("tool_hooks.post", Severity::Warning),
];

impl Resolver<'_> {
    /// Reports an interactive stage on a backend that cannot talk with a person (rule F8).
    pub(crate) fn check_mode(
        &mut self,
        node: NodeIndex,
        mode: &Candidate<Mode>,
        backend: &Candidate<String>,
        kind: BackendKind,
    ) {
        if mode.value != Mode::Interactive || kind.has_tools() {
            return;
        }
        let message = format!(
            "the backend `{}` cannot talk with a person during a stage",
            backend.value
        );
        let note = match kind {
            BackendKind::Cli => "a program gets its prompt once and answers once",
            _ => "a backend of the kind `direct` asks its model once",
        };
        self.report(node, mode.location, |span| {
            Diagnostic::from_rule(&rules::BACKEND_CAPABILITY, message, span)
                .note(note)
                .help("choose a backend of the kind `agent`, or the mode `autonomous`")
        });
    }

    /// Reports hooks on a backend that calls its tools itself, because the hooks would not run (rule F8).
    pub(crate) fn check_hooks(&mut self, node: NodeIndex, backend: &Candidate<String>, kind: BackendKind) {
        if kind != BackendKind::Cli {
            return;
        }
        let stages = self.stages;
        for (name, severity) in HOOKS {
            let hook = stages.of_node(node, name).or_else(|| stages.of_graph(name));
            let Some(hook) = hook.filter(|hook| hook.is_filled()) else {
                continue;
            };
            let id = stages.id(node);
            let message = format!(
                "`{name}` does not run around the tool calls of the backend `{}`",
                backend.value
            );
            let help = format!(
                "choose a backend of the kind `agent`, or write `{name}=\"\"` on `{id}` to run it without the hook"
            );
            self.report(node, Location::Pipeline(hook.span), |span| {
                Diagnostic::from_rule(&rules::BACKEND_CAPABILITY, message, span)
                    .severity(severity)
                    .note("a backend of the kind `cli` is a program that calls its tools itself")
                    .help(help)
            });
        }
    }
}
