//! Completion inside the template tags of prompts, such as `{{ stages.build.output }}`.

use orchestra_config::{BUILT_IN_VARIABLES, STAGE_FIELDS};
use orchestra_graph::{NodeIndex, is_identifier};

use crate::candidate::{Candidate, Candidates, Completing, declared_keys};
use crate::protocol::CompletionItemKind;

/// The namespace of the results of stages.
const STAGES: &str = "stages.";

/// Returns the candidates inside a template tag; none in the text around the tags.
pub(crate) fn template(
    completing: &Completing<'_>,
    node: Option<NodeIndex>,
    before: &str,
    quoted: bool,
) -> Candidates {
    match tag(before).filter(|_| quoted) {
        Some(tag) => {
            let word = word(tag);
            completing.part(variables(completing, node, word), word)
        }
        None => completing.whole(Vec::new()),
    }
}

/// Returns the text of the tag that is open at the end of a text.
fn tag(before: &str) -> Option<&str> {
    let opened = before.rfind("{{").max(before.rfind("{%"))?;
    let tag = before.get(opened + 2..)?;
    (!tag.contains("}}") && !tag.contains("%}")).then_some(tag)
}

/// Returns the path that is being typed at the end of a tag.
fn word(tag: &str) -> &str {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let start = tag.rfind(|c| !is_part(c)).map_or(0, |at| {
        at + tag
            .get(at..)
            .and_then(|rest| rest.chars().next())
            .map_or(1, char::len_utf8)
    });
    tag.get(start..).unwrap_or_default()
}

fn variables(completing: &Completing<'_>, node: Option<NodeIndex>, word: &str) -> Vec<Candidate> {
    if let Some(path) = word.strip_prefix(STAGES) {
        let stages = completing.nodes().filter(|(at, _)| Some(*at) != node);
        let ids = stages
            .map(|(_, stage)| stage)
            .filter(|stage| is_identifier(&stage.label));
        return match path.split_once('.') {
            Some((id, _)) => {
                let fields = STAGE_FIELDS.iter().map(|field| {
                    let path = format!("{STAGES}{id}.{field}");
                    Candidate::new(path, CompletionItemKind::FIELD, "result of the latest visit")
                });
                fields.collect()
            }
            None => ids
                .map(|mut stage| {
                    stage.label.insert_str(0, STAGES);
                    stage
                })
                .collect(),
        };
    }
    let mut list: Vec<Candidate> = declared_keys(completing, node);
    for candidate in &mut list {
        candidate.rank = 0;
    }
    list.push(Candidate::new(STAGES, CompletionItemKind::MODULE, "results of stages").rank(1));
    let built_in = BUILT_IN_VARIABLES.iter();
    list.extend(
        built_in.map(|name| Candidate::new(*name, CompletionItemKind::VARIABLE, "set by the engine").rank(2)),
    );
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_open_until_it_is_closed() {
        for (before, expected) in [
            ("Is {{ pa", Some("pa")),
            ("Is {{ a.b }} and {{", Some("")),
            ("{% if stages.build.ou", Some("stages.build.ou")),
            ("{{ a|upper ~ ", Some("")),
            ("{{ schön", Some("schön")),
            ("Is {{ pa }} right", None),
            ("Is { pa", None),
        ] {
            assert_eq!(tag(before).map(word), expected, "{before}");
        }
    }
}
