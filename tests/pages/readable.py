"""Text of a page that stands out too little from what is behind it (WCAG 2.2, 1.4.3)."""

#: JavaScript: a list of "ratio, element, text", one per kind of element. Left out: disabled controls, and what is not
#: seen at all. Backgrounds are mixed from the element upwards, opacities of all that is around it included.
FAINT = """() => {
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = colour;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => {
    const alpha = top[3] + under[3] * (1 - top[3]);
    const mixed = (n) => (top[n] * top[3] + under[n] * under[3] * (1 - top[3])) / alpha;
    return alpha ? [mixed(0), mixed(1), mixed(2), alpha] : top;
  };
  const light = (colour) => colour.slice(0, 3).reduce((sum, value, n) => {
    const part = value / 255;
    return sum + [0.2126, 0.7152, 0.0722][n] * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  }, 0);
  const found = new Map();
  const look = (element, text, colour) => {
    const box = element.getBoundingClientRect();
    const seen = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!seen || box.width < 2 || element.closest(":disabled, [aria-disabled=true], .mh-visually-hidden")) return;
    let [behind, opacity] = [[0, 0, 0, 0], 1];
    for (let at = element; at; at = at.parentElement) {
      opacity *= Number(getComputedStyle(at).opacity);
      if (behind[3] < 0.999) behind = over(behind, read(getComputedStyle(at).backgroundColor));
    }
    behind = over(behind, read("Canvas"));
    const own = read(colour);
    const [a, b] = [light(over([...own.slice(0, 3), own[3] * opacity], behind)), light(behind)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const kind = `${element.tagName}.${element.className}`;
    if (ratio < (large ? 3 : 4.5) - 0.005) found.set(kind, `${ratio.toFixed(2)} ${kind} ${text.trim().slice(0, 40)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.matches("script, style, option, noscript, template")) continue;
    look(element, texts.currentNode.data, getComputedStyle(element).color);
  }
  for (const field of document.querySelectorAll("input[placeholder]")) {
    if (!field.value) look(field, field.placeholder, getComputedStyle(field, "::placeholder").color);
  }
  return [...found.values()];
}"""
