//! `CHECKLIST.md` and `SEEDS.md` say the truth: each line has a test that is there, and each test here has its line. What
//! `DEVIATIONS.md` names is there too.

use std::path::{Path, PathBuf};

use orchestra_reliability_tests::tests_in;

/// A text, its sections, and how many lines each has.
type List = (&'static str, &'static [(&'static str, usize)]);

const LISTS: [List; 2] = [
    (
        "CHECKLIST.md",
        &[
            ("11.1 Reading the language", 10),
            ("11.2 Validation and linting", 10),
            ("11.3 Execution engine", 8),
            ("11.4 Goal gates", 4),
            ("11.5 Retries", 5),
            ("11.6 Handlers", 9),
            ("11.7 State and context", 6),
            ("11.8 People in the loop", 6),
            ("11.9 Conditions", 7),
            ("11.10 Model stylesheet", 6),
            ("11.11 Transforms and extensions", 5),
            ("11.12 Parity matrix", 22),
            ("11.13 Integration smoke test", 6),
        ],
    ),
    (
        "SEEDS.md",
        &[
            ("Conditions", 7),
            ("Edge selection", 7),
            ("Retries", 6),
            ("Goal gates", 5),
            ("Failure routing", 4),
            ("Retry loop", 4),
            ("Station transitions", 10),
        ],
    ),
];

/// The only lines without a test, by section and number.
const NOT_THERE_YET: [(&str, &str); 1] = [("11.11 Transforms and extensions", "5")];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A line of a list.
#[derive(Debug, PartialEq)]
struct Line {
    section: String,
    number: String,
    text: String,
    test: String,
    note: String,
}

/// The lines of the tables of a text.
fn lines(text: &str) -> Vec<Line> {
    let (mut section, mut found) = ("", Vec::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title;
        }
        let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [number, text, test, note] = cells[..] else {
            panic!("four cells: {line}");
        };
        if number != "#" && !number.starts_with('-') {
            found.push(Line {
                section: section.to_owned(),
                number: number.to_owned(),
                text: text.to_owned(),
                test: test.to_owned(),
                note: note.to_owned(),
            });
        }
    }
    found
}

/// The file of a test's name: beside this one, or by its path from the root.
fn source_of(file: &str) -> PathBuf {
    if file.contains('/') {
        folder().join("../..").join(file)
    } else {
        folder().join("tests/it").join(file)
    }
}

/// What is wrong with the test that a line names.
fn problem(line: &Line, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let Some(named) = line
        .test
        .strip_prefix('`')
        .and_then(|test| test.strip_suffix('`'))
    else {
        let known = NOT_THERE_YET.contains(&(&line.section, &line.number));
        let said = line.test == "not there yet" && !line.note.is_empty();
        return (!known || !said).then(|| "it has no test".to_owned());
    };
    let Some((file, name)) = named.split_once("::") else {
        return Some(format!("`{named}` is not FILE::NAME"));
    };
    let Some(source) = read(file) else {
        return Some(format!("there is no file `{file}`"));
    };
    (!tests_in(&source).contains(name)).then(|| format!("`{file}` has no test `{name}`"))
}

fn listed() -> Vec<Line> {
    let read = |(name, _): &List| lines(&std::fs::read_to_string(folder().join(name)).unwrap());
    LISTS.iter().flat_map(read).collect()
}

#[test]
fn each_section_has_all_of_its_lines() {
    for (name, sections) in LISTS {
        let all = lines(&std::fs::read_to_string(folder().join(name)).unwrap());
        let mut titles: Vec<&str> = all.iter().map(|line| &*line.section).collect();
        titles.dedup();
        let expected: Vec<&str> = sections.iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, expected, "{name}");
        for (title, count) in sections {
            let numbers: Vec<&str> = all
                .iter()
                .filter(|line| line.section == *title)
                .map(|line| &*line.number)
                .collect();
            let expected: Vec<String> = (1..=*count).map(|number| number.to_string()).collect();
            assert_eq!(numbers, expected, "{name}: {title}");
        }
        assert!(all.iter().all(|line| !line.text.is_empty()), "{name}");
    }
}

#[test]
fn each_line_has_a_test_that_is_there() {
    let read = |file: &str| std::fs::read_to_string(source_of(file)).ok();
    let reported = listed().into_iter().filter_map(|line| {
        problem(&line, read).map(|problem| format!("{}, line {}: {problem}", line.section, line.number))
    });
    let reported: Vec<String> = reported.collect();
    assert!(reported.is_empty(), "{}", reported.join("\n"));
}

#[test]
fn each_test_has_exactly_one_line() {
    let mut listed: Vec<String> = listed()
        .into_iter()
        .map(|line| line.test.replace('`', ""))
        .collect();
    listed.retain(|test| test.contains("::") && !test.contains('/'));
    listed.sort();
    let mut there = Vec::new();
    for entry in std::fs::read_dir(folder().join("tests/it")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        // Workers of a server run the pipelines of other lines again.
        let shows_no_line = ["list.rs", "on_server.rs"].contains(&&*file);
        if file.ends_with(".rs") && !shows_no_line {
            let source = std::fs::read_to_string(&path).unwrap();
            there.extend(
                tests_in(&source)
                    .into_iter()
                    .map(|name| format!("{file}::{name}")),
            );
        }
    }
    there.sort();
    assert_eq!(listed, there);
}

#[test]
fn each_deviation_has_a_reason_and_tests_that_are_there() {
    let root = folder().join("../..");
    let text = std::fs::read_to_string(root.join("DEVIATIONS.md")).unwrap();
    let mut rows = 0;
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        // What separates cells stands between blanks; in code a bar is escaped.
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        let [_, _, reason, named] = cells[..] else {
            panic!("four cells: {line}");
        };
        if named == "Test" {
            continue;
        }
        rows += 1;
        assert!(!reason.is_empty(), "no reason: {line}");
        for path in named.split(", ") {
            let path = path.trim_matches('`');
            assert!(root.join(path).exists(), "there is no `{path}`: {line}");
        }
    }
    assert!(rows > 100, "only {rows} rows");
}

#[test]
fn a_missing_test_an_ignored_one_and_a_line_without_one_are_reported() {
    let source = "#[test]\nfn plain() {}\n\n#[tokio::test(start_paused = true)]\n// Why.\nasync fn waits() {}\n\
                  #[test]\n#[ignore = \"slow\"]\nfn ignored() {}\nfn helper() {}\n// #[test]\nfn commented() {}\n";
    let text = "## A\n| # | Line | Test | Note |\n|---|---|---|---|\n| 1 | x | `a.rs::plain` | |\n| 2 | x | `a.rs::ignored` | |\n\
                | 3 | x | `b.rs::plain` | |\n| 4 | x | not there yet | later |\n| 5 | x | | |\n| 6 | x | `plain` | |\n";
    let read = |file: &str| (file == "a.rs").then(|| source.to_owned());
    let reported: Vec<Option<String>> = lines(text).iter().map(|line| problem(line, read)).collect();
    let expected = [
        None,
        Some("`a.rs` has no test `ignored`"),
        Some("there is no file `b.rs`"),
        Some("it has no test"),
        Some("it has no test"),
        Some("`plain` is not FILE::NAME"),
    ];
    assert_eq!(reported, expected.map(|problem| problem.map(str::to_owned)));
}
