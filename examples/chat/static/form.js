// A form made of the JSON schema of a question, and the answer that a person gives in it.

/** Fill an element with the fields of a schema; returns a function that reads the answer. */
export function fields(schema, place) {
  const root = resolved(schema, schema);
  const readers = Object.entries(root.properties ?? {}).map(([name, rule]) => {
    const read = field(name, resolved(rule, schema), (root.required ?? []).includes(name), place);
    return [name, read];
  });
  if (readers.length > 0) {
    return () => Object.fromEntries(readers.map(([name, read]) => [name, read()])
      .filter(([, value]) => value !== undefined));
  }
  return field("answer", root, true, place);
}

function resolved(rule, root) {
  const path = rule?.$ref?.match(/^#\/(.+)$/)?.[1].split("/") ?? [];
  return path.length > 0 ? path.reduce((part, key) => part?.[key], root) ?? {} : rule ?? {};
}

function field(name, rule, required, place) {
  const label = document.createElement("label");
  const title = document.createElement("span");
  title.textContent = rule.title ?? name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");
  const input = control(rule);
  input.name = name;
  if (rule.type === "boolean") {
    label.className = "check";
    label.append(input, title);
    input.checked = rule.default === true;
    place.append(label);
    return () => input.checked;
  }
  input.required = required;
  if (rule.default !== undefined && !rule.enum) input.value = rule.default ?? "";
  label.append(title, input);
  if (rule.description) label.append(hint(rule.description));
  place.append(label);
  return () => (input.value === "" && !required ? undefined : value(input.value, rule));
}

function control(rule) {
  if (rule.enum) {
    const select = document.createElement("select");
    select.append(...rule.enum.map((one, index) => new Option(String(one), String(index))));
    return select;
  }
  const input = document.createElement("input");
  if (rule.type === "boolean") input.type = "checkbox";
  else if (rule.type === "integer" || rule.type === "number") {
    input.type = "number";
    input.step = rule.type === "integer" ? "1" : "any";
    if (rule.minimum !== undefined) input.min = rule.minimum;
    if (rule.maximum !== undefined) input.max = rule.maximum;
  }
  return input;
}

function value(text, rule) {
  if (rule.enum) return rule.enum[Number(text)];
  if (rule.type === "integer" || rule.type === "number") return Number(text);
  if (rule.type === "string" || rule.type === undefined) return text;
  return JSON.parse(text); // a list or an object
}

function hint(text) {
  const small = document.createElement("small");
  small.textContent = text;
  return small;
}
