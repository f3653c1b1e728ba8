//! The inline form: the compiler underlines the wrong token itself.

use orchestra_compile_fail_tests::Package;

/// A line inside an inline pipeline, a part of the message, and the token that it must underline.
const WRONG: &[(&str, &str, &str)] = &[
    ("start -> Buidl", "edge points to unknown node `Buidl`", "Buidl"),
    (
        "work [max_retries=x]",
        "`max_retries` must be a whole number",
        "x",
    ),
    (
        "work [max_retries=-3]",
        "`max_retries` must be a whole number",
        "-3",
    ),
    (
        "work -> exit [condition=\"outcme=fail\"]",
        "unknown key `outcme`",
        "\"outcme=fail\"",
    ),
    (
        "work -> exit [wieght=2]",
        "unknown edge attribute `wieght`",
        "wieght",
    ),
    ("work -- exit", "edges are directed", "--"),
    ("work:n -> exit", "ports are not part", ":n"),
    (
        "\"two words\" -> exit",
        "`two words` is not a node id",
        "\"two words\"",
    ),
    (
        "work [prompt=\"a\" + \"b\"]",
        "`+` does not join strings",
        "+ \"b\"",
    ),
    ("work [timeout=15x]", "`timeout` must be a duration", "15x"),
    (
        "work [llm_model=gpt-5.2, weight_=1, labl=\"x\"]",
        "unknown node attribute `labl`",
        "labl",
    ),
    (
        "work [prompt=r#\"a \"b\" c\"#, max_retries=-1]",
        "`max_retries` must be a whole number",
        "-1",
    ),
    ("größe -> exit", "`größe` is not a node id", "größe"),
];

#[test]
fn the_wrong_token_itself_is_underlined() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "inline");
    let mut program = String::new();
    for (at, (line, ..)) in WRONG.iter().enumerate() {
        program.push_str(&format!(
            "orchestra::pipeline! {{ pub mod p{at} = digraph p {{ start -> work -> exit\n    {line} // why\n# note\n}} }}\n"
        ));
    }
    package.write("src/lib.rs", program);
    let said = package.check();
    let mut problems = Vec::new();
    for (at, (line, words, token)) in WRONG.iter().enumerate() {
        let wanted = at as u64 * 4 + 2;
        let found = said
            .messages
            .iter()
            .find(|message| message.text.contains(words) && message.start.0 == wanted);
        let Some(message) = found else {
            problems.push(format!("line {wanted}: nothing says {words:?}"));
            continue;
        };
        let column = |column: u64| column as usize - 5;
        let characters: Vec<char> = line.chars().collect();
        let pointed: String = characters
            .get(column(message.start.1)..column(message.end.1))
            .map(|part| part.iter().collect())
            .unwrap_or_default();
        if pointed != *token {
            problems.push(format!("line {wanted}: `{pointed}` is underlined, not `{token}`"));
        }
        let location = format!("src/lib.rs:{wanted}:");
        if !message.text.contains(&location) {
            problems.push(format!(
                "line {wanted}: the text has another place:\n{}",
                message.text
            ));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}\n{}", said.listed());
}
