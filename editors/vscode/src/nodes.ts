// The nodes of a document: where they are, and which one is at a position.

import * as vscode from "vscode";

/** Returns the range of a node's id: where the node is declared, else where an edge names it first. */
export async function findNode(document: vscode.TextDocument, id: string): Promise<vscode.Range | undefined> {
    const symbols = await vscode.commands.executeCommand<vscode.DocumentSymbol[] | undefined>(
        "vscode.executeDocumentSymbolProvider",
        document.uri,
    );
    // The first symbol is the graph, which may have the name of a node.
    const declared = findSymbol(symbols?.flatMap((graph) => graph.children) ?? [], id);
    return declared ?? findInEdges(document, id);
}

function findSymbol(symbols: vscode.DocumentSymbol[], id: string): vscode.Range | undefined {
    for (const symbol of symbols) {
        if (symbol.name === id && symbol.kind !== vscode.SymbolKind.Namespace) {
            return symbol.selectionRange;
        }
        const inside = findSymbol(symbol.children, id);
        if (inside) {
            return inside;
        }
    }
    return undefined;
}

function findInEdges(document: vscode.TextDocument, id: string): vscode.Range | undefined {
    for (let line = 0; line < document.lineCount; line++) {
        const text = document.lineAt(line).text;
        const edge = text.split("[", 1)[0] ?? "";
        let start = 0;
        for (const part of edge.includes("->") ? edge.split("->") : []) {
            if (part.replace(/;.*$/, "").trim().replace(/^"(.*)"$/, "$1") === id) {
                const at = start + part.indexOf(id);
                return new vscode.Range(line, at, line, at + id.length);
            }
            start += part.length + "->".length;
        }
    }
    return undefined;
}

/** Returns the word at a position, which is the id of a node if the document has such a node. */
export function wordAt(document: vscode.TextDocument, position: vscode.Position): string {
    const range = document.getWordRangeAtPosition(position);
    return range ? document.getText(range) : "";
}
