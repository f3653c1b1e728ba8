//! What people and their programs say: answers, requests to a run, values of the command line; and what is taken out of
//! texts before anybody sees them.

use orchestra_cli::fuzzing::{answers, parameters};
use orchestra_engine::fuzzing::control_request;
use orchestra_engine::{Question, QuestionKind, QuestionOption, Redactor};
use orchestra_graph::{LoadOptions, Source, load};
use serde_json::{Value, json};

use super::{Target, chance_of, no_corpus};
use crate::Random;
use crate::generate::{json, word};

/// Requests to a run, as JSON: what is understood is written as it was read; its answer fits a question or is refused
/// with a reason.
pub(super) const CONTROL: Target = Target {
    name: "control",
    run: control,
    generate: |random| {
        let mut value = match random.below(3) {
            0 => {
                json!({"do": "answer", "question": word(random), "answer": {"reply": {"chosen": ["Y", word(random)]}, "by": "person"}})
            }
            1 => json!({"do": "pause", "reason": word(random)}),
            _ => json!({"do": "questions"}),
        };
        for _ in 0..random.below(3) {
            json::vary(&mut value, random);
        }
        value.to_string().into_bytes()
    },
    corpus: no_corpus,
    words: json::WORDS,
    suite: 5_000,
    share: 1,
};

fn control(input: &[u8]) {
    let Some((written, answer)) = control_request(input) else {
        return;
    };
    let (again, same) = control_request(&written).expect("what was written");
    assert_eq!((&again, &same), (&written, &answer));
    let Some(answer) = answer else {
        return;
    };
    let options = [
        QuestionOption::new("Y", "Yes, ship it"),
        QuestionOption::new("N", "No"),
    ];
    for kind in [
        QuestionKind::YesNo,
        QuestionKind::Confirm,
        QuestionKind::SingleSelect,
        QuestionKind::MultiSelect,
        QuestionKind::FreeText,
    ] {
        let mut question = Question::select("Ship it?", options.clone());
        question.kind = kind;
        match question.accept(&answer) {
            Ok(accepted) => assert!(
                accepted
                    .options
                    .iter()
                    .all(|option| question.options.contains(option))
            ),
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
    }
}

/// Values of `--set` and `--answer`: the words of a command line. What `--set` takes has a key, and is JSON or the text
/// itself.
pub(super) const ARGUMENTS: Target = Target {
    name: "arguments",
    run: arguments,
    generate: |random| {
        let value = match random.below(3) {
            0 => json::value(random, 0).to_string(),
            1 => format!("@@{}", word(random)),
            _ => word(random),
        };
        format!("{}={value}", random.pick(&["gate", "work", "a.b", "", "merge"])).into_bytes()
    },
    corpus: no_corpus,
    words: json::WORDS,
    suite: 3_000,
    share: 1,
};

fn arguments(input: &[u8]) {
    let text = String::from_utf8_lossy(input).into_owned();
    let flow = "digraph { start -> work -> gate; gate [shape=hexagon]; gate -> merge [label=\"[Y] Yes\"];
        gate -> work [label=\"[N] No\"]; merge -> exit }";
    let pipeline = load(Source::new("flow.dot", flow), &LoadOptions::default())
        .pipeline()
        .expect("it is sound");
    if let Err(reported) = answers(std::slice::from_ref(&text), &pipeline) {
        assert!(!reported.is_empty());
    }
    // A file, or standard input.
    let (_, value) = text.split_once('=').unwrap_or_default();
    if value.starts_with('@') && !value.starts_with("@@") {
        return;
    }
    match parameters(std::slice::from_ref(&text)) {
        Ok(values) => {
            let [(key, read)] = &values[..] else {
                panic!("{} values", values.len());
            };
            assert!(!key.is_empty() && text.starts_with(key.as_str()));
            let literal = value.strip_prefix('@').unwrap_or(value);
            let expected = if value.starts_with('@') {
                Value::from(literal)
            } else {
                serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))
            };
            assert_eq!(read, &expected);
        }
        Err(reported) => assert!(!text.contains('=') || text.starts_with('='), "{reported}"),
    }
}

/// Redaction: however a text is cut into pieces, what is shown is what is shown of the whole; and nothing of it is
/// a secret. The first line of the input holds the secrets.
pub(super) const REDACTION: Target = Target {
    name: "redaction",
    run: redaction,
    generate: |random| {
        let secrets: Vec<String> = (0..1 + random.below(3)).map(|_| secret(random)).collect();
        let mut text = secrets.join(",") + "\n";
        for _ in 0..random.below(12) {
            let known = random.pick(&secrets).clone();
            match random.below(6) {
                0 => text.push_str(&known),
                1 => text.push_str(&known[..random.below(known.len() + 1)]),
                2 => text.push_str(&known[random.below(known.len() + 1)..]),
                3 => text.push_str(&Value::from(known).to_string()),
                4 => known
                    .bytes()
                    .for_each(|byte| text.push_str(&format!("{byte:02x}"))),
                _ => text.push_str(&word(random)),
            }
        }
        text.into_bytes()
    },
    corpus: no_corpus,
    words: &[
        "s3cr3t",
        "s3cr3t-value",
        "czNjcjN0",
        "%73",
        "\\u0073",
        "aaaaaaaa",
        "\n",
        ",",
        "[redacted]",
    ],
    suite: 2_000,
    share: 1,
};

fn secret(random: &mut Random) -> String {
    match random.below(4) {
        0 => "s3cr3t-value-0123456789".to_owned(),
        1 => "aaaaaaaaaaaaaaaa".to_owned(),
        2 => "abababababababab\"/\\x".to_owned(),
        _ => (0..16 + random.below(20))
            .map(|_| *random.pick(&['a', 'B', '1', '-', '/', '+']))
            .collect(),
    }
}

fn redaction(input: &[u8]) {
    let end = input
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(input.len().min(40));
    let (first, text) = input.split_at(end);
    let names = String::from_utf8_lossy(first).into_owned();
    let secrets: Vec<&str> = names
        .split(',')
        .take(5)
        .map(|name| name.get(..200).unwrap_or(name))
        .collect();
    let redactor = Redactor::new(&secrets);
    let whole = redactor.bytes(text).into_owned();
    for secret in &secrets {
        let secret = secret.trim();
        // Together with what is shown in place of a secret, the text around it may read like another one.
        if secret.len() >= 16 && !secret.contains(['[', ']']) {
            let shown = whole.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(
                !shown,
                "`{secret}` is shown in {:?}",
                String::from_utf8_lossy(&whole)
            );
        }
    }
    let mut random = chance_of(input);
    for most in [1, 3, 50] {
        let mut stream = redactor.stream();
        let (mut shown, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((1 + random.below(most)).min(rest.len()));
            shown.extend(stream.push_bytes(piece));
            rest = behind;
        }
        shown.extend(stream.finish_bytes());
        assert_eq!(
            String::from_utf8_lossy(&shown),
            String::from_utf8_lossy(&whole),
            "in pieces of at most {most} bytes"
        );
    }
}
