// The page of a preview. It shows the picture, and reports a click on a node.

declare function acquireVsCodeApi(): { postMessage(message: object): void; setState(state: object): void };

interface Incoming {
    svg?: string;
    error?: string;
    select?: string;
}

const vscode = acquireVsCodeApi();
const picture = document.getElementById("picture") as HTMLElement;
const error = document.getElementById("error") as HTMLElement;
let selected = "";
let scale = 1;

vscode.setState({ uri: JSON.parse(document.body.dataset["uri"] ?? "null") });

window.addEventListener("message", ({ data }: MessageEvent<Incoming>) => {
    if (data.svg !== undefined) {
        show(data.svg);
    }
    if (data.select !== undefined) {
        selected = data.select;
        mark();
    }
    // The last picture stays below the error.
    error.hidden = data.error === undefined && (!error.textContent || data.svg !== undefined);
    if (data.error !== undefined || data.svg !== undefined) {
        error.textContent = data.error ?? "";
    }
});

function show(text: string): void {
    const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    picture.replaceChildren(document.importNode(svg, true));
    for (const node of nodes()) {
        node.setAttribute("tabindex", "0");
        node.setAttribute("role", "button");
    }
    resize();
    mark();
}

function nodes(): NodeListOf<SVGGElement> {
    return picture.querySelectorAll<SVGGElement>("[data-node]");
}

function mark(): void {
    for (const node of nodes()) {
        const isSelected = node.dataset["node"] === selected;
        node.classList.toggle("selected", isSelected);
        if (isSelected) {
            node.scrollIntoView({ block: "nearest", inline: "nearest" });
        }
    }
}

/** Shows the picture at its own size, or smaller if the page is narrower, times the factor that was chosen. */
function resize(): void {
    const svg = picture.querySelector("svg");
    const width = svg?.viewBox.baseVal.width;
    if (svg && width) {
        svg.removeAttribute("height");
        svg.setAttribute("width", String(Math.min(width, picture.clientWidth) * scale));
    }
}

function open(target: EventTarget | null): void {
    const node = target instanceof Element ? target.closest<SVGGElement>("[data-node]") : null;
    const id = node?.dataset["node"];
    if (id !== undefined) {
        vscode.postMessage({ open: id });
    }
}

picture.addEventListener("click", (event) => open(event.target));
picture.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        open(event.target);
    }
});
window.addEventListener("resize", resize);
window.addEventListener(
    "wheel",
    (event) => {
        if (event.ctrlKey || event.metaKey) {
            event.preventDefault();
            scale = Math.min(8, Math.max(0.25, scale * (event.deltaY < 0 ? 1.1 : 1 / 1.1)));
            resize();
        }
    },
    { passive: false },
);

vscode.postMessage({ ready: true });
