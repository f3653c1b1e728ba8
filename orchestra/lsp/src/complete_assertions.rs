//! Completion inside assertions.

use orchestra_graph::{ASSERTION_FORMS, AssertionCursor, NodeIndex, is_identifier, kind};

use crate::candidate::{Candidate, Candidates, Completing, labels};
use crate::complete_conditions::{in_quotes, outcomes};
use crate::protocol::CompletionItemKind;

/// The maximum number of names that one placeholder offers.
const CHOICES: usize = 20;

/// Returns the candidates inside an assertion.
pub(crate) fn assertions(completing: &Completing<'_>, before: &str, quoted: bool) -> Candidates {
    if !quoted {
        return completing.whole(Vec::new());
    }
    let loaded = &completing.opened.analysis.loaded;
    match AssertionCursor::at_end(before) {
        AssertionCursor::Name { word } => {
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            let is_called = completing
                .after()
                .trim_start_matches(is_name)
                .trim_start()
                .starts_with('(');
            let forms = ASSERTION_FORMS.iter().enumerate().map(|(at, (form, doc))| {
                let rank = u8::try_from(at).unwrap_or(u8::MAX).min(9);
                let candidate = Candidate::new(*form, CompletionItemKind::FUNCTION, "assertion");
                let candidate = candidate.doc(*doc).rank(rank);
                match (is_called, form.split_once('(')) {
                    // The arguments are written already.
                    (true, Some((name, _))) => candidate.insert(name),
                    _ => candidate.snippet(form_snippet(completing, form)),
                }
            });
            let mut forms: Vec<Candidate> = forms.collect();
            if is_called {
                forms.dedup_by(|a, b| a.insert == b.insert);
                let rest = completing.after();
                let rest = rest.get(..rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                let name = format!("{word}{}", rest.unwrap_or_default());
                // Another assertion has other arguments.
                if forms.iter().any(|form| form.insert.as_ref() == Some(&name)) {
                    forms.retain(|form| form.insert.as_ref() == Some(&name));
                }
            }
            completing.part(forms, word)
        }
        AssertionCursor::Node { word } => {
            completing.part(completing.nodes().map(|(_, candidate)| candidate).collect(), word)
        }
        AssertionCursor::StageResult { stage, word, quote } => {
            let list = match loaded.graph.find(stage) {
                Some(node) if loaded.analysis().kind(node) == kind::WAIT_HUMAN => labels(completing, node),
                Some(node) => outcomes(&completing.names(Some(node))),
                None => Vec::new(),
            };
            completing.part(
                list.into_iter()
                    .map(|candidate| in_quotes(candidate, quote))
                    .collect(),
                word,
            )
        }
        AssertionCursor::Since { word } => {
            if completing
                .after()
                .trim_start_matches(|c: char| c.is_alphanumeric())
                .starts_with('=')
            {
                return completing.whole(Vec::new());
            }
            let since = Candidate::new(
                "since=",
                CompletionItemKind::KEYWORD,
                "the node whose start makes the end stale",
            );
            let since = since.snippet(format!("since={}", placeholder(completing, 1, "OTHER")));
            completing.part(vec![since], word)
        }
        AssertionCursor::Counted { word } => {
            let counted = ["attempts", "visits"].map(|counted| {
                let insert = format!("{counted}) <= ${{1:100}}");
                Candidate::new(counted, CompletionItemKind::KEYWORD, "of all nodes together").snippet(insert)
            });
            completing.part(counted.into(), word)
        }
        _ => completing.whole(Vec::new()),
    }
}

/// Returns the first form of an assertion as a snippet.
pub(crate) fn likely_assertion(completing: &Completing<'_>) -> String {
    let first = ASSERTION_FORMS.first();
    first.map_or_else(String::new, |(form, _)| form_snippet(completing, form))
}

/// Returns the form of an assertion as a snippet: its words in capitals are placeholders.
fn form_snippet(completing: &Completing<'_>, form: &str) -> String {
    let mut snippet = String::new();
    let mut placeholders = 0;
    let mut rest = form;
    while let Some(start) = rest.find(|c: char| c.is_ascii_uppercase()) {
        let (before, tail) = rest.split_at(start);
        let length = tail.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(tail.len());
        let (word, after) = tail.split_at(length);
        placeholders += 1;
        snippet.push_str(before);
        snippet.push_str(&placeholder(completing, placeholders, word));
        rest = after;
    }
    snippet + rest
}

/// Returns the placeholder for a word of a form, with names of the pipeline: first those with which the assertion is most
/// likely to hold.
fn placeholder(completing: &Completing<'_>, number: usize, word: &str) -> String {
    let loaded = &completing.opened.analysis.loaded;
    let analysis = loaded.analysis();
    let is_end = |at: NodeIndex| analysis.is_start(at) || analysis.is_exit(at);
    let names: Vec<&str> = match word {
        "NUMBER" => return format!("${{{number}:100}}"),
        "RESULT" => {
            let mut stages = loaded.graph.indexed_nodes().filter(|(at, _)| !is_end(*at));
            let first = stages.find(|(_, node)| is_identifier(&node.id)).map(|(at, _)| at);
            let gate = first.filter(|at| analysis.kind(*at) == kind::WAIT_HUMAN);
            let answers = gate
                .map_or_else(Vec::new, |gate| labels(completing, gate))
                .into_iter();
            let answer = answers.map(|answer| in_quotes(answer, None)).next();
            let text = answer.map(|answer| answer.insert.unwrap_or(answer.label));
            return format!("${{{number}:{}}}", text.as_deref().unwrap_or("success"));
        }
        "NODE" => {
            let exits = analysis.exits().iter().copied();
            let others = loaded
                .graph
                .indexed_nodes()
                .map(|(at, _)| at)
                .filter(|at| !is_end(*at));
            exits.chain(others).map(|at| &*loaded.graph.node(at).id).collect()
        }
        _ => {
            let stages = loaded.graph.indexed_nodes().filter(|(at, _)| !is_end(*at));
            stages.map(|(_, node)| &*node.id).collect()
        }
    };
    let names: Vec<&str> = names
        .into_iter()
        .filter(|id| is_identifier(id))
        .take(CHOICES)
        .collect();
    match names.is_empty() {
        true => format!("${{{number}:{word}}}"),
        false => format!("${{{number}|{}|}}", names.join(",")),
    }
}
