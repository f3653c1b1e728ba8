//! The data flow between stages: reviews, plans and logs reach the requests of the stages that need them.

#![cfg(unix)]

use crate::agents_support;

use agents_support::{Project, reports};
use orchestra_agent::{count_tokens, fidelity_budget};
use orchestra_engine::Fidelity;
use orchestra_model_server_tests::Answer;
use serde_json::Value;

/// Returns a text of `bytes` bytes that ends with `last`.
fn long(bytes: usize, what: &str, last: &str) -> String {
    let mut text = String::new();
    let mut line = 0;
    while text.len() + last.len() + 1 < bytes {
        line += 1;
        text.push_str(&format!(
            "{line}. {what}: consider `module_{}` again.\n",
            line * 7
        ));
    }
    text + last
}

/// Returns all text of a request.
fn reported(request: &Value) -> String {
    let system = request["system"].to_string();
    let messages = request["messages"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| message["content"].as_array().cloned().unwrap_or_default());
    let texts = parts.map(|part| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => part.to_string(),
    });
    system + &texts.collect::<Vec<_>>().join("\n")
}

/// Returns the text of the request whose last message contains `words`.
fn asked_for(project: &Project, words: &str) -> String {
    let requests = project.server.requests();
    let found = requests.iter().find(|request| {
        let messages = request.body["messages"].as_array().unwrap();
        messages.last().unwrap().to_string().contains(words)
    });
    let found = found.unwrap_or_else(|| panic!("no request holds `{words}`"));
    reported(&found.body)
}

/// Returns the part before the task, which depends on the fidelity.
fn before_the_task(request: &str) -> &str {
    let start = request.find("# Where you are").unwrap();
    let end = request.find("\n\n# Your task").unwrap();
    &request[start..end]
}

const REVIEW: &str = r##"digraph pr_review {
    graph [
        goal="Review the pull request from multiple perspectives and produce a synthesized review",
        label="Adversarial PR Review",
        model_spec="* { llm_model: smart; llm_provider: anthropic; }"
    ]
    node [shape=box, timeout="900s"]
    start [shape=Mdiamond, label="Start"]
    exit  [shape=Msquare, label="Exit"]
    security_reviewer [label="Security Review", agent="security-reviewer", goal_gate=true]
    architecture_reviewer [label="Architecture Review", agent="architecture-reviewer", goal_gate=true]
    fan_out [shape=component, label="Fan Out"]
    fan_in [shape=tripleoctagon, label="Collect Reviews"]
    critic [label="Adversarial Critique", agent.role="adversarial-critic", agent.persona="devils-advocate",
            agent.personality="contrarian-precise", agent.task="critique-reviews", max_retries=2]
    gate [shape=diamond, label="Critique Sufficient?"]
    synthesizer [label="Synthesize Review", agent="synthesizer"]
    start -> fan_out
    fan_out -> security_reviewer
    fan_out -> architecture_reviewer
    security_reviewer -> fan_in
    architecture_reviewer -> fan_in
    fan_in -> critic
    critic -> gate
    gate -> fan_out [label="Retry", condition="outcome!=success", weight=0]
    gate -> synthesizer [label="Proceed", condition="outcome=success", weight=1]
    synthesizer -> exit
}
"##;

#[test]
fn the_last_line_of_a_review_reaches_critic_and_synthesizer() {
    let project = Project::new(
        "backend: direct\nagents:\n  security-reviewer: {role: security-reviewer, task: review-pr-security}\n  \
         architecture-reviewer: {role: architecture-reviewer, task: review-pr-architecture}\n  \
         synthesizer: {role: synthesizer, task: synthesize-review}\npipelines: {pr_review: {inputs: [pr_diff]}}\n",
    );
    project.scratch.write("review.dot", REVIEW);
    let security = long(20_000, "Nothing here", "LAST: the token is logged in auth.rs:88");
    let design = long(20_000, "Nothing there", "LAST: the cache is a second truth");
    let critique = long(20_000, "Confirmed", "LAST: both findings stand");
    let answers = [security.clone(), design.clone(), critique.clone()];
    project.server.respond_with(move |request| {
        let asked = reported(&request.body);
        let [security, design, critique] = &answers;
        Answer::text(if asked.contains("Review this pull request for security") {
            security
        } else if asked.contains("Review this pull request for design") {
            design
        } else if asked.contains("For each finding decide") {
            critique
        } else {
            "Reject."
        })
    });
    project
        .call(&["run", "review.dot", "--set", "pr_diff=- a\n+ b"])
        .exits(0);
    let critic = asked_for(&project, "For each finding decide");
    for review in [&security, &design] {
        assert!(
            critic.contains(review.as_str()),
            "the critic lacks a review: {critic}"
        );
    }
    let synthesis = asked_for(&project, "Write one review of the pull request");
    for text in [&security, &design, &critique] {
        assert!(
            synthesis.contains(text.as_str()),
            "the synthesizer lacks a text: {synthesis}"
        );
    }
}

#[test]
fn a_plan_fills_the_fidelity_of_the_next_stage_and_stands_whole_where_it_is_named() {
    let plan = long(40_000, "Step", "LAST STEP: delete the old table");
    let project = Project::new("backend: direct\n");
    let modes = ["compact", "summary:low", "summary:medium", "summary:high"];
    let nodes: String = modes
        .iter()
        .enumerate()
        .map(|(at, mode)| {
            format!("plan{at} [prompt=\"Plan {at}.\"]; do{at} [prompt=\"Do {at}.\", fidelity=\"{mode}\"]; plan{at} -> do{at}\n")
        })
        .collect();
    let flow = format!(
        "digraph {{ goal=\"Move the data\"; {nodes} start -> plan0; do0 -> plan1; do1 -> plan2; do2 -> plan3; do3 -> exit }}"
    );
    project.scratch.write("a.dot", flow).write(
        "b.dot",
        "digraph { prompt_templates=true; start -> plan -> work -> exit; plan [prompt=\"Plan it.\"]
            work [prompt=\"Do this:\\n{{ stages.plan.response }}\", fidelity=truncate] }",
    );
    project.scratch.write(
        "c.dot",
        "digraph { goal=\"Move the data\"; start -> plan -> work -> exit; plan [agent.task=\"plan-change\"]
            work [agent.task=\"implement-change\", fidelity=truncate] }",
    );
    let given = plan.clone();
    project.server.respond_with(move |request| {
        let asked = reported(&request.body);
        let task = asked.rsplit("# Your task").next().unwrap();
        Answer::text(if task.contains("Plan ") {
            given.as_str()
        } else {
            "Done."
        })
    });
    project.call(&["run", "a.dot"]).exits(0);
    for (at, mode) in modes.iter().enumerate() {
        let request = asked_for(&project, &format!("Do {at}."));
        let before = before_the_task(&request);
        assert!(before.contains("1. Step: consider"), "{mode}: {before}");
        assert!(
            before.contains("LAST STEP: delete the old table"),
            "{mode}: {before}"
        );
        assert!(
            before.contains(&format!("/plan{at}/response.md`")),
            "{mode}: {before}"
        );
        let budget = fidelity_budget(mode.parse::<Fidelity>().unwrap()).unwrap();
        let tokens = count_tokens(before);
        assert!(
            tokens <= budget && tokens * 10 >= budget * 8,
            "{mode}: {tokens} of {budget}"
        );
    }
    for file in ["b.dot", "c.dot"] {
        let before = project.server.requests().len();
        project.call(&["run", file]).exits(0);
        let requests = project.server.requests();
        let work = reported(&requests[before + 1].body);
        assert!(work.contains(plan.as_str()), "{file}: {work}");
    }
}

#[test]
fn the_last_line_of_a_long_log_reaches_the_stage_that_mends_it() {
    let project = Project::new("");
    project.scratch.write(
        "a.dot",
        r#"digraph { goal="Make the tests pass"; prompt_templates=true
            start -> test
            test [shape=parallelogram, tool_command="sh test.sh"]
            test -> exit [condition="outcome=success"]
            test -> fix [condition="outcome=fail"]
            fix [prompt="Fix it."]
            fix -> look -> test
            look [prompt="Look at it:\n{{ stages.test.output }}\n{{ stages.test.outcome }}: {{ stages.test.failure_reason }}", backend=direct]
        }"#,
    );
    project.scratch.write(
        "test.sh",
        "test -e fixed && exit 0\nyes 'test module::case_with_a_long_name ... ok' | head -c 2000000\n\
         echo\necho 'FAILED: sum::adds, left: 5, right: 6'\nexit 1\n",
    );
    project.server.respond_with({
        let scratch = project.scratch.path("fixed");
        move |request| {
            let messages = request.body["messages"].as_array().unwrap();
            let asked = reported(&request.body);
            if asked.contains("Look at it:") {
                return Answer::text("I see.");
            }
            if messages.len() == 1 {
                let file = asked
                    .split('`')
                    .find(|part| part.ends_with("test/tool_output.txt"))
                    .unwrap();
                let read = serde_json::json!({"path": file, "pattern": "FAILED"});
                return Answer::call("grep", read.to_string());
            }
            std::fs::write(&scratch, "").unwrap();
            reports("Fixed.")
        }
    });
    project.call(&["run", "a.dot"]).exits(0);
    let fix = asked_for(&project, "Fix it.");
    let before = before_the_task(&fix);
    assert!(
        before.contains("FAILED: sum::adds, left: 5, right: 6"),
        "{before}"
    );
    assert!(before.contains("Stage `test` failed: exit code 1"), "{before}");
    assert!(
        before.contains("bytes are left out here; the whole text is in `"),
        "{before}"
    );
    let (tokens, budget) = (count_tokens(before), 4_000);
    assert!(
        tokens <= budget && tokens * 10 >= budget * 8,
        "{tokens} of {budget}"
    );
    let found = &project.asked()[1].last().unwrap()["content"][0]["content"].to_string();
    assert!(
        found.contains("FAILED: sum::adds"),
        "the file can be searched: {found}"
    );
    let look = asked_for(&project, "Look at it:");
    assert!(
        look.contains("test module::case_with_a_long_name"),
        "the beginning"
    );
    assert!(look.contains("FAILED: sum::adds, left: 5, right: 6"), "the end");
    assert!(
        look.contains("bytes are left out here") && look.len() > 1_000_000,
        "{}",
        look.len()
    );
    assert!(look.contains("fail: exit code 1"), "outcome and reason");
}

#[test]
fn a_template_that_names_no_stage_of_the_pipeline_is_refused_with_its_place() {
    let project = Project::new("backend: direct\n");
    project
        .scratch
        .write(
            "prompts/tasks/do.yaml",
            "task:\n  name: do\n  template: |\n    Do {{ stages.plna.response }}, {{ stages.plan.respons }}.\n",
        )
        .write(
            "a.dot",
            "digraph { start -> plan -> work -> exit; plan [prompt=x]; work [agent.task=do] }",
        );
    for command in ["compile", "run"] {
        let done = project.call(&[command, "a.dot"]).exits(3);
        let reported = done.stderr + &done.stdout;
        for part in [
            "prompts/tasks/do.yaml:4:11",
            "did you mean `stages.plan.response`?",
            "template_variable",
        ] {
            assert!(reported.contains(part), "{part}: {reported}");
        }
    }
}

#[test]
fn a_branch_sees_its_own_stages_and_the_line_sees_the_latest() {
    let project = Project::new("backend: direct\n");
    project.scratch.write(
        "a.dot",
        r#"digraph { prompt_templates=true; default_fidelity=truncate
            start -> plan -> fan
            plan [prompt="PLAN"]
            fan [shape=component]
            fan -> left; fan -> right
            left [prompt="LEFT after {{ stages.plan.response }}"]
            right [prompt="RIGHT after {{ stages.plan.response }}"]
            left -> check; right -> check
            check [prompt="CHECK {% if stages.left.response %}{{ stages.left.response }}{% else %}{{ stages.right.response }}{% endif %}"]
            check -> join
            join [shape=tripleoctagon]
            join -> sum
            sum [prompt="SUM {% for r in parallel.results %}[{{ r.id }}: {{ r.response }} by {{ r.stages | map(attribute='id') | join('>') }}]{% endfor %}"]
            sum -> exit
        }"#,
    );
    project.server.respond_with(|request| {
        let asked = reported(&request.body);
        let task = asked.rsplit("# Your task\n\n").next().unwrap();
        Answer::text(format!("<{task}>"))
    });
    project.call(&["run", "a.dot"]).exits(0);
    let sum = asked_for(&project, "SUM ");
    let task = sum.rsplit("# Your task\n\n").next().unwrap();
    assert_eq!(
        task,
        "SUM [left: <CHECK <LEFT after <PLAN>>> by left>check][right: <CHECK <RIGHT after <PLAN>>> by right>check]"
    );
}

#[test]
fn stages_are_named_after_a_resume_too() {
    let project = Project::new("backend: direct\n");
    project.scratch.write(
        "a.dot",
        r#"digraph { prompt_templates=true; default_fidelity=truncate
            start -> plan -> gate; plan [prompt="PLAN"]
            gate [shape=hexagon, label="Go on?"]
            gate -> work [label="Yes"]; gate -> exit [label="No"]
            work [prompt="WORK {{ stages.plan.response }} because {{ stages.gate.response }}"]; work -> exit }"#,
    );
    let plan = long(30_000, "Step", "THE END OF THE PLAN");
    project.server.push(Answer::text(plan.clone()));
    project.server.push(Answer::text("Done."));
    project.call(&["run", "a.dot"]).exits(5);
    project.call(&["resume", "last", "--answer", "gate=Y"]).exits(0);
    let work = asked_for(&project, "WORK ");
    assert!(
        work.contains(plan.as_str()) && work.contains(" because Yes"),
        "{work}"
    );
}

#[test]
fn full_fidelity_alone_makes_one_conversation_which_failures_and_resumes_do_not_end() {
    let project = Project::new("backend: direct\n");
    project.scratch.write(
        "a.dot",
        r#"digraph { default_fidelity=full; goal="Tell"
            start -> one -> two
            one [prompt="FIRST"]
            two [prompt="SECOND", max_retries=1, retry_initial_delay=1ms]
            two -> gate
            gate [shape=hexagon, label="Go on?"]
            gate -> three [label="Yes"]; gate -> exit [label="No"]
            three [prompt="THIRD"]
            three -> four -> exit
            four [prompt="FOURTH"]
        }"#,
    );
    let broken = Answer::text("");
    for answer in [Answer::text("answer one"), broken, Answer::text("answer two")] {
        project.server.push(answer);
    }
    project.call(&["run", "a.dot"]).exits(5);
    project.server.push(Answer::text("answer three"));
    project.server.push(Answer::text("answer four"));
    project.call(&["resume", "last", "--answer", "gate=Y"]).exits(0);
    let asked = project.asked();
    let texts: Vec<String> = asked
        .iter()
        .map(|messages| serde_json::to_string(messages).unwrap())
        .collect();
    assert!(texts[1].contains("FIRST") && texts[1].contains("answer one") && texts[1].contains("SECOND"));
    assert!(
        texts[2].contains("answer one") && texts[2].contains("failed"),
        "{}",
        texts[2]
    );
    // The first stage after a resume has a summary, and no earlier messages.
    assert_eq!(asked[3].len(), 1);
    assert!(
        texts[3].contains("Where you are") && texts[3].contains("answer two"),
        "{}",
        texts[3]
    );
    for part in [
        "FIRST",
        "answer one",
        "SECOND",
        "answer two",
        "THIRD",
        "answer three",
        "FOURTH",
    ] {
        assert!(texts[4].contains(part), "{part}: {}", texts[4]);
    }
}

#[test]
fn full_fidelity_on_a_program_is_refused_by_every_command() {
    let project = Project::new("backend: coder\nbackends: {coder: {kind: cli, command: 'cat'}}\n");
    project.scratch.write(
        "a.dot",
        "digraph {\n    default_fidelity=full\n    start -> work -> exit\n    work [prompt=x]\n}\n",
    );
    for command in ["compile", "run"] {
        let done = project.call(&[command, "a.dot"]).exits(3);
        let reported = done.stderr + &done.stdout;
        assert!(
            reported.contains("a.dot:2:22") && reported.contains("backend_capability"),
            "{reported}"
        );
    }
}

const CONTEST: &str = r#"digraph { default_fidelity=truncate
    start -> fan; fan [shape=component]; fan -> quick; fan -> sound
    quick [prompt="QUICK"]; sound [prompt="SOUND"]
    quick -> judge; sound -> judge
    judge [shape=tripleoctagon, prompt="Which solution is right?"]
    judge -> quick_wins [condition="context.parallel.fan_in.best_id=quick"]
    judge -> exit [condition="context.parallel.fan_in.best_id=sound"]
    quick_wins [prompt="Q"]; quick_wins -> exit
}"#;

#[test]
fn a_judge_sees_whole_responses_and_chooses_by_a_call_or_by_one_id_in_its_words() {
    let call = |best: &str| {
        Answer::call(
            "choose",
            format!(r#"{{"best": "{best}", "reason": "It is right."}}"#),
        )
    };
    let judges: [Vec<Answer>; 3] = [
        vec![call("sound")],
        vec![call("deep"), call("sound")],
        vec![Answer::text(
            "The better one, by far, is the candidate `sound`; it handles the empty list.",
        )],
    ];
    for judge in judges {
        let project = Project::new("backend: direct\n");
        project.scratch.write("a.dot", CONTEST);
        let mut answers = judge.into_iter();
        let (mut judged, quick) = (Vec::new(), long(30_000, "Quick", "THE END OF QUICK"));
        judged.extend(&mut answers);
        let judged = std::sync::Mutex::new(std::collections::VecDeque::from(judged));
        project.server.respond_with(move |request| {
            let asked = reported(&request.body);
            if asked.contains("Which solution is right?") {
                judged.lock().unwrap().pop_front().unwrap()
            } else if asked.contains("QUICK") {
                Answer::text(quick.clone())
            } else {
                Answer::text(long(30_000, "Sound", "THE END OF SOUND"))
            }
        });
        let run = project.call(&["run", "a.dot"]).exits(0);
        assert!(run.stdout.contains("judge -> exit"), "{}", run.stdout);
        let judge = asked_for(&project, "Which solution is right?");
        assert!(
            judge.contains("THE END OF QUICK") && judge.contains("THE END OF SOUND"),
            "{judge}"
        );
        let tools = &project.server.requests()[2].body["tools"];
        assert!(
            tools.to_string().contains(r#""enum":["quick","sound"]"#),
            "{tools}"
        );
    }
}

#[test]
fn prompts_are_labels_templates_or_files() {
    let project = Project::new("backend: direct\n");
    project
        .scratch
        .write("flows/prompts/plan.md", "Plan $goal from a file.\n")
        .write("flows/review.md", "Review $goal from another.\n")
        .write(
            "flows/a.dot",
            r#"digraph { goal="the move"; default_fidelity=truncate
                start -> label -> file -> named -> literal -> exit
                label [label="Think about $goal"]
                file [prompt="@prompts/plan.md"]
                named [prompt_file="review.md"]
                literal [prompt="Show {{ goal }} as it stands"] }"#,
        );
    (0..4).for_each(|_| project.server.push(Answer::text("Fine.")));
    let run = project.call(&["run", "flows/a.dot"]).exits(0);
    let compiled = project.call(&["compile", "flows/a.dot"]).exits(0);
    let shown = compiled.stdout + &compiled.stderr + &run.stderr;
    assert!(shown.contains("literal_template"), "{shown}");
    let tasks: Vec<String> = project
        .asked()
        .iter()
        .map(|messages| {
            agents_support::text(&messages[0])
                .rsplit("# Your task\n\n")
                .next()
                .unwrap()
                .trim()
                .to_owned()
        })
        .collect();
    assert_eq!(
        tasks,
        [
            "Think about the move",
            "Plan the move from a file.",
            "Review the move from another.",
            "Show {{ goal }} as it stands"
        ]
    );
    let missing = "digraph {\n    start -> file -> exit\n    file [prompt=\"@prompts/plam.md\"]\n}\n";
    project.scratch.write("flows/b.dot", missing);
    let done = project.call(&["compile", "flows/b.dot"]).exits(3);
    let reported = done.stderr + &done.stdout;
    assert!(
        reported.contains("flows/b.dot:3:20") && reported.contains("error[prompt_file]"),
        "{reported}"
    );
}
