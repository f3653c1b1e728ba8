use crate::support::Scenario;

#[test]
fn a_model_settles_the_conflict_of_two_others_and_nothing_of_theirs_is_lost() {
    let scenario = Scenario::open("conflict");
    for repository in ["backend", "frontend"] {
        scenario.commit_all(repository);
    }
    let run = scenario.call(&["run", "conflict.dot"]).exits(0);
    scenario.ends_as_expected(&run);
    let branch = |repository: &str| {
        let branches = ["for-each-ref", "--format=%(refname:short)", "refs/heads/orchestra"];
        let listed = scenario.git(repository, &branches);
        let own = listed.lines().find(|name| name.matches('/').count() == 2);
        own.unwrap_or_else(|| panic!("{listed}")).to_owned()
    };
    let show = |repository: &str, file: &str| {
        scenario.git(repository, &["show", &format!("{}:{file}", branch(repository))])
    };
    assert_eq!(show("frontend", "menu.txt"), "Menu:\n- Log in\n- Search, - Export\nEnd.\n");
    assert_eq!(show("backend", "search.txt"), "GET /search\n");
    assert_eq!(show("backend", "export.txt"), "GET /export\n");
    for repository in ["backend", "frontend"] {
        assert_eq!(scenario.git(repository, &["status", "--porcelain"]), "", "{repository}");
        assert_eq!(scenario.git(repository, &["log", "--format=%s", "main"]), "First version\n");
    }
}
