//! Snippets: common parts of pipelines.

/// A part of a pipeline with placeholders.
pub(crate) struct Snippet {
    pub(crate) label: &'static str,
    pub(crate) detail: &'static str,
    /// The text in the syntax of the protocol.
    pub(crate) body: &'static str,
}

/// The snippets that begin a statement.
pub(crate) const SNIPPETS: &[Snippet] = &[
    Snippet {
        label: "human gate",
        detail: "a person decides how the run continues",
        body: "${1:approve} [shape=hexagon, label=\"${2:Ship it?}\"]\n\
               $1 -> ${3:ship} [label=\"[Y] ${4:Yes}\"]\n\
               $1 -> ${5:revise} [label=\"[N] ${6:No}\"]",
    },
    Snippet {
        label: "fan-out with fan-in",
        detail: "branches that run at the same time",
        body: "${1:split} [shape=component]\n\
               ${2:first} [prompt=\"${3:Review the change for errors.}\"]\n\
               ${4:second} [prompt=\"${5:Review the change for style.}\"]\n\
               ${6:merge} [shape=tripleoctagon]\n\
               $1 -> $2 -> $6\n\
               $1 -> $4 -> $6",
    },
    Snippet {
        label: "retry loop with tool and check",
        detail: "a model works until a command succeeds",
        body: "${1:fix} [prompt=\"${2:Fix the failing tests.}\", max_visits=${3:5}]\n\
               ${4:check} [shape=parallelogram, tool_command=\"${5:cargo test}\"]\n\
               $1 -> $4\n\
               $4 -> ${6:done} [condition=\"outcome=success\"]\n\
               $4 -> $1 [condition=\"outcome=fail\"]",
    },
    Snippet {
        label: "goal gate",
        detail: "the run succeeds only if the stage has succeeded",
        body: "${1:review} [prompt=\"${2:Review the change.}\", goal_gate=true, retry_target=${3:work}]",
    },
];

/// The snippet that begins a file.
pub(crate) const PIPELINE: Snippet = Snippet {
    label: "digraph",
    detail: "a new pipeline",
    body: "digraph ${1:name} {\n    goal=\"${2:What a run achieves}\"\n    start -> ${3:work} -> exit\n    \
           $3 [prompt=\"${4:Do the work.}\"]\n}\n",
};

impl Snippet {
    /// Returns the text with the defaults of all placeholders.
    pub(crate) fn expanded(&self) -> String {
        expanded(self.body)
    }
}

/// Returns a snippet with the defaults of all placeholders, and the first of each choice. Placeholders are not nested.
pub(crate) fn expanded(body: &str) -> String {
    let mut text = String::new();
    let mut defaults: Vec<(String, String)> = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find('$') {
        text.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        let Some(inner) = rest.strip_prefix('{') else {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, after) = rest.split_at_checked(end).unwrap_or_default();
            let known = defaults.iter().find(|(known, _)| known == number);
            text.push_str(known.map_or("", |(_, default)| default));
            rest = after;
            continue;
        };
        let (placeholder, after) = inner.split_once('}').unwrap_or_default();
        let default = match placeholder.split_once([':', '|']) {
            Some((number, default)) => {
                let first = if placeholder.ends_with('|') {
                    default.split([',', '|']).next().unwrap_or_default()
                } else {
                    default
                };
                defaults.push((number.to_owned(), first.to_owned()));
                first
            }
            None => "",
        };
        text.push_str(default);
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use orchestra_graph::{Source, load, render};

    use super::*;

    #[test]
    fn placeholders_are_replaced_by_their_defaults() {
        assert_eq!(
            expanded("a=${1:x} b=$1 c=${2|u,v|} d=$2$0 e=$3"),
            "a=x b=x c=u d=u e="
        );
    }

    #[test]
    fn each_snippet_is_part_of_a_sound_pipeline() {
        for (snippet, around) in SNIPPETS.iter().zip([
            "start -> approve; ship -> exit; revise -> exit; ship [prompt=\"Ship.\"]; revise [prompt=\"Revise.\"]",
            "start -> split; merge -> exit",
            "start -> fix; done -> exit; done [prompt=\"Report.\"]",
            "start -> work -> review -> exit; work [prompt=\"Work.\"]",
        ]) {
            let text = format!("digraph {{ {}\n{around} }}", snippet.expanded());
            let report = load(Source::new("a.dot", &*text), &Default::default()).report;
            assert!(report.diagnostics.is_empty(), "{text}\n{}", render::concise(&report));
        }
        let report = load(Source::new("a.dot", PIPELINE.expanded()), &Default::default()).report;
        assert!(report.diagnostics.is_empty(), "{}", render::concise(&report));
    }
}
