// Controls above the maps, theme button, section buttons and keyboard shortcuts.
import { OVERLAYS } from "./data.js";
import { element, glyph, number, spoken } from "./show.js";

const KEYS = [
  ["← → ↑ ↓", "previous/next head, layer"],
  ["1 … 5, o", "select overlay, next overlay"],
  ["[ ]", "lock the previous, next row"],
  ["Esc", "close this list, or else unlock the row"],
  ["l", "loss at the locked row, mean loss"],
  ["c", "color scale per head, shared"],
  [", .", "previous, next snapshot"],
  ["t", "light or dark theme"],
];

export function mountControls(context) {
  const { page, store, go } = context;

  const overlays = element("fieldset", { class: "segments" }, element("legend", {}, "Overlay"));
  OVERLAYS.forEach((overlay, index) => {
    const input = element("input", {
      type: "radio",
      name: "overlay",
      value: overlay.key,
      id: "overlay-" + overlay.key,
      onchange: () => go({ overlay: overlay.key }),
    });
    overlays.append(
      element("span", {}, input, element("label", { for: input.id, title: `${overlay.title} (key ${index + 1})` }, overlay.name)),
    );
  });

  const loss = element("select", {
    id: "loss",
    onchange: (event) => go({ loss: event.target.value === "all" ? "all" : Number(event.target.value) }),
  });
  loss.append(element("option", { value: "all" }, `whole text (mean ${number(page.loss)} nats)`));
  for (const { position, loss: nats } of page.targets) {
    const label = `${glyph(page.expected[position])} at position ${position}, ${glyph(page.characters[position])}  (${number(nats)} nats)`;
    loss.append(element("option", { value: position }, label));
  }

  const color = element(
    "select",
    { id: "color", onchange: (event) => go({ color: event.target.value }) },
    element("option", { value: "head" }, "per head"),
    element("option", { value: "all" }, "shared by all heads"),
  );

  const parts = [
    overlays,
    element("div", { class: "field" }, element("label", { for: "loss" }, "Loss L of"), loss),
    element("div", { class: "field" }, element("label", { for: "color" }, "Color scale"), color),
  ];

  let step = null;
  let stepValue = null;
  if (page.steps.length > 1) {
    step = element("input", {
      type: "range",
      id: "step",
      min: 0,
      max: page.steps.length - 1,
      step: 1,
      oninput: (event) => go({ step: Number(event.target.value) }),
    });
    stepValue = element("output", { for: "step" });
    parts.push(element("div", { class: "field" }, element("label", { for: "step" }, "Training step ", stepValue), step));
  }
  document.getElementById("controls").append(...parts, element("p", { class: "note", id: "loss-note" }));

  mountTheme(context);
  mountSections();
  mountKeyboard(context);

  return (state) => {
    document.getElementById("overlay-" + state.overlay).checked = true;
    loss.value = String(state.loss);
    color.value = state.color;
    if (step) {
      step.value = state.step;
      const snapshot = page.steps[state.step];
      stepValue.textContent = `${snapshot.step} (loss ${number(snapshot.loss)})`;
      step.setAttribute("aria-valuetext", stepValue.textContent);
    }
    document.getElementById("loss-note").textContent = noteOf(state, page);
  };
}

function noteOf(state, page) {
  if (state.step !== page.own) {
    return `Step ${page.steps[state.step].step}: a snapshot in 16 bits, with gradients of the mean loss only.`;
  }
  if (state.loss !== "all") {
    return `L is the loss of predicting ${spoken(page.expected[state.loss])} at position ${state.loss}.`;
  }
  if (page.targets.length < page.expected.filter((one) => one !== null).length) {
    return (
      `This page has the gradients of the losses of ${page.targets.length} single ${page.unit}s; for others, create it ` +
      "with --positions, for example --positions 5,17."
    );
  }
  return "";
}

function mountTheme({ store, theme }) {
  const button = element("button", {
    type: "button",
    id: "theme",
    onclick: () => store.set({ theme: theme() === "dark" ? "light" : "dark" }),
  });
  const relabel = () => (button.textContent = theme() === "dark" ? "Light" : "Dark");
  store.listen(relabel);
  relabel();
  const keys = element("details", { id: "keys" }, element("summary", {}, "Keys"));
  keys.append(element("dl", {}, ...KEYS.flatMap(([key, what]) => [element("dt", {}, key), element("dd", {}, what)])));
  document.getElementById("switches").append(button, keys);
}

function mountSections() {
  const names = { maps: "Maps", row: "Softmax", heads: "Heads", predictions: "Predictions", training: "Run", laboratory: "√d" };
  for (const [id, name] of Object.entries(names)) {
    const section = document.getElementById(id);
    section.tabIndex = -1;
    // Buttons instead of links: the fragment of a link would overwrite the view in the hash.
    const show = () => {
      section.scrollIntoView({ block: "start" });
      section.focus({ preventScroll: true });
    };
    document.getElementById("sections").append(element("button", { type: "button", onclick: show }, name));
  }
}

const wrap = (value, size) => ((value % size) + size) % size;

function mountKeyboard(context) {
  const { page, store, go, theme } = context;
  const { layers, heads } = page.model;
  const actions = {
    ArrowLeft: (s) => ({ head: wrap(s.head - 1, heads) }),
    ArrowRight: (s) => ({ head: wrap(s.head + 1, heads) }),
    ArrowUp: (s) => ({ layer: wrap(s.layer - 1, layers) }),
    ArrowDown: (s) => ({ layer: wrap(s.layer + 1, layers) }),
    o: (s) => ({ overlay: OVERLAYS[wrap(OVERLAYS.findIndex((one) => one.key === s.overlay) + 1, OVERLAYS.length)].key }),
    "[": (s) => ({ row: s.row === null ? page.length - 1 : wrap(s.row - 1, page.length) }),
    "]": (s) => ({ row: s.row === null ? 0 : wrap(s.row + 1, page.length) }),
    Escape: () => ({ row: null }),
    l: (s) => ({ loss: s.loss === "all" && page.targets.some((one) => one.position === s.row) ? s.row : "all" }),
    c: (s) => ({ color: s.color === "all" ? "head" : "all" }),
    ",": (s) => ({ step: Math.max(0, s.step - 1) }),
    ".": (s) => ({ step: Math.min(page.steps.length - 1, s.step + 1) }),
    t: () => ({ theme: theme() === "dark" ? "light" : "dark" }),
  };
  OVERLAYS.forEach((overlay, index) => (actions[index + 1] = () => ({ overlay: overlay.key })));

  document.addEventListener("keydown", (event) => {
    // Skip events that were handled elsewhere, and keys that form fields use themselves.
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = event.key.startsWith("Arrow");
    if (event.target.closest("select, textarea, input:not([type=radio])")) return;
    if (arrow && event.target.closest("input, [data-scrolls]")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    const keys = document.getElementById("keys");
    if (event.key === "Escape" && keys.open) {
      keys.open = false;
      if (keys.contains(document.activeElement)) keys.querySelector("summary").focus();
      return;
    }
    go(action(store.get()));
  });
}
