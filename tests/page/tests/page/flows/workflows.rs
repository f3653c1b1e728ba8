//! Station workflows: rows that are edited, versions, and their runs.

use std::path::Path;

use orchestra::server::Submit;
use serde_json::json;

use super::access::Inspection;
use super::enter;
use crate::browser::{Tab, in_browser};
use crate::support::TestServer;

/// Starts a server with workflows, whose model stages may have tools.
fn served(folder: &Path) -> TestServer {
    let stations = folder.join("stations.sqlite");
    TestServer::with(|server| server.stations(stations).submit(Submit::Any))
}

/// Waits until the screen has loaded.
fn loaded(tab: &Tab) {
    tab.until("document.querySelector('.loading, .boot') === null");
}

#[test]
fn a_workflow_is_made_changed_activated_and_run_in_the_page() {
    in_browser(|browser| {
        let folder = tempfile::tempdir().unwrap();
        let server = served(folder.path());
        let tab = enter(browser, &server.api);
        let mut inspection = Inspection::begin(&tab);
        tab.show("#/workflows");
        tab.sees(".empty", "No workflows yet");
        inspection.look("no workflows");
        tab.click(".page-head button", "New workflow");
        tab.fill("dialog input[required]", "parcels");
        inspection.look("new workflow");
        tab.click("dialog button.primary", "Create");
        tab.sees(".run-title h1", "parcels");
        tab.sees(".run-title .state", "no active version");
        tab.fill(
            "textarea[aria-label^='Prompt'][aria-label*='first']",
            "Weigh the parcel.",
        );
        tab.sees(".save-bar", "unsaved changes");
        inspection.look("changed rows");
        tab.fill(".save-bar input", "weighs");
        tab.click(".save-bar button", "Save as version 2");
        tab.sees("[role=tab]", "Versions2");
        tab.click("[role=tab]", "Difference");
        tab.sees(".changes ins", "Weigh the parcel.");
        tab.sees(".changes del", "Describe the work of this station.");
        inspection.look("difference");
        tab.click("[role=tab]", "Versions");
        tab.click("tr button[aria-label='Validate version 2']", "Validate");
        tab.sees("tr .state", "valid");
        tab.click("tr button[aria-label='Activate version 2']", "Activate");
        inspection.look("activation");
        tab.click("dialog button.primary", "Activate");
        tab.sees("tr .tag.added", "active");
        inspection.look("versions");
        tab.click("[role=tab]", "DOT");
        tab.sees(".run-title .state", "version 2 is active");
        loaded(&tab);
        inspection.look("text");
        tab.click(".run-title a", "Start a run");
        tab.sees(".empty", "No run yet");
        tab.click(".start label", "Simulate");
        tab.click(".start button", "Simulate");
        tab.sees(".run-title h1", "parcels");
        tab.sees(".facts a", "parcels, version 2");
        tab.sees(".run-title .state", "success");
        tab.click(".facts a", "parcels, version 2");
        tab.click("[role=tab]", "Executions");
        tab.sees("table.runs tr", "simulated");
        inspection.look("executions");
        tab.click("[role=tab]", "Analytics");
        tab.sees("p", "Every transition was taken.");
        tab.until("document.querySelectorAll('.edge.taken').length === 2");
        inspection.look("analytics");
        inspection.end();
    });
}

#[test]
fn a_change_that_somebody_else_overtakes_is_not_saved_and_not_lost() {
    in_browser(|browser| {
        let folder = tempfile::tempdir().unwrap();
        let server = served(folder.path());
        let made = server.api.post(
            "/api/workflows",
            json!({ "name": "letters", "dot": "digraph letters { start -> write -> exit; write [prompt=Write] }" }),
        );
        let id = made["id"].as_str().unwrap();
        let tab = enter(browser, &server.api);
        let mut inspection = Inspection::begin(&tab);
        tab.expect("status of 412");
        tab.show(&format!("#/workflows/{id}"));
        tab.fill(
            "textarea[aria-label^='Prompt'][aria-label*='write']",
            "Write it well.",
        );
        let etag = server.api.get(&format!("/api/workflows/{id}"))["etag"].clone();
        server.api.change(
            &format!("/api/workflows/{id}/versions"),
            etag.as_str().unwrap(),
            &json!({ "dot": "digraph letters { start -> write -> exit; write [prompt=Other] }" }),
        );
        tab.click(".save-bar button", "Save as version 2");
        tab.sees("[role=alert]", "Somebody changed this workflow meanwhile");
        inspection.look("overtaken");
        inspection.end();
        tab.click("[role=alert] button", "Load the new state");
        tab.sees(".save-bar .banner", "version 2 is newer");
        tab.click(".save-bar button", "Save as version 3");
        tab.sees("[role=tab]", "Versions3");
        let latest = server.api.get(&format!("/api/workflows/{id}/versions/3"));
        assert!(
            latest["dot"].as_str().unwrap().contains("Write it well."),
            "{latest}"
        );
    });
}
