"use strict";
// Listen, and show what the address says.

function showTheme() {
  setField("theme", state.theme);
  if (state.theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", state.theme);
}

VIEWS.push(showTheme);
byId("theme").onchange = (event) => update({ theme: event.target.value });
listenToCode();
listenToDefinition();
listenToLine();
listenToTable();
listenToNumber();
listenToBlock();
byId("version").textContent = DATA.version;
window.addEventListener("hashchange", restore);
restore();
