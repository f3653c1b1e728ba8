//! Scripts in YAML.
use std::time::Duration;

use orchestra_engine::{FailureCategory, Outcome, Script, Status};
use orchestra_testkit::{ScriptError, Simulation, read_script, read_script_file};

fn read(text: &str) -> Script {
    read_script(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn words_objects_lists_and_single_outcomes_are_read() {
    let script = read(
        r#"
do_work: [fail, fail, success]
alone: partial_success
review:
  - {outcome: success, preferred_label: Fix, context: {flag: true, count: 3, list: [a, b]}, notes: "second look"}
  - outcome: fail
    failure_reason: no compiler
    failure_category: terminal
  - {suggested_next_ids: [left, right]}
"#,
    );
    let words = |node: &str| {
        let outcomes = script.outcomes_of(node).iter();
        outcomes
            .map(|outcome| outcome.status.word().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(script.nodes().collect::<Vec<_>>(), ["alone", "do_work", "review"]);
    assert_eq!(words("do_work"), ["fail", "fail", "success"]);
    assert_eq!(words("alone"), ["partial_success"]);
    let fix = Outcome::success()
        .prefer("Fix")
        .set("flag", true)
        .set("count", 3)
        .set("list", serde_json::json!(["a", "b"]))
        .notes("second look");
    let ways = Outcome::success().suggest("left").suggest("right");
    let review = script.outcomes_of("review");
    assert_eq!(review, [fix, Outcome::fail_terminal("no compiler"), ways]);
}

#[test]
fn a_failure_that_is_a_word_says_where_it_comes_from() {
    let script = read("a: [fail, {outcome: fail}, retry]");
    let reasons: Vec<&str> = script
        .outcomes_of("a")
        .iter()
        .filter_map(|outcome| outcome.failure_reason.as_deref())
        .collect();
    assert_eq!(
        reasons,
        [
            "simulated failure",
            "simulated failure",
            "simulated wish for a retry"
        ]
    );
}

#[test]
fn times_are_read_as_durations() {
    let script =
        read("a: [{outcome: fail, retry_after: 30s, failure_category: retryable}, {takes: 2h}, success]");
    let expected = Script::new()
        .outcomes(
            "a",
            [Outcome::fail("simulated failure").retry_after(Duration::from_secs(30))],
        )
        .outcomes("a", ["success", "success"])
        .takes("a", [0, 7_200, 0].map(Duration::from_secs));
    assert_eq!(script, expected);
    assert_eq!(
        script.outcomes_of("a")[0].failure_category,
        FailureCategory::Retryable
    );
}

#[test]
fn words_that_yaml_might_take_for_something_else_stay_words() {
    let script = read("gate: [Yes, No, y, on, 1, ~1, 'true']");
    let words: Vec<&str> = script
        .outcomes_of("gate")
        .iter()
        .map(|outcome| outcome.status.word())
        .collect();
    assert_eq!(words, ["Yes", "No", "y", "on", "1", "~1", "true"]);
    let script = read("gate: [{outcome: No}, {outcome: true}, {preferred_label: 1}, {preferred_label: Yes}]");
    let said: Vec<&str> = script
        .outcomes_of("gate")
        .iter()
        .map(|outcome| {
            outcome
                .preferred_label
                .as_deref()
                .unwrap_or(outcome.status.word())
        })
        .collect();
    assert_eq!(said, ["No", "true", "1", "Yes"]);
}

#[test]
fn an_empty_script_lets_every_stage_succeed() {
    assert_eq!(read("{}"), Script::new());
    assert_eq!(read(""), Script::new());
    assert_eq!(read("# nothing yet\n"), Script::new());
}

#[test]
fn what_is_wrong_is_reported_with_its_position() {
    for (text, location, words) in [
        ("a: [fail\n", "", ""),
        (
            "a:\n  - fail\n  - {outcome: success, note: odd}\n",
            "line 3",
            "unknown field `note`",
        ),
        ("a: [fail]\nb: []\n", "line 2", "at least one outcome"),
        ("a: [fail]\na: [success]\n", "line 2", "duplicate"),
        ("a: [[fail]]\n", "line 1", "an outcome: a word such as `fail`"),
        ("a: {takes: soon}\n", "line 1", "`soon` is not a duration"),
        (
            "a: {failure_category: maybe}\n",
            "line 1",
            "unknown variant `maybe`",
        ),
        ("- fail\n", "line 1", ""),
    ] {
        let error = read_script(text).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("the script is invalid: "), "{said}");
        assert!(said.contains(location) && said.contains(words), "{text}\n{said}");
        assert_eq!(error.code(), "script");
        assert!(error.help().unwrap().contains("review: [fail, success]"));
    }
}

#[test]
fn a_file_is_named_in_what_is_said_of_it() {
    let folder = std::env::temp_dir().join(format!("orchestra-testkit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (good, bad) = (folder.join("good.yaml"), folder.join("bad.yaml"));
    std::fs::write(&good, "a: [fail]\n").unwrap();
    std::fs::write(&bad, "a: [fail\n").unwrap();
    assert_eq!(
        read_script_file(&good),
        Ok(Script::new().outcomes("a", [Status::Fail]))
    );
    let error = read_script_file(&bad).unwrap_err();
    assert!(error.to_string().contains("bad.yaml` is invalid"), "{error}");
    let missing = read_script_file(folder.join("none.yaml")).unwrap_err();
    assert!(matches!(missing, ScriptError::Unreadable { .. }));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_script_drives_a_simulation_through_failures_times_and_gates() {
    let text = r#"digraph {
        start -> build -> ship
        build [prompt=Build, timeout=1h, max_retries=3, retry_jitter=false]
        ship  [shape=hexagon, label="Ship?"]
        ship  -> exit  [label="[Y] Yes"]
        ship  -> build [label="[N] No"]
    }"#;
    let script = read("build: [{takes: 2h}, fail, success]\nship: [No, {preferred_label: '[Y] Yes'}]");
    let run = Simulation::load(text).unwrap().script(script.clone()).run();
    run.assert_path(["start", "build", "ship", "build", "ship", "exit"]);
    assert_eq!(run.duration(), Duration::from_millis(3_600_000 + 200 + 400));
    let replaced = Simulation::load(text)
        .unwrap()
        .answer("build", "Yes")
        .script(script)
        .run();
    assert_eq!(replaced.events(), run.events());
}
