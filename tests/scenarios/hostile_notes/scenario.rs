use crate::support::Scenario;

/// The values that a stage gives to its command are data, whatever a model writes, and a run that waits for a person goes
/// on with the version that it began with.
#[test]
fn words_of_a_model_are_data_and_a_waiting_run_keeps_its_version() {
    let scenario = Scenario::open("hostile_notes");
    let text = scenario.read("hostile_notes.dot");
    scenario.call(&["lock", "hostile_notes.dot"]).exits(0);
    // Nobody answers, so the run stops at its question.
    scenario
        .call(&["run", "hostile_notes.dot", "--set", "version=1.10"])
        .exits(5);
    let run = scenario.latest_run();

    let ungated = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("approve"))
        .map(|line| line.replace("write -> approve", "write -> publish"))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("assert=\"requires(publish, approve=Publish, since=write)\"", "");
    scenario.write("hostile_notes.dot", &ungated);
    let broken = scenario.call(&["check", "--locked", "--runs", ".orchestra/runs"]).exits(3);
    for part in ["error[resume_breaks]", "`approve`", &run] {
        assert!(broken.stdout.contains(part) || broken.stderr.contains(part), "{part}: {}{}", broken.stdout, broken.stderr);
    }
    scenario.call(&["lock"]).exits(3);
    scenario.call(&["lock", "--accept"]).exits(0);

    let done = scenario.call(&["resume", &run, "--answer", "approve=P"]).exits(0);
    scenario.ends_as_expected(&done);
    assert_eq!(scenario.read("published"), "1.10\nminor\n\"; touch hacked; echo \"$(touch hacked)\n");
    assert!(scenario.read("notes.md").contains("Fixed `touch hacked`. $(touch hacked)\n'; touch hacked; '"));
    assert!(!scenario.path("hacked").exists());

    let quoted = "cat > notes.md";
    let executed = "eval \"$TITLE\"";
    scenario.write("hostile_notes.dot", text.replace(quoted, &executed.replace('"', "\\\"")));
    let refused = scenario.call(&["run", "hostile_notes.dot", "--set", "version=2"]).exits(3);
    assert!(refused.stderr.contains("error[shell_injection]: the command executes the value of `$TITLE`"), "{}", refused.stderr);
    assert!(!scenario.path("hacked").exists());
}
