use std::collections::BTreeSet;
use std::time::Duration;

use orchestra_core::{
    AnsweredBy, BranchStatus, FailureCategory, Question, QuestionKind, QuestionOption, RunFailure, Status,
    Usage,
};
use orchestra_graph::{Rule, SharedPipeline, Source, load};

use super::*;

/// A generator of arbitrary values (SplitMix64).
struct Any(u64);

impl Any {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns small numbers as well as the largest.
    fn count(&mut self) -> u64 {
        let shift = self.number() % 64;
        self.number() >> shift
    }

    fn short(&mut self) -> u32 {
        self.count() as u32
    }

    fn yes(&mut self) -> bool {
        self.number().is_multiple_of(2)
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.number() as usize % of.len()].clone()
    }

    fn text(&mut self) -> String {
        let pieces = [
            "", "a", "Fix", "ü", "\n", "\"", "\\", "\0", "🦀", "{}", "  ", "\u{2028}",
        ];
        (0..self.number() % 6).map(|_| self.one_of(&pieces)).collect()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Any) -> T) -> Option<T> {
        self.yes().then(|| make(self))
    }

    fn names(&mut self) -> Vec<String> {
        (0..self.number() % 3).map(|_| self.text()).collect()
    }

    /// Returns a duration of up to 200 years in whole microseconds, which is the precision of serialized events.
    fn duration(&mut self) -> Duration {
        Duration::from_micros(self.count() >> 11)
    }

    fn node(&mut self) -> NodeName {
        let text = "digraph { start -> build -> exit }";
        let pipeline = load(Source::new("a.dot", text), &Default::default());
        let pipeline = SharedPipeline::from(pipeline.pipeline().unwrap());
        let node = self.one_of(&[pipeline.start, pipeline.find("build").unwrap()]);
        if self.yes() {
            NodeName::new(&pipeline, node)
        } else {
            NodeName::from(&*self.text())
        }
    }

    fn edge(&mut self) -> u32 {
        (self.number() % 1_000) as u32
    }

    fn tested(&mut self) -> Vec<TestedCondition> {
        let condition = |any: &mut Any| TestedCondition {
            to: any.node(),
            edge: any.maybe(Any::edge),
            condition: any.text(),
            held: any.yes(),
            values: (0..any.number() % 3).map(|_| (any.text(), any.text())).collect(),
        };
        (0..self.number() % 3).map(|_| condition(self)).collect()
    }

    fn usage(&mut self) -> Option<Box<Usage>> {
        self.maybe(|any| {
            Box::new(Usage {
                input_tokens: any.count(),
                output_tokens: any.count(),
                cost_micros: any.count(),
            })
        })
    }

    fn model_call(&mut self, duration: Duration) -> ModelCall {
        let mut call = ModelCall::new(self.text(), self.text(), duration);
        call.program = self.yes();
        call.agent = self.maybe(Any::text);
        call.conversation = self.maybe(Any::text);
        call.response_model = self.maybe(Any::text);
        call.stop = self.maybe(Any::text);
        call.usage = *self.usage().unwrap_or_default();
        call.cached_input_tokens = self.count();
        call.error = self.maybe(Any::text);
        call.error_code = self.maybe(Any::text);
        call
    }

    fn failure(&mut self) -> RunFailure {
        let limit = Duration::from_millis(self.count());
        let [node, reason] = [self.text(), self.text()];
        match self.number() % 4 {
            0 => RunFailure::MaxTime { limit },
            1 => RunFailure::GoalGate {
                node,
                outcome: self.text(),
                reason,
                condition: self.maybe(Any::text),
                limit: self.maybe(Any::short),
            },
            2 => RunFailure::FailureBreaker {
                node,
                reason,
                count: self.short(),
            },
            _ => RunFailure::StageFailed { node, reason },
        }
    }

    fn question(&mut self) -> Box<Question> {
        let options: Vec<QuestionOption> = (0..self.number() % 3)
            .map(|_| QuestionOption::new(self.text(), self.text()))
            .collect();
        let mut question = if self.yes() {
            Question::new(QuestionKind::FreeText, self.text())
        } else {
            Question::select(self.text(), options)
        };
        question.timeout = self.maybe(|any| Duration::from_millis(any.count()));
        Box::new(
            question
                .node(self.text())
                .metadata(self.text(), self.count())
                .metadata(
                    self.text(),
                    serde_json::json!([self.text(), { "deep": self.text() }]),
                ),
        )
    }

    /// Returns an event of the named kind.
    fn kind(&mut self, name: &str) -> EventKind {
        let node = self.node();
        let branch = self.maybe(Any::text);
        let (index, visit, attempt) = (self.count(), self.short(), self.short());
        let duration = self.duration();
        let stage = StageRef {
            node: node.clone(),
            branch: branch.clone(),
            index,
            visit,
            attempt,
        };
        match name {
            "PipelineStarted" => EventKind::PipelineStarted {
                name: self.text(),
                goal: self.text(),
            },
            "PipelineResumed" => EventKind::PipelineResumed {
                checkpoint: self.text(),
                fencing_token: index,
                repaired: self.names(),
                replayed_from: branch,
                retry: self.maybe(Any::node),
            },
            "PipelineCompleted" => EventKind::PipelineCompleted {
                duration,
                artifact_count: index,
            },
            "PipelineFailed" => EventKind::PipelineFailed {
                error: self.text(),
                failure: self.maybe(Any::failure),
                duration,
            },
            "PipelineCancelled" => EventKind::PipelineCancelled {
                reason: self.text(),
                duration,
            },
            "PipelinePaused" => EventKind::PipelinePaused {
                code: self.one_of(&[
                    PauseCode::WaitsForHuman,
                    PauseCode::Interrupted,
                    PauseCode::Requested,
                    PauseCode::Budget,
                ]),
                reason: self.text(),
                gate: branch,
                duration,
            },
            "StageStarted" => EventKind::StageStarted {
                stage,
                repeat: self.yes(),
                replay: self.yes(),
            },
            "StageCompleted" => EventKind::StageCompleted {
                stage,
                outcome: Status::from_name(&self.text()),
                preferred_label: self.maybe(Any::text),
                notes: self.maybe(Any::text),
                usage: self.usage(),
                duration,
            },
            "StageFailed" => EventKind::StageFailed {
                stage,
                error: self.text(),
                category: self.one_of(&[FailureCategory::Retryable, FailureCategory::Terminal]),
                will_retry: self.yes(),
                usage: self.usage(),
                duration,
            },
            "StageRetrying" => EventKind::StageRetrying {
                node,
                branch,
                index,
                attempt,
                max_attempts: visit,
                delay: duration,
            },
            "StageCancelled" => EventKind::StageCancelled { stage, duration },
            "ParallelStarted" => EventKind::ParallelStarted {
                node,
                branch,
                branch_count: visit,
                tested: self.tested(),
            },
            "ParallelBranchStarted" => EventKind::ParallelBranchStarted {
                branch: self.text(),
                index: visit,
                edge: self.maybe(Any::edge),
                item: branch,
            },
            "ParallelBranchCompleted" => EventKind::ParallelBranchCompleted {
                branch: self.text(),
                index: visit,
                status: self.one_of(&[BranchStatus::PartialSuccess, BranchStatus::Cancelled]),
                success: self.yes(),
                error: branch,
                duration,
            },
            "ParallelCompleted" => EventKind::ParallelCompleted {
                node,
                branch,
                success_count: visit,
                failure_count: attempt,
                duration,
            },
            "InterviewStarted" => EventKind::InterviewStarted {
                node,
                branch,
                question: self.question(),
            },
            "InterviewCompleted" => EventKind::InterviewCompleted {
                node,
                branch,
                question_id: self.text(),
                question: self.text(),
                answer: self.text(),
                answered_by: self.one_of(&[AnsweredBy::Person, AnsweredBy::Default]),
                duration,
            },
            "InterviewTimeout" => EventKind::InterviewTimeout {
                node,
                branch,
                question_id: self.text(),
                question: self.text(),
                default: self.maybe(Any::text),
                duration,
            },
            "ChildInterviewStarted" => EventKind::ChildInterviewStarted {
                node,
                branch,
                child: RunId::new("nightly-7").unwrap(),
                gate: self.node(),
                gate_branch: self.maybe(Any::text),
                question: self.question(),
            },
            "ChildInterviewEnded" => EventKind::ChildInterviewEnded {
                node,
                branch,
                child: RunId::new("nightly-7").unwrap(),
                gate: self.node(),
                gate_branch: self.maybe(Any::text),
                question_id: self.text(),
                answer: self.maybe(Any::text),
                withdrawn: self.yes(),
            },
            "GoalGateUnsatisfied" => EventKind::GoalGateUnsatisfied {
                gate: node,
                to: self.node(),
                reroute: visit,
            },
            "PipelineRestarted" => EventKind::PipelineRestarted {
                from: node,
                to: self.node(),
                restart: visit,
            },
            "ModelCallCompleted" => EventKind::ModelCallCompleted {
                node,
                branch,
                call: Box::new(self.model_call(duration)),
            },
            "ToolCallCompleted" => EventKind::ToolCallCompleted {
                node,
                branch,
                tool: self.text(),
                call_id: self.maybe(Any::text),
                error: self.maybe(Any::text),
                duration,
            },
            "SteeringRead" => EventKind::SteeringRead {
                node,
                branch,
                cycle: visit,
                instruction: self.text(),
                file: self.maybe(Any::text),
            },
            "PipelineWarning" => EventKind::PipelineWarning {
                code: self.text(),
                message: self.text(),
            },
            "StageLog" => EventKind::StageLog {
                node,
                message: self.text(),
            },
            "StageWarning" => EventKind::StageWarning {
                node,
                branch,
                code: self.text(),
                message: self.text(),
                keys: vec![self.text()],
            },
            "EdgeSelected" => EventKind::EdgeSelected {
                branch,
                from: node,
                to: self.maybe(Any::node),
                edge: self.maybe(Any::edge),
                rule: self.one_of(&[Rule::Condition, Rule::FailureToRouting, Rule::Nothing]),
                tested: self.tested(),
            },
            "SnapshotSaved" => EventKind::SnapshotSaved {
                node,
                branch,
                snapshot: Box::new(self.text().into()),
                unfinished: self.maybe(Any::text),
            },
            "CheckpointSaved" => EventKind::CheckpointSaved {
                node,
                checkpoint: self.text(),
            },
            other => panic!("an event of the kind {other} is not made yet"),
        }
    }
}

#[test]
fn an_event_of_every_kind_is_read_back_as_it_was_written() {
    let mut any = Any(0x0b5e_55ed);
    for name in EventKind::NAMES {
        let mut texts = BTreeSet::new();
        for _ in 0..200 {
            let event = RunEvent {
                seq: any.count(),
                time: Timestamp::from_millis(any.count()),
                run: RunId::new("nightly-7").unwrap(),
                kind: any.kind(name),
            };
            assert_eq!(event.kind.name(), *name);
            let written = serde_json::to_string(&event).unwrap();
            let read = RunEvent::from_json(written.as_bytes()).unwrap_or_else(|e| panic!("{e}: {written}"));
            assert_eq!(read, event);
            assert_eq!(serde_json::to_string(&read).unwrap(), written);
            let name_again: serde_json::Value = serde_json::from_str(&written).unwrap();
            assert_eq!(name_again["event"], *name);
            texts.insert(written);
        }
        assert!(texts.len() > 190, "{name} hardly varies");
    }
}

#[test]
fn the_fields_of_an_attempt_stand_beside_those_of_the_event() {
    let stage = StageRef {
        node: "build".into(),
        branch: Some("fan#1:left".to_owned()),
        index: u64::MAX,
        visit: 2,
        attempt: 3,
    };
    let text = |kind: &EventKind| serde_json::to_string(kind).unwrap();
    let started = EventKind::StageStarted {
        stage: stage.clone(),
        repeat: true,
        replay: false,
    };
    assert_eq!(
        text(&started),
        r#"{"event":"StageStarted","node":"build","branch":"fan#1:left","index":18446744073709551615,"visit":2,"attempt":3,"repeat":true}"#
    );
    let cancelled = EventKind::StageCancelled {
        stage: StageRef {
            branch: None,
            ..stage
        },
        duration: Duration::from_micros(1_500),
    };
    assert_eq!(
        text(&cancelled),
        r#"{"event":"StageCancelled","node":"build","index":18446744073709551615,"visit":2,"attempt":3,"duration_ms":1.5}"#
    );
}

#[test]
fn every_rule_is_read_back() {
    let rules = [
        Rule::Condition,
        Rule::PreferredLabel,
        Rule::SuggestedNext,
        Rule::Weight,
        Rule::LowestTarget,
        Rule::OnlyEdge,
        Rule::FailureToRouting,
        Rule::RetryTarget,
        Rule::FallbackRetryTarget,
        Rule::FirstMatch,
        Rule::Join,
        Rule::GoalGate,
        Rule::End,
        Rule::Nothing,
    ];
    for rule in rules {
        assert_eq!(Rule::parse(rule.word()), Some(rule));
    }
}

#[test]
fn what_older_versions_wrote_is_read_with_defaults() {
    let line = |rest: &str| {
        let head = r#"{"schema":"orchestra.event/1","seq":1,"time":"2026-11-21T15:30:00.042Z","run":"r","#;
        RunEvent::from_json(format!("{head}{rest}}}").as_bytes())
            .unwrap()
            .kind
    };
    let paused = line(r#""event":"PipelinePaused","reason":"nobody","gate":"approve","duration_ms":1.5"#);
    let expected = EventKind::PipelinePaused {
        code: PauseCode::WaitsForHuman,
        reason: "nobody".to_owned(),
        gate: Some("approve".to_owned()),
        duration: Duration::from_micros(1_500),
    };
    assert_eq!(paused, expected);
    let started =
        line(r#""event":"StageStarted","node":"a","index":0,"visit":1,"attempt":1,"a_newer_field":[{}]"#);
    assert!(matches!(started, EventKind::StageStarted { repeat: false, .. }));
    let saved = line(r#""event":"CheckpointSaved","node":"a""#);
    assert!(matches!(saved, EventKind::CheckpointSaved { checkpoint, .. } if checkpoint.is_empty()));
}

#[test]
fn what_is_no_event_is_refused_by_its_cause() {
    let code = |text: &str| RunEvent::from_json(text.as_bytes()).unwrap_err().code();
    let head = r#""seq":1,"time":"2026-11-21T15:30:00.042Z","run":"r""#;
    let schema = r#""schema":"orchestra.event/1""#;
    let unknown = format!(r#"{{{schema},{head},"event":"StageTold","node":1}}"#);
    assert_eq!(code(&unknown), "unknown_event");
    let newer = format!(r#"{{"schema":"orchestra.event/2",{head},"event":"CheckpointSaved","node":"a"}}"#);
    assert_eq!(code(&newer), "unknown_event_schema");
    for malformed in [
        String::new(),
        "{".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        format!("{{{schema},{head}}}"),
        format!(r#"{{{schema},{head},"event":"CheckpointSaved"}}"#),
        format!(r#"{{{schema},"seq":-1,"event":"CheckpointSaved","node":"a"}}"#),
        format!(r#"{{{schema},{head},"event":"CheckpointSaved","node":"a"}}trailing"#),
        format!(r#"{{{schema},{head},"event":"CheckpointSaved","node":"a"}}"#).replace("\"r\"", "\"../r\""),
        format!(r#"{{{schema},{head},"event":"CheckpointSaved","node":"a"}}"#).replace("2026", "yesterday"),
        format!(
            r#"{{{schema},{head},"event":"EdgeSelected","from":"a","to":null,"rule":"luck","tested":[]}}"#
        ),
    ] {
        assert_eq!(code(&malformed), "malformed_event", "{malformed}");
    }
}

#[test]
fn a_name_is_no_larger_for_being_able_to_hold_a_text() {
    assert!(size_of::<NodeName>() <= 24);
}
