// A session in VS Code with the packaged extension and the real language server: each step is one that a person takes, and
// fails if the editor does not show what it should.
//
//     node session.mjs --code FOLDER --extension FILE --program FILE --project FOLDER [--failed FILE]
//
// FOLDER of `--code` is that of `editors/install-vscode`; `--project` is a copy of examples/pr_review or the example itself.
// A picture of a failure is written to the file of `--failed`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { Editor, optionsOf } from "./editor.mjs";

const FILE = "pr_review.dot";
const options = optionsOf("code", "extension", "program", "project", "failed");

/** Steps with their names, in the order in which they are taken. */
const STEPS = {
    async "a pipeline without errors has no squiggle, and lenses"(editor) {
        await editor.open(FILE);
        await editor.sees(".codelens-decoration", "simulate");
        await editor.sees(".codelens-decoration", "explore limits");
        await editor.seesNo(".squiggly-error");
    },

    async "hover explains an attribute"(editor) {
        await editor.goTo(FILE, "goal_gate=true", 3);
        await editor.hover("goal_gate");
        await editor.press("Escape");
    },

    async "a misspelt target has a squiggle, and its quick fix removes it"(editor) {
        await editor.goTo(FILE, "collect -> critic", "collect -> crit".length);
        await editor.press("Delete");
        await editor.sees(".squiggly-error");
        await editor.press("Ctrl+.");
        await editor.sees(".action-widget .monaco-list-row", "replace `critc` with `critic`");
        await editor.press("Enter");
        await editor.seesNo(".squiggly-error");
        await editor.saved(FILE, (text) => text.includes("collect -> critic\n"));
    },

    async "completion proposes an attribute"(editor) {
        await editor.goTo(FILE, "max_retries=2", "max_retries=2".length);
        await editor.type(", retry_tar");
        await editor.press("Ctrl+ ");
        await editor.sees(".suggest-widget .monaco-list-row.focused", "retry_target");
        await editor.press("Escape", "Escape");
        await editor.press(...", retry_tar".split("").map(() => "Backspace"));
        await editor.seesNo(".squiggly-error");
        await editor.saved(FILE, (text) => text.includes("max_retries=2\n"));
    },

    async "a rename changes every occurrence"(editor) {
        const before = editor.read(FILE);
        await editor.goTo(FILE, "collect -> critic", 2);
        await editor.press("F2");
        await editor.until("document.activeElement?.classList.contains('rename-input')");
        await editor.press("Ctrl+a");
        await editor.type("gather");
        await editor.press("Enter");
        const after = await editor.saved(FILE, (text) => text.includes("gather -> critic"));
        assert.equal(after, before.replaceAll(/\bcollect\b/g, "gather"));
        await editor.seesNo(".squiggly-error");
    },

    async "the definition of a type is its handler in Rust"(editor) {
        await editor.goTo(FILE, 'type="review.rounds"', 'type="rev'.length);
        await editor.press("F12");
        await editor.sees(".tab.active", "main.rs");
        await editor.openFile(FILE);
    },

    async "formatting is that of `orchestra fmt`"(editor) {
        await editor.goTo(FILE, "start -> review", 0);
        await editor.type("      ");
        const unformatted = await editor.saved(FILE, (text) => text.includes("          start -> review"));
        await editor.command("Format Document");
        const formatted = await editor.saved(FILE, (text) => text !== unformatted);
        const file = path.join(editor.folder, FILE);
        writeFileSync(file, unformatted);
        execFileSync(options.program, ["fmt", file], { stdio: ["ignore", "ignore", "inherit"] });
        assert.equal(formatted, editor.read(FILE));
    },

    async "the preview follows the text, and a click selects a node"(editor) {
        await editor.command("Orchestra: Open Preview to the Side");
        const frame = await editor.frame("document.querySelector('[data-node=critic]') !== null");
        await editor.goTo(FILE, "drop [", 0);
        await editor.until("document.querySelector('[data-node=drop].selected') !== null", frame);
        await editor.type("another -> exit\n    ");
        await editor.until("document.querySelector('[data-node=another]') !== null", frame);
        const click = "dispatchEvent(new MouseEvent('click', { bubbles: true }))";
        await editor.tab.evaluate(`document.querySelector('[data-node=synthesizer] text').${click}`, frame);
        await editor.sees(".statusbar-item", "(11 selected)");
        // Only an edge names this node.
        await editor.tab.evaluate(`document.querySelector('[data-node=another] text').${click}`, frame);
        await editor.sees(".statusbar-item", "(7 selected)");
        await editor.command("File: Revert File");
        await editor.until("document.querySelector('[data-node=another]') === null", frame);
    },

    async "a lens runs the program in a terminal"(editor) {
        await editor.goToLine(1, 1);
        await editor.click(".codelens-decoration a", "simulate");
        await editor.sees(".xterm-rows", "run folder:");
    },

    async "the configuration has diagnostics"(editor) {
        await editor.openFile("orchestra.yaml");
        await editor.goTo("orchestra.yaml", "role: architecture-reviewer", "role: architect".length);
        await editor.press("Delete");
        await editor.sees(".squiggly-error");
        await editor.command("File: Revert File");
        await editor.seesNo(".squiggly-error");
    },

    async "a program that does not exist is reported, and the server starts when the setting is corrected"(editor) {
        await editor.openFile(FILE);
        await editor.goToLine(1, 1);
        editor.write(".vscode/settings.json", '{ "orchestra.path": "missing/orchestra" }');
        await editor.sees(".notification-toast", "There is no program `missing/orchestra`");
        await editor.seesNo(".codelens-decoration");
        editor.write(".vscode/settings.json", "{}");
        await editor.sees(".codelens-decoration", "simulate");
    },
};

const editor = await Editor.start({ ...options, settings: {}, screen: { width: 1440, height: 900 } });
try {
    for (const [name, step] of Object.entries(STEPS)) {
        try {
            await step(editor);
            console.log(`passed: ${name}`);
        } catch (error) {
            error.message = `${name}: ${error.message}`;
            if (options.failed) {
                writeFileSync(options.failed, await editor.tab.screenshot());
            }
            throw error;
        }
    }
} finally {
    await editor.close();
}
