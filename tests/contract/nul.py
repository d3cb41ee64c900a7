"""Sends U+0000 in every text that the OpenAPI document lets a client send, one place at a time. No answer may be a server's fault: 500 where the database
can't store it is what this looks for."""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

ADDRESS = os.environ["HARK_CONTRACT_ADDRESS"]
KEY = os.environ["HARK_CONTRACT_KEY"]
NUL = "a\0b"
# 503 is what paths without a model answer (docs/users/api.md, "Not here yet").
FAULTS = {500, 502, 504}
addresses = iter(range(1, 1 << 24))


def send(method, path, body=None, content_type="application/json", with_key=True):
    number = next(addresses)
    headers = {"X-Forwarded-For": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"}
    if with_key:
        headers["Authorization"] = f"Bearer {KEY}"
    if body is not None:
        headers["Content-Type"] = content_type
    request = urllib.request.Request(ADDRESS + path, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def resolve(document, schema):
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def sample(document, schema, depth=0):
    """A value that has the form of a schema, with NUL in every text that is free."""
    schema = resolve(document, schema)
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema:
            choices = [one for one in schema[word] if one.get("type") != "null"]
            return sample(document, choices[0], depth + 1) if choices else None
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    if kind == "object" or "properties" in schema:
        if "properties" not in schema:
            return {NUL: NUL}
        return {name: sample(document, one, depth + 1) for name, one in schema["properties"].items()} if depth < 5 else {}
    if kind == "array":
        return [sample(document, schema.get("items", {}), depth + 1)]
    return {"string": NUL, "integer": 1, "number": 1, "boolean": True}.get(kind)


def texts(value):
    """The ways to the texts of a value."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from ((name, *way) for way in texts(one))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from ((index, *way) for way in texts(one))
    elif value == NUL:
        yield ()


def with_nul_at(value, way, place=()):
    if isinstance(value, dict):
        return {name: with_nul_at(one, way, (*place, name)) for name, one in value.items()}
    if isinstance(value, list):
        return [with_nul_at(one, way, (*place, index)) for index, one in enumerate(value)]
    return value if value != NUL or place == way else "correct horse battery staple 9"


def main():
    document = json.load(open(sys.argv[1]))
    sent, wrong = 0, []

    def look(what, *arguments, **named):
        nonlocal sent
        for with_key in (True, False):
            sent += 1
            status = send(*arguments, with_key=with_key, **named)
            if status in FAULTS:
                wrong.append(f"{what}: {status}")

    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method not in ("get", "post", "put", "patch", "delete"):
                continue
            name = f"{method.upper()} {path}"
            filled = path
            parameters = [resolve(document, one) for one in operation.get("parameters", [])]
            for parameter in (one for one in parameters if one["in"] == "path"):
                filled = filled.replace("{" + parameter["name"] + "}", "1")
                look(f"{name} {parameter['name']}", method.upper(), path.replace("{" + parameter["name"] + "}", "a%00b").replace("{", "").replace("}", ""))
            for parameter in (one for one in parameters if one["in"] == "query"):
                query = urllib.parse.urlencode({parameter["name"]: NUL})
                look(f"{name} ?{parameter['name']}", method.upper(), f"{filled}?{query}")
            content = operation.get("requestBody", {}).get("content", {})
            for content_type, media in content.items():
                body = sample(document, media.get("schema", {}))
                for way in texts(body):
                    whole = with_nul_at(body, way)
                    if content_type.startswith("multipart/") and isinstance(whole, dict):
                        parts = [f'--x\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{one}\r\n' for field, one in whole.items()]
                        look(f"{name} {way}", method.upper(), filled, "".join([*parts, "--x--\r\n"]).encode(), f"{content_type}; boundary=x")
                    else:
                        look(f"{name} {way}", method.upper(), filled, json.dumps(whole).encode())
    print(f"U+0000: {sent} requests, {len(wrong)} server faults")
    for line in wrong:
        print(f"  {line}")
    sys.exit(1 if wrong or sent < 100 else 0)


main()
