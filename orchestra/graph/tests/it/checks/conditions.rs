//! Tests of the checks of conditions.

use orchestra_graph::{LoadOptions, Severity, Source, load};

use super::{around, clean, codes, raises};

#[test]
fn covering_conditions_raise_nothing() {
    // The failure of a work stage needs no edge. Success and failure are its only outcomes by default.
    clean("start -> a; a -> exit [condition=\"outcome=success\"]");
    clean("start -> a; a -> exit [condition=\"outcome=success\"]; a -> a [condition=\"outcome=fail\"]");
    clean("start -> a; a -> exit [condition=\"outcome!=fail\"]; a -> a [condition=\"outcome=fail\"]");
    clean("start -> a -> d; d -> exit [condition=\"outcome=success\"]; d -> a [condition=\"outcome=fail\"]");
    clean(
        "start -> a -> d; d -> exit [condition=\"outcome=success\"]; d -> a [condition=\"outcome!=success\"]",
    );
    // The failure never reaches the routing node.
    clean(
        "start -> a; a -> d [condition=\"outcome=success\"]; a -> f [condition=\"outcome=fail\"]; d -> exit [condition=\"outcome=success\"]",
    );
    clean(
        "start -> a; a -> d; a -> f [condition=\"outcome=fail\"]; d -> exit [condition=\"outcome=success\"]",
    );
    // Other keys, each compared with its opposite.
    clean(
        "start -> a; a -> exit [condition=\"context.x=1\"]; a -> b [condition=\"context.x!=1\"]; b -> exit",
    );
    clean("start -> a; a -> exit [condition=\"context.x\"]; a -> b [condition=\"!context.x\"]; b -> exit");
    clean(
        "start -> a; a -> exit [condition=\"context.x matches y\"]; a -> b [condition=\"!(context.x matches y)\"]; b -> exit",
    );
    clean(
        "start -> a; a -> exit [condition=\"context.n<3\"]; a -> b [condition=\"!(context.n<3)\"]; b -> exit",
    );
    clean(
        "start -> a; a -> exit [condition=\"outcome=success && context.x=1\"]; a -> b [condition=\"outcome=success && context.x!=1\"]; b -> exit",
    );
    // Declared outcomes are those that the stage returns.
    clean(
        "start -> a; a [label=A, outcomes=\"yes,no\"]; a -> exit [condition=\"outcome=yes\"]; a -> b [condition=\"outcome=no\"]; b -> exit",
    );
    clean(
        "start -> a -> d; a [label=A, outcomes=\"yes\"]; d -> exit [condition=\"outcome=yes\"]; d -> f [condition=\"outcome=fail\"]",
    );
    // A person answers with one of the choices.
    clean(
        "start -> h; h -> exit [label=Yes, condition=\"preferred_label=Yes\"]; h -> f [label=No, condition=\"preferred_label=No\"]",
    );
    clean(
        "start -> h -> d; d -> exit [condition=\"human.gate.selected=Y\"]; d -> f [condition=\"human.gate.selected=N\"]",
    );
    // Too many cases to enumerate.
    let many: String = (0..30)
        .map(|key| {
            format!("a -> exit [condition=\"context.k{key} contains x && outcome=success\", label=l{key}];")
        })
        .collect();
    clean(&format!("start -> a; {many}"));
}

#[test]
fn gaps_in_conditions_are_named() {
    let gap = ["non_exhaustive_conditions"];
    raises("start -> a; a -> exit [condition=\"outcome=fail\"]", &gap);
    raises("start -> a -> d; d -> exit [condition=\"outcome=success\"]", &gap);
    raises(
        "start -> a; a -> exit [condition=\"context.x=1\"]; a -> b [condition=\"context.x=2\"]; b -> exit",
        &gap,
    );
    // A partial success is routed as a success if no edge handles it (rule R12).
    clean("start -> a; a [label=A, allow_partial=true]; a -> exit [condition=\"outcome=success\"]");
    raises(
        "start -> a; a -> exit [condition=\"outcome=success && context.x=1\"]; a -> exit [condition=\"outcome=success && context.x!=1 && context.y\"]",
        &gap,
    );
    clean("start -> a; a -> b [condition=\"visits.a<3\"]; a -> exit [condition=\"visits.a>=3\"]; b -> a");
    raises(
        "start -> a; a -> b [condition=\"visits.a<3\"]; a -> exit [condition=\"visits.a>3\"]; b -> a",
        &gap,
    );
    raises(
        "start -> a; a [label=A, outcomes=\"yes,no\"]; a -> exit [condition=\"outcome=yes\"]",
        &gap,
    );
    raises(
        "start -> a; a -> exit [condition=\"context.n<3\"]; a -> b [condition=\"context.n>=3\"]; b -> exit",
        &gap,
    );
    let loaded = load(
        Source::new(
            "a.dot",
            around(
                "start -> a -> d; d -> exit [condition=\"outcome=success && context.ok=yes\"]; d -> a [condition=\"outcome=fail\"]",
            ),
        ),
        &LoadOptions::default(),
    );
    let message = "no edge of `d` is taken when the outcome is `success` and `context.ok` is missing";
    assert_eq!(loaded.report.diagnostics[0].message, message);
}

#[test]
fn records_of_stages_name_nodes_and_what_is_kept_of_them() {
    let syntax = ["condition_syntax"];
    let edge =
        |condition: &str| format!("start -> a; a -> exit; a -> b [condition=\"{condition}\"]; b -> exit");
    clean(&edge("visits.a>=3 && stages.b.outcome=fail"));
    for condition in [
        "visits.nowhere>=3",
        "stages.nowhere.outcome=fail",
        "stages.a.notes=x",
        "stages.a=x",
    ] {
        raises(&edge(condition), &syntax);
    }
    raises(
        "graph [retry_target=a]; start -> a -> exit; a [label=A, goal_gate=\"visits.nowhere>1\"]",
        &syntax,
    );
}

#[test]
fn a_condition_that_is_not_read_is_an_error() {
    let way = |edge: &str| format!("routing=first_match; start -> a; a -> exit [{edge}]; a -> b; b -> exit");
    for lost in [
        "condition_value=ready",
        "condition_type=success, condition_value=ready",
        "condition_type=always, condition_value=ready",
        "condition=\"context.x=1\", condition_type=success",
        "condition=\"context.x=1\", condition_value=ready",
        "condition=\"context.x=1\", condition_type=conditional, condition_value=ready",
    ] {
        let text = around(&way(lost));
        let loaded = load(Source::new("test.dot", &*text), &LoadOptions::default());
        let found: Vec<_> = loaded.report.errors().map(|diagnostic| diagnostic.code).collect();
        assert_eq!(found, ["ignored_condition"], "{lost}");
        assert!(loaded.pipeline().is_none(), "{lost}");
    }
    let text = around(&way("condition=\"context.x=1\", condition_type=always"));
    let loaded = load(Source::new("test.dot", &*text), &LoadOptions::default());
    let found: Vec<_> = loaded
        .report
        .diagnostics
        .iter()
        .map(|diagnostic| (diagnostic.code, diagnostic.severity))
        .collect();
    assert_eq!(found, [("ignored_condition", Severity::Warning)]);
    // A blank value has no effect, and an edge may override a default.
    clean(&way("condition_type=success, condition_value=\"\""));
    clean(&format!(
        "edge [condition_type=success]; {}",
        way("condition=\"context.x=1\"")
    ));
    // The fix turns it into a condition.
    let text = around(&way("condition_value=ready"));
    let loaded = load(Source::new("test.dot", &*text), &LoadOptions::default());
    let fix = loaded.report.diagnostics[0].fix.as_ref().expect("it has one");
    let mut fixed = text.clone();
    fixed.replace_range(fix.span.start as usize..fix.span.end as usize, &fix.replacement);
    assert_eq!(codes(&fixed), [""; 0], "{fixed}");
}

#[test]
fn keys_of_other_tools_are_named() {
    let help = |condition: &str| {
        let text = around(&format!(
            "start -> a; a -> exit [condition=\"{condition}\"]; a -> b; b -> exit"
        ));
        let loaded = load(Source::new("test.dot", text), &LoadOptions::default());
        let [diagnostic] = &loaded.report.diagnostics[..] else {
            panic!("{condition}: {:?}", loaded.report.diagnostics);
        };
        let fix = diagnostic.fix.as_ref().map(|fix| fix.replacement.clone());
        (
            diagnostic.code,
            diagnostic.help.clone().unwrap_or_default(),
            fix.unwrap_or_default(),
        )
    };
    let (code, said, fix) = help("tool_stdout contains ready");
    assert_eq!((code, fix.as_str()), ("condition_syntax", "tool.output"));
    assert!(
        said.contains("`tool.output`") && said.contains("`tool.last_line`"),
        "{said}"
    );
    assert_eq!(help("tool_stdout=ready").2, "tool.last_line");
    assert_eq!(help("exit_code!=0").2, "tool.exit_code");
    assert_eq!(help("status=success").2, "outcome");
    assert!(help("not outcome=fail").1.contains("write `!`"));
    assert!(help("context.x not contains y").1.contains("write `!`"));
    assert!(help("context.x startswith y").1.contains("matches \"^TEXT\""));
    assert!(help("context.x in a,b").1.contains("`||`"));
    for (condition, meant) in [
        ("context.tool_stdout=ready", "tool.last_line"),
        ("context.tool_stdout contains ready", "tool.output"),
        ("context.tool_exit_code!=0", "tool.exit_code"),
        ("ctx.outcome=success", "outcome"),
        ("ctx.approved", "context.approved"),
    ] {
        let (code, said, fix) = help(condition);
        assert_eq!(
            (code, fix.as_str()),
            ("foreign_context_key", meant),
            "{condition}"
        );
        assert_eq!(said, format!("did you mean `{meant}`?"));
    }
    // A stage declares that it sets the key.
    clean(
        "start -> a; a [label=A, output_keys=tool_stdout]; a -> exit [condition=\"context.tool_stdout=x\"]; a -> b; b -> exit",
    );
    clean("start -> a; a -> exit [condition=\"context.status=x\"]; a -> b; b -> exit");
}
