// Table of predictions: per position the target, the most likely tokens, and the loss.
import { element, glyph, number, percent, spoken } from "./show.js";

export function mountPredictions({ page, store, go }) {
  const body = document.querySelector("#predictions .body");
  document.getElementById("predictions-title").textContent = `Predicted ${page.unit}s`;
  const highest = Math.max(...page.predictions.map(({ loss }) => loss ?? 0));
  const tops = page.predictions[0].top.length;
  const rows = page.predictions.map(({ loss, probability, top }, i) => {
    const next = page.expected[i];
    const bar = element("span", { class: "meter loss", "aria-hidden": "true" });
    bar.style.setProperty("--share", (loss ?? 0) / highest);
    const choose = element("button", { type: "button", onclick: () => go({ row: store.get().row === i ? null : i }) }, String(i));
    choose.setAttribute("aria-label", `position ${i}: lock its row`);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, choose),
      element("td", { class: "glyph" }, glyph(page.characters[i])),
      element("td", { class: "glyph" }, next === null ? "?" : glyph(next)),
      element("td", {}, percent(probability)),
      element("td", {}, element("div", { class: "cost" }, bar, number(loss, 3))),
      ...top.map(([character, share]) => {
        const hit = character === next;
        const cell = element(
          "td",
          { class: "guess" + (hit ? " hit" : ""), title: `${spoken(character)}: ${percent(share)}${hit ? ", the target" : ""}` },
          element("span", { class: "glyph" }, glyph(character)),
          element("span", { class: "value" }, percent(share)),
        );
        cell.style.setProperty("--share", share);
        return cell;
      }),
    );
  });
  const names = ["position", page.unit, "target", "p(target)", "loss (nats)", ...Array.from({ length: tops }, (_, k) => (k ? `guess ${k + 1}` : "first guess"))];
  const table = element(
    "table",
    { id: "predictions-table" },
    element("caption", {}, `Mean loss ${number(page.loss)} nats per ${page.unit}, over ${page.expected.filter((one) => one !== null).length} ${page.unit}s`),
    element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows),
  );
  body.append(
    element("p", {}, "The target is framed among the guesses. Click a position to lock its row in the maps."),
    element("div", { class: "scroll", tabindex: 0, "data-scrolls": true, role: "region", "aria-label": "Predictions" }, table),
  );
  return (state) => rows.forEach((row, i) => row.classList.toggle("locked", i === state.row));
}
