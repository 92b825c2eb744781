// A card a head: the measured shares of six behaviours, against what even attention would give on this text.
import { element, percent } from "./show.js";

export function mountHeads({ page, go }) {
  const body = document.querySelector("#heads .body");
  const { layers, heads } = page.model;
  const sort = element(
    "select",
    { id: "sort", onchange: () => order() },
    element("option", { value: "place" }, "layer and head"),
    ...page.behaviours.map(({ key, name }) => element("option", { value: key }, name + " share")),
  );
  const list = element("ol", { class: "cards", id: "cards" });
  const definitions = element(
    "dl",
    { class: "definitions" },
    ...page.behaviours.flatMap(({ name, definition, mark, chance }) => [
      element("dt", {}, name),
      element("dd", {}, `${definition} On this text: even attention ${percent(chance)}, threshold ${percent(mark)}.`),
    ]),
    element("dt", {}, "threshold"),
    element("dd", {}, page.thresholds),
  );
  body.append(
    element(
      "p",
      {},
      "Shares are measured on this text, over the rows where the behaviour is possible. The bar is the head's share, the ",
      "short mark below it what even attention would give, the upright line the threshold. A head is named after the share ",
      "that goes furthest beyond its threshold.",
    ),
    element("div", { class: "field" }, element("label", { for: "sort" }, "Sort by"), sort),
    list,
    element("details", {}, element("summary", {}, "Definitions and thresholds"), definitions),
  );

  const cards = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      const kind = element("span", { class: "kind" });
      const button = element(
        "button",
        { type: "button", onclick: () => go({ layer, head }) },
        element("strong", {}, `L${layer} h${head}`),
        kind,
      );
      const shares = element("dl", { class: "shares" });
      const card = element("li", { "data-head": `${layer}.${head}` }, button, shares);
      cards.push({ layer, head, card, kind, button, shares, measured: null });
      list.append(card);
    }
  }

  function order() {
    const key = sort.value;
    const place = (one) => one.layer * heads + one.head;
    const share = (one) => one.measured.shares[key] ?? -1;
    const sorted = [...cards].sort((a, b) => (key === "place" ? 0 : share(b) - share(a)) || place(a) - place(b));
    list.append(...sorted.map(({ card }) => card));
  }

  let shown = null;
  return (state) => {
    for (const one of cards) {
      const chosen = one.layer === state.layer && one.head === state.head;
      one.button.setAttribute("aria-pressed", chosen);
      if (state.step === shown) continue;
      one.measured = page.steps[state.step].heads[one.layer][one.head];
      one.kind.textContent = one.measured.kind;
      one.card.classList.toggle("mixed", one.measured.kind === "mixed");
      one.shares.replaceChildren(
        ...page.behaviours.flatMap(({ key, name, mark, chance }) => {
          const share = one.measured.shares[key];
          const over = share !== null && share >= mark;
          const bar = element("span", { class: "meter" + (over ? " over" : ""), "aria-hidden": "true" });
          bar.style.setProperty("--share", share ?? 0);
          bar.style.setProperty("--mark", mark);
          bar.style.setProperty("--chance", chance ?? 0);
          return [element("dt", {}, name), element("dd", {}, bar, element("span", { class: "value", "data-share": key }, percent(share)))];
        }),
      );
    }
    if (state.step !== shown) order();
    shown = state.step;
  };
}
