// The program `orchestra`, as the settings name it.

import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { homedir } from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";

/** Returns the absolute path of the program, or `undefined` if it does not exist. */
export async function findProgram(): Promise<string | undefined> {
    const name = configuredPath();
    if (isPath(name)) {
        const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? homedir();
        return findExecutable(path.resolve(folder, name));
    }
    for (const folder of (process.env["PATH"] ?? "").split(path.delimiter)) {
        // A relative folder would make the current folder decide which program runs.
        const found = path.isAbsolute(folder) && (await findExecutable(path.join(folder, name)));
        if (found) {
            return found;
        }
    }
    return undefined;
}

/** Returns the setting `orchestra.path` with its variables replaced. */
export function configuredPath(): string {
    const name = vscode.workspace.getConfiguration("orchestra").get<string>("path")?.trim() || "orchestra";
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? homedir();
    return name.replace(/^~(?=[/\\])/, homedir).replaceAll("${workspaceFolder}", () => folder);
}

function isPath(name: string): boolean {
    return name.includes("/") || name.includes(path.sep);
}

async function findExecutable(file: string): Promise<string | undefined> {
    const endings = process.platform === "win32" && path.extname(file) === "" ? [".exe", ".cmd"] : [""];
    for (const ending of endings) {
        try {
            await access(file + ending, constants.X_OK);
            if ((await stat(file + ending)).isFile()) {
                return file + ending;
            }
        } catch {
            // The next one may exist.
        }
    }
    return undefined;
}
