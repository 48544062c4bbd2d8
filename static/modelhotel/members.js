"use strict";
// Buttons that move a member up or down; the position numbers follow, and are what is sent.
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("[data-members]")) {
    const body = box.querySelector("tbody");
    const live = box.querySelector(".mh-told");
    const rows = () => Array.from(body.querySelectorAll("tr")).filter((row) => row.querySelector(".mh-at"));

    const renumber = () => {
      const all = rows();
      all.forEach((row, index) => {
        row.querySelector(".mh-at").value = index + 1;
        row.querySelector(".mh-up").disabled = index === 0;
        row.querySelector(".mh-down").disabled = index === all.length - 1;
      });
    };

    const move = (row, up) => {
      const other = up ? row.previousElementSibling : row.nextElementSibling;
      if (!other) return;
      if (up) body.insertBefore(row, other);
      else body.insertBefore(other, row);
      renumber();
      const button = row.querySelector(up ? ".mh-up" : ".mh-down");
      (button.disabled ? row.querySelector(up ? ".mh-down" : ".mh-up") : button).focus();
      const place = rows().indexOf(row) + 1;
      live.textContent = `${row.querySelector(".mh-member").textContent} is now at position ${place} of ${rows().length}`;
    };

    for (const row of rows()) {
      const name = row.querySelector(".mh-member").textContent;
      const cell = row.querySelector(".mh-at").parentElement;
      for (const [kind, sign, word] of [["mh-up", "↑", "up"], ["mh-down", "↓", "down"]]) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = `mh-move ${kind}`;
        button.textContent = sign;
        button.setAttribute("aria-label", `Move ${name} ${word}`);
        button.addEventListener("click", () => move(row, kind === "mh-up"));
        cell.append(button);
      }
    }
    if (rows().length) renumber();

    const adds = box.querySelector(".mh-adds");
    if (adds && adds.querySelector("select")) {
      const more = document.createElement("button");
      more.type = "button";
      more.className = "mh-more";
      more.textContent = "One more";
      more.addEventListener("click", () => {
        const copy = adds.querySelector("select").cloneNode(true);
        copy.value = "";
        adds.insertBefore(copy, more);
        copy.focus();
      });
      adds.append(more);
    }
  }
});
