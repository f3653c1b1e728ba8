//! Every test that `figures.yaml` and `SECURITY.md` name is there, and `FIGURES.md` is the table of the figures.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use orchestra_reliability_tests::{Results, TestName, named_in, read_figures, render, root, tests_in};

#[test]
fn each_figure_names_tests_that_are_there() {
    let file = read_figures().unwrap();
    let mut wrong = Vec::new();
    for (index, figure) in file.figures.iter().enumerate() {
        assert!(
            !figure.shown_by.is_empty() || figure.note.is_some(),
            "row {}: neither a test nor a reason",
            index + 1
        );
        let faults = figure
            .tests()
            .unwrap()
            .iter()
            .filter_map(|test| test.check().err())
            .collect::<Vec<_>>();
        wrong.extend(faults);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(file.figures.len() >= 16, "only {} figures", file.figures.len());
}

#[test]
fn the_table_is_made_of_the_figures_and_their_results() {
    let expected = render(&read_figures().unwrap(), &Results::read().unwrap()).unwrap();
    let written = std::fs::read_to_string(root().join("tests/reliability/FIGURES.md")).unwrap();
    assert_eq!(
        written, expected,
        "write it anew: cargo run -p orchestra-reliability-tests -- --render"
    );
}

#[test]
fn each_promise_about_security_names_tests_that_are_there() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let promises = text.lines().filter(|line| line.starts_with("| P"));
    let (mut count, mut wrong) = (0, Vec::new());
    for promise in promises {
        count += 1;
        let named = named_in(promise);
        if named.is_empty() {
            wrong.push(format!("a promise without a test: {promise}"));
        }
        wrong.extend(named.iter().filter_map(|test| test.check().err()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 20, "only {count} promises");
}

#[test]
fn ignored_and_commented_tests_do_not_count() {
    let source = "#[test]\nfn plain() {}\n\n#[tokio::test(start_paused = true)]\n// Why.\nasync fn waits() {}\n\
                  #[test]\n#[ignore = \"slow\"]\nfn ignored() {}\nfn helper() {}\n// #[test]\nfn commented() {}\n";
    assert_eq!(tests_in(source), ["plain", "waits"].map(str::to_owned).into());
    assert_eq!(TestName::parse("a.rs::x"), None);
    assert_eq!(TestName::parse("a/b.rs::x y"), None);
    let named = named_in("a `tests/a.rs::b` and `c` and tests/d.rs::e");
    assert_eq!(
        named.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["tests/a.rs::b"]
    );
}
