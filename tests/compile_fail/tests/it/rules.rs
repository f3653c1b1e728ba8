//! Every rule of the language through `pipeline!`: the bad graph of its page fails the build, or warns, with code,
//! path, line, column, source line, caret and help.

use std::fmt::Write as _;

use orchestra_compile_fail_tests::{BuildOutput, Package, expect};
use orchestra_graph::render::visible;
use orchestra_graph::{LOCK_FILE, LockFile, LockedVersion, Page, Severity, rules};

/// The bad graph of a page, and where its fault is; the place is not known for texts that a page cannot show.
fn bad(page: &Page) -> (Vec<u8>, Option<(usize, usize)>) {
    for opening in ["```dot bad ", "```generate bad "] {
        let Some((_, rest)) = page.text.split_once(opening) else {
            continue;
        };
        let (words, rest) = rest.split_once('\n').expect("a line behind the fence");
        let (text, _) = rest.split_once("```").expect("a closing fence");
        if opening.contains("dot") {
            let (line, column) = words.trim().split_once(':').expect("a place");
            let number = |digits: &str| digits.parse().expect("a number");
            return (text.as_bytes().to_vec(), Some((number(line), number(column))));
        }
        return (made(words.trim()), None);
    }
    panic!("the page of `{}` has no bad graph", page.code);
}

fn made(wish: &str) -> Vec<u8> {
    match wish.split_once('=') {
        None if wish == "invalid_utf8" => {
            b"digraph greeting {\n    start -> gr\xfc\xdfe -> exit\n}\n".to_vec()
        }
        Some(("nesting", depth)) => {
            let depth: usize = depth.parse().expect("a number");
            format!(
                "digraph deep {{\n{}{}}}\n",
                "subgraph {\n".repeat(depth),
                "}\n".repeat(depth)
            )
            .into_bytes()
        }
        Some(("children", count)) => {
            let nodes = (0..count.parse().expect("a number")).map(|at| {
                let child = child(at);
                format!(
                    "c{at} [shape=folder, label=C, subpipeline.file=\"{child}\"]\nstart -> c{at} -> exit\n"
                )
            });
            format!("digraph many {{\n{}}}\n", nodes.collect::<String>()).into_bytes()
        }
        Some(("size", bytes)) => vec![b' '; bytes.parse().expect("a number")],
        _ => panic!("`{wish}` is not a known way to make a text"),
    }
}

/// Writes the children that the graphs of a page name into a folder.
fn write_files(package: &Package, page: &Page, folder: &str) {
    for part in page.text.split("```dot file ").skip(1) {
        let (name, rest) = part.split_once('\n').expect("a line behind the fence");
        let (text, _) = rest.split_once("```").expect("a closing fence");
        package.write(&format!("{folder}/{name}"), text);
    }
    let Some((_, rest)) = page.text.split_once("```generate bad children=") else {
        return;
    };
    let (count, _) = rest.split_once('\n').expect("a line behind the fence");
    for at in 0..count.parse().expect("a number") {
        let child = child(at);
        package.write(&format!("{folder}/{child}"), "digraph { start -> exit }\n");
    }
}

/// Writes the locked version of a page into a folder, and adds it to the lock file. Returns whether there is one.
fn write_locked(package: &Package, page: &Page, folder: &str, lock: &mut LockFile) -> bool {
    let Some((_, rest)) = page.text.split_once("```dot locked\n") else {
        return false;
    };
    let (text, _) = rest.split_once("```").expect("a closing fence");
    let (name, pinned) = (
        format!("{}.dot", page.code),
        format!("orchestra.lock.d/{}-1.dot", page.code),
    );
    package.write(&format!("{folder}/{pinned}"), text);
    lock.pipeline_mut(&name).versions.push(LockedVersion {
        version: 1,
        files: [(name.clone(), pinned)].into(),
        ..LockedVersion::default()
    });
    package.write(&format!("{folder}/{LOCK_FILE}"), lock.to_string());
    true
}

fn child(at: usize) -> String {
    format!("children/{at}.dot")
}

fn check_all() -> BuildOutput {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "rules");
    let mut program = String::new();
    let mut lock = LockFile::default();
    for page in rules() {
        let (text, _) = bad(page);
        package.write(&format!("src/rules/{}.dot", page.code), text);
        write_files(&package, page, "src/rules");
        // A note says nothing in a build unless its code is denied.
        let deny = match page.severity {
            Severity::Info => format!(", deny({})", page.code),
            _ if write_locked(&package, page, "src/rules", &mut lock) => ", lock".to_owned(),
            _ => String::new(),
        };
        let _ = writeln!(
            program,
            "orchestra::pipeline! {{ pub mod rule_{0} = \"./rules/{0}.dot\"{deny}; }}",
            page.code
        );
    }
    // Code that names what was understood does not fail because of what was not.
    program.push_str(
        "pub fn nodes() -> usize { rule_reachability::Node::ALL.len() + rule_start_node::SOURCE.len() }\n",
    );
    package.write("src/lib.rs", program);
    package.check()
}

#[test]
fn every_rule_speaks_through_the_macro() {
    let said = check_all();
    assert!(!said.built);
    let mut listed = String::new();
    for page in rules() {
        let (text, location) = bad(page);
        let path = format!("src/rules/{}.dot:", page.code);
        let code = format!("[{}]", page.code);
        let level = match page.severity {
            Severity::Warning => "warning",
            _ => "error",
        };
        let own: Vec<_> = said
            .messages
            .iter()
            .filter(|message| message.text.contains(&path) && message.text.contains(&code))
            .collect();
        let Some(message) = own.first() else {
            panic!("nothing is said of `{}` in:\n{}", page.code, said.listed());
        };
        assert!(
            message.level == level || message.level == "error",
            "{}: {}",
            page.code,
            message.level
        );
        assert_eq!(message.file, "src/lib.rs", "{}", page.code);
        assert!(
            message.text.contains("= help: "),
            "{}: no help in\n{}",
            page.code,
            message.text
        );
        if let Some((line, column)) = location {
            let text = String::from_utf8_lossy(&text);
            let source = text.lines().nth(line - 1).expect("the line is there");
            let shown = source.trim().chars().take(40);
            let shown: String = shown.map(|c| visible(c).unwrap_or(c)).collect();
            assert!(
                message.text.contains(&format!("{path}{line}:{column}")),
                "{}: not at {line}:{column} in\n{}",
                page.code,
                message.text
            );
            assert!(
                message.text.contains(&shown),
                "{}: no source line in\n{}",
                page.code,
                message.text
            );
            assert!(
                message.text.contains('^'),
                "{}: no caret in\n{}",
                page.code,
                message.text
            );
        }
        let _ = writeln!(listed, "{}: {}\n", message.level, message.text);
    }
    let strangers: Vec<&str> = said
        .messages
        .iter()
        .filter(|message| !message.text.contains("src/rules/"))
        .map(|message| message.text.as_str())
        .collect();
    assert!(strangers.is_empty(), "one fault brings others: {strangers:#?}");
    expect("rules.txt", &listed);
}

#[test]
fn every_sound_graph_builds_without_a_word() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "sound");
    let mut program = String::new();
    let mut lock = LockFile::default();
    for page in rules() {
        let Some((_, rest)) = page.text.split_once("```dot good\n") else {
            continue;
        };
        let (text, _) = rest.split_once("```").expect("a closing fence");
        package.write(&format!("pipelines/{}.dot", page.code), text);
        write_files(&package, page, "pipelines");
        let locked = if write_locked(&package, page, "pipelines", &mut lock) {
            ", lock"
        } else {
            ""
        };
        let _ = writeln!(
            program,
            "orchestra::pipeline! {{ pub mod {0} = \"pipelines/{0}.dot\"{locked}, deny(warnings); }}",
            page.code
        );
    }
    package.write("src/lib.rs", program);
    let said = package.check();
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
}

#[test]
fn several_faults_of_a_file_come_in_one_build() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "several");
    package.write(
        "src/several.dot",
        "digraph several {\n  start -> Buidl [condition=\"outcme=fail\"]\n  start -> Build [weight=heavy]\n  Build [max_retries=-1]\n  Build -> exit\n}\n",
    );
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod several = \"./several.dot\"; }\n",
    );
    let said = package.check();
    for code in ["edge_target_exists", "condition_syntax", "attribute_type"] {
        assert!(
            said.messages.iter().any(|message| message.text.contains(code)),
            "{}",
            said.listed()
        );
    }
    expect("several.txt", &said.listed());
}

#[test]
fn more_than_twenty_errors_end_in_a_count() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "many");
    let wrong: String = (0..30)
        .map(|at| format!("  n{at} [max_retries=x]\n  start -> n{at} -> exit\n"))
        .collect();
    package.write("src/many.dot", format!("digraph many {{\n{wrong}}}\n"));
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod many = \"./many.dot\"; }\n",
    );
    let said = package.check();
    let errors = said
        .messages
        .iter()
        .filter(|message| message.level == "error")
        .count();
    assert_eq!(errors, 21, "{}", said.listed());
    said.about("... and 10 more errors");
}

#[test]
fn codes_are_allowed_and_denied_by_name() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "levels");
    package.write(
        "a.dot",
        "digraph a { start -> work -> exit; work [label=\"Work\"]; work -> stop; stop [label=\"Stop\"] }\n",
    );
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod quiet = \"a.dot\", allow(dead_end, shadowed_edge, prompt_on_llm_nodes); }\n",
    );
    let said = package.check();
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { deny(dead_end); allow(ded_end); pub mod strict = \"a.dot\"; }\n",
    );
    let said = package.check();
    assert_eq!(said.about("[dead_end]").level, "error");
    let unknown = said.about("no rule has the code `ded_end`; did you mean `dead_end`?");
    assert_eq!((unknown.start, unknown.end), ((1, 46), (1, 53)));
}
