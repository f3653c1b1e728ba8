//! Checks of a backend against the requirements of a stage.

use orchestra_graph::{Diagnostic, NodeIndex, Severity};

use crate::backend::BackendKind;
use crate::candidate::{Candidate, Location};
use crate::choose::Resolver;
use crate::rules;
use crate::settings::Mode;

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
            BackendKind::Cli | BackendKind::Acp => "a program gets its prompt once and answers once",
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
        if !kind.is_program() {
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
                    .note(format!(
                        "a backend of the kind `{kind}` is a program that calls its tools itself"
                    ))
                    .help(help)
            });
        }
    }

    /// Reports a stage that would have to continue a conversation in a program that starts afresh each time (rule F5).
    pub(crate) fn check_fidelity(&mut self, node: NodeIndex, backend: &Candidate<String>, kind: BackendKind) {
        let definition = self.project.configuration.backends.get(&backend.value);
        if !kind.is_program() || definition.is_some_and(|own| own.value.has_sessions(kind)) {
            return;
        }
        let Some(span) = self.stages.full_fidelity(node) else {
            return;
        };
        let message = format!(
            "the backend `{}` cannot go on with a conversation, as the fidelity `full` of `{}` wants",
            backend.value,
            self.stages.id(node)
        );
        self.report(node, Location::Pipeline(span), |span| {
            Diagnostic::from_rule(&rules::BACKEND_CAPABILITY, message, span)
                .note("a program begins anew at each stage, unless it has a `preset` or a `session_pointer`")
                .help("write `fidelity=\"summary:high\"` on the node, or choose a backend of the kind `agent` or `direct`")
        });
    }

    /// Reports a stage without a model if its coding agent would choose a hosted one by itself, and a model without its
    /// provider.
    pub(crate) fn check_program_model(
        &mut self,
        node: NodeIndex,
        backend: &Candidate<String>,
        provider: Option<&Candidate<String>>,
        model: Option<&Candidate<String>>,
    ) {
        let definition = self.project.configuration.backends.get(&backend.value);
        let Some(preset) = definition.and_then(|own| own.preset.as_ref()) else {
            return;
        };
        let preset = preset.value;
        let has_provider = model.is_some_and(|model| provider.is_some() || model.value.contains('/'));
        if !preset.needs_model() || has_provider {
            return;
        }
        let id = self.stages.id(node).to_owned();
        let (location, message) = match model {
            Some(model) => (
                model.location,
                format!(
                    "`{preset}` needs the provider of the model `{}` of `{id}`",
                    model.value
                ),
            ),
            None => (
                Location::Nowhere,
                format!("no model is named for `{id}`, which `{preset}` does"),
            ),
        };
        self.report(node, location, |span| {
            Diagnostic::from_rule(&rules::UNRESOLVED_MODEL, message, span)
                .note(format!(
                    "without a model, `{preset}` chooses a hosted one by itself"
                ))
                .help("set `llm_model=\"PROVIDER/MODEL\"`, as `opencode models` lists them")
        });
    }
}
