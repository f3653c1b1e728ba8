use crate::support::Scenario;

#[test]
fn the_judge_reads_each_candidate_to_its_end_and_the_next_stage_gets_the_chosen_one() {
    let scenario = Scenario::open("judged_candidates");
    let run = scenario.call(&["run", "judged_candidates.dot"]).exits(0);
    scenario.ends_as_expected(&run);
    assert_eq!(scenario.run_file("book/response.md"), "BOOKED coach");
}
