//! `orchestra resume`, through the program: runs that stop and are resumed by another process.

#![cfg(unix)]

use crate::support;

use std::collections::BTreeMap;

use support::{SLOW, Scratch, gate, lives};

fn slow() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW);
    scratch
}

fn asks() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    scratch
}

const SHIPPED: &str = "success: start -> build -> approve -> ship -> exit\n";

/// Returns the process id of the stage in [`SLOW`].
fn waiter(scratch: &Scratch) -> String {
    scratch.until("the stage waits", |scratch| {
        scratch.lines("wait") > 0 && scratch.read("wait").ends_with('\n')
    });
    scratch.read("wait").lines().last().unwrap().to_owned()
}

#[test]
fn an_interrupt_pauses_the_run_and_the_command_that_it_names_goes_on() {
    for signal in ["INT", "TERM"] {
        let scratch = slow();
        let mut run = scratch.start(&["run", "s.dot"]);
        run.until_stage("wait");
        let tool = waiter(&scratch);
        run.signal(signal);
        let run = run.end().exits(130);
        assert!(!lives(&tool), "the tool of process {tool} is still there");
        let result = run.result();
        assert_eq!(
            (&result["status"], &result["path"]),
            (&"paused".into(), &serde_json::json!(["start", "once"]))
        );
        assert_eq!(result["failure"]["reason"], "interrupted");
        let command = result["resume"].as_str().unwrap();
        assert_eq!(run.last_line(), format!("resume with: {command}"));
        assert!(
            run.stderr
                .starts_with("pausing: running stages are asked to stop; once more stops at once\n")
        );
        assert_eq!(run.reported("PipelinePaused", "code"), ["interrupted"]);

        scratch.write("go", "");
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(words[..2], ["orchestra", "resume"]);
        let resumed = scratch.call(&words[1..]).exits(0);
        assert_eq!(resumed.stdout, "success: start -> once -> wait -> exit\n");
        assert_eq!(
            (scratch.lines("once"), scratch.lines("wait")),
            (1, 2),
            "what was done is not done again"
        );
        assert!(resumed.stderr.contains("ok wait, repeated"), "{}", resumed.stderr);
        assert_eq!(scratch.status()["status"], "success");
    }
}

#[test]
fn a_second_interrupt_stops_at_once_and_leaves_a_run_that_can_be_resumed() {
    let scratch = Scratch::new();
    // The tool ignores the request to end.
    scratch.write("s.dot", SLOW.replace("echo $$", "trap '' TERM; echo $$"));
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let tool = waiter(&scratch);
    run.signal("INT");
    run.until(|object| object["event"] == "StageCancelled");
    run.signal("INT");
    let run = run.end().exits(130);
    assert!(
        run.reported("PipelinePaused", "code").is_empty(),
        "it was not waited for"
    );
    let last = run.last_line();
    assert!(
        last.starts_with("resume with: orchestra resume "),
        "{}",
        run.stderr
    );
    scratch.until("the tool is gone", |_| !lives(&tool));
    assert_eq!(scratch.status()["status"], "interrupted");
    scratch.write("go", "");
    scratch.call(&["resume", "last"]).exits(0);
    assert_eq!(scratch.lines("once"), 1);
}

#[test]
fn a_run_whose_process_was_killed_is_interrupted_and_goes_on() {
    let scratch = slow();
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let tool = waiter(&scratch);
    run.signal("KILL");
    run.end().exits(-1);
    scratch.until("the tool is gone", |_| !lives(&tool));
    let status = scratch.status();
    assert_eq!(
        (&status["status"], &status["name"]),
        (&"interrupted".into(), &"slow".into())
    );
    let reported = scratch.call(&["status", "last"]).exits(0).stdout;
    assert!(
        reported.contains("wait was cut short, and runs again when the run goes on"),
        "{reported}"
    );
    scratch.write("go", "");
    scratch.call(&["resume", "last"]).exits(0);
    assert_eq!((scratch.lines("once"), scratch.lines("wait")), (1, 2));
}

#[test]
fn a_command_that_is_repeated_or_retried_finds_the_key_of_its_stage_again() {
    let scratch = Scratch::new();
    let keys = "echo $ORCHESTRA_STAGE_KEY $ORCHESTRA_ATTEMPT $ORCHESTRA_ATTEMPT_KEY >> keys";
    scratch.write(
        "k.dot",
        format!(
            "digraph slow {{\n start -> wait\n wait -> wait [condition=\"outcome=success && context.tool.last_line!=again\"]\n \
             wait -> exit [condition=\"context.tool.last_line=again\"]\n \
             wait [shape=parallelogram, max_retries=1, retry_policy=none, tool_command=\"{keys}; echo $$ >> wait; \
             while ! test -f go; do sleep 0.01; done; test -f failed || {{ touch failed; exit 1; }}; \
             test -f twice && echo again || touch twice\"]\n}}"
        ),
    );
    let mut run = scratch.start(&["run", "k.dot"]);
    run.until_stage("wait");
    let tool = waiter(&scratch);
    // The side effect has happened, but the outcome is not stored.
    run.signal("KILL");
    run.end().exits(-1);
    scratch.until("the tool is gone", |_| !lives(&tool));
    scratch.write("go", "");
    scratch.call(&["resume", "last"]).exits(0);
    let id = scratch.runs().remove(0);
    let first = format!("{id}/wait#1");
    // The repeat, the retry, and the next visit.
    let expected = [
        format!("{first} 1 wait#1/1"),
        format!("{first} 1 wait#1/1"),
        format!("{first} 2 wait#1/2"),
        format!("{id}/wait#2 1 wait#2/1"),
    ];
    assert_eq!(scratch.read("keys").lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_run_is_named_by_its_id_the_beginning_of_it_last_or_its_folder() {
    let scratch = asks();
    let run = scratch.call(&["run", "g.dot"]).exits(5);
    let id = scratch.runs().remove(0);
    assert_eq!(run.last_line(), format!("resume with: orchestra resume {id}"));
    let folder = format!(".orchestra/runs/{id}");
    // Run ids share the prefix up to the date.
    let beginning = &id[..id.len() - 3];
    for name in [&*id, beginning, "last", &folder] {
        let again = scratch.call(&["resume", name]).exits(5);
        assert!(again.stderr.contains("resumed from cp_"), "{}", again.stderr);
        scratch.call(&["checkpoints", name]).exits(0);
    }
    scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(0);
    assert_eq!((scratch.lines("built"), scratch.lines("shipped")), (1, 1));
    let unknown = scratch.call(&["resume", &format!("{id}x")]).exits(2);
    assert!(unknown.stderr.contains("did you mean"), "{}", unknown.stderr);
    let nowhere = scratch.call(&["resume", "./built"]).exits(2);
    assert!(
        nowhere.stderr.contains("not the folder of a run"),
        "{}",
        nowhere.stderr
    );
    scratch.call(&["run", "g.dot"]).exits(5);
    let ambiguous = scratch.call(&["resume", &id[..4]]).exits(2);
    assert!(
        ambiguous.stderr.contains("several runs begin with"),
        "{}",
        ambiguous.stderr
    );
    let none = scratch.call(&["resume", "last", "--runs", "elsewhere"]).exits(2);
    assert!(
        none.stderr.contains("there are no runs in `elsewhere`"),
        "{}",
        none.stderr
    );
    assert!(
        !scratch.path("elsewhere").exists(),
        "who only looks makes no folder"
    );
}

#[test]
fn a_run_in_a_folder_of_its_own_is_listed_and_resumed_by_the_command_that_is_printed() {
    let scratch = asks();
    let own = scratch.call(&["run", "g.dot", "--run-dir", "it's mine"]).exits(5);
    assert_eq!(own.last_line(), r"resume with: orchestra resume './it'\''s mine'");
    scratch.call(&["resume", "./it's mine"]).exits(5);
    scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(0);
    assert_eq!(scratch.status()["status"], "success");
    let other = scratch.call(&["run", "g.dot", "--runs", "other runs"]).exits(5);
    let line = other.last_line();
    assert!(line.ends_with(" --runs 'other runs'"), "{line}");
    scratch
        .call(&["resume", "last", "--runs", "other runs", "--auto-approve"])
        .exits(0);
}

#[test]
fn answers_and_limits_are_given_anew() {
    let scratch = asks();
    scratch.call(&["run", "g.dot"]).exits(5);
    let wrong = scratch.call(&["resume", "last", "--answer", "aprove=Y"]).exits(2);
    assert!(
        wrong.stderr.contains("did you mean `approve`?"),
        "{}",
        wrong.stderr
    );
    assert_eq!(
        scratch.call_with(&["resume", "last"], "Y\n").exits(0).stdout,
        SHIPPED
    );
    assert_eq!(scratch.lines("built"), 1);

    let scratch = slow();
    scratch.call(&["run", "s.dot", "--max-time", "300ms"]).exits(6);
    // The total time of all processes.
    let out_of_time = scratch.call(&["resume", "last", "--max-time", "300ms"]).exits(6);
    assert!(
        out_of_time
            .last_line()
            .starts_with("resume with: orchestra resume ")
    );
    assert_eq!(out_of_time.stdout, "paused: start -> once\n");
    scratch.write("go", "");
    scratch.call(&["resume", "last"]).exits(0);
    assert_eq!(scratch.lines("once"), 1);
}

#[test]
fn a_changed_pipeline_is_refused_with_what_differs_unless_that_is_accepted() {
    let scratch = asks();
    scratch.call(&["run", "g.dot"]).exits(5);
    scratch.write("g.dot", gate("").replace("[N] No", "[N] Not yet"));
    let refused = scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(3);
    for part in ["the pipeline was changed", "Not yet", "--accept-changes"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let accepted = ["resume", "last", "--answer", "approve=Y", "--accept-changes"];
    assert_eq!(scratch.call(&accepted).exits(0).stdout, SHIPPED);
    assert_eq!(scratch.lines("built"), 1);

    let scratch = asks();
    scratch.call(&["run", "g.dot"]).exits(5);
    scratch.write(
        "g.dot",
        "digraph gate { start -> other -> exit; other [shape=parallelogram, tool_command=true] }",
    );
    let moved = scratch.call(&["resume", "last", "--accept-changes"]).exits(3);
    assert!(
        moved.stderr.contains("`approve`") && moved.stderr.contains("orchestra checkpoints "),
        "{}",
        moved.stderr
    );
    scratch.write("g.dot", "digraph gate { start -> ");
    let invalid = scratch.call(&["resume", "last"]).exits(3);
    assert!(invalid.stderr.contains("error["), "{}", invalid.stderr);
}

#[test]
fn a_pipeline_whose_file_is_gone_goes_on_as_it_was() {
    let scratch = asks();
    scratch.call(&["run", "g.dot"]).exits(5);
    std::fs::remove_file(scratch.path("g.dot")).unwrap();
    let resumed = scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(0);
    assert_eq!(resumed.stdout, SHIPPED);
    assert!(
        resumed.stderr.contains("note: `g.dot` is not here"),
        "{}",
        resumed.stderr
    );
}

#[test]
fn a_run_that_another_process_owns_is_code_7_with_its_owner() {
    let scratch = slow();
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let owned = scratch.call(&["resume", "last"]).exits(7);
    for part in [&format!("process {}", run.pid()), "on host", "--take-over"] {
        assert!(owned.stderr.contains(part), "{part}: {}", owned.stderr);
    }
    let json = scratch
        .call(&["resume", "last", "--json"])
        .exits(7)
        .objects()
        .remove(0);
    assert_eq!(
        (&json["schema"], &json["code"]),
        (&"orchestra.error/1".into(), &"store_owned".into())
    );
    scratch.write("go", "");
    run.end().exits(0);
    assert_eq!(scratch.lines("wait"), 1);
}

#[test]
fn a_run_is_taken_from_a_frozen_process_which_then_writes_nothing() {
    let scratch = slow();
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    waiter(&scratch);
    let folder = format!(".orchestra/runs/{}", scratch.runs().remove(0));
    run.signal("STOP");
    scratch.write("go", "");
    scratch.call(&["resume", "last"]).exits(7);
    let taken = scratch.call(&["resume", "last", "--take-over"]).exits(0);
    assert_eq!(taken.stdout, "success: start -> once -> wait -> exit\n");
    let before = scratch.read(&format!("{folder}/events.jsonl"));
    run.signal("CONT");
    let thawed = run.end().exits(7);
    assert!(
        thawed.stderr.contains("was taken over by process"),
        "{}",
        thawed.stderr
    );
    assert_eq!(scratch.read(&format!("{folder}/events.jsonl")), before);
    assert_eq!(scratch.status()["status"], "success");
}

#[test]
fn of_eight_processes_that_resume_a_run_one_owns_it() {
    let scratch = slow();
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    waiter(&scratch);
    run.signal("INT");
    run.end().exits(130);
    for round in 1..=4 {
        let began = scratch.lines("wait");
        let racers: Vec<_> = (0..8).map(|_| scratch.start(&["resume", "last"])).collect();
        scratch.until("one of them runs the stage", |scratch| {
            scratch.lines("wait") > began
        });
        let (mut owners, mut losers) = (Vec::new(), 0);
        let mut codes = BTreeMap::new();
        // The owner ends when it is stopped; the others have ended by themselves.
        for mut racer in racers {
            let mut first = String::new();
            std::io::BufRead::read_line(racer.reader(), &mut first).unwrap();
            if first.contains("orchestra.error/1") {
                let code = racer.end().code;
                *codes.entry(code).or_insert(0) += 1;
                losers += 1;
            } else {
                owners.push(racer);
            }
        }
        assert_eq!((owners.len(), losers), (1, 7), "round {round}: {codes:?}");
        assert_eq!(codes, BTreeMap::from([(7, 7)]));
        let owner = owners.remove(0);
        owner.signal("INT");
        owner.end().exits(130);
        assert_eq!(scratch.lines("wait"), began + 1);
    }
}

#[test]
fn a_simulated_run_goes_on_simulated_where_its_script_was() {
    let scratch = Scratch::new();
    scratch.write(
        "g.dot",
        r#"digraph g {
    start -> build -> ask
    build [shape=parallelogram, tool_command="touch really-run"]
    build -> ask [condition="outcome=fail"]
    ask [shape=hexagon, label="Again?"]
    ask -> build [label="[A] Again"]
    ask -> late [label="[L] Later"]
    late [shape=hexagon, label="Now?", timeout=90m, "human.default_choice"=G]
    late -> go [label="[G] Go"]
    go [prompt="Go"]
    go -> exit
}"#,
    );
    scratch.write(
        "script.yaml",
        "build: [fail, success]\nask: [A, L]\nlate: timeout\ngo: {outcome: success, notes: gone}\n",
    );
    let stopped = scratch.call(&["run", "g.dot", "--simulate", "script.yaml", "--max-time", "1ms"]);
    let resumed = match stopped.code {
        6 => scratch.call(&["resume", "last", "--json"]).exits(0),
        // The run was fast enough to end.
        _ => scratch
            .call(&["replay", "last", "--checkpoint", "cp_000001", "--json"])
            .exits(0),
    };
    let path = serde_json::json!(["start", "build", "ask", "build", "ask", "late", "go", "exit"]);
    assert_eq!(resumed.result()["path"], path);
    assert!(!scratch.path("really-run").exists());
    let manifest: serde_json::Value = {
        let id = scratch.runs().pop().unwrap();
        serde_json::from_str(&scratch.read(&format!(".orchestra/runs/{id}/manifest.json"))).unwrap()
    };
    assert_eq!(
        manifest["script"]["nodes"]["build"]["outcomes"][0]["outcome"],
        "fail"
    );
    assert!(scratch.runs().iter().all(|run| {
        scratch
            .call(&["status", run])
            .exits(0)
            .stdout
            .lines()
            .next()
            .unwrap()
            .ends_with("(simulated)")
    }));
}

#[test]
fn without_a_journal_a_pause_can_still_be_resumed() {
    let scratch = asks();
    scratch.call(&["run", "g.dot", "--durability", "none"]).exits(5);
    let folder = format!(".orchestra/runs/{}", scratch.runs().remove(0));
    assert!(!scratch.path(&folder).join("journal.jsonl").exists());
    let none = scratch.call(&["checkpoints", "last"]).exits(0);
    assert!(
        none.stderr.contains("the run has no checkpoints"),
        "{}",
        none.stderr
    );
    scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(0);
    assert_eq!((scratch.lines("built"), scratch.lines("shipped")), (1, 1));
    scratch
        .call(&["run", "g.dot", "--durability", "process", "--auto-approve"])
        .exits(0);
    scratch.call(&["run", "g.dot", "--durability", "most"]).exits(2);
}

#[test]
fn a_lock_that_outlives_its_owner_for_a_moment_is_waited_for() {
    let scratch = Scratch::new();
    scratch.write("gate.dot", gate(""));
    scratch
        .call(&["run", "gate.dot", "--run-dir", ".orchestra/runs/r"])
        .exits(5);
    // A program that the killed owner was just starting holds the lock until its `exec`, which may take more than a
    // second on a loaded machine.
    let lock = std::fs::File::open(scratch.path(".orchestra/runs/r/owner.lock")).unwrap();
    lock.lock().unwrap();
    let held = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1_200));
        drop(lock);
    });
    scratch.call(&["resume", "r", "--answer", "approve=Y"]).exits(0);
    held.join().unwrap();
}
