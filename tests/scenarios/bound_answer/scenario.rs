use crate::support::Scenario;

#[test]
fn an_answer_outside_of_the_schema_is_corrected_once_also_across_a_crash() {
    let scenario = Scenario::open("bound_answer");
    let run = scenario.start(&["run", "bound_answer.dot"]);
    scenario.until("the model corrects", |scenario| {
        scenario.played("is killed while it corrects") == 1
    });
    run.kill();
    // The schema is a part of the pipeline with which the run goes on.
    let rating = scenario.read("schemas/rating.json");
    scenario.write("schemas/rating.json", rating.replace("10", "12"));
    let refused = scenario.call(&["resume", "last"]).exits(3);
    assert!(refused.stderr.contains("output_schema"), "{}", refused.stderr);
    scenario.write("schemas/rating.json", rating);
    let resumed = scenario.call(&["resume", "last"]).exits(0);
    scenario.ends_as_expected(&resumed);
    assert_eq!(scenario.played("answers outside of the schema"), 1, "it is not paid twice");
    assert_eq!(
        scenario.run_file("rate/response.md"),
        r#"{"verdict": "revise", "score": 4, "findings": [{"line": 1, "text": "short"}]}"#
    );
    let checkpoint = scenario.run_file("checkpoint.json").replace([' ', '\n'], "");
    for value in [r#""score":4"#, r#""changes":["aword"]"#] {
        assert!(checkpoint.contains(value), "{checkpoint}");
    }
}

#[test]
fn an_answer_that_stays_outside_of_the_schema_fails_the_stage() {
    let scenario = Scenario::open("bound_answer");
    scenario.write(
        "bound_answer.dot",
        "digraph { start -> mend -> exit; mend [prompt=\"Describe the poem.\", backend=direct, \
         output_schema=\"schemas/mending.json\"] }",
    );
    let failed = scenario.call(&["run", "bound_answer.dot"]).exits(1);
    let reason = "output_schema: the answer does not fit the schema of the stage: `/changes` must have at least 1 item, but has 0";
    assert!(failed.stderr.contains(reason), "{}", failed.stderr);
}

#[test]
fn a_wrong_schema_is_reported_before_anything_runs() {
    let scenario = Scenario::open("bound_answer");
    let rating = scenario.read("schemas/rating.json").replace("\"integer\"", "\"int\"");
    scenario.write("schemas/rating.json", rating);
    for command in ["check", "run"] {
        let refused = scenario.call(&[command, "bound_answer.dot"]).exits(3);
        for part in [
            "error[output_schema]",
            "schema file `schemas/rating.json`: unknown type `int`",
            "at `#/$defs/finding/properties/line/type` in the schema",
            "write `integer`",
            "bound_answer.dot:5:",
        ] {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
    }
    assert!(scenario.model.played().is_empty());
}
