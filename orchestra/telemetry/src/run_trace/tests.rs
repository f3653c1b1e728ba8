//! The spans of events that are written by hand.

#![allow(clippy::unwrap_used)]

use opentelemetry::trace::Status;

use super::*;

/// A run whose events are written by hand, one second apart.
struct Written {
    seq: u64,
    trace: RunTrace,
    ended: Vec<SpanData>,
}

fn event(seq: u64, fields: &str) -> RunEvent {
    let line = format!(
        r#"{{"schema":"orchestra.event/1","seq":{seq},"time":"2026-11-21T15:{:02}:{:02}.000Z","run":"nightly",{fields}}}"#,
        seq / 60,
        seq % 60
    );
    RunEvent::from_json(line.as_bytes()).unwrap()
}

fn stage(name: &str, node: &str, index: u64, more: &str) -> String {
    format!(r#""event":"{name}","node":"{node}","index":{index},"visit":1,"attempt":1{more}"#)
}

const STARTED: &str = r#""event":"PipelineStarted","name":"release","goal":"""#;
const RESUMED: &str = r#""event":"PipelineResumed","checkpoint":"cp_000001","fencing_token":2"#;
const PAUSED: &str =
    r#""event":"PipelinePaused","code":"interrupted","reason":"interrupted","duration_ms":1"#;
const COMPLETED: &str = r#""event":"PipelineCompleted","duration_ms":1,"artifact_count":0"#;
const SUCCESS: &str = r#","outcome":"success","duration_ms":1000"#;

impl Written {
    fn new() -> Written {
        Written {
            seq: 0,
            trace: RunTrace::new(RunId::new("nightly").unwrap(), None, false),
            ended: Vec::new(),
        }
    }

    fn on(&mut self, fields: &str) -> &mut Written {
        self.seq += 1;
        assert!(self.trace.apply(&event(self.seq, fields), &mut self.ended));
        self
    }

    fn names(&self) -> Vec<&str> {
        self.ended.iter().map(|span| &*span.name).collect()
    }

    fn span(&self, name: &str) -> &SpanData {
        let mut found = self.ended.iter().filter(|span| span.name == name);
        let first = found.next().unwrap();
        assert!(found.next().is_none(), "several spans `{name}`");
        first
    }

    fn parent(&self, name: &str) -> &str {
        let parent = self.span(name).parent_span_id;
        let mut spans = self.ended.iter();
        let parent = spans.find(|span| span.span_context.span_id() == parent);
        parent.map_or("", |span| &*span.name)
    }
}

fn get(span: &SpanData, key: &str) -> String {
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|attribute| attribute.key.as_str() == key);
    found.map_or_else(String::new, |attribute| attribute.value.to_string())
}

#[test]
fn an_attempt_that_a_pause_cancels_is_one_span() {
    let mut run = Written::new();
    run.on(STARTED)
        .on(&stage("StageStarted", "wait", 0, ""))
        .on(&stage("StageCancelled", "wait", 0, r#","duration_ms":1"#))
        .on(r#""event":"ToolCallCompleted","node":"wait","tool":"shell","error":"cancelled","duration_ms":1"#)
        .on(PAUSED);
    assert_eq!(run.names(), [""; 0]);
    run.on(RESUMED)
        .on(&stage("StageStarted", "wait", 0, r#","repeat":true"#))
        .on(&stage("StageCompleted", "wait", 0, SUCCESS))
        .on(COMPLETED);
    assert_eq!(
        run.names(),
        ["execute_tool shell", "stage wait", "invoke_workflow release"]
    );
    let wait = run.span("stage wait");
    assert_eq!(wait.start_time, moment(event(2, STARTED).time));
    assert_eq!(wait.end_time, moment(event(8, STARTED).time));
    let interruptions: Vec<_> = wait
        .events
        .events
        .iter()
        .map(|event| (&*event.name, event.timestamp))
        .collect();
    assert_eq!(interruptions, [("interrupted", moment(event(3, STARTED).time))]);
    assert_eq!(
        run.span("invoke_workflow release").start_time,
        moment(event(1, STARTED).time)
    );
}

#[test]
fn a_cancelled_attempt_and_its_question_end_when_they_were_cancelled() {
    let question = r#""event":"InterviewStarted","node":"ask",
        "question":{"id":"ask#1/1","node":"ask","text":"Ship?","kind":"single_select","options":[]}"#;
    let mut run = Written::new();
    run.on(STARTED)
        .on(&stage("StageStarted", "ask", 0, ""))
        .on(question);
    assert_eq!(run.trace.waiting(), 1);
    run.on(&stage("StageCancelled", "ask", 0, r#","duration_ms":1"#));
    assert_eq!(run.trace.waiting(), 0);
    run.on(COMPLETED);
    assert_eq!(run.names(), ["gate ask", "stage ask", "invoke_workflow release"]);
    assert_eq!(
        (run.parent("gate ask"), run.parent("stage ask")),
        ("stage ask", "invoke_workflow release")
    );
    for name in ["gate ask", "stage ask"] {
        assert_eq!(run.span(name).end_time, moment(event(4, STARTED).time), "{name}");
    }
    assert_eq!(get(run.span("gate ask"), names::GATE_WAITED), "1000");
    assert_eq!(get(run.span("gate ask"), names::GATE_ANSWERED_BY), "withdrawn");
    assert_eq!(get(run.span("stage ask"), names::OUTCOME), "cancelled");
}

#[test]
fn cancelled_attempts_do_not_accumulate() {
    let mut run = Written::new();
    run.on(STARTED);
    for index in 0..=MAX_CANCELLED as u64 {
        let node = format!("n{index}");
        run.on(&stage("StageStarted", &node, index, "")).on(&stage(
            "StageCancelled",
            &node,
            index,
            r#","duration_ms":1"#,
        ));
    }
    assert_eq!(run.names(), ["stage n0"]);
}

#[test]
fn the_calls_of_a_program_belong_to_its_agent_also_if_they_were_reported_before_it() {
    let tool = r#""event":"ToolCallCompleted","node":"work","tool":"Bash","duration_ms":10"#;
    let calls = r#""event":"ModelCallCompleted","node":"work","program":true,"agent":"coder","conversation":"s-1",
        "provider":"codex","model":"gpt-5","input_tokens":7,"output_tokens":3,"duration_ms":2000"#;
    let mut run = Written::new();
    run.on(STARTED)
        .on(&stage("StageStarted", "work", 0, ""))
        .on(tool)
        .on(&calls.replace('\n', " "))
        .on(&stage("StageCompleted", "work", 0, SUCCESS))
        .on(COMPLETED);
    assert_eq!(
        run.names(),
        [
            "execute_tool Bash",
            "invoke_agent coder",
            "stage work",
            "invoke_workflow release"
        ]
    );
    assert_eq!(run.parent("execute_tool Bash"), "invoke_agent coder");
    assert_eq!(run.parent("invoke_agent coder"), "stage work");
    let agent = run.span("invoke_agent coder");
    let shown = [names::CONVERSATION, names::PROVIDER, names::INPUT_TOKENS].map(|name| get(agent, name));
    assert_eq!(shown, ["s-1", "codex", "7"]);
}

#[test]
fn what_failed_says_why_and_a_restart_has_spans_of_its_own() {
    let failed =
        r#","error":"two tests failed","category":"retryable","will_retry":false,"duration_ms":1000"#;
    let restarted = r#""event":"PipelineRestarted","from":"test","to":"start","restart":1"#;
    let mut run = Written::new();
    run.on(STARTED)
        .on(&stage("StageStarted", "test", 0, ""))
        .on(&stage("StageFailed", "test", 0, failed))
        .on(restarted)
        .on(&stage("StageStarted", "test", 1, ""))
        .on(&stage("StageFailed", "test", 1, failed))
        .on(r#""event":"PipelineFailed","error":"the stage failed","failure":null,"duration_ms":1"#);
    assert_eq!(
        run.names(),
        ["stage test", "stage test", "invoke_workflow release"]
    );
    let reasons: Vec<&Status> = run.ended.iter().map(|span| &span.status).collect();
    assert_eq!(*reasons[0], Status::error("two tests failed"));
    assert_eq!(*reasons[2], Status::error("the stage failed"));
    let ids: Vec<_> = run.ended.iter().map(|span| span.span_context.span_id()).collect();
    assert!(ids[0] != ids[1]);
    let seen = run.trace.traceparent("restart-1/test#1/1");
    assert!(seen.contains(&ids[1].to_string()), "{seen}");
}

#[test]
fn an_event_that_was_applied_before_has_no_spans() {
    let mut run = Written::new();
    run.on(STARTED).on(COMPLETED);
    assert!(!run.trace.apply(&event(2, COMPLETED), &mut run.ended));
    assert_eq!(run.names(), ["invoke_workflow release"]);
}

#[test]
fn the_copied_events_of_a_replay_have_no_spans_and_no_open_questions() {
    let question = r#""event":"InterviewStarted","node":"ask",
        "question":{"id":"ask#1/1","node":"ask","text":"Ship?","kind":"single_select","options":[]}"#;
    let replayed = r#","replayed_from":"cp_000001 of run weekly""#;
    let mut run = Written::new();
    run.trace.set_origin(ReplayedFrom {
        run: "weekly".to_owned(),
        checkpoint: "cp_000001".to_owned(),
    });
    run.on(STARTED)
        .on(&stage("StageStarted", "build", 0, ""))
        .on(&stage("StageCompleted", "build", 0, SUCCESS))
        .on(&stage("StageStarted", "ask", 1, ""))
        .on(question);
    assert_eq!((run.trace.waiting(), run.names()), (0, Vec::new()));
    run.on(&format!("{RESUMED}{replayed}"))
        .on(&stage("StageStarted", "ask", 1, r#","replay":true"#))
        .on(question);
    assert_eq!(run.trace.waiting(), 1);
    // The run pauses, and its next process names the other run again.
    run.on(PAUSED)
        .on(&format!("{RESUMED}{replayed}"))
        .on(&stage("StageStarted", "ask", 1, r#","replay":true"#))
        .on(&stage("StageCompleted", "ask", 1, SUCCESS))
        .on(COMPLETED);
    assert_eq!(run.names(), ["stage ask", "invoke_workflow release"]);
    let root = run.span("invoke_workflow release");
    for name in ["stage ask", "invoke_workflow release"] {
        assert_eq!(
            run.span(name).start_time,
            moment(event(6, STARTED).time),
            "{name}"
        );
    }
    assert_eq!(run.span("stage ask").events.len(), 1);
    assert_eq!(get(root, names::REPLAYED_FROM), "weekly at cp_000001");
    let weekly = RunId::new("weekly").unwrap();
    assert_eq!(root.links[0].span_context.trace_id(), trace_id(&weekly));
}

#[test]
fn a_branch_belongs_to_the_attempt_of_its_fan_out_also_after_a_retry_and_a_restart() {
    let failed = r#","error":"one failed","category":"retryable","will_retry":true,"duration_ms":1000"#;
    let attempt = |event: &str, node: &str, branch: &str, attempt: u32, more: &str| {
        let branch = match branch {
            "" => String::new(),
            branch => format!(r#","branch":"{branch}""#),
        };
        format!(r#""event":"{event}","node":"{node}","index":0,"visit":1,"attempt":{attempt}{branch}{more}"#)
    };
    let mut run = Written::new();
    run.on(STARTED)
        .on(r#""event":"PipelineRestarted","from":"test","to":"start","restart":1"#)
        .on(&attempt("StageStarted", "fan", "", 1, ""))
        .on(&attempt("StageFailed", "fan", "", 1, failed))
        .on(&attempt("StageStarted", "fan", "", 2, ""));
    for (branch, node) in [("fan#1.2:left", "left"), ("fan#1.2:inner", "inner")] {
        run.on(&attempt("StageStarted", node, branch, 1, ""));
    }
    // The branches of a fan-out within the branch `fan#1.2:inner`: in its first attempt, and in its third one.
    let (first, third) = ("fan#1.2:inner/inner#1:one", "fan#1.2:inner/inner#1.3:three~0");
    run.on(&attempt("StageStarted", "one", first, 1, ""))
        .on(&attempt("StageFailed", "inner", "fan#1.2:inner", 1, failed))
        .on(&attempt("StageStarted", "inner", "fan#1.2:inner", 3, ""))
        .on(&attempt("StageStarted", "three", third, 1, ""))
        .on(COMPLETED);
    let parent = |name: &str| {
        let id = run.span(name).parent_span_id;
        let mut keys = [
            "fan#1/1",
            "fan#1/2",
            "fan#1.2:inner/inner#1/1",
            "fan#1.2:inner/inner#1/3",
        ]
        .into_iter();
        keys.find(|key| run.trace.spans.stage_span(&format!("restart-1/{key}")) == id)
    };
    assert_eq!(parent("stage left"), Some("fan#1/2"));
    assert_eq!(parent("stage one"), Some("fan#1.2:inner/inner#1/1"));
    assert_eq!(parent("stage three"), Some("fan#1.2:inner/inner#1/3"));
    let inner = run.ended.iter().filter(|span| span.name == "stage inner");
    let parents: Vec<SpanId> = inner.map(|span| span.parent_span_id).collect();
    assert_eq!(parents, [run.trace.spans.stage_span("restart-1/fan#1/2"); 2]);
}
