use std::fmt::Write as _;

use crate::support::Scenario;

/// A change of more than 200 kB, whose last line is the one that matters.
fn change() -> String {
    let mut text = String::new();
    let mut line = 0;
    while text.len() < 200_000 {
        writeln!(text, "+// line {line} of the change, \"quoted\", with $HOME and a tab\there").unwrap();
        line += 1;
    }
    text + "+let password = \"hunter2\";\n"
}

#[test]
fn a_change_of_200_kb_reaches_the_reviewer_from_a_file() {
    let scenario = Scenario::open("large_input");
    scenario.write("change.diff", change());
    let run = scenario
        .call(&["run", "large_input.dot", "--set", "pr_diff=@change.diff"])
        .exits(0);
    scenario.ends_as_expected(&run);
    let review = scenario.run_file("review/response.md");
    assert_eq!(review, "Critical: `let password = \"hunter2\";` must not be in the code.");
}

#[test]
fn a_change_of_200_kb_reaches_the_reviewer_from_standard_input() {
    let scenario = Scenario::open("large_input");
    let run = scenario
        .call_with(&["run", "large_input.dot", "--set", "pr_diff=@-"], &change())
        .exits(0);
    scenario.ends_as_expected(&run);
}
