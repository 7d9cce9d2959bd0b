"""Strict JSON schemas for kubeconform, from the OpenAPI document of Kubernetes and from CRDs.

A schema allows no field that its source does not name. It does not hold CEL rules and defaults of a CRD, and knows the
one version of Kubernetes that the test cluster has.
"""

import json

import yaml

LOCATION = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"  # kubeconform's name of a schema
DRAFT = "http://json-schema.org/draft-04/schema#"  # the one whose exclusiveMinimum is a boolean, as in OpenAPI
KEPT = {"enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "maxItems", "maxLength", "maxProperties",
        "minimum", "minItems", "minLength", "minProperties", "multipleOf", "pattern", "required", "type", "uniqueItems"}
OBJECT_META = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
# Parts of a TrainingJob that its CRD leaves open, because the operator hands them on to Kubernetes.
PARTS_OF_PODS = {("volumes", "items"): "io.k8s.api.core.v1.Volume",
                 ("podTemplate", "properties", "spec"): "io.k8s.api.core.v1.PodSpec"}


def strict(schema, closed=True):
    """A schema of OpenAPI as a JSON schema. The branches of anyOf and its like only narrow: they stay open."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    made = {key: value for key, value in schema.items() if key in KEPT}
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            made[key] = [strict(branch, closed=False) for branch in schema[key]]
    if "not" in schema:
        made["not"] = strict(schema["not"], closed=False)
    if "items" in schema:
        made["items"] = strict(schema["items"], closed)
    if "properties" in schema:
        made["properties"] = {name: strict(value, closed) for name, value in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = strict(schema["additionalProperties"], closed)
    elif closed and "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        made.pop("format", None)
        made["type"] = ["integer", "string"]
    return made


def definitions_of(swagger):
    """name -> strict schema of each type of Kubernetes."""
    made = {name: strict(schema) for name, schema in swagger["definitions"].items()}
    made["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["number", "string"]}
    made["io.k8s.apimachinery.pkg.runtime.RawExtension"] = {"type": "object"}
    return made


def without_required(schema):
    """The same for a patch, which need not have every field."""
    if isinstance(schema, list):
        return [without_required(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_required(value) for key, value in schema.items()
            if key != "required" or not isinstance(value, list)}


def custom_kind(crd, version, definitions):
    """The strict schema of one version of a CRD."""
    source = version["schema"]["openAPIV3Schema"]
    schema = strict(source)
    schema["properties"].update(apiVersion={"type": "string"}, kind={"type": "string"},
                                metadata={"allOf": [OBJECT_META,
                                                    strict(source["properties"].get("metadata", {}), False)]})
    if crd["spec"]["names"]["kind"] == "TrainingJob":
        definitions = without_required(definitions)
        for path, name in PARTS_OF_PODS.items():
            at = schema["properties"]["spec"]["properties"]
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = {"$ref": f"#/definitions/{name}"}
    return {**schema, "definitions": definitions}


def write(folder, sources, our_crd):
    """Writes a schema for each kind of these files into the folder; returns the --schema-location of kubeconform."""
    swagger = json.loads(sources[0].read_text())
    definitions = definitions_of(swagger)
    (folder / "definitions.json").write_text(json.dumps({"$schema": DRAFT, "definitions": definitions}))

    def put(group, version, kind, schema):
        path = folder / f"{group or version}_{version}_{kind.lower()}.json"
        path.write_text(json.dumps({"$schema": DRAFT, **schema}))

    for name, schema in swagger["definitions"].items():
        for known in schema.get("x-kubernetes-group-version-kind", ()):
            put(known["group"], known["version"], known["kind"],
                {"$ref": f"{folder}/definitions.json#/definitions/{name}"})
    for source in [*sources[1:], our_crd]:
        crd = yaml.load(source.read_text(), yaml.CSafeLoader)
        for version in crd["spec"]["versions"]:
            put(crd["spec"]["group"], version["name"], crd["spec"]["names"]["kind"],
                custom_kind(crd, version, definitions))
    return f"{folder}/{LOCATION}"
