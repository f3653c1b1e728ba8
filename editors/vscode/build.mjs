// Bundles the extension and copies what the repository has elsewhere.
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { build } from "esbuild";

await rm("dist", { recursive: true, force: true });
const options = { bundle: true, minify: true, logLevel: "warning", metafile: true };
const { metafile } = await build({
    ...options,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    platform: "node",
    format: "cjs",
    target: "node20",
    external: ["vscode"],
});
await build({
    ...options,
    entryPoints: ["src/webview/preview.ts", "src/webview/preview.css"],
    outdir: "dist/webview",
    platform: "browser",
    format: "iife",
    target: "es2022",
});

// The licences of the packages in the bundle require their texts beside it.
const folders = Object.keys(metafile.inputs).map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
const notices = [];
for (const folder of [...new Set(folders)].filter((folder) => folder !== undefined).sort()) {
    const { name, version, license } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
    const file = (await readdir(folder)).find((file) => /^licen[cs]e/i.test(file));
    if (!file) {
        throw new Error(`${folder} has no text of its licence`);
    }
    notices.push(`${name} ${version} (${license})\n\n${await readFile(`${folder}/${file}`, "utf8")}`);
}
await writeFile("dist/THIRD-PARTY.txt", notices.join(`\n${"-".repeat(80)}\n\n`));

await mkdir("dist/images", { recursive: true });
const root = "../../";
await Promise.all([
    copyFile(`${root}LICENSE-MIT`, "dist/LICENSE-MIT"),
    copyFile(`${root}LICENSE-APACHE`, "dist/LICENSE-APACHE"),
    copyFile(`${root}book/src/images/editor.png`, "dist/images/editor.png"),
]);
