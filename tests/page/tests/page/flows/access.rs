//! Every screen for everybody: light and dark, wide and narrow, by the rules of axe-core.

use std::path::Path;

use orchestra_installed_tests::{find, skip};
use serde_json::{Value, json};

use super::enter;
use crate::browser::{Tab, in_browser};
use crate::support::{Api, TestServer};

/// Where `.ci/run` puts axe-core. It is no part of the repository, because of its licence.
const AXE: &str = concat!(
    env!("CARGO_TARGET_TMPDIR"),
    "/axe/node_modules/axe-core/axe.min.js"
);

const MODES: [(&str, u32, u32); 4] = [
    ("light", 1440, 900),
    ("dark", 1440, 900),
    ("light", 360, 740),
    ("dark", 360, 740),
];

/// A screen: its address, what it shows when it is complete, and what is clicked then.
struct Screen {
    hash: String,
    shows: (&'static str, &'static str),
    clicks: &'static [(&'static str, &'static str)],
}

const fn screen(hash: String, css: &'static str, text: &'static str) -> Screen {
    Screen {
        hash,
        shows: (css, text),
        clicks: &[],
    }
}

/// Returns the rules that elements of the present screen break.
fn violations(tab: &Tab, scheme: &str) -> Vec<String> {
    // Dark colours change contrasts, and nothing else.
    let rules = match scheme {
        "dark" => "runOnly: ['color-contrast'],",
        _ => "",
    };
    let found = tab.eval(&format!(
        "axe.run(document, {{ {rules} resultTypes: ['violations'] }}).then(({{ violations, passes }}) => [passes.length, violations.flatMap(({{ id, nodes }}) => nodes.map((node) => `${{id}}: ${{node.target}} ${{node.html.slice(0, 160)}} ${{node.failureSummary}}`))])"
    ));
    assert!(found[0].as_u64() > Some(0), "no rule was applied: {found}");
    found[1]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect()
}

/// Returns what makes the page wider than the window.
fn overflow(tab: &Tab) -> Value {
    tab.eval(
        "(async () => {
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          if (document.documentElement.scrollWidth <= innerWidth) return null;
          const wide = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1);
          return wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 160));
        })()",
    )
}

/// Looks at screens in all modes, and collects what is wrong with them.
pub(super) struct Inspection<'t> {
    tab: &'t Tab,
    has_axe: bool,
    problems: Vec<String>,
}

impl Inspection<'_> {
    pub(super) fn begin(tab: &Tab) -> Inspection<'_> {
        let axe = std::fs::read_to_string(Path::new(AXE));
        if axe.is_err() && find("npm").is_some() {
            skip("axe-core was not fetched; `.ci/run` fetches it");
        }
        if let Ok(axe) = &axe {
            tab.eval(&format!("{axe};null"));
        }
        Inspection {
            tab,
            has_axe: axe.is_ok(),
            problems: Vec::new(),
        }
    }

    pub(super) fn look(&mut self, name: &str) {
        let tab = self.tab;
        for (scheme, width, height) in MODES {
            tab.colours(scheme);
            tab.resize(width, height);
            let wide = overflow(tab);
            if !wide.is_null() {
                self.problems
                    .push(format!("{name} at {width}: wider than the window: {wide}"));
            }
            if self.has_axe {
                let found = violations(tab, scheme).into_iter();
                self.problems
                    .extend(found.map(|one| format!("{name} {scheme} {width}: {one}")));
            }
        }
        tab.colours("light");
        tab.resize(1440, 900);
    }

    #[track_caller]
    pub(super) fn end(self) {
        let problems = self.problems;
        assert!(problems.is_empty(), "{} problems: {problems:#?}", problems.len());
    }
}

fn screens(api: &Api, ended: &str, failed: &str, waiting: &str) -> Vec<Screen> {
    let rows = api.get(&format!("/api/v1/runs/{ended}"));
    let seq = |table: &str, from: &str, field: &str| {
        let rows = rows[table].as_array().unwrap().iter();
        rows.clone().find(|row| row[field] == from).unwrap()["seq"].to_string()
    };
    let run = |rest: String| format!("#/runs/{ended}/{rest}");
    let keys = Screen {
        clicks: &[("button", "Keys?")],
        ..screen("#/definitions".to_owned(), "table th", "release")
    };
    let replay = Screen {
        clicks: &[("button", "Replay from here…")],
        ..screen(run("context?at=cp_000003".to_owned()), "table.context", "")
    };
    let outline = Screen {
        clicks: &[("button", "Show as an outline")],
        ..screen(run("cost".to_owned()), "table", "build")
    };
    let pause = Screen {
        clicks: &[(".run-title button", "Pause")],
        ..screen(format!("#/runs/{waiting}"), ".run-title .state", "running")
    };
    vec![
        screen("#/runs".to_owned(), "table .state", "success"),
        screen("#/runs?name=none".to_owned(), ".empty", "No run matches"),
        screen("#/gates".to_owned(), ".evidence pre", "Draft"),
        screen(
            "#/definitions?find=none".to_owned(),
            ".empty",
            "No pipeline matches",
        ),
        screen("#/definitions/release".to_owned(), ".start", "Start a run"),
        screen("#/definitions/release/edges".to_owned(), "table", "never"),
        screen("#/definitions/release/source".to_owned(), "pre.source", "digraph"),
        screen(
            "#/definitions/release/diagnostics".to_owned(),
            "[aria-selected=true]",
            "Diagnostics",
        ),
        screen("#/editor".to_owned(), ".run-head .state", "valid"),
        screen(run("timeline".to_owned()), ".vrow", "build"),
        screen(
            run(format!("timeline?at={}", seq("stages", "build", "node"))),
            ".details",
            "linker",
        ),
        screen(
            run("timeline?node=behaviour".to_owned()),
            ".node-bar",
            "Behaviour",
        ),
        screen(
            run(format!(
                "decisions?decision={}",
                seq("transitions", "rate", "from")
            )),
            ".what-if",
            "What if",
        ),
        screen(run("log".to_owned()), ".vrow", "EdgeSelected"),
        screen(run("log?text=none".to_owned()), ".empty", "No event matches"),
        screen(
            run("files?file=write%2Fresponse.md".to_owned()),
            ".preview pre",
            "Draft",
        ),
        screen(run("conversation".to_owned()), ".said pre", "Draft"),
        screen(run("cost?node=write".to_owned()), "h2", "Attempts of write"),
        outline,
        screen(run("compare".to_owned()), ".empty", "Compare with"),
        screen(
            run(format!("compare?with={failed}")),
            ".compare-mark",
            "the first divergence",
        ),
        screen(format!("#/runs/{failed}/timeline"), ".banner", "registry"),
        screen(format!("#/runs/{waiting}/timeline"), ".banner", "question open"),
        screen(format!("#/runs/{waiting}/ahead"), ".ahead tr", "Publish"),
        screen("#/nothing".to_owned(), "h1", "no such screen"),
        screen("#/runs/unknown".to_owned(), "h1", "There is no such run"),
        keys,
        replay,
        pause,
    ]
}

#[test]
fn every_screen_is_accessible_and_fits_a_narrow_window() {
    in_browser(|browser| {
        let server = TestServer::start();
        let api = &server.api;
        let tab = enter(browser, api);
        for part in ["status of 404", "status of 401"] {
            tab.expect(part);
        }
        let mut inspection = Inspection::begin(&tab);
        inspection.look("empty runs");
        tab.show("#/gates");
        tab.sees(".empty", "Nothing waits for you");
        inspection.look("empty gates");
        let answered = |run: &str| {
            let question = api.until_asked(run);
            api.answer(run, &question, "P");
        };
        let ended = api.begin("release", json!({ "size": "large" }));
        answered(&ended);
        api.until_status(&ended, "success");
        server.break_registry(true);
        let failed = api.begin("release", json!({}));
        answered(&failed);
        api.until_status(&failed, "fail");
        let waiting = api.begin_to_gate(json!({}));
        for Screen {
            hash,
            shows: (css, text),
            clicks,
        } in screens(api, &ended, &failed, &waiting)
        {
            tab.show(&hash);
            tab.sees(css, text);
            for (css, text) in clicks {
                tab.click(css, text);
            }
            let has_dialog = "document.querySelector('dialog[open]') !== null";
            inspection.look(&hash);
            if tab.eval(has_dialog) == true {
                tab.press("Escape");
                tab.until(&format!("!({has_dialog})"));
            }
        }
        tab.show("#/editor");
        tab.fill(
            "textarea.code",
            "digraph bad {\n    start -> publsh\n    publish [shape=hexagon, label=\"Sure?\"]\n    publish -> exit [label=\"[S] Sure\"]\n}\n",
        );
        tab.sees(".diagnostics li", "unknown node `publsh`");
        inspection.look("editor with errors");
        tab.click("button", "Sign out");
        tab.sees("h1", "Open the link from the terminal");
        inspection.look("signed out");
        inspection.end();
    });
}
