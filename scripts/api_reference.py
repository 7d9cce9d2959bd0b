#!/usr/bin/env python3
"""Writes docs/api.md, the reference of the TrainingJob API, from manifests/crd.yaml.

  scripts/api_reference.py            writes it
  scripts/api_reference.py --check    only says whether it is up to date (exit 1 if not)
"""

import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api.md"
HEAD = """# API reference: TrainingJob

`lockstep.dev/v1alpha1`, generated from `manifests/crd.yaml` by `scripts/api_reference.py`. On a
cluster, `kubectl explain trainingjob.spec` says the same. `examples/` has a job for each feature,
and `lockstep validate job.yaml` checks a file without a cluster.
"""
BOUNDS = {
    "minimum": "≥ {}", "maximum": "≤ {}", "minLength": "≥ {} characters", "maxLength": "≤ {} characters",
    "minItems": "≥ {} items", "maxItems": "≤ {} items", "maxProperties": "≤ {} entries", "pattern": "`{}`",
}


def cell(text):
    """One line of Markdown that cannot end its table cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def literal(value):
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def inner(schema):
    """The schema of what a list or map holds; the schema itself for everything else."""
    extra = schema.get("additionalProperties")
    return schema.get("items") or (extra if isinstance(extra, dict) else None) or schema


def type_of(schema):
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    name = "time" if schema.get("format") == "date-time" else schema.get("type", "any")
    if name == "array":
        return f"list of {type_of(schema['items'])}"
    if name == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {type_of(schema['additionalProperties'])}"
    return name


def bounds_of(schema, required):
    found = ["required"] if required else []
    if "enum" in schema:
        found.append(", ".join(literal(word) for word in schema["enum"]))
    found += [form.format(schema[key]) for key, form in BOUNDS.items() if key in schema]
    return cell("; ".join(found))


def section(path, schema):
    """The table of one object's fields, and then the sections of the objects among them."""
    lines, nested = [f"\n## `{path}`\n"], []
    lines += ["| field | type | default | bounds | meaning |", "|---|---|---|---|---|"]
    for name, field in schema["properties"].items():
        default = field.get("default")
        shown = literal(default) if default is not None and not isinstance(default, (dict, list)) else ""
        if inner(field).get("properties"):
            nested.append((f"{path}.{name}" + ("[]" if field.get("type") == "array" else ""), inner(field)))
        bounds = bounds_of(field, name in schema.get("required", []))
        lines.append(f"| `{name}` | {type_of(field)} | {shown} | {bounds} | {cell(field.get('description', ''))} |")
    return lines + [line for item in nested for line in section(*item)]


def rules(path, schema):
    """The messages of the validation rules of an object and of all below it."""
    for rule in schema.get("x-kubernetes-validations", []):
        yield f"| `{path}{rule.get('fieldPath', '')}` | {cell(rule['message'])} |"
    for name, field in schema.get("properties", {}).items():
        below = (f"{path}." if path else "") + name + ("[]" if field.get("type") == "array" else "")
        yield from rules(below, inner(field))


def page(crd):
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    lines = [HEAD.rstrip("\n")]
    for part in ("spec", "status"):
        lines += section(part, schema["properties"][part])
    lines += ["\n## Rules between fields\n"]
    lines += ["The API server and `lockstep validate` refuse a job with these messages.\n"]
    lines += ["| field | message |", "|---|---|", *(re.sub(r"^\| `\.", "| `", line) for line in rules("", schema))]
    return "\n".join(lines) + "\n"


def main():
    text = page(yaml.safe_load((ROOT / "manifests/crd.yaml").read_text()))
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif not PAGE.is_file() or PAGE.read_text() != text:
        print("docs/api.md differs from manifests/crd.yaml; run scripts/api_reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
