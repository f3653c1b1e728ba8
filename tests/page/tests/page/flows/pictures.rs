//! The picture of the README.

use std::path::Path;

use serde_json::json;

use super::enter;
use crate::browser::in_browser;
use crate::support::TestServer;

/// Largest size of a picture in the repository.
const MOST: usize = 200_000;

/// Writes `book/src/images/page-light.png` and `page-dark.png`: a run that was approved, and why it took an edge.
#[test]
#[ignore = "writes the pictures of the README"]
fn pictures() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin("release", json!({ "size": "large" }));
        let question = server.api.until_asked(&run);
        server.api.answer(&run, &question, "P");
        server.api.until_status(&run, "success");
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{run}/decisions"));
        tab.click(".vrow", "rate → inspect");
        tab.sees(".tested.taken", "context.risk=high");
        tab.until("document.querySelectorAll('.edge.chosen').length === 1");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/images");
        std::fs::create_dir_all(&folder).unwrap();
        for scheme in ["light", "dark"] {
            tab.colours(scheme);
            tab.eval("document.activeElement.blur()");
            let picture = tab.picture();
            assert!(picture.len() < MOST, "{} bytes", picture.len());
            std::fs::write(folder.join(format!("page-{scheme}.png")), picture).unwrap();
        }
    });
}

/// Writes a picture of each screen beside the build, for whoever changes the style.
#[test]
#[ignore = "writes pictures that nothing compares"]
fn screens() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin("release", json!({ "size": "large" }));
        let question = server.api.until_asked(&run);
        server.api.answer(&run, &question, "P");
        server.api.until_status(&run, "success");
        let waiting = server.api.begin_to_gate(json!({}));
        let tab = enter(browser, &server.api);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screens");
        std::fs::create_dir_all(&folder).unwrap();
        let tabs = [
            "timeline",
            "decisions",
            "log",
            "context",
            "files?file=write%2Fresponse.md",
            "conversation",
            "cost",
        ];
        let mut screens: Vec<String> = [
            "runs",
            "gates",
            "definitions",
            "definitions/release",
            "definitions/release/edges",
            "editor",
        ]
        .map(str::to_owned)
        .into();
        screens.extend(tabs.map(|tab| format!("runs/{run}/{tab}")));
        screens.push(format!("runs/{waiting}/ahead"));
        for screen in screens {
            tab.show(&format!("#/{screen}"));
            tab.until("document.querySelector('.loading, .partial, .boot') === null");
            for (scheme, width, height) in [("light", 1440, 900), ("dark", 1440, 900), ("light", 360, 740)] {
                tab.colours(scheme);
                tab.resize(width, height);
                let name = screen
                    .replace(&run, "run")
                    .replace(&waiting, "waiting")
                    .replace(['/', '?', '%'], "-");
                std::fs::write(folder.join(format!("{name}-{scheme}-{width}.png")), tab.picture()).unwrap();
            }
        }
    });
}
