//! The edge coverage of `orchestra run --simulate`, through the program.

#![cfg(unix)]

use crate::support;

use std::collections::BTreeMap;

use support::Scratch;

const PIPELINE: &str = r#"digraph release {
    start [shape=Mdiamond]
    exit [shape=Msquare]
    test [shape=parallelogram, tool_command="exit 1"]
    mend [prompt="Mend it"]
    ship [shape=hexagon, label="Ship it?"]
    start -> test
    test -> ship [condition="outcome=success"]
    test -> mend [condition="outcome=fail"]
    mend -> test
    ship -> exit [label="[Y] Yes"]
    ship -> mend [label="[N] No"]
}
"#;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a.dot", PIPELINE);
    scratch.write("straight.yaml", "ship: Yes\n");
    scratch.write("back.yaml", "test: [fail, success]\nship: [No, Yes]\n");
    scratch
}

#[test]
fn a_simulation_ends_with_the_edges_that_it_took() {
    let scratch = scratch();
    let straight = scratch
        .call(&["run", "a.dot", "--simulate", "straight.yaml"])
        .exits(0);
    assert_eq!(straight.stdout, "success: start -> test -> ship -> exit\n");
    let line = "edges: 3 of 6 taken (50 %), not taken: test -> mend [outcome=fail], mend -> test, ship -> mend \"[N] No\"\n";
    assert!(straight.stderr.contains(line), "{}", straight.stderr);
    let back = scratch
        .call(&["run", "a.dot", "--simulate", "back.yaml"])
        .exits(0);
    assert!(
        back.stderr.contains("edges: 6 of 6 taken (100 %)\n"),
        "{}",
        back.stderr
    );
}

#[test]
fn a_run_that_fails_or_waits_says_so_too() {
    let scratch = scratch();
    let waits = scratch.call(&["run", "a.dot", "--simulate"]).exits(5);
    assert!(
        waits.stderr.contains("edges: 2 of 6 taken (33 %), not taken: "),
        "{}",
        waits.stderr
    );
    let fails = scratch
        .call(&["run", "a.dot", "--simulate", "--outcome", "test=fail"])
        .exits(1);
    assert!(
        fails.stderr.contains("edges: 3 of 6 taken (50 %), not taken: "),
        "{}",
        fails.stderr
    );
}

#[test]
fn a_quiet_run_and_one_that_is_not_simulated_do_not() {
    let scratch = scratch();
    let quiet = scratch
        .call(&["run", "a.dot", "--simulate", "straight.yaml", "--quiet"])
        .exits(0);
    assert!(!quiet.stderr.contains("edges:"), "{}", quiet.stderr);
    scratch.write("real.dot", support::tools(false));
    let real = scratch.call(&["run", "real.dot"]).exits(0);
    assert!(!real.stderr.contains("edges:"), "{}", real.stderr);
    let real = scratch.call(&["run", "real.dot", "--json"]).exits(0);
    assert!(
        real.objects()
            .iter()
            .all(|object| object["schema"] != "orchestra.coverage/1")
    );
}

#[test]
fn in_json_the_edges_come_before_the_result_and_runs_add_up() {
    let scratch = scratch();
    let mut taken: BTreeMap<(String, String), u64> = BTreeMap::new();
    for script in ["straight.yaml", "back.yaml"] {
        let run = scratch
            .call(&["run", "a.dot", "--simulate", script, "--json"])
            .exits(0);
        let objects = run.objects();
        let [.., coverage, result] = &objects[..] else {
            panic!("{}", run.stdout);
        };
        assert_eq!(result["schema"], "orchestra.result/1");
        assert_eq!(
            (&coverage["schema"], &coverage["pipeline"]),
            (&"orchestra.coverage/1".into(), &"release".into())
        );
        assert_eq!(coverage["edges"], 6);
        let edges = coverage["transitions"].as_array().unwrap();
        assert_eq!(
            (&edges[1]["file"], &edges[1]["line"]),
            (&"a.dot".into(), &8.into())
        );
        for edge in edges {
            let end = |key: &str| edge[key].as_str().unwrap().to_owned();
            *taken.entry((end("from"), end("to"))).or_default() += edge["count"].as_u64().unwrap();
        }
    }
    let counts: Vec<u64> = taken.into_values().collect();
    // mend -> test, ship -> exit, ship -> mend, start -> test, test -> mend, test -> ship
    assert_eq!(counts, [2, 2, 1, 2, 1, 3]);
}

#[test]
fn a_script_that_does_not_fit_is_wrong_usage_and_says_what_was_meant() {
    let scratch = scratch();
    for (script, message, help) in [
        (
            "tset: fail\n",
            "the pipeline has no node `tset`",
            "did you mean `test`?",
        ),
        (
            "test: sucess\n",
            "`test` does not give the outcome `sucess`",
            "did you mean `success`?",
        ),
        (
            "ship: Yse\n",
            "the gate `ship` has no choice `Yse`",
            "did you mean `Yes`?",
        ),
        (
            "test:\n  - {outcome: fail, reason: none}\n",
            "the script `bad.yaml` is invalid: error: line 2",
            "a script maps a node to its outcomes",
        ),
    ] {
        scratch.write("bad.yaml", script);
        let run = scratch.call(&["run", "a.dot", "--simulate", "bad.yaml"]).exits(2);
        assert!(
            run.stderr.contains(message) && run.stderr.contains(help),
            "{}",
            run.stderr
        );
    }
}
