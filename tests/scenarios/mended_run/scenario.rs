use crate::support::Scenario;

#[test]
fn a_failed_run_goes_on_at_the_stage_that_failed_once_the_reason_is_gone() {
    let scenario = Scenario::open("mended_run");
    let failed = scenario.call(&["run", "mended_run.dot"]).exits(1);
    assert_eq!(failed.stdout, "failed: start -> write -> sign\n");
    let run = scenario.latest_run();
    let hint = format!("orchestra resume {run} --retry");
    assert!(failed.stderr.contains(&hint), "{hint} in\n{}", failed.stderr);
    let status = scenario.status();
    assert!(status["failed_at"].is_string(), "{status}");
    // Without being asked to, nothing tries again.
    assert_ne!(scenario.call(&["resume", "last"]).code, 0);
    // As long as the reason is there, it fails again, at the same stage.
    scenario.call(&["resume", "last", "--retry"]).exits(1);
    assert_eq!(scenario.model.played(), ["writes"]);

    scenario.write("signer.key", "key");
    let mended = scenario.call(&["resume", "last", "--retry"]).exits(0);
    scenario.ends_as_expected(&mended);
    assert_eq!(scenario.model.played(), ["writes", "announces"]);
    assert_eq!(scenario.runs(), [run], "it is the same run");
    assert_eq!(scenario.read("signatures"), "signed\n");
    let depth = scenario.call(&["status", "last"]).exits(0).stdout;
    assert!(depth.contains("signer.key"), "the failed attempts stay in the record: {depth}");
}
