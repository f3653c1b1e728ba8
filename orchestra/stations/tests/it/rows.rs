//! Rows and texts: each describes the other completely.

use orchestra_graph::{Difference, Limits, LoadOptions, Source, load};
use orchestra_stations::{
    StationError, StationRow, StationStore, TransitionRow, VersionOrigin, VersionText, WorkflowRows,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const STATIONS: &str = include_str!("../../../../examples/stations/stations.dot");

fn rows_of(dot: &str) -> WorkflowRows {
    let dir = tempfile::tempdir().unwrap();
    let store = StationStore::open(dir.path().join("stations.sqlite")).unwrap();
    store
        .create("a", &VersionText::Dot(dot.to_owned()), VersionOrigin::Local, "")
        .unwrap();
    store.version("a", 1).unwrap().rows
}

fn printed(rows: &WorkflowRows) -> String {
    VersionText::Rows(Box::new(rows.clone())).to_dot().unwrap()
}

fn difference(one: &str, other: &str) -> String {
    let pipeline = |text: &str| {
        load(Source::new("a.dot", text), &LoadOptions::default())
            .pipeline()
            .unwrap()
    };
    Difference::between(&pipeline(one), &pipeline(other)).to_string()
}

#[test]
fn the_example_survives_the_way_through_rows() {
    let rows = rows_of(STATIONS);
    assert_eq!(difference(STATIONS, &printed(&rows)), "");
    assert_eq!(rows_of(&printed(&rows)), rows);
    let weigh = rows
        .stations
        .iter()
        .find(|station| station.node == "weigh")
        .unwrap();
    assert_eq!(
        weigh.output_context_keys,
        ["service", "weight", "parcels", "bulky"]
    );
    let restock = rows
        .transitions
        .iter()
        .find(|transition| transition.target == "restock")
        .unwrap();
    assert_eq!(restock.condition_value.as_deref(), Some("lacking"));
    assert_eq!((restock.allow_revisit, restock.max_revisits), (true, Some(1)));
    assert_eq!(rows.attributes["routing"], "first_match");
}

#[test]
fn values_keep_their_types_and_texts_their_characters() {
    let dot = r#"digraph {
        start -> a -> exit
        a [type=act, timeout=15m, max_retries=2, share=0.5, whole=2.0, wait=90s, text="90s", prompt="a \"b\" \\ c\nd\te $goal"]
    }"#;
    let rows = rows_of(dot);
    let a = &rows.stations[1];
    assert_eq!(a.prompt.as_deref(), Some("a \"b\" \\ c\nd\te $goal"));
    assert_eq!(
        serde_json::to_value(&a.attributes).unwrap(),
        json!({"timeout": "15m", "max_retries": 2, "share": 0.5, "whole": 2.0, "wait": {"duration": "90s"}, "text": "90s"})
    );
    assert_eq!(rows_of(&printed(&rows)), rows);
    assert_eq!(difference(dot, &printed(&rows)), "");
}

#[test]
fn rows_that_make_no_sense_are_refused_by_their_names() {
    let station = |node: &str| StationRow {
        node: node.to_owned(),
        ..StationRow::default()
    };
    let refused = |rows: WorkflowRows| match VersionText::Rows(Box::new(rows)).to_dot() {
        Err(StationError::InvalidRow { row, reason }) => format!("{row}: {reason}"),
        other => panic!("{other:?}"),
    };
    let of = |stations: Vec<StationRow>| WorkflowRows {
        stations,
        ..WorkflowRows::default()
    };
    assert!(refused(of(vec![station("a b")])).starts_with("station `a b`: the id of a node"));
    assert!(refused(of(vec![station("a"), station("a")])).contains("two stations"));
    let attributes = |value: Value| {
        let attributes = serde_json::from_value(value).unwrap();
        of(vec![StationRow {
            attributes,
            ..station("a")
        }])
    };
    assert!(refused(attributes(json!({"x y": 1}))).contains("`x y` cannot be the name"));
    assert!(refused(attributes(json!({"x": [1]}))).contains("`x` is not a text"));
    assert!(refused(attributes(json!({"x": {"duration": "soon"}}))).contains("`x` is not `{\"duration\""));
    let twice = StationRow {
        name: Some("A".to_owned()),
        attributes: serde_json::from_value(json!({"label": "B"})).unwrap(),
        ..station("a")
    };
    assert!(refused(of(vec![twice])).contains("`label` is given twice"));
    let lost = WorkflowRows {
        transitions: vec![TransitionRow {
            source: "a".to_owned(),
            target: "b".to_owned(),
            ..TransitionRow::default()
        }],
        ..of(vec![station("a")])
    };
    assert_eq!(refused(lost), "transition `a -> b`: there is no station `b`");
}

#[test]
fn a_text_that_rows_cannot_hold_is_not_edited_as_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = StationStore::open(dir.path().join("stations.sqlite")).unwrap();
    let classed = r#"digraph { model_stylesheet=".slow { llm_model: big; }"; start -> a -> exit
        subgraph cluster_slow { label=Slow; a [prompt="Think."] } }"#;
    let made = store
        .create(
            "a",
            &VersionText::Dot(classed.to_owned()),
            VersionOrigin::Local,
            "",
        )
        .unwrap();
    let rows = VersionText::Rows(Box::new(store.version("a", 1).unwrap().rows));
    let refused = store
        .add_version("a", &made.etag, &rows, VersionOrigin::Http, "")
        .unwrap_err();
    let StationError::NotRepresentable { difference } = &refused else {
        panic!("{refused}");
    };
    assert!(difference.contains("llm_model"), "{difference}");
    // As text it can be edited.
    let text = VersionText::Dot(classed.replace("Think.", "Think again."));
    store
        .add_version("a", &made.etag, &text, VersionOrigin::Http, "")
        .unwrap();
}

#[test]
fn an_edit_of_rows_becomes_a_version() {
    let dir = tempfile::tempdir().unwrap();
    let store = StationStore::open(dir.path().join("stations.sqlite")).unwrap();
    let made = store
        .create(
            "a",
            &VersionText::Dot(STATIONS.to_owned()),
            VersionOrigin::Local,
            "",
        )
        .unwrap();
    let mut rows = store.version("a", 1).unwrap().rows;
    rows.stations
        .iter_mut()
        .find(|station| station.node == "wrap")
        .unwrap()
        .name = Some("Wrap it".to_owned());
    let text = VersionText::Rows(Box::new(rows));
    store
        .add_version("a", &made.etag, &text, VersionOrigin::Http, "a better name")
        .unwrap();
    let edited = store.version("a", 2).unwrap().dot;
    let difference = difference(STATIONS, &edited);
    assert!(
        difference.contains("Wrap it") && difference.lines().count() == 2,
        "{difference}"
    );
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        "[ -~äß→\n\t\"\\\\]{0,20}".prop_map(Value::from),
        (0_u32..100_000).prop_map(|seconds| json!({"duration": format!("{seconds}s")})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_the_same_after_a_way_through_text(
        values in proptest::collection::vec(("x_[a-z]{1,8}", value()), 0..6),
        texts in proptest::collection::vec("[ -~äß→\n\t\"\\\\]{1,20}", 4),
        edges in proptest::collection::vec((0_usize..4, 0_usize..4), 0..8),
    ) {
        let nodes = ["node", "b", "Digraph", "d_1"];
        let rows = WorkflowRows {
            graph: "g".to_owned(),
            attributes: values.iter().cloned().collect(),
            stations: nodes.iter().zip(&texts).map(|(node, text)| StationRow {
                node: (*node).to_owned(),
                name: Some(text.clone()),
                prompt: Some(text.clone()),
                attributes: values.iter().cloned().collect(),
                ..StationRow::default()
            }).collect(),
            transitions: edges.iter().map(|(source, target)| TransitionRow {
                source: nodes[*source].to_owned(),
                target: nodes[*target].to_owned(),
                label: Some(texts[*target].clone()),
                ..TransitionRow::default()
            }).collect(),
        };
        let dot = printed(&rows);
        let parsed = orchestra_graph::parse(&Source::new("a.dot", dot.as_str()), &Limits::default());
        prop_assert!(parsed.diagnostics.iter().all(|diagnostic| !diagnostic.is_error()), "{dot}");
        let back = rows_of(&dot);
        // A duration is written in its largest unit.
        let plain = |rows: &WorkflowRows| serde_json::to_value(rows).unwrap();
        prop_assert_eq!(plain(&back)["transitions"].clone(), plain(&rows)["transitions"].clone());
        for (one, other) in back.stations.iter().zip(&rows.stations) {
            prop_assert_eq!(&one.name, &other.name);
            prop_assert_eq!(&one.prompt, &other.prompt);
        }
        prop_assert_eq!(rows_of(&printed(&back)), back);
    }
}
