//! Checks of the settings of a backend.

use orchestra_graph::Span;

use crate::backend::{Backend, BackendKind, OutputFormat};
use crate::decode::Diagnostics;
use crate::located::Located;

/// Reports the settings of a backend that contradict its kind or each other.
pub(crate) fn check_backend(
    name: &str,
    backend: &Located<Backend>,
    kind: BackendKind,
    diagnostics: &mut Diagnostics,
) {
    for (setting, span, of) in settings(backend) {
        if let Some(first) = of.first().filter(|_| !of.contains(&kind)) {
            diagnostics.value(
                format!("`{setting}` means nothing to a backend of the kind `{kind}`"),
                span,
                format!("take it away, or make the kind `{first}`"),
            );
        }
    }
    match kind {
        BackendKind::Cli => check_program(name, backend, diagnostics),
        BackendKind::Acp => check_acp(name, backend, diagnostics),
        _ => {}
    }
    for (_, pointer) in backend.pointers() {
        diagnostics.pointer(pointer, pointer.span);
    }
}

/// Reports an agent of the Agent Client Protocol that cannot be started.
fn check_acp(name: &str, backend: &Located<Backend>, diagnostics: &mut Diagnostics) {
    let (message, span) = match &backend.command {
        Some(command) if command.is_blank() => (format!("the command of `{name}` is empty"), command.span),
        Some(command) if command.arguments().is_none() => {
            let message = "the command of a backend of the kind `acp` is a list, which no shell reads";
            (message.to_owned(), command.span)
        }
        Some(_) => return,
        None => (format!("the backend `{name}` has no command"), backend.span),
    };
    let help = "write the program and its arguments, such as `command: [gemini, --acp]`";
    diagnostics.value(message, span, help);
}

/// Reports a program that cannot be run, and settings of programs that have no effect.
fn check_program(name: &str, backend: &Located<Backend>, diagnostics: &mut Diagnostics) {
    let command = backend.command.as_ref().filter(|command| !command.is_blank());
    if let Some(preset) = &backend.preset {
        for (setting, span) in own_program(backend) {
            diagnostics.value(
                format!(
                    "`{setting}` means nothing with `preset: {}`, which says it itself",
                    preset.value
                ),
                span,
                "take it away, or write the whole command with `kind: cli` instead of the preset",
            );
        }
        return;
    }
    for (setting, span) in of_presets(backend) {
        diagnostics.value(
            format!("`{setting}` means nothing without a `preset`"),
            span,
            "add a `preset`, or write what the program needs into its `command`",
        );
    }
    if let Some(list) = command.filter(|command| command.arguments().is_some()) {
        diagnostics.value(
            "the command of a backend of the kind `cli` is a text, which the shell reads",
            list.span,
            "write it as one text, or make the kind `acp` if the program speaks the Agent Client Protocol",
        );
    }
    if command.is_none() {
        diagnostics.value(
            format!("the backend `{name}` has no command"),
            backend.span,
            "add `command:` with the shell command that starts the program, or a `preset:`",
        );
    }
    let lines = backend
        .output
        .as_ref()
        .filter(|output| output.value == OutputFormat::JsonLines);
    if let (Some(output), true) = (lines, backend.r#final.is_empty()) {
        diagnostics.value(
            "no event is named that ends the work",
            output.span,
            "add `final:` with fields of the event that holds the answer, such as `final: {type: result}`",
        );
    }
    if lines.is_none() {
        let last = backend.r#final.values().next().map(|value| ("final", value.span));
        let session = backend
            .session_pointer
            .as_ref()
            .map(|pointer| ("session_pointer", pointer.span));
        for (setting, span) in last.into_iter().chain(session) {
            diagnostics.value(
                format!("`{setting}` means nothing without `output: json-lines`"),
                span,
                "take it away, or add `output: json-lines`",
            );
        }
    }
}

fn span<T>(setting: &Option<Located<T>>) -> Option<Span> {
    setting.as_ref().map(|setting| setting.span)
}

/// Returns the settings that describe a program without a preset.
fn own_program(backend: &Backend) -> Vec<(&'static str, Span)> {
    let own = [
        ("command", span(&backend.command)),
        ("input", span(&backend.input)),
        ("output", span(&backend.output)),
        ("final", backend.r#final.values().next().map(|value| value.span)),
    ];
    let own = own.into_iter().filter_map(|(name, span)| Some((name, span?)));
    own.chain(backend.pointers().map(|(name, pointer)| (name, pointer.span)))
        .collect()
}

/// Returns the settings that only a preset understands.
fn of_presets(backend: &Backend) -> impl Iterator<Item = (&'static str, Span)> {
    let all = [
        ("access", span(&backend.access)),
        ("settings", span(&backend.settings)),
    ];
    all.into_iter().filter_map(|(name, span)| Some((name, span?)))
}

/// Returns the settings of a backend that apply to some kinds only, with their spans and those kinds.
fn settings(backend: &Backend) -> Vec<(&'static str, Span, &'static [BackendKind])> {
    use BackendKind::{Acp, Agent, Cli};
    let agent = [
        ("max_turns", span(&backend.max_turns)),
        ("max_parallel_tools", span(&backend.max_parallel_tools)),
    ];
    let acp = span(&backend.permissions).map(|span| ("permissions", span, &[Acp][..]));
    let program = [
        ("preset", span(&backend.preset)),
        ("timeout", span(&backend.timeout)),
        ("environment", backend.environment.first().map(|name| name.span)),
    ];
    let agent = agent
        .into_iter()
        .filter_map(|(name, span)| Some((name, span?, &[Agent][..])));
    let program = program.into_iter().filter_map(|(name, span)| Some((name, span?)));
    let program = program.chain(own_program(backend)).chain(of_presets(backend));
    let program = program.map(|(name, span)| {
        let kinds: &[BackendKind] = match name {
            "command" | "timeout" | "environment" => &[Cli, Acp],
            _ => &[Cli],
        };
        (name, span, kinds)
    });
    agent.chain(program).chain(acp).collect()
}
