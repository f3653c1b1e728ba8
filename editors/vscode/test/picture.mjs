// Takes the picture of the documentation: a warning, what hover says about a node, and the preview beside the text.
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
    screen: { width: 1280, height: 720 },
});
try {
    await editor.open(FILE);
    await editor.command("View: Toggle Primary Side Bar Visibility");
    await editor.command("Orchestra: Open Preview to the Side");
    const frame = await editor.frame("document.querySelector('[data-node=critic]') !== null");
    await editor.goTo(FILE, "max_retries=2", "max_ret".length);
    await editor.press("Delete");
    await editor.sees(".squiggly-warning");
    await editor.goTo(FILE, "critic [", 2);
    await editor.until("document.querySelector('[data-node=critic].selected') !== null", frame);
    await editor.hover("reasoning effort");
    await editor.until("document.querySelector('.monaco-hover').getAnimations({ subtree: true }).length === 0");
    const picture = await editor.tab.screenshot();
    assert.ok(picture.length < MOST, `${picture.length} bytes`);
    writeFileSync(options.picture, picture);
} finally {
    await editor.close();
}
