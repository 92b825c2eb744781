// Creation of elements, and formatting of tokens and numbers. Text is inserted as text nodes, never parsed as HTML.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const NAMED = { "\t": "⇥", "\n": "⏎", "\r": "␍", " ": "␣", "\u00a0": "⍽", "\u200d": "ZWJ", "\ufe0f": "VS16" };
const SPOKEN = { "\t": "tab", "\n": "newline", "\r": "carriage return", " ": "space", "\u00a0": "no-break space" };

const code = (character) => "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

// A visible glyph for every character of a token; spaces, control characters and combining marks are substituted.
export function glyph(token) {
  return [...token].map((character, i) => glyphOf(character, i > 0)).join("");
}

function glyphOf(character, follows) {
  if (character in NAMED) return NAMED[character];
  const point = character.codePointAt(0);
  if (point < 32) return String.fromCodePoint(0x2400 + point);
  if (/^\p{M}/u.test(character)) return follows ? character : "◌" + character;
  if (/^[\p{C}\p{Z}]/u.test(character)) return code(character);
  return character;
}

// The glyphs of a token, shortened to the space of a label on an axis.
export function label(token, longest = 7) {
  const glyphs = [...glyph(token)];
  return glyphs.length > longest ? glyphs.slice(0, longest - 1).join("") + "…" : glyphs.join("");
}

export function spoken(token) {
  const characters = [...token];
  if (characters.length === 1) return spokenOf(token);
  return characters.map((character) => (character in SPOKEN ? ` ${SPOKEN[character]} ` : character)).join("").trim();
}

function spokenOf(character) {
  return SPOKEN[character] ?? (/^[\p{C}\p{Z}\p{M}]/u.test(character) ? code(character) : character);
}

export function number(value, figures = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === -Infinity) return "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text =
    size >= 1e-3 && size < 1e5 ? value.toPrecision(figures) : value.toExponential(figures - 1);
  return text.replace("-", "−").replace("e-", "e−").replace("e+", "e");
}

export const percent = (value) => (value === null ? "–" : (100 * value).toFixed(value > 0.0995 ? 0 : 1) + " %");
