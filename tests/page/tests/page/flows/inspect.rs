//! What the tabs of a run show.

use serde_json::{Value, json};

use super::enter;
use crate::browser::in_browser;
use crate::support::{HOSTILE, TestServer};

#[test]
fn decisions_show_why_this_edge_and_what_would_change_it() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin_to_gate(json!({ "size": "large" }));
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{run}/decisions"));
        tab.click(".vrow", "rate → inspect");
        tab.sees(".details h2", "Why rate → inspect");
        tab.sees(".tested.taken", "to inspect if context.risk=high");
        tab.sees(".tested.taken .values", "high");
        tab.sees(".tested:not(.taken)", "to write");
        tab.until("document.querySelectorAll('.edge.chosen').length === 1");
        // The same decision with another value, by the router itself.
        tab.fill(".what-if .pairs label:first-child input", "low");
        tab.click(".what-if button", "Decide with these values");
        tab.sees(".what-if .banner", "Another edge: rate → write");
        tab.until("document.querySelectorAll('.edge.imagined').length === 1");
        tab.click(".what-if button", "Reset");
        tab.until("document.querySelectorAll('.edge.imagined').length === 0");
        // The keys of lists lead to the other decisions.
        tab.eval("document.querySelector('[role=listbox][aria-label=Decisions]').focus()");
        tab.press("Home");
        tab.sees(".details h2", "Why start → build");
        tab.press("ArrowDown");
        tab.sees(".details h2", "Why build → checks");
        // At a gate, the other labels can be chosen; what nothing reads is told.
        let question = server.api.until_asked(&run);
        server.api.answer(&run, &question, "P");
        server.api.until_status(&run, "success");
        tab.show(&format!("#/runs/{run}/decisions?node=approve"));
        tab.click(".vrow", "approve → publish");
        tab.sees(".details p", "The answer: [P] Publish");
        tab.eval(
            "(() => { const one = document.querySelector('.what-if select'); \
             one.value = [...one.options].find(({ text }) => text.startsWith('[W]')).value; \
             one.dispatchEvent(new Event('change', { bubbles: true })); })()",
        );
        tab.click(".what-if button", "Decide with these values");
        tab.sees(".what-if .banner", "Another edge: approve → write");
        let other = ".what-if .pairs label:last-child input";
        tab.fill(other, "nonsense");
        tab.click(".what-if button", "Decide with these values");
        tab.sees(".what-if .failure", "`nonsense` is not KEY=VALUE");
        tab.fill(other, "context.nonsense=1");
        tab.click(".what-if button", "Decide with these values");
        tab.sees(
            ".what-if .hint",
            "Nothing that was decided here reads context.nonsense",
        );
    });
}

#[test]
fn what_may_still_happen_is_listed_and_the_rest_is_faded() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin_to_gate(json!({}));
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{run}/ahead"));
        tab.sees(
            ".ahead p",
            "The run is at Publish this note?. It can still reach 4 nodes",
        );
        tab.sees(".ahead tr", "Publish publish1 step0");
        tab.sees(".ahead tr", "Write the note");
        tab.sees(".ahead .muted", "start, build, checks");
        tab.until("document.querySelectorAll('.node.faded').length === 9");
        tab.click(".ahead button", "Write the note");
        tab.until("document.querySelector('.node.selected:not(.faded)') !== null");
        tab.click("button[title='Show as an outline']", "");
        tab.sees("[role=treeitem]", "Buildnot reachable");
        tab.click("button[title='Show as a graph']", "");
        tab.click("[role=tab]", "Timeline");
        tab.until("document.querySelectorAll('.node').length > 0 && document.querySelectorAll('.node.faded').length === 0");
    });
}

#[test]
fn the_context_of_each_checkpoint_is_shown_and_replayed() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin_to_gate(json!({ "size": "small" }));
        let tab = enter(browser, &server.api);
        // The end of a run is no place to go on from.
        let ended = server.api.begin("release", json!({}));
        let question = server.api.until_asked(&ended);
        server.api.answer(&ended, &question, "P");
        server.api.until_status(&ended, "success");
        tab.show(&format!("#/runs/{ended}"));
        tab.click(".run-title a", "Replay…");
        tab.sees(".hint", "Choose the checkpoint");
        tab.until("[...document.querySelectorAll('.scrub-now button')].some((one) => !one.disabled)");
        tab.eval("document.querySelector('.scrub input').focus()");
        tab.press("End");
        tab.until("[...document.querySelectorAll('.scrub-now button')].every((one) => one.disabled)");
        tab.show(&format!("#/runs/{run}/context"));
        tab.sees(".scrub-now", "after write");
        tab.sees("table.context", "Draft 1");
        tab.eval("document.querySelector('.scrub input').focus()");
        tab.press("Home");
        tab.sees(".scrub-now", "cp_000000");
        tab.sees_no("table.context", "Draft 1");
        for _ in 0..20 {
            if tab.texts(".scrub-now strong")[0].starts_with("after rate") {
                break;
            }
            let before = tab.texts(".scrub-now");
            tab.press("ArrowRight");
            tab.until(&format!(
                "document.querySelector('.scrub-now').textContent.trim() !== {}",
                json!(before[0])
            ));
        }
        tab.sees(".scrub-now", "after rate");
        tab.click(".filters label", "Only what changed");
        tab.sees("tr.added", "risk");
        tab.sees(
            "tr.added .lineage",
            "written by rate · read by rate → inspect, rate → write",
        );
        tab.sees_no("table.context", "size");
        tab.click("button", "Replay from here…");
        tab.sees("dialog", "goes on at write");
        tab.click("dialog button", "Replay");
        tab.sees(".facts", "replayed from cp_");
        let other = tab.until_some("location.hash", |hash| {
            hash.as_str().is_some_and(|hash| !hash.contains(&run))
        });
        let other = other.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        // The new run goes on behind the checkpoint, and the old one still waits.
        let rows = server.api.until(&other, "a question", |rows| {
            rows["questions"][0]["id"].is_string()
        });
        let nodes: Vec<&Value> = rows["stages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["node"])
            .collect();
        // Its history is that of the old run; the stage and its retry were not executed again.
        let built = nodes.iter().filter(|node| **node == "build").count();
        assert_eq!(built, 2, "{nodes:?}");
        assert_eq!(
            server.api.get(&format!("/api/v1/runs/{run}"))["run"]["status"],
            "running"
        );
        tab.click(".facts a", "compare");
        tab.sees(".banner", "The runs agree for");
        tab.until(&format!(
            "document.querySelector('.filters select').value === {}",
            json!(run)
        ));
    });
}

#[test]
fn two_runs_are_shown_side_by_side_with_their_first_divergence() {
    in_browser(|browser| {
        let server = TestServer::start();
        let large = server.api.begin_to_gate(json!({ "size": "large" }));
        let small = server.api.begin_to_gate(json!({ "size": "small" }));
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{large}/timeline"));
        tab.click(".tabs a", "Compare");
        tab.sees(".empty", "Compare with another run");
        let option = format!("select optgroup[label='Same pipeline'] option[value='{small}']");
        tab.until(&format!("document.querySelector({}) !== null", json!(option)));
        tab.eval(&format!(
            "(() => {{ const field = document.querySelector('.filters select'); field.value = {}; field.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()",
            json!(small)
        ));
        tab.sees(".banner", "then rate takes different edges");
        tab.until(&format!(
            "location.hash === '#/runs/{large}/compare?with={small}'"
        ));
        tab.sees(".vrow .compare-mark.tone-bad", "≠ edge");
        tab.sees(".compare-side[aria-label='This run']", "→ inspect");
        tab.sees(".compare-side[aria-label='Other run']", "→ write");
        tab.sees(".details tr:has(.tag.changed)", "high");
        tab.sees(".compare-runs", "attempt");
        tab.sees(".command code", &format!("compare {large} {small}"));
        // The keys of lists lead to the other steps, and back.
        tab.eval("document.querySelector('[role=listbox][aria-label=\"Steps of both runs\"]').focus()");
        tab.press("Home");
        tab.sees(".details h2", "Step 1 = same");
        tab.click(".banner button", "Show the divergence");
        tab.sees(".details h2", "≠ edge");
        tab.click("button", "Swap");
        tab.until(&format!(
            "location.hash === '#/runs/{small}/compare?with={large}'"
        ));
        tab.sees(".compare-side[aria-label='This run']", "→ write");
        tab.expect("status of 404");
        tab.show(&format!("#/runs/{large}/compare?with=unknown"));
        tab.sees(".failure", "There is no such run");
    });
}

#[test]
fn the_log_is_searched_and_filtered() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin_to_gate(json!({}));
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{run}/log"));
        tab.sees(".filters [role=status]", "events");
        tab.until("document.querySelectorAll('.vrow').length > 10");
        tab.fill(".filters input[type=search]", "out of memory");
        tab.until("(() => { const rows = [...document.querySelectorAll('.vrow')]; return rows.length > 0 && rows.every((row) => row.textContent.includes('build')); })()");
        tab.fill(".filters input[type=search]", "nothing of the kind");
        tab.sees(".empty", "No event matches");
        tab.show(&format!("#/runs/{run}/log?kind=EdgeSelected&node=rate"));
        tab.until("document.querySelectorAll('.vrow').length === 1");
        tab.click(".vrow", "EdgeSelected");
        tab.sees("pre.details", "\"edge\"");
    });
}

#[test]
fn costs_are_shown_by_node_and_attempt() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin_to_gate(json!({}));
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{run}/cost"));
        tab.sees(".facts-grid", "$0.030");
        tab.sees(".facts-grid", "7,800 in");
        tab.click("table button", "build");
        tab.sees("h2", "Attempts of build");
        tab.sees("table", "visit 1, attempt 2");
        tab.click("table a", "visit 1, attempt 1");
        tab.sees(".details", "the linker was killed");
        tab.sees(".details", "is tried again");
    });
}

#[test]
fn text_from_outside_is_shown_as_text() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server
            .api
            .begin_to_gate(json!({ "addition": HOSTILE, HOSTILE: 1, "constructor": 2, "__proto__": 3 }));
        // Characters that reverse the text after them could make one command look like another.
        let shown = HOSTILE.replace(['\u{202e}', '\u{202c}'], "\u{fffd}");
        assert_ne!(shown, HOSTILE);
        let folder = server.run_folder(&run);
        let name = "<img src=x onerror=alert(1)> \u{202e}gnp.txt";
        std::fs::write(folder.join(name), HOSTILE).unwrap();
        std::fs::write(folder.join("page.html"), HOSTILE).unwrap();
        std::fs::write(folder.join("arabic.log"), "لا ".repeat(50_000)).unwrap();
        let tab = enter(browser, &server.api);
        let screens = [
            ("#/gates".to_owned(), ".evidence pre"),
            (format!("#/runs/{run}/timeline"), ".vrow"),
            (format!("#/runs/{run}/decisions"), ".vrow"),
            (format!("#/runs/{run}/log?text=onerror"), ".vrow"),
            (format!("#/runs/{run}/context"), "td pre"),
            (format!("#/runs/{run}/conversation"), ".said pre"),
            (format!("#/runs/{run}/compare?with={run}"), ".vrow"),
            (
                format!("#/runs/{run}/files?file=write%2Fresponse.md"),
                ".preview pre",
            ),
        ];
        for (hash, css) in &screens {
            tab.show(hash);
            tab.until(&format!("!!document.querySelector({})", json!(css)));
            if !css.contains("vrow") {
                tab.sees(css, &shown);
            }
        }
        tab.show(&format!("#/runs/{run}/context"));
        tab.sees("table.context tr:has(code)", "constructor");
        tab.show(&format!("#/runs/{run}/files?find=.txt"));
        tab.click(".vrow", "onerror");
        tab.sees(".preview pre", &shown);
        tab.sees(".preview h2", "<img src=x onerror=alert(1)>");
        // Such a line would keep the browser busy for a minute.
        tab.show(&format!("#/runs/{run}/files?find=arabic"));
        tab.click(".vrow", "arabic.log");
        tab.until("document.querySelector('.preview pre')?.textContent.length > 150000");
        // A file that a browser could take for a page is never shown.
        tab.show(&format!("#/runs/{run}/files?file=page.html"));
        tab.sees(".preview", "There is no preview of this file");
        assert_eq!(
            tab.eval(
                "[window.hacked === undefined, document.querySelectorAll('img[src=x], #app script').length]"
            ),
            json!([true, 0])
        );
    });
}
