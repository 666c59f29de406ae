"""Pulumi's published JSON schemas of a deployment, restated from their facts (sdk/go/common/apitype: deployments.json, resources.json,
property-values.json), and the fields of core.go's ResourceV3 that those schemas do not list yet."""

from typing import Any

from jsonschema import Draft202012Validator

SIGNATURE = "4dabf18193072939515e22adb298388d"
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


def _marked(signature: str, *alternatives: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A dictionary with a signature; exactly one of `alternatives` holds."""
    schema: dict[str, Any] = {"type": "object", "properties": {SIGNATURE: {"const": signature}, **fields}, "required": [SIGNATURE]}
    return {**schema, "oneOf": list(alternatives)} if alternatives else schema


def _only(name: str, type: dict[str, Any], *others: str) -> dict[str, Any]:
    return {"properties": {name: type, **dict.fromkeys(others, False)}, "required": [name]}


VALUE: dict[str, Any] = {
    "oneOf": [
        {"type": ["null", "boolean", "number", "string"], "not": {"const": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}},
        {"const": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"},
        {"type": "array", "items": {"$ref": "#/$defs/value"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}, "properties": {SIGNATURE: False}},
        _marked(
            "c44067f5952c0a294b673a41bacd8c17",
            _only("hash", TEXT, "text", "path", "uri"),
            _only("text", TEXT, "path", "uri"),
            _only("path", TEXT, "text", "uri"),
            _only("uri", TEXT, "text", "path"),
            hash=TEXT,
        ),
        _marked(
            "0def7320c3a5731c473e5ecbe6d01bc7",
            _only("hash", TEXT, "assets", "path", "uri"),
            _only("assets", {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}}, "path", "uri"),
            _only("path", TEXT, "assets", "uri"),
            _only("uri", TEXT, "assets", "path"),
            hash=TEXT,
        ),
        _marked("1b47061264138c4ac30d75fd1eb44270", _only("ciphertext", TEXT, "plaintext"), _only("plaintext", TEXT, "ciphertext")),
        {**_marked("5cf8f73096256a8f31e491e813e4eb8e", packageVersion=TEXT, urn=TEXT, id=TEXT), "required": [SIGNATURE, "urn"]},
    ]
}

LISTED: dict[str, Any] = {
    "urn": TEXT,
    "custom": {"type": "boolean"},
    "delete": {"type": "boolean"},
    "id": TEXT,
    "type": TEXT,
    "inputs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}},
    "outputs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}},
    "parent": TEXT,
    "protect": {"type": "boolean"},
    "external": {"type": "boolean"},
    "dependencies": TEXTS,
    "initErrors": TEXTS,
    "provider": TEXT,
    "propertyDependencies": {"type": "object", "additionalProperties": TEXTS},
    "pendingReplacement": {"type": "boolean"},
    "additionalSecretOutputs": TEXTS,
    "aliases": TEXTS,
    "customTimeouts": {"type": "object"},
    "importID": TEXT,
}
"""Fields of resources.json, which allows no others."""

UNLISTED: dict[str, Any] = {
    "retainOnDelete": {"type": "boolean"},
    "deletedWith": TEXT,
    "ignoreChanges": TEXTS,
    "replaceOnChanges": TEXTS,
    "replacementTrigger": {"$ref": "#/$defs/value"},
    "resourceHooks": {"type": "object", "additionalProperties": TEXTS},
}
"""Fields that core.go writes and resources.json does not list."""


def validator(*, extended: bool = False) -> Draft202012Validator:
    """Of `{"version": 3, "deployment": ...}`; `extended` allows the unlisted fields too."""
    resource = {
        "type": "object",
        "properties": {**LISTED, **(UNLISTED if extended else {})},
        "additionalProperties": False,
        "required": ["urn"],
    }
    manifest = {
        "type": "object",
        "properties": {"time": {"type": "string", "format": "date-time"}, "magic": TEXT, "version": TEXT, "plugins": {"type": "array"}},
        "required": ["time", "magic", "version"],
        "additionalProperties": False,
    }
    operation = {
        "type": "object",
        "properties": {"resource": {"$ref": "#/$defs/resource"}, "type": {"enum": ["creating", "updating", "deleting", "reading"]}},
        "required": ["resource", "type"],
        "additionalProperties": False,
    }
    deployment = {
        "type": "object",
        "properties": {
            "manifest": manifest,
            "secrets_providers": {
                "type": "object",
                "properties": {"type": TEXT, "state": True},
                "required": ["type"],
                "additionalProperties": False,
            },
            "resources": {"type": "array", "items": {"$ref": "#/$defs/resource"}},
            "pending_operations": {"type": "array", "items": operation},
        },
        "required": ["manifest"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {"version": {"const": 3}, "deployment": deployment},
        "required": ["version", "deployment"],
        "additionalProperties": False,
        "$defs": {"value": VALUE, "resource": resource},
    }
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
