use crate::support::Scenario;

#[test]
fn a_branch_for_each_item_goes_on_where_it_was_killed() {
    let scenario = Scenario::open("each_file");
    let run = scenario.start(&["run", "each_file.dot"]);
    scenario.until("the model reviews the second file", |scenario| {
        scenario.played("is killed while it reviews the second file") == 1
    });
    run.kill();
    let resumed = scenario.call(&["resume", "last"]).exits(0);
    scenario.ends_as_expected(&resumed);
    let played = [
        "names the files",
        "reviews the first file",
        "is killed while it reviews the second file",
        "reviews the second file",
        "reviews the third file",
        "puts the findings together",
    ];
    assert_eq!(scenario.model.played(), played);
    assert_eq!(scenario.read("checked"), "a.rs\nb.rs\nc.rs\n", "each file is checked once");
}
