use crate::support::Scenario;

#[test]
fn the_last_line_of_each_review_reaches_the_critic_the_synthesiser_and_the_person() {
    let scenario = Scenario::open("review");
    for repository in ["backend", "frontend"] {
        scenario.commit_all(repository);
    }
    let run = scenario
        .call_with(
            &["run", "review.dot", "--set", "pr_diff=@change.diff", "--max-time", "30s"],
            "Name the author too.\n/approve\n",
        )
        .exits(0)
        .tells(&["REVIEW-1: reject. FINDING-S2: app.rb:3 lets everybody log in", "REVIEW-2: reject, dear author."]);
    scenario.ends_as_expected(&run);
    let review = scenario.run_file("synthesizer/response.md");
    assert!(review.contains("REVIEW-2"), "{review}");
    // The model of the critic is another provider's.
    let critics = scenario.server.requests();
    let critics = critics.iter().filter(|request| request.body["model"] == "anthropic/claude-sonnet-4");
    assert_eq!(critics.count(), 4);
}
