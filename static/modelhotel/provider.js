"use strict";
// Choosing a type offers its usual address, unless something else was typed.
document.addEventListener("DOMContentLoaded", () => {
  const kind = document.querySelector("select[name=provider_type]");
  const address = document.querySelector("input[name=base_url]");
  if (!kind || !address) return;
  const known = new Set(Array.from(kind.options, (option) => option.dataset.address || ""));
  const offer = () => {
    const option = kind.selectedOptions[0];
    if (!option) return;
    address.placeholder = option.dataset.hint || option.dataset.address || "";
    if (known.has(address.value)) address.value = option.dataset.address || "";
  };
  kind.addEventListener("change", offer);
  if (!address.value) offer();
});
