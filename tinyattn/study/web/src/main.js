// Loads the payload, mounts the views, and synchronizes them, the URL hash and the theme with the state.
import { mountControls } from "./controls.js";
import { OVERLAYS, Page } from "./data.js";
import { mountHeads } from "./heads.js";
import { mountLaboratory } from "./laboratory.js";
import { mountGrid, mountMap, mountText } from "./maps.js";
import { mountPredictions } from "./predictions.js";
import { mountRow } from "./row.js";
import { number } from "./show.js";
import { consistent, createStore, readHash, validated, writeHash } from "./state.js";
import { mountTraining } from "./training.js";

const VIEWS = [mountControls, mountGrid, mountMap, mountText, mountRow, mountHeads, mountPredictions, mountTraining, mountLaboratory];

async function open() {
  const page = await Page.open(JSON.parse(document.getElementById("payload").textContent));
  const given = readHash(location.hash);
  // By default, lock the last query with a target, so that no panel is empty.
  if (given.row === undefined) given.row = Math.max(0, page.length - 2);
  const store = createStore(validated(given, page, OVERLAYS));
  const hover = createStore({ row: null, column: null });
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => store.get().theme ?? (prefersDark.matches ? "dark" : "light");
  const announcement = document.getElementById("announcement");
  const announce = (text) => (announcement.textContent = text);

  async function go(change) {
    const next = consistent({ ...store.get(), ...change }, page);
    await page.load(next.step, next.loss);
    store.set(next);
  }

  const { model } = page;
  document.getElementById("summary").textContent =
    `${page.title}: ${model.layers} layers of ${model.heads} heads, head size ${model.head_dim}, ` +
    `${model.parameters.toLocaleString("en")} parameters; ${page.length} ${page.unit}s, mean loss ${number(page.loss)} nats.`;
  const applyTheme = () => (document.documentElement.dataset.theme = theme());
  applyTheme();
  const { step, loss } = store.get();
  await page.load(step, loss);
  const updates = VIEWS.map((mount) => mount({ page, store, hover, go, theme, announce }));
  const refresh = (state, previous) => {
    applyTheme();
    for (const update of updates) update(state, previous);
  };
  refresh(store.get(), null);
  store.listen((state, previous) => {
    refresh(state, previous);
    updateHash(state, page);
  });
  addEventListener("hashchange", () => go(validated(readHash(location.hash), page, OVERLAYS)));
  prefersDark.addEventListener("change", () => refresh(store.get(), store.get()));
  // For the browser console: tinyattn.page.row(tinyattn.store.get(), 3) returns the values of row 3 in full precision.
  globalThis.tinyattn = { page, store, go };
  document.documentElement.dataset.ready = "yes";
}

function updateHash(state, page) {
  try {
    history.replaceState(null, "", writeHash(state, page.steps));
  } catch (error) {
    // In a notebook the page is an iframe without a URL, so there is no hash to update.
    if (error.name !== "SecurityError") throw error;
  }
}

open().catch((error) => {
  document.getElementById("summary").textContent = `This page could not be opened: ${error.message}`;
  throw error;
});
