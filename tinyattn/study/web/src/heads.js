// One card per head: the shares of six behaviors, compared with uniform attention on this text.
import { element, percent } from "./show.js";

const MANY_CARDS = 36; // more of them scroll in a region of their own

export function mountHeads({ page, go }) {
  const body = document.querySelector("#heads .body");
  const { layers, heads } = page.model;
  const sort = element(
    "select",
    { id: "sort", onchange: () => order() },
    element("option", { value: "place" }, "layer and head"),
    ...page.behaviors.map(({ key, name }) => element("option", { value: key }, name + " share")),
  );
  const list = element("ol", { class: "cards", id: "cards" });
  const definitions = element(
    "dl",
    { class: "definitions" },
    ...page.behaviors.flatMap(({ name, definition, mark, chance, without }) => [
      element("dt", {}, name),
      element(
        "dd",
        {},
        chance === null
          ? `${definition} Not on this text: ${without}.`
          : `${definition} On this text: uniform attention ${percent(chance)}, threshold ${percent(mark)}.`,
      ),
    ]),
    element("dt", {}, "threshold"),
    element("dd", {}, page.thresholds),
  );
  body.append(
    element(
      "p",
      {},
      "Shares are averages on this text over the rows in which the behavior is possible. The bar is the share of the head, ",
      "the short mark below it the share of uniform attention, the vertical line the threshold, also given as the second ",
      "number. A head is classified as the behavior that exceeds its threshold most, or as mixed if none does. Thresholds ",
      "depend on the text, since they are relative to uniform attention.",
    ),
    element("div", { class: "field" }, element("label", { for: "sort" }, "Sort by"), sort),
    layers * heads > MANY_CARDS
      ? element("div", { class: "scroll", tabindex: 0, "data-scrolls": true, role: "region", "aria-label": "Heads" }, list)
      : list,
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
      const reason = element("p", { class: "reason" });
      const shares = element("dl", { class: "shares" });
      const card = element("li", { "data-head": `${layer}.${head}` }, button, reason, shares);
      cards.push({ layer, head, card, kind, button, reason, shares, measured: null });
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
      one.reason.textContent = one.measured.reason;
      one.card.classList.toggle("mixed", one.measured.kind === "mixed");
      one.shares.replaceChildren(
        ...page.behaviors.flatMap(({ key, name, mark, chance, without }) => {
          const share = one.measured.shares[key];
          if (share === null) return [element("dt", {}, name), element("dd", { class: "without" }, without)];
          const over = share >= mark;
          const bar = element("span", { class: "meter" + (over ? " over" : ""), "aria-hidden": "true" });
          bar.style.setProperty("--share", share);
          bar.style.setProperty("--mark", mark);
          bar.style.setProperty("--chance", chance);
          const value = element("span", { class: "value", "data-share": key }, percent(share));
          const needed = element("span", { class: "needed" }, `from ${percent(mark)}`);
          return [element("dt", {}, name), element("dd", {}, bar, value, needed)];
        }),
      );
    }
    if (state.step !== shown) order();
    shown = state.step;
  };
}
