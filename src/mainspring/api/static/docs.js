"use strict";
// The page to try the API: reads /openapi.json and makes a form of each operation. Everything is put in as text.

// The prefix under which the service is mounted.
const prefix = location.pathname.replace(/\/docs$/, "");

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

const resolve = (spec, schema) => {
  let found = schema;
  while (found && found.$ref) found = found.$ref.slice(2).split("/").reduce((at, step) => at[step], spec);
  return found || {};
};

const example = (spec, schema, depth = 0) => {
  const found = resolve(spec, schema);
  if (found.examples && found.examples.length) return found.examples[0];
  if (found.example !== undefined) return found.example;
  if (found.default !== undefined) return found.default;
  if (found.enum) return found.enum[0];
  const choice = (found.anyOf || found.oneOf || []).find((one) => one.type !== "null");
  if (choice) return example(spec, choice, depth);
  if (found.type === "array") return depth > 3 ? [] : [example(spec, found.items, depth + 1)];
  if (found.type === "object" || found.properties) {
    const required = found.required || [];
    return Object.fromEntries(required.map((name) => [name, example(spec, found.properties[name], depth + 1)]));
  }
  return { string: "text", integer: 1, number: 1, boolean: true }[found.type] ?? null;
};

const bodyOf = (spec, operation) => {
  const content = operation.requestBody && operation.requestBody.content;
  if (!content) return null;
  const type = content["application/json"] ? "application/json" : Object.keys(content)[0];
  const media = content[type];
  const named = media.examples && Object.values(media.examples)[0];
  const value = named ? named.value : media.example !== undefined ? media.example : example(spec, media.schema);
  return { type, text: typeof value === "string" ? value : JSON.stringify(value, null, 2) };
};

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const curl = (method, url, headers, body) =>
  [`curl -X ${method} ${quoted(location.origin + prefix + url)}`]
    .concat(Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${name === "Authorization" ? "Bearer $KEY" : value}`)}`))
    .concat(body ? [`-d ${quoted(body)}`] : [])
    .join(" \\\n  ");

const collect = (path, fields) => {
  const query = new URLSearchParams();
  let url = path;
  for (const { parameter, input } of fields) {
    if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (parameter.in === "query" && input.value !== "") query.append(parameter.name, input.value);
  }
  return query.size ? `${url}?${query}` : url;
};

const send = async (method, path, fields, body, area, shown) => {
  const headers = {};
  const key = document.getElementById("key").value.trim();
  if (key) headers.Authorization = `Bearer ${key}`;
  for (const { parameter, input } of fields) if (parameter.in === "header" && input.value) headers[parameter.name] = input.value;
  if (body) headers["Content-Type"] = body.type;
  const url = collect(path, fields);
  const text = body ? area.value : undefined;
  shown.textContent = `${curl(method, url, headers, text)}\n\n…`;
  try {
    const answer = await fetch(prefix + url, { method, headers, body: text });
    const said = await answer.text();
    let pretty = said;
    try { pretty = JSON.stringify(JSON.parse(said), null, 2); } catch { /* no JSON: shown as it is */ }
    shown.textContent = `${curl(method, url, headers, text)}\n\nHTTP ${answer.status} ${answer.statusText}\n${pretty}`;
  } catch (error) {
    shown.textContent = `${curl(method, url, headers, text)}\n\n${error}`;
  }
};

const formOf = (spec, method, path, operation) => {
  const fields = (operation.parameters || []).map((given) => {
    const parameter = resolve(spec, given);
    const input = make("input", { name: parameter.name, required: Boolean(parameter.required) });
    return { parameter, input };
  });
  const body = bodyOf(spec, operation);
  const area = body && make("textarea", { value: body.text, spellcheck: false, ariaLabel: "body" });
  const shown = make("pre", { hidden: true });
  const form = make("form", {}, make("p", { textContent: operation.description || "" }));
  for (const { parameter, input } of fields) {
    form.append(make("label", {}, make("span", { textContent: `${parameter.name}${parameter.required ? " *" : ""}` }), input,
      make("small", { textContent: parameter.description || "" })));
  }
  if (area) form.append(area);
  form.append(make("button", { type: "submit", textContent: "Send" }), shown);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    shown.hidden = false;
    send(method.toUpperCase(), path, fields, body, area, shown);
  });
  return form;
};

const entry = (spec, method, path, operation) => {
  const details = make("details", {}, make("summary", {},
    make("span", { className: `method ${method}`, textContent: method.toUpperCase() }),
    make("code", { textContent: path }), make("span", { textContent: operation.summary || "" })));
  details.dataset.words = `${method} ${path} ${operation.summary || ""} ${operation.description || ""}`.toLowerCase();
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(formOf(spec, method, path, operation));
  });
  return details;
};

// What most people come for first, then by the alphabet.
const inOrder = (groups) =>
  [...groups].sort(([one], [other]) => (other === "jobs") - (one === "jobs") || one.localeCompare(other));

const show = (spec) => {
  const groups = new Map();
  // The whole before its parts: /api/jobs, then /api/jobs/bulk, then /api/jobs/{id}.
  const paths = Object.entries(spec.paths).sort(([one], [other]) => (one < other ? -1 : 1));
  for (const [path, methods] of paths) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = (operation.tags && operation.tags[0]) || "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(entry(spec, method, path, operation));
    }
  }
  document.getElementById("about").textContent = spec.info.description || "";
  document.getElementById("operations").replaceChildren(
    ...inOrder(groups).flatMap(([tag, entries]) => [make("h2", { textContent: tag }), ...entries]));
};

const load = async () => {
  const key = document.getElementById("key").value.trim();
  const answer = await fetch(`${prefix}/openapi.json`, key ? { headers: { Authorization: `Bearer ${key}` } } : {});
  if (answer.ok) show(await answer.json());
  else document.getElementById("operations").replaceChildren(make("p", { textContent: (await answer.json()).detail }));
};

document.getElementById("key").addEventListener("change", load);
document.getElementById("find").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const details of document.querySelectorAll("details")) {
    details.hidden = !words.every((word) => details.dataset.words.includes(word));
  }
});
load();
