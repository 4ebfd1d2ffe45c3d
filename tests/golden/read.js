// The words of what is visible, in order: text, labels, alternatives of pictures, values of inputs.
(root) => {
  let words = [];
  const seen = (text) => text?.trim() && words.push(text.trim().replace(/\s+/g, " "));
  document.querySelectorAll("details").forEach((details) => (details.open = true));

  function read(element) {
    if (["SCRIPT", "STYLE", "TEMPLATE"].includes(element.tagName)) return;
    const hasBox = getComputedStyle(element).display !== "contents" && element.tagName !== "BODY";
    if (hasBox && !element.checkVisibility({ visibilityProperty: true })) return;
    seen(element.getAttribute("aria-label") ?? element.getAttribute("alt"));
    if (element.tagName === "SELECT") return seen(element.selectedOptions[0]?.text);
    if (element.tagName === "INPUT")
      return seen(/radio|checkbox/.test(element.type) ? (element.checked ? "[x]" : "[ ]") : element.value);
    if (element.tagName === "TEXTAREA") return seen(element.value);
    if (element.tagName === "svg") return;
    const before = words;
    if (element.tagName === "TR") words = [];
    for (const node of element.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) seen(node.data);
      else if (node.nodeType === Node.ELEMENT_NODE) read(node);
    }
    if (element.tagName === "TR") words = [...before, words.join("  ")];  // one line a row
  }

  read(document.querySelector(root));
  return words.join("\n");
}
