use crate::support::Scenario;

#[test]
fn the_next_model_answers_and_a_resumed_run_stays_with_it() {
    let scenario = Scenario::open("fallback_models");
    let compiled = scenario.call(&["compile", "fallback_models.dot"]).exits(0);
    let chain = "models  claude-opus-4-6, then claude-sonnet-4-5 (anthropic), then claude-haiku-4-5 (reserve)";
    assert!(compiled.stdout.contains(chain), "{}", compiled.stdout);
    let run = scenario.start(&["run", "fallback_models.dot"]);
    scenario.until("the model thinks", |scenario| {
        scenario.played("is killed while it thinks") == 1
    });
    run.kill();
    let resumed = scenario.call(&["resume", "last"]).exits(0);
    scenario.ends_as_expected(&resumed);
    let played = ["declines", "rejects the key", "counts", "is killed while it thinks", "reports"];
    assert_eq!(scenario.model.played(), played, "no dead model is asked again");
    assert_eq!((scenario.read("count.txt").as_str(), scenario.read("steps").as_str()), ("3", "counted\n"));
    // Each model is paid at its own price, also that which declined: 3 tokens at 1,000 dollars for a million.
    let status = scenario.status();
    assert_eq!(status["cost_micros"], 3_330, "{status}");
    let shown = scenario.call(&["status", "last"]).exits(0).stdout;
    assert!(
        shown.contains("the model `claude-haiku-4-5` of `reserve` is asked instead"),
        "{shown}"
    );
}

#[test]
fn the_failures_of_all_models_are_named() {
    let scenario = Scenario::open("fallback_models");
    let configuration = scenario.read("orchestra.yaml");
    scenario.write(
        "orchestra.yaml",
        configuration.replace(", {provider: reserve, model: small}", ""),
    );
    let failed = scenario.call(&["run", "fallback_models.dot"]).exits(1);
    for part in ["no model answered: ", "model `claude-opus-4-6`: ", "model `claude-sonnet-4-5`: "] {
        assert!(failed.stderr.contains(part), "{part}: {}", failed.stderr);
    }
    assert_eq!(scenario.model.played(), ["declines", "rejects the key"]);
}
