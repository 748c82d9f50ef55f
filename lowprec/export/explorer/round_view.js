"use strict";
// A number that is typed, rounded in every way.

function answer(value, fmt, how) {
  try {
    const code = project(value, fmt, how);
    const button = element("button", "", { type: "button", class: "answer" });
    button.append(element("b", codeText(code, fmt)), element("span", ` ${hexCode(code, fmt)}`));
    button.onclick = () => update({ code });
    return button;
  } catch (error) {
    if (error instanceof Refused) return error.message;
    throw error;
  }
}

function resultOf(value, fmt, how) {
  try { return project(value, fmt, how); } catch (error) {
    if (error instanceof Refused) return error.message;
    throw error;
  }
}

function showRounded() {
  const fmt = currentFormat(), typed = parse(state.number);
  if (document.activeElement !== byId("number")) setField("number", state.number);
  byId("number").setAttribute("aria-invalid", typed === null);
  byId("number-error").textContent = typed === null ? "That is no number, or one that is too long." : "";
  if (typed === null) {
    byId("rounded").replaceChildren();
    byId("profiles").replaceChildren();
    return;
  }
  table("rounded", `${state.number} under each rounding mode and saturation`, ["rounding mode", ...DATA.saturations.map((name) => `saturation: ${name}`)],
    DATA.modes.map((rounding) => [
      words(rounding.name),
      ...DATA.saturations.map((saturation) => answer(typed, fmt, { ...DEFAULT, rounding, saturation })),
    ]));
  showProfiles(typed, fmt);
}

// Profiles with the same answer stand side by side.
function showProfiles(typed, fmt) {
  const groups = new Map();
  for (const [name, of] of Object.entries(DATA.profiles)) {
    if (!has(of.formats, state.format)) continue;
    const how = makeProjection(of.formats[state.format]), result = resultOf(typed, fmt, how);
    if (!groups.has(result)) groups.set(result, { how, names: [] });
    groups.get(result).names.push({ name, versions: of.versions });
  }
  const rows = [...groups.values()].map(({ how, names }) => {
    const list = element("ul", "", { class: "chips" });
    list.append(...names.map(({ name, versions }) => element("li", versions ? `${name} (${versions})` : name)));
    return [answer(typed, fmt, how), list];
  });
  if (rows.length) table("profiles", `${state.number} under each profile`, ["result", "profiles"], rows);
  else byId("profiles").replaceChildren();
  byId("profiles-said").textContent = rows.length ? (rows.length === 1 ? "All profiles agree." : `${rows.length} different results.`) : `No profile has ${state.format}.`;
}

function listenToNumber() {
  byId("number").oninput = (event) => update({ number: event.target.value });
}

VIEWS.push(showRounded);
