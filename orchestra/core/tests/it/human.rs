//! The interpretation of answers by questions (Attractor 6, rules H1 to H4).
use std::time::Duration;

use orchestra_core::{Answer, Question, QuestionKind, QuestionOption};
use orchestra_graph::{Source, load};

/// Returns the question of the gate `ask`.
fn gate(edges: &str) -> Question {
    let text = format!("digraph g {{ start -> ask; ask [shape=hexagon, label=\"Ship it?\"]; {edges} }}");
    let loaded = load(Source::new("g.dot", &text), &Default::default());
    let report = format!("{:?}", loaded.report);
    let pipeline = loaded.pipeline().unwrap_or_else(|| panic!("{report}"));
    let at = pipeline.find("ask").unwrap();
    Question::of_gate(&pipeline, at, "ask#1/1".to_owned())
}

fn chosen(question: &Question, answer: &str) -> Vec<String> {
    let accepted = question.accept(&Answer::choice(answer));
    let options = accepted.map(|accepted| accepted.options).unwrap_or_default();
    options.into_iter().map(|option| option.key).collect()
}

#[test]
fn key_label_and_target_name_an_option_in_any_case() {
    let question = gate(r#"ask -> exit [label="[Y] Yes, ship"]; ask -> Mend [label="[N] No"]; Mend -> ask"#);
    for answer in [
        "Y",
        "y",
        " y ",
        "Yes, ship",
        "YES, SHIP",
        "[Y] Yes, ship",
        "y) yes, ship",
        "exit",
        "EXIT",
    ] {
        assert_eq!(chosen(&question, answer), ["Y"], "{answer}");
    }
    assert_eq!(chosen(&question, "mend"), ["N"]);
    for answer in ["", " ", "ye", "yes", "ship", "0", "YN", "Y,N"] {
        let refused = question.accept(&Answer::choice(answer)).unwrap_err();
        assert_eq!(refused.offered, ["[Y] Yes, ship", "[N] No"], "{answer}");
    }
}

#[test]
fn a_key_means_its_option_even_where_it_is_the_target_of_another() {
    let crossed = r#"ask -> b [label="[A] First"]; ask -> a [label="[B] Second"]; a -> exit; b -> exit"#;
    let question = gate(crossed);
    assert_eq!(chosen(&question, "a"), ["A"]);
    assert_eq!(chosen(&question, "b"), ["B"]);
    assert_eq!(chosen(&question, "second"), ["B"]);
}

#[test]
fn the_default_of_a_gate_is_the_key_of_what_it_names() {
    let with = |default: &str| {
        let edges = r#"ask -> b [label="[A] First"]; ask -> a [label="[B] Second"]; a -> exit; b -> exit;"#;
        gate(&format!(
            "{edges} ask [\"human.default_choice\"=\"{default}\", timeout=90s]"
        ))
    };
    for (default, key) in [("b", "B"), ("First", "A"), ("A", "A")] {
        assert_eq!(with(default).default.as_deref(), Some(key), "{default}");
    }
    assert_eq!(with("A").timeout, Some(Duration::from_secs(90)));
    assert_eq!(gate("ask -> exit").default, None);
}

#[test]
fn a_free_text_edge_takes_what_names_no_choice() {
    let question = gate(
        r#"ask -> exit [label="[A] Approve"]; ask -> mend [label="Comment", freeform=true]; mend -> ask"#,
    );
    assert_eq!(question.kind, QuestionKind::SingleSelect);
    let accepted = question.accept(&Answer::choice("Add a test.")).unwrap();
    assert_eq!(
        (accepted.options[0].label.as_str(), accepted.text.as_deref()),
        ("Comment", Some("Add a test."))
    );
    let accepted = question.accept(&Answer::choice("approve")).unwrap();
    assert_eq!((accepted.options[0].key.as_str(), accepted.text), ("A", None));
    assert!(question.accept(&Answer::choice("  ")).is_err());
}

#[test]
fn a_gate_of_free_text_alone_takes_any_text_but_no_silence() {
    let question = gate("ask -> exit [freeform=true]");
    assert_eq!(question.kind, QuestionKind::FreeText);
    let accepted = question.accept(&Answer::choice("Because.")).unwrap();
    assert_eq!(
        (accepted.options[0].to.as_deref(), accepted.text.as_deref()),
        (Some("exit"), Some("Because."))
    );
    for silence in [Answer::choice(""), Answer::choice(" \t"), Answer::skipped()] {
        let refused = question.accept(&silence).unwrap_err();
        assert_eq!(refused.to_string(), "an empty answer is not an answer");
    }
}

#[test]
fn yes_and_no_are_understood_and_nothing_else() {
    for kind in [QuestionKind::YesNo, QuestionKind::Confirm] {
        let question = Question::new(kind, "Ready?");
        for (answer, yes) in [
            ("y", true),
            ("YES", true),
            ("true", true),
            ("N", false),
            ("no ", false),
            ("false", false),
        ] {
            assert_eq!(
                question.accept(&Answer::choice(answer)).unwrap().is_yes(),
                Some(yes),
                "{answer}"
            );
        }
        for answer in ["", "j", "yes!", "1"] {
            assert!(question.accept(&Answer::choice(answer)).is_err(), "{answer}");
        }
        assert!(question.accept(&Answer::skipped()).is_err());
    }
}

#[test]
fn several_options_are_chosen_by_commas_or_one_by_one() {
    let options =
        [("L", "Lint"), ("T", "Test"), ("D", "Docs")].map(|(key, label)| QuestionOption::new(key, label));
    let mut question = Question::select("Which?", options);
    question.kind = QuestionKind::MultiSelect;
    assert_eq!(chosen(&question, "t, lint,,T"), ["T", "L"]);
    let listed = question.accept(&Answer::choices(["D", "L,T"])).unwrap();
    let keys: Vec<&str> = listed.options.iter().map(|option| option.key.as_str()).collect();
    assert_eq!(keys, ["D", "L", "T"]);
    assert_eq!(question.accept(&Answer::choice("")).unwrap().options, []);
    let refused = question.accept(&Answer::choice("L, X")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`X` is not one of the answers: [L] Lint, [T] Test, [D] Docs"
    );
}

#[test]
fn questions_and_answers_survive_being_written() {
    let question = gate(
        r#"ask -> exit [label="[Y] Yes"]; ask -> mend [freeform=true]; mend -> ask; ask [timeout=1500ms]"#,
    )
    .metadata("diff", "+1 -1");
    let text = serde_json::to_string(&question).unwrap();
    assert!(text.contains(r#""timeout_ms":1500"#), "{text}");
    assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), question);
    for answer in [Answer::choices(["a", "b"]), Answer::skipped(), Answer::from("x")] {
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer);
    }
}
