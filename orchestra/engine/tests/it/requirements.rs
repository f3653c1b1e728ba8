//! Tests of the registry requirements of a loaded pipeline, by the same rules as for a compiled one.

use std::sync::Arc;

use orchestra_engine::{
    FieldSpec, FieldType, Handler, HandlerFuture, KindSpec, Outcome, Registry, StageContext,
    UnmetRequirement, Words, check_registry,
};
use orchestra_graph::{LoadOptions, Source, load};

struct Nothing;

impl Handler for Nothing {
    fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
        Box::pin(async { Outcome::success().into() })
    }
}

const fn field(name: &'static str, ty: FieldType, required: bool) -> FieldSpec {
    FieldSpec { name, ty, required }
}

const REVIEW: KindSpec = KindSpec {
    kind: "review",
    fields: &[&[
        field("strictness", FieldType::Integer, true),
        field("share", FieldType::Float, false),
        field("strict", FieldType::Boolean, false),
        field("limit", FieldType::Duration, false),
    ]],
    words: Words::Only(&["approved", "rejected"]),
};

const OPEN: KindSpec = KindSpec {
    kind: "open",
    fields: &[],
    words: Words::Open,
};

fn faults(body: &str) -> Vec<UnmetRequirement> {
    let text = format!("digraph a {{\n{body}\n}}");
    let loaded = load(Source::new("a.dot", text), &LoadOptions::default());
    let pipeline = loaded.pipeline().expect("the graph is sound");
    let mut registry = Registry::default();
    registry.add(REVIEW, Arc::new(Nothing));
    registry.add(OPEN, Arc::new(Nothing));
    check_registry(&pipeline, &registry)
}

fn codes(body: &str) -> Vec<&'static str> {
    faults(body).iter().map(|fault| fault.code).collect()
}

#[test]
fn a_kind_without_handler_is_reported_once() {
    let found = faults("start -> a -> b -> exit\na [type=ship]\nb [type=ship]");
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].code, &*found[0].node, found[0].line, found[0].column),
        ("missing_handler", "a", 3, 1)
    );
}

#[test]
fn attributes_are_there_and_can_be_read() {
    assert_eq!(
        codes("start -> a -> exit\na [type=review]"),
        ["missing_attribute"]
    );
    assert_eq!(
        codes("start -> a -> exit\na [type=review, strictness=\"3\"]"),
        [""; 0]
    );
    assert_eq!(
        codes("start -> a -> exit\na [type=review, strictness=high]"),
        ["attribute_value"]
    );
    for (value, sound) in [
        ("share=1", true),
        ("share=\"0.5\"", true),
        ("share=half", false),
        ("strict=true", true),
        ("strict=\"false\"", true),
        ("strict=1", false),
        ("limit=15m", true),
        ("limit=90", true),
        ("limit=\"2h\"", true),
        ("limit=-1", false),
        ("limit=true", false),
    ] {
        let body = format!("start -> a -> exit\na [type=review, strictness=3, {value}]");
        assert_eq!(codes(&body).is_empty(), sound, "{value}");
    }
}

#[test]
fn an_edge_waits_for_a_word_that_is_returned() {
    let edge = |condition: &str| {
        let body = format!(
            "start -> a -> exit\na [type=review, strictness=3]\na -> b [condition=\"{condition}\"]\nb -> exit"
        );
        codes(&body)
    };
    assert!(edge("outcome=approved").is_empty());
    assert!(edge("outcome=fail").is_empty());
    assert!(edge("outcome!=aproved").is_empty());
    assert!(edge("outcome=aproved || outcome=rejected").is_empty());
    assert!(edge("outcome=aproved || context.force").is_empty());
    assert_eq!(edge("outcome=aproved"), ["outcome_never_returned"]);
    assert_eq!(
        edge("context.ready && outcome=success"),
        ["outcome_never_returned"]
    );
}

#[test]
fn a_word_is_seen_through_diamonds_and_any_stage_may_return_it() {
    let through = |kind: &str| {
        codes(&format!(
            "start -> a -> d\nstart -> o -> d\na [type=review, strictness=3]\no [type={kind}, strictness=3]\n\
             d [shape=diamond]\nd -> e [condition=\"outcome=other\"]\nd -> exit\ne [shape=diamond]\ne -> exit"
        ))
    };
    assert_eq!(through("review"), ["outcome_never_returned"]);
    assert!(through("open").is_empty());
    assert!(through("codergen").is_empty());
}

#[test]
fn the_engine_s_own_words_are_not_asked_of_a_handler() {
    let body = |attribute: &str, word: &str| {
        codes(&format!(
            "start -> a -> exit\na [type=review, strictness=3, {attribute}]\na -> b [condition=\"outcome={word}\"]\nb -> exit"
        ))
    };
    assert!(body("allow_partial=true", "partial_success").is_empty());
    assert!(body("auto_status=true", "success").is_empty());
    assert_eq!(
        body("allow_partial=false", "partial_success"),
        ["outcome_never_returned"]
    );
}
