// Commands of the command line that run in a terminal, such as those of code lenses.

import * as vscode from "vscode";
import { configuredPath, findProgram } from "./program";

interface Invocation {
    /** The folder in which the program runs. */
    folder: string;
    arguments: string[];
}

function isInvocation(value: unknown): value is Invocation {
    const invocation = value as Partial<Invocation> | null;
    return (
        typeof invocation === "object" &&
        typeof invocation?.folder === "string" &&
        Array.isArray(invocation.arguments) &&
        invocation.arguments.every((argument) => typeof argument === "string")
    );
}

/** Runs `orchestra` with arguments in a terminal, after saving all files that the run may read. */
export async function runInTerminal(invocation: unknown): Promise<void> {
    if (!isInvocation(invocation)) {
        return;
    }
    if (!vscode.workspace.isTrusted) {
        void vscode.window.showErrorMessage("Trust this folder to run its pipelines.");
        return;
    }
    const program = await findProgram();
    if (!program) {
        void vscode.window.showErrorMessage(`There is no program \`${configuredPath()}\`.`);
        return;
    }
    await vscode.workspace.saveAll(false);
    // A process instead of a shell: no name of a file is ever read as a command.
    const execution = new vscode.ProcessExecution(program, invocation.arguments, { cwd: invocation.folder });
    const name = invocation.arguments.join(" ");
    const task = new vscode.Task({ type: "orchestra" }, vscode.TaskScope.Workspace, name, "orchestra", execution, []);
    task.presentationOptions = { reveal: vscode.TaskRevealKind.Always, panel: vscode.TaskPanelKind.Dedicated, clear: true };
    await vscode.tasks.executeTask(task);
}
