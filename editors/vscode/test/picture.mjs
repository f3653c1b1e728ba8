// Takes the picture of the documentation: an error with its quick fix, and the preview beside the text.
//
//     node picture.mjs --code FOLDER --extension FILE --program FILE --project FOLDER --picture FILE

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { Editor, optionsOf } from "./editor.mjs";

/** Largest size of a picture in the repository, in bytes. */
const MOST = 200_000;

const FILE = "pr_review.dot";
const options = optionsOf("code", "extension", "program", "project", "picture");
const editor = await Editor.start({
    ...options,
    settings: { "workbench.colorTheme": "Default Light Modern", "breadcrumbs.enabled": false },
    screen: { width: 1200, height: 720 },
});
try {
    await editor.open(FILE);
    await editor.command("View: Toggle Primary Side Bar Visibility");
    await editor.command("Orchestra: Open Preview to the Side");
    const frame = await editor.frame("document.querySelector('[data-node=critic]') !== null");
    await editor.goTo(FILE, "collect -> critic", "collect -> crit".length);
    await editor.press("Delete");
    await editor.sees(".squiggly-error");
    // The picture of the preview follows after a pause.
    await editor.until("document.querySelector('[data-node=critc]') !== null", frame);
    await editor.press("Ctrl+.");
    await editor.sees(".action-widget .monaco-list-row", "replace `critc` with `critic`");
    const picture = await editor.tab.screenshot();
    assert.ok(picture.length < MOST, `${picture.length} bytes`);
    writeFileSync(options.picture, picture);
} finally {
    await editor.close();
}
