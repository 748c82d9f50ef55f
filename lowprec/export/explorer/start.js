"use strict";
// Fill the lists, listen, and show what the address says.

byId("format").append(...Object.keys(FORMATS).map((name) => element("option", name, { value: name })));
byId("format").onchange = (event) => update({ format: event.target.value });
byId("block").append(...Object.keys(DATA.blocks).map((name) => element("option", name, { value: name })));
byId("rule").append(...DATA.rules.map(({ name }) => element("option", name, { value: name })));
byId("block").onchange = (event) => update({ block: event.target.value, rule: DATA.blocks[event.target.value].rule });
byId("rule").onchange = (event) => update({ rule: event.target.value });
byId("values").oninput = (event) => update({ values: event.target.value });
byId("number").oninput = (event) => update({ number: event.target.value });
window.addEventListener("hashchange", restore);
restore();
