//! Tests of spellings of other tools: unambiguous ones are accepted, others are reported with a correction (rule L7).
use orchestra_graph::condition::Facts;
use orchestra_graph::table::{ErrorPolicy, FanOut, JoinPolicy};
use orchestra_graph::{Known, LoadOptions, Loaded, Pipeline, ReadError, Source, load};

fn loaded(text: &str) -> Loaded {
    let child = |path: &str, _: u64| match path {
        "child.dot" | "parts/child.fabro" => {
            Ok(b"digraph child { start -> work -> exit; work [prompt=w] }".to_vec())
        }
        _ => Err(ReadError::Missing),
    };
    let options = LoadOptions {
        children: Some(&child),
        ..LoadOptions::default()
    };
    load(Source::new("test.dot", text), &options)
}

/// Returns the pipeline of a text without diagnostics.
#[track_caller]
fn sound(text: &str) -> Pipeline {
    let loaded = loaded(text);
    assert!(
        loaded.report.diagnostics.is_empty(),
        "{text}: {:?}",
        loaded.report.diagnostics
    );
    loaded.pipeline().expect("there are no errors")
}

/// Returns the code and message of the only diagnostic of a text.
#[track_caller]
fn diagnostic(text: &str) -> (&'static str, String) {
    let report = loaded(text).report;
    let [diagnostic] = &report.diagnostics[..] else {
        panic!("{text}: {:?}", report.diagnostics);
    };
    (diagnostic.code, diagnostic.message.clone())
}

#[test]
fn whole_numbers_may_be_written_with_a_point() {
    let text = |weight: &str| {
        format!("digraph {{ start -> a -> exit [weight={weight}]; a [prompt=x, max_retries=2.0] }}")
    };
    let pipeline = sound(&text("2.0"));
    assert_eq!(pipeline.edges[1].weight, 2);
    assert_eq!(
        pipeline
            .stage(pipeline.find("a").expect("declared"))
            .row()
            .retry
            .attempts,
        3
    );
    assert_eq!(sound(&text("\"-3.0\"")).edges[1].weight, -3);
    for weight in ["2.5", "\"2.5\""] {
        let message = "`weight` must be a whole number, but `2.5` is not".to_owned();
        assert_eq!(diagnostic(&text(weight)), ("attribute_type", message));
    }
    // The value is shown as it is written.
    let text = "digraph { start -> a -> exit; a [prompt=x, timeout=1.0] }";
    assert!(diagnostic(text).1.contains("`1.0`"), "{}", diagnostic(text).1);
}

#[test]
fn join_policies_of_other_tools_are_accepted() {
    let text = |attributes: &str| {
        format!(
            "digraph {{ start -> fan; fan [shape=component, {attributes}]; fan -> a -> join; fan -> b -> join
             a [prompt=x]; b [prompt=y]; join [shape=tripleoctagon]; join -> exit }}"
        )
    };
    let fan_out = |pipeline: &Pipeline| -> FanOut {
        let row = pipeline.stage(pipeline.find("fan").expect("declared")).row();
        row.fan_out.expect("it fans out")
    };
    let all = fan_out(&sound(&text("join_policy=all_success")));
    assert_eq!(
        (all.join_policy, all.error_policy),
        (JoinPolicy::WaitAll, ErrorPolicy::FailFast)
    );
    let any = fan_out(&sound(&text("join_policy=\"any_success\"")));
    assert_eq!(
        (any.join_policy, any.error_policy),
        (JoinPolicy::FirstSuccess, ErrorPolicy::Continue)
    );
    assert_eq!(
        sound(&text("join_policy=all_success, error_policy=fail_fast")).canonical(),
        sound(&text("join_policy=wait_all, error_policy=fail_fast")).canonical()
    );
    // The two values conflict; the one that stops on a failure wins.
    let both = text("join_policy=all_success, error_policy=ignore");
    assert_eq!(diagnostic(&both).0, "conflicting_aliases");
    let pipeline = loaded(&both).pipeline().expect("it is a warning");
    assert_eq!(fan_out(&pipeline).error_policy, ErrorPolicy::FailFast);
    let (code, message) = diagnostic(&text("join_policy=all_succes"));
    assert_eq!(code, "attribute_type");
    assert!(message.contains("one of `wait_all`, `k_of_n`"), "{message}");
}

#[test]
fn the_kind_of_the_node_says_what_a_dot_file_is() {
    let text = |shape: &str| {
        format!(
            "digraph {{ start -> a -> exit; a [label=A, dot_file=\"parts/child.fabro\", shape={shape}] }}"
        )
    };
    for (shape, known) in [("house", Known::ChildDotfile), ("folder", Known::SubpipelineFile)] {
        let pipeline = sound(&text(shape));
        let stage = pipeline.stage(pipeline.find("a").expect("declared"));
        assert!(stage.attribute(known.name()).is_some(), "{shape}");
        let child = pipeline.child(stage.row()).expect("it is loaded");
        assert_eq!(
            (&*child.file, &*child.pipeline.name),
            ("parts/child.fabro", "child")
        );
    }
    let missing = text("folder").replace("child.fabro", "other.fabro");
    assert_eq!(diagnostic(&missing).0, "child_not_found");
    assert_eq!(diagnostic(&text("box")).0, "unknown_attribute");
    // A handler of the program may read it, and defaults are meant for other nodes.
    sound(&text("box").replace("label=A", "type=\"acme.draw\""));
    sound("digraph { node [dot_file=\"child.dot\"]; start -> a -> exit; a [prompt=x] }");
    let both = text("house").replace("label=A", "label=A, stack.child_dotfile=\"child.dot\"");
    assert_eq!(diagnostic(&both).0, "conflicting_aliases");
    let renamed = text("house").replace("dot_file", "stack.child_workflow");
    assert!(
        sound(&renamed)
            .stage(sound(&renamed).find("a").expect("declared"))
            .row()
            .child
            .is_some()
    );
}

#[test]
fn a_goal_gate_may_have_a_condition_of_its_own() {
    let text = |gate: &str| {
        format!("digraph {{ start -> a -> exit; a [prompt=x, retry_target=a, goal_gate={gate}] }}")
    };
    let pipeline = sound(&text("\"outcome = success && context.coverage >= 80\""));
    let row = pipeline.stage(pipeline.find("a").expect("declared")).row();
    assert!(row.goal_gate);
    let condition = pipeline.goal_condition(row).expect("it has one");
    let context = std::collections::BTreeMap::from([("coverage".to_owned(), 80.into())]);
    let facts = Facts {
        outcome: "success",
        context: &context,
        ..Facts::default()
    };
    assert!(condition.holds(&facts));
    assert!(!condition.holds(&Facts {
        outcome: "fail",
        ..facts
    }));
    for (flag, gate) in [("true", true), ("\"false\"", false)] {
        let pipeline = loaded(&text(flag)).pipeline().expect("sound");
        let row = pipeline.stage(pipeline.find("a").expect("declared")).row();
        assert_eq!((row.goal_gate, row.goal_condition), (gate, None));
    }
    // On the exit the condition is evaluated before the run ends.
    sound(
        "digraph { start -> a -> exit; a [prompt=x]; exit [goal_gate=\"outcome = success\", retry_target=a] }",
    );
    let message = "`goal_gate` must be `true`, `false` or a condition, but `yes` is not".to_owned();
    assert_eq!(diagnostic(&text("yes")), ("attribute_type", message));
    let unknown = (
        diagnostic(&text("\"outcme = success\"")).0,
        diagnostic(&text("\"outcome = success &\"")).0,
    );
    assert_eq!(unknown, ("condition_syntax", "condition_syntax"));
    let label = diagnostic(&text("\"preferred_label = Yes\""));
    assert_eq!(
        label,
        (
            "condition_syntax",
            "a goal gate cannot read `preferred_label`".to_owned()
        )
    );
    assert_eq!(
        diagnostic(&text("\"context.tool_stdout=ok\"")).0,
        "foreign_context_key"
    );
    assert_eq!(diagnostic(&text("\"outcome = passed\"")).0, "unknown_outcome");
}

#[test]
fn words_with_a_dot_need_no_quotes() {
    let pipeline = sound(
        "digraph { llm_model=gpt-5.4; model_stylesheet=\"* { model: gpt-5.4 } #b { llm_model: gpt-5.4-mini; }\"
         start -> a [label=gpt-5.4]; a [prompt=x, llm_model=gpt-5.4]; b [prompt=y]; c [prompt=z, llm_model=3.5-turbo]
         a -> b [condition=\"context.model=gpt-5.4\"]; a -> c; b -> exit; c -> exit }",
    );
    let model = |id: &str| {
        let stage = pipeline.stage(pipeline.find(id).expect("declared"));
        stage
            .attribute("llm_model")
            .map(|model| model.to_value().to_string())
    };
    assert_eq!(model("a").as_deref(), Some("gpt-5.4"));
    assert_eq!(model("b").as_deref(), Some("gpt-5.4-mini"));
    assert_eq!(model("c").as_deref(), Some("3.5-turbo"));
    let context = std::collections::BTreeMap::from([("model".to_owned(), "gpt-5.4".into())]);
    let facts = Facts {
        context: &context,
        ..Facts::default()
    };
    let condition = pipeline.conditions().next().expect("the first edge has one");
    assert!(condition.holds(&facts));
}
