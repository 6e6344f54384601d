// What pages do better with a script, and do without one too.
"use strict";

const MINUTE = {
  ...{ day: "numeric", month: "short", year: "numeric" },
  ...{ hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" },
};

function shown(moment) {
  const parts = {};
  for (const { type, value } of new Intl.DateTimeFormat("en-US", MINUTE).formatToParts(moment)) {
    parts[type] = value;
  }
  const day = `${parts.day} ${parts.month} ${parts.year}`;
  return `${day}, ${parts.hour}:${parts.minute} ${parts.timeZoneName}`;
}

// Times in the zone of whoever looks; their titles keep UTC. Days are those of the person whose data it is.
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (!time.dateTime || Number.isNaN(moment.getTime()) || time.dataset.shows === "day") continue;
    time.textContent = shown(moment);
  }
}

// A file is read here and sent as text, so that it can be looked at before.
function fill(field) {
  const file = field.files[0];
  if (!file) return;
  file.text().then((text) => {
    document.getElementById(field.dataset.fills).value = text;
    const named = document.getElementById(field.dataset.names);
    if (!named.value) named.value = file.name;
  });
}

// Fields that say nothing do not belong into an address.
function drop_empty(data) {
  for (const [name, value] of [...data.entries()]) if (value === "") data.delete(name);
}
document.addEventListener("formdata", (event) => {
  if (event.target.method === "get") drop_empty(event.formData);
});
document.addEventListener("htmx:configRequest", (event) => drop_empty(event.detail.formData));

localise(document);
document.addEventListener("htmx:load", (event) => localise(event.target));
for (const field of document.querySelectorAll("input[data-fills]")) {
  field.parentElement.hidden = false;
  field.addEventListener("change", () => fill(field));
}
