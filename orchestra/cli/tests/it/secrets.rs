//! Secrets of the environment do not appear in run folders or output, in whatever encoding a tool or a model prints
//! them.

#![cfg(unix)]

use crate::agents_support;

use std::path::Path;

use agents_support::{Done, Project, done, reports};

/// A token that is recognised by its name, a password in a URL, and a short value that is listed.
const TOKEN: &str = "tok-Q7w9_Zx3/pl+=&%key~4711";
const PASSWORD: &str = "pa55-w0rd!x";
const SHORT: &str = "Zq9x";

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the token in the encodings that the commands of the pipeline write.
fn forms() -> Vec<String> {
    let each = |write: fn(u8) -> String| TOKEN.bytes().map(write).collect::<String>();
    vec![
        TOKEN.to_owned(),
        PASSWORD.to_owned(),
        hex(TOKEN),
        hex(TOKEN).to_uppercase(),
        each(|byte| format!("\\u{byte:04x}")),
        each(|byte| format!("%{byte:02X}")),
        each(|byte| format!("\\x{byte:02x}")),
        each(|byte| format!("&#{byte};")),
        each(|byte| format!("={byte:02X}")),
        each(|byte| format!("{byte:02x}:"))
            .trim_end_matches(':')
            .to_owned(),
        each(|byte| format!("0x{byte:02x}, "))
            .trim_end_matches(", ")
            .to_owned(),
        TOKEN.chars().rev().collect(),
    ]
}

fn run(project: &Project, args: &[&str]) -> Done {
    let mut command = project.command(args);
    command
        .env("DEPLOY_TOKEN", TOKEN)
        .env("STORE", format!("postgres://me:{PASSWORD}@localhost/db"));
    command
        .env("PIN_TOKEN", SHORT)
        .env("TINY_TOKEN", "ab")
        .env("STAGE_KEY", "production");
    done(command.output().unwrap())
}

/// Collects every file below a folder with its text.
fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn no_file_and_no_output_tells_a_secret_that_tools_and_models_write_in_any_encoding() {
    let project = Project::new("");
    project.scratch.write("forms.txt", forms().join("\n"));
    // A file of this name must not make the value count as a path instead of a secret.
    project.scratch.write(&TOKEN.replace('/', "_"), "");
    std::fs::create_dir_all(project.scratch.path("tok-Q7w9_Zx3")).unwrap();
    project.scratch.write(TOKEN, "");
    let commands = [
        "cat forms.txt",
        "printf %s \"$STORE$PIN_TOKEN\"",
        "for n in 0 1 2; do printf '%.*s%s-and-more' $n xxx \"$DEPLOY_TOKEN\" | base64 -w 60; echo; done",
        "printf %s \"$DEPLOY_TOKEN\" | base64 -w 20 | tr '+/' '-_'",
        "printf %s \"$DEPLOY_TOKEN\" | od -A x -t x1z",
        "printf %s \"$DEPLOY_TOKEN\" | od -x",
        "echo \"$DEPLOY_TOKEN\" > left.txt",
        "echo \"$DEPLOY_TOKEN\" >&2",
        "exit 3",
    ];
    let model_says = format!("I saw {} and {}", hex(TOKEN), forms().join(" "));
    project.server.push(reports(&model_says));
    project.scratch.write("tell.sh", commands.join("\n"));
    let text = "digraph leak {\n tool_env=\"DEPLOY_TOKEN, STORE, PIN_TOKEN, TINY_TOKEN\"\n start -> tell -> ask -> exit\n \
         tell [shape=parallelogram, tool_command=\"sh tell.sh\", on_failure=route]\n \
         ask [prompt=\"$tell\"]\n tell -> ask [condition=\"outcome=fail\"]\n}";
    project.scratch.write("a.dot", text);
    for args in [
        &["run", "a.dot", "--runs", "runs"][..],
        &["run", "a.dot", "--runs", "runs", "--json"],
    ] {
        project.server.push(reports(&model_says));
        let ran = run(&project, args);
        let mut reported = vec![
            ("output".to_owned(), ran.stdout.clone()),
            ("errors".to_owned(), ran.stderr.clone()),
        ];
        assert!(
            ran.stderr.contains("warning: the value of `TINY_TOKEN`"),
            "{}",
            ran.stderr
        );
        files(&project.scratch.path("runs"), &mut reported);
        assert!(reported.len() > 10, "{reported:?}");
        for (scratch, text) in &reported {
            for form in forms() {
                assert!(!text.contains(&form), "{scratch} tells {form}:\n{text}");
            }
            let bare: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
            // Parts of the token's base64 at each offset modulo three, and of the columns of dumps.
            for part in [
                "Q3dzlfWngzL3",
                "UTd3OV9aeDMv",
                "1RN3c5X1p4My9",
                "746f6b2d5137",
                "51773739",
                "tok-Q7w9",
            ] {
                assert!(!bare.contains(part), "{scratch} tells {part}:\n{text}");
            }
        }
        let everything: String = reported.into_iter().map(|(_, text)| text).collect();
        assert!(everything.contains("[redacted]") && !everything.contains(SHORT));
    }
}

#[test]
fn words_and_paths_in_variables_of_such_names_are_shown() {
    let project = Project::new("");
    project.scratch.write(
        "a.dot",
        "digraph { start -> say -> exit\n say [shape=parallelogram, tool_command=\"echo production /etc/hosts\"] }",
    );
    let mut command = project.command(&["run", "a.dot", "--json"]);
    command
        .env("STAGE_KEY", "production")
        .env("SSH_KEY", "/etc/hosts")
        .env("LAST_TOKEN", "true");
    let ran = done(command.output().unwrap()).exits(0);
    assert!(ran.stdout.contains("production /etc/hosts"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("[redacted]"), "{}", ran.stdout);
}
