//! The settings of webhooks.

use orchestra_config::Configuration;
use orchestra_graph::render;
use serde_json::json;

fn reported(text: &str) -> Vec<String> {
    let (_, report) = Configuration::parse("orchestra.yaml", text.as_bytes());
    render::concise(&report).lines().map(str::to_owned).collect()
}

#[test]
fn a_webhook_is_decoded() {
    let text = b"\
webhooks:
  review:
    pipeline: flows/review.dot
    secret_file: review.secret
    event: [pull_request, 7]
    when: {/action: [opened, synchronize], /pull_request/draft: false, /n: 3, /merged_at: null}
    inputs: {pr: /pull_request/number, payload: ''}
    max_cost: 2.5
    max_time: 30m
";
    let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    assert_eq!(
        render::concise(&report).trim(),
        "orchestra.yaml:5:12: error[config_value]: an event is a name"
    );
    let review = &configuration.webhooks["review"];
    assert_eq!(
        review.when["/action"].values,
        [json!("opened"), json!("synchronize")]
    );
    assert_eq!(review.when["/pull_request/draft"].values, [json!(false)]);
    assert_eq!(review.when["/n"].values, [json!(3)]);
    assert_eq!(review.when["/merged_at"].values, [json!(null)]);
    assert_eq!(review.inputs["payload"].as_str(), "");
    assert_eq!(review.max_time.as_ref().expect("it is set").as_secs(), 1_800);
}

#[test]
fn what_would_never_start_a_run_is_reported() {
    let text = "\
webhooks:
  a/b: {pipeline: a.dot, secret_env: S}
  bare: {}
  both: {pipeline: a.dot, secret_env: S, secret_file: s}
  odd:
    pipeline: a.dot
    secret_env: 1S
    when: {action: opened, /a~b: 1, /none: [], /deep: {x: 1}}
    inputs: {pr: $.pull_request.number, n: /x, '': /y}
";
    let expected = [
        "2:3: error[config_value]: `a/b` is not a valid name of a webhook",
        "3:3: error[config_value]: the webhook `bare` has no secret, so anybody could start its runs",
        "3:3: error[config_value]: the webhook `bare` names no pipeline",
        "4:55: error[config_value]: the webhook `both` has two sources of its secret",
        "7:17: error[config_value]: `1S` is not a valid environment variable name",
        "8:12: error[config_value]: `action` is not a JSON pointer",
        "8:28: error[config_value]: `/a~b` is not a JSON pointer",
        "8:44: error[config_value]: the list of values is empty, so nothing starts a run",
        "8:55: error[config_value]: expected text, a number, `true`, `false` or `null`, found a map",
        "9:14: error[config_value]: `$.pull_request.number` is not a JSON pointer",
        "9:48: error[config_value]: an input has no name",
    ];
    let mut found = reported(text);
    found.sort();
    let mut expected = expected.map(|line| format!("orchestra.yaml:{line}")).to_vec();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_path_with_dots_is_corrected() {
    let text = b"webhooks: {a: {pipeline: a.dot, secret_env: S, inputs: {pr: pull_request.number}}}";
    let (_, report) = Configuration::parse("orchestra.yaml", text);
    let help = report.diagnostics[0].help.as_deref().expect("a hint");
    assert!(help.contains("`/pull_request/number`"), "{help}");
}
