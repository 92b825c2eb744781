// View state, stored in the URL hash so that a view can be shared.

const NUMBERS = ["layer", "head", "row"];

export function readHash(hash) {
  const given = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  for (const name of NUMBERS) if (name in given) given[name] = given[name] === "" ? null : Number(given[name]);
  if ("loss" in given && given.loss !== "all") given.loss = Number(given.loss);
  return given;
}

export function writeHash(state, steps) {
  const shown = { ...state, step: steps[state.step].step };
  if (shown.row === null) shown.row = ""; // explicit, so that the default row is not locked
  const entries = Object.entries(shown).filter(([, value]) => value !== null);
  return "#" + new URLSearchParams(entries).toString();
}

// Values in the hash that are invalid for this page fall back to the defaults.
export function validated(given, page, overlays) {
  const within = (value, size) => Number.isInteger(value) && value >= 0 && value < size;
  const step = page.steps.findIndex((one) => String(one.step) === given.step);
  const state = {
    layer: within(given.layer, page.model.layers) ? given.layer : 0,
    head: within(given.head, page.model.heads) ? given.head : 0,
    overlay: overlays.some((one) => one.key === given.overlay) ? given.overlay : "P",
    loss: page.targets.some((one) => one.position === given.loss) ? given.loss : "all",
    row: within(given.row, page.length) ? given.row : null,
    step: step < 0 ? page.own : step,
    color: given.color === "all" ? "all" : "head",
    theme: ["light", "dark"].includes(given.theme) ? given.theme : null,
  };
  return consistent(state, page);
}

// Gradients of single characters' losses are available for the run's own state only, not for snapshots.
export function consistent(state, page) {
  return state.step === page.own ? state : { ...state, loss: "all" };
}

export function createStore(initial) {
  let state = initial;
  const listeners = [];
  return {
    get: () => state,
    listen: (listener) => listeners.push(listener),
    set(change) {
      const previous = state;
      state = { ...state, ...change };
      if (Object.keys(state).every((name) => state[name] === previous[name])) return;
      for (const listener of listeners) listener(state, previous);
    },
  };
}
