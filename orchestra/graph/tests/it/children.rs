//! Tests of child pipelines: how they are found, read once and put into the table, and which errors are reported.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use orchestra_graph::table::SharedPipeline;
use orchestra_graph::{
    ChildReader, Limits, LoadOptions, Loaded, Pipeline, ReadError, Severity, Source, load, render,
};

/// Files in memory, with a record of those that were read.
#[derive(Default)]
struct Files {
    texts: BTreeMap<String, String>,
    read: RefCell<Vec<String>>,
}

impl Files {
    fn new<'t>(files: impl IntoIterator<Item = (&'t str, String)>) -> Files {
        let texts = files.into_iter().map(|(path, text)| (path.to_owned(), text));
        Files {
            texts: texts.collect(),
            ..Files::default()
        }
    }

    /// Loads one of the files with its children.
    fn load(&self, path: &str) -> Loaded {
        let options = LoadOptions {
            children: Some(self),
            ..LoadOptions::default()
        };
        load(Source::new(path, &*self.texts[path]), &options)
    }
}

impl ChildReader for Files {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, ReadError> {
        self.read.borrow_mut().push(path.to_owned());
        let text = self.texts.get(path).ok_or(ReadError::Missing)?;
        Ok(text.clone().into_bytes())
    }
}

/// Returns a pipeline whose stages run some files, one after the other.
fn runs(files: &[&str]) -> String {
    let mut text = "digraph {\n    start [shape=Mdiamond]\n    exit [shape=Msquare]\n".to_owned();
    let mut before = "start".to_owned();
    for (at, file) in files.iter().enumerate() {
        text.push_str(&format!(
            "    run{at} [shape=folder, label=R, subpipeline.file=\"{file}\"]\n    {before} -> run{at}\n"
        ));
        before = format!("run{at}");
    }
    text + &format!("    {before} -> exit\n}}\n")
}

fn leaf() -> String {
    runs(&[])
}

/// Returns the diagnostics of all files as position and code.
fn reported(loaded: &Loaded) -> Vec<String> {
    let one = |line: &str| line.split(']').next().unwrap_or_default().replace("error[", "");
    let all: String = loaded.reports().map(render::concise).collect();
    all.lines().map(one).collect()
}

fn child<'p>(pipeline: &'p Pipeline, node: &str) -> Option<&'p Pipeline> {
    let row = pipeline.stage(pipeline.find(node).expect("declared")).row();
    pipeline.child(row).map(|child| &*child.pipeline)
}

#[test]
fn children_stand_in_the_table_each_file_once() {
    let files = Files::new([
        (
            "flows/a.dot",
            runs(&["./b.dot", "sub/c.dot", "b.dot", "../flows/b.dot"]),
        ),
        ("flows/b.dot", leaf()),
        ("flows/sub/c.dot", runs(&["../b.dot"])),
    ]);
    let pipeline = files.load("flows/a.dot").pipeline().expect("sound");
    let named: Vec<(&str, &str)> = pipeline
        .children
        .iter()
        .map(|child| (&*child.file, &*child.pipeline.file))
        .collect();
    assert_eq!(
        named,
        [("./b.dot", "flows/b.dot"), ("sub/c.dot", "flows/sub/c.dot")]
    );
    let of = |node: &str| pipeline.stage(pipeline.find(node).expect("declared")).row().child;
    assert_eq!(
        ["run0", "run1", "run2", "run3", "exit"].map(of),
        [Some(0), Some(1), Some(0), Some(0), None]
    );
    assert_eq!(*files.read.borrow(), ["flows/b.dot", "flows/sub/c.dot"]);
    // Parents share the same table.
    let own = child(&pipeline, "run0").expect("loaded");
    let other = child(child(&pipeline, "run1").expect("loaded"), "run0").expect("loaded");
    assert!(std::ptr::eq(own, other));
    assert!(matches!(pipeline.children[0].pipeline, SharedPipeline::Loaded(_)));
}

#[test]
fn without_a_reader_children_are_not_loaded() {
    let source = Source::new("a.dot", runs(&["nowhere.dot"]));
    let loaded = load(source, &LoadOptions::default());
    let pipeline = loaded.pipeline().expect("sound");
    assert!(loaded.children.is_empty() && pipeline.children.is_empty());
    assert!(child(&pipeline, "run0").is_none());
}

#[test]
fn a_manager_loop_names_its_child_on_the_node_or_on_the_graph() {
    let text = "digraph {
        graph [stack.child_dotfile=\"b.dot\"]
        one   [shape=house, label=One]
        two   [shape=house, label=Two, stack.child_dotfile=\"c.dot\"]
        three [type=\"stack.manager_loop\", label=Three, stack.child_autostart=false]
        start -> one -> two -> three -> exit
    }";
    let files = Files::new([("a.dot", text.to_owned()), ("b.dot", leaf()), ("c.dot", leaf())]);
    let pipeline = files.load("a.dot").pipeline().expect("sound");
    let of = |node: &str| &*child(&pipeline, node).expect("loaded").file;
    assert_eq!(["one", "two", "three"].map(of), ["b.dot", "c.dot", "b.dot"]);
}

#[test]
fn a_name_or_a_child_started_otherwise_needs_no_file() {
    let stage = |attributes: &str| {
        let text = format!("digraph {{ start -> a -> exit; a [label=A, {attributes}] }}");
        reported(&Files::new([("a.dot", text)]).load("a.dot"))
    };
    let missing = ["a.dot:1:31: child_missing"];
    assert_eq!(stage("shape=folder"), missing);
    assert_eq!(stage("shape=folder, subpipeline.file=\" \""), missing);
    assert_eq!(stage("shape=house"), missing);
    assert_eq!(stage("shape=house, stack.child_autostart=true"), missing);
    assert_eq!(stage("shape=folder, subpipeline.name=lint"), [""; 0]);
    assert_eq!(stage("shape=house, stack.child_autostart=false"), [""; 0]);
    // On a stage of another kind the file is not read, and a warning reports the attribute.
    let unread = ["a.dot:1:43: warning[attribute_without_effect"];
    assert_eq!(stage("subpipeline.file=\"nowhere.dot\""), unread);
}

#[test]
fn a_child_that_cannot_be_read_is_reported_at_its_name() {
    let text = runs(&["nowhere.dot", "/etc/passwd", "b.dot", "./nowhere.dot"]);
    let files = Files::new([("flows/a.dot", text), ("flows/b.dot", leaf())]);
    let loaded = files.load("flows/a.dot");
    assert_eq!(
        reported(&loaded),
        [
            "flows/a.dot:4:52: child_not_found",
            "flows/a.dot:6:52: child_not_found"
        ]
    );
    let diagnostic = &loaded.report.diagnostics[0];
    assert_eq!(diagnostic.notes, ["looked for `flows/nowhere.dot`"]);
    assert_eq!(diagnostic.node.as_deref(), Some("run0"));
    assert_eq!(loaded.children.len(), 1);
    assert!(!files.read.borrow().iter().any(|path| path.contains("passwd")));
}

#[test]
fn a_child_s_own_faults_are_reported_with_their_places() {
    let files = Files::new([
        ("a.dot", runs(&["b.dot", "c.dot"])),
        ("b.dot", runs(&["c.dot"])),
        ("c.dot", leaf().replace("exit\n}", "exit [weight=heavy]\n}")),
    ]);
    let loaded = files.load("a.dot");
    assert_eq!(
        reported(&loaded),
        [
            "a.dot:4:51: child_invalid",
            "a.dot:6:51: child_invalid",
            "b.dot:4:51: child_invalid",
            "c.dot:4:27: attribute_type",
        ]
    );
    let text: String = loaded
        .reports()
        .map(|report| render::text(report, render::Style::Plain))
        .collect();
    assert!(text.contains("--> c.dot:4:27") && text.contains("start -> exit [weight=heavy]"));
    assert!(loaded.pipeline().is_none());
    assert!(loaded.children.iter().all(|child| child.pipeline.is_none()));
}

#[test]
fn what_the_options_say_holds_for_children_too() {
    let files = Files::new([
        ("a.dot", runs(&["b.dot"])),
        (
            "b.dot",
            "digraph { start -> work -> exit; work [lable=Build, prompt=b] }".to_owned(),
        ),
    ]);
    let loaded = files.load("a.dot");
    assert!(loaded.pipeline().is_some());
    assert_eq!(
        loaded.children[0].loaded.report.diagnostics[0].severity,
        Severity::Warning
    );
    let strict = LoadOptions {
        deny: vec!["unknown_attribute".to_owned()],
        children: Some(&files),
        ..LoadOptions::default()
    };
    let loaded = load(Source::new("a.dot", &*files.texts["a.dot"]), &strict);
    assert_eq!(
        reported(&loaded),
        ["a.dot:4:51: child_invalid", "b.dot:1:40: unknown_attribute"]
    );
    let short = LoadOptions {
        limits: Limits {
            bytes: 50,
            ..Limits::default()
        },
        children: Some(&files),
        ..LoadOptions::default()
    };
    let text = "digraph { a [shape=folder, subpipeline.file=\"b.dot\"]; start -> a -> exit }";
    let loaded = load(Source::new("a.dot", text), &short);
    assert!(
        loaded
            .report
            .errors()
            .any(|diagnostic| diagnostic.code == "size_limit")
    );
}

#[test]
fn a_circle_of_files_is_named() {
    let itself = Files::new([("flows/a.dot", runs(&["./a.dot"]))]);
    let loaded = itself.load("flows/a.dot");
    assert_eq!(reported(&loaded), ["flows/a.dot:4:51: child_cycle"]);
    assert_eq!(*itself.read.borrow(), [""; 0]);
    let files = Files::new([
        ("a.dot", runs(&["x/b.dot"])),
        ("x/b.dot", runs(&["c.dot"])),
        ("x/c.dot", runs(&["../x/b.dot"])),
    ]);
    let loaded = files.load("a.dot");
    assert_eq!(
        reported(&loaded),
        [
            "a.dot:4:51: child_invalid",
            "x/b.dot:4:51: child_invalid",
            "x/c.dot:4:51: child_cycle"
        ]
    );
    assert_eq!(
        loaded.descendants()[1].loaded.report.diagnostics[0].message,
        "child pipelines run each other in a cycle: `x/b.dot` -> `x/c.dot` -> `x/b.dot`"
    );
    assert_eq!(*files.read.borrow(), ["x/b.dot", "x/c.dot"]);
}

/// Returns a reader that returns this text for every file.
fn always(text: String) -> impl Fn(&str, u64) -> Result<Vec<u8>, ReadError> {
    move |_, _| Ok(text.clone().into_bytes())
}

fn timed(name: &str, text: String, reader: &dyn ChildReader) -> Loaded {
    let begun = Instant::now();
    let options = LoadOptions {
        children: Some(reader),
        ..LoadOptions::default()
    };
    let loaded = load(Source::new(name, text), &options);
    assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
    for report in loaded.reports() {
        for diagnostic in &report.diagnostics {
            assert!(diagnostic.message.len() < 600 && !diagnostic.message.contains('\n'));
        }
    }
    loaded
}

/// Returns files of which `0.dot` runs `1.dot`, and so on; the last one runs nothing.
fn chain(length: usize) -> Files {
    let mut files = Files::default();
    for at in 0..length {
        files
            .texts
            .insert(format!("{at}.dot"), runs(&[&format!("{}.dot", at + 1)]));
    }
    files.texts.insert(format!("{length}.dot"), leaf());
    files
}

#[test]
fn children_nest_sixteen_deep() {
    assert!(chain(16).load("0.dot").pipeline().is_some());
    let files = chain(17);
    let loaded = files.load("0.dot");
    assert!(reported(&loaded).contains(&"16.dot:4:51: child_nesting".to_owned()));
    assert!(!files.read.borrow().contains(&"17.dot".to_owned()));
    // The result does not depend on the length of the chain, or on the file that is reached first.
    assert_eq!(reported(&chain(5_000).load("0.dot")).len(), 17);
    let mut files = chain(16);
    files
        .texts
        .insert("a.dot".to_owned(), runs(&["15.dot", "1.dot", "0.dot"]));
    let loaded = files.load("a.dot");
    assert_eq!(
        reported(&loaded),
        ["a.dot:8:51: child_invalid", "0.dot:4:51: child_nesting"]
    );
}

#[test]
fn files_without_end_are_asked_for_only_so_often() {
    let asked = RefCell::new(0);
    // Symbolic links between directories can give one file as many paths as there are routes through them.
    let many = |_: &str, _: u64| {
        *asked.borrow_mut() += 1;
        Ok(runs(&["x/a.dot", "y/a.dot", "z/a.dot"]).into_bytes())
    };
    let loaded = timed("a.dot", runs(&["x/a.dot", "y/a.dot"]), &many);
    assert!(loaded.pipeline().is_none());
    assert_eq!(*asked.borrow(), 256);
    let names: Vec<String> = (0..20_000).map(|at| format!("/{at}.dot")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let loaded = timed("many.dot", runs(&names), &always(leaf()));
    assert_eq!(loaded.report.errors().count(), 257);
    let long = format!("{}//{}", leaf(), " ".repeat(10 << 20));
    let names: Vec<String> = (0..20).map(|at| format!("{at}.dot")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let loaded = timed("long.dot", runs(&names), &always(long));
    assert_eq!(loaded.children.len(), 7);
    let codes: Vec<&str> = loaded.report.errors().map(|diagnostic| diagnostic.code).collect();
    assert!(codes.iter().all(|code| *code == "child_nesting"), "{codes:?}");
}

#[test]
fn many_ways_to_few_files_cost_no_more_than_the_files() {
    // Each of 16 layers runs all four files of the next one: 4^16 paths.
    let mut files = Files::default();
    for layer in 0..16 {
        let below: Vec<String> = (0..4).map(|at| format!("l{}_{at}.dot", layer + 1)).collect();
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        let text = if layer == 15 { leaf() } else { runs(&below) };
        for at in 0..4 {
            files.texts.insert(format!("l{layer}_{at}.dot"), text.clone());
        }
    }
    let root = runs(&["l0_0.dot", "l0_1.dot"]);
    let loaded = timed("a.dot", root, &files);
    assert!(loaded.pipeline().is_some(), "{:?}", reported(&loaded));
    assert_eq!(loaded.descendants().len(), 62);
}

#[test]
fn strange_paths_and_texts_are_faults_and_no_panic() {
    let long = format!("{}.dot", "x".repeat(100_000));
    let up = "../".repeat(10_000);
    let names = ["..", ".", "a\\nb.dot", "./", "///", &*long, &*up, "\u{202e}tod.a"];
    let nothing = |_: &str, _: u64| Err(ReadError::Other("a\nb".repeat(1_000)));
    let loaded = timed("a.dot", runs(&names), &nothing);
    assert!(loaded.report.has_errors());
    for bytes in [&b"\xff"[..], b"", b"digraph", b"\0", b"{", b"graph {}"] {
        let reader = |_: &str, _: u64| Ok(bytes.to_vec());
        let loaded = timed("a.dot", runs(&["b.dot"]), &reader);
        let codes: Vec<&str> = loaded.report.errors().map(|diagnostic| diagnostic.code).collect();
        assert_eq!(codes, ["child_invalid"], "{bytes:?}");
        assert!(loaded.children[0].loaded.report.has_errors());
    }
}
