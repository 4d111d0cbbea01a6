"""Writes the generated part of this package from the description of the API.

    weir node --openapi | python generate.py [--check]

models.py is datamodel-code-generator's; the methods of AsyncOperations follow from the
operations; all that is not asynchronous follows from what is. With --check, nothing is
written, and a file that is not as it would be written is an error.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import unasync

SOURCE = Path(__file__).parent / "src" / "weir"
HEADER = "# Written by generate.py: change that, or what it reads.\n"

# Operations whose answers are lists that grow.
GROWING = {"act-on-guests", "create-guests"}

# What is of another name where it is not asynchronous.
SYNC = {
    "_async": "_sync",
    "AsyncClient": "Client",
    "AsyncOperations": "Operations",
    "AsyncHTTPTransport": "HTTPTransport",
    "aclose": "close",
    "aiter_text": "iter_text",
    "anyio": "time",
    "aread": "read",
}


def snake(name: str) -> str:
    return name.replace("-", "_")


def simplified(schema: Any) -> Any:
    """A schema without what the node alone checks, with Python's names of properties."""
    if isinstance(schema, list):
        return [simplified(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {"minimum", "maximum", "format", "propertyNames", "example", "examples"}
    if schema.get("additionalProperties") is False:
        dropped.add("additionalProperties")
    simple = {key: value for key, value in schema.items() if key not in dropped}
    if None in simple.get("enum", []):
        # A field that need not be given may be None anyway.
        simple["enum"] = [value for value in simple["enum"] if value is not None]
        simple["type"] = next(kind for kind in simple["type"] if kind != "null")
    for key, value in simple.items():
        if key == "properties":
            simple[key] = {snake(name): simplified(part) for name, part in value.items()}
        elif key == "required":
            simple[key] = [snake(name) for name in value]
        elif key not in ("default", "enum"):
            simple[key] = simplified(value)
    return simple


def models(description: dict[str, Any]) -> str:
    schemas = description["components"]["schemas"]
    schemas = {name: simplified(schema) for name, schema in schemas.items()}
    simple = {
        "openapi": description["openapi"],
        "info": description["info"],
        "paths": {},
        "components": {"schemas": schemas},
    }
    options = """
        --input-file-type openapi --output-model-type pydantic_v2.BaseModel
        --base-class weir._model.Model --target-python-version 3.11 --strict-nullable
        --use-schema-description --use-field-description --use-single-line-docstring
        --use-union-operator --use-standard-collections --enum-field-as-literal none
        --deserialize-default-values enum --disable-timestamp --formatters builtin
    """
    command = [sys.executable, "-m", "datamodel_code_generator", *options.split()]
    command += ["--custom-file-header", HEADER]
    text = json.dumps(simple)
    output = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    text = output.stdout
    for name, schema in description["components"]["schemas"].items():
        # Not in kebab-case, as those of other classes are.
        if any("_" in field for field in schema.get("properties", {})):
            text = text.replace(f"class {name}(Model", f"class {name}(Model, alias_generator=None")
    head, classes = text.split("\n\n\nclass ", 1)
    names = re.findall(r"^(?:class )?(\w+)\(", classes, re.MULTILINE)
    return f"{head}\n\n__all__ = {sorted(names)}\n\n\nclass {classes}"


def type_of(schema: dict[str, Any] | None) -> str:
    """The type of a body or an answer."""
    if schema is None:
        return "None"
    if "anyOf" in schema:
        # Others are the same with less.
        return type_of(schema["anyOf"][0])
    if "$ref" in schema:
        return f"models.{schema['$ref'].rsplit('/', 1)[1]}"
    if schema.get("type") == "array":
        return f"list[{type_of(schema['items'])}]"
    return "dict[str, Any]"


def parameter_type(schema: dict[str, Any]) -> str:
    """The type of a parameter of the query."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return next({"boolean": "bool", "integer": "int"}.get(kind, "str") for kind in kinds)


def content(part: dict[str, Any]) -> dict[str, Any] | None:
    content = part.get("content", {}).get("application/json", {})
    schema: dict[str, Any] | None = content.get("schema")
    return schema


def methods_of(verb: str, path: str, operation: dict[str, Any]) -> list[str]:
    """The methods for an operation: one, and one more if its answer can be followed."""
    identifier = operation["operationId"]
    success = next(value for key, value in operation["responses"].items() if key < "300")
    is_followed = "text/event-stream" in success.get("content", {})
    arguments, options, query = ["self"], [], []
    for parameter in operation.get("parameters", []):
        name = snake(parameter["name"])
        if parameter["in"] == "path":
            arguments.append(f"{name}: str")
        elif parameter["in"] == "query" and not (is_followed and name == "follow"):
            options.append(f"{name}: {parameter_type(parameter['schema'])} | None = None")
            query.append(f'"{parameter["name"]}": {name}')
    # Each parameter of the path is quoted, so that any name is one segment.
    path = re.sub(r"\{(\w+)\}", r"{segment(\1)}", path)
    asked = [f'"{verb.upper()}"', f'{"f" if "{" in path else ""}"{path}"']
    if "requestBody" in operation:
        arguments.append(f"body: {type_of(content(operation['requestBody']))}")
        asked.append("body=body")
    if query:
        asked.append("query={" + ", ".join(query) + "}")
    answer = type_of(content(success))
    element = answer.removeprefix("list[").removesuffix("]")

    def text(name: str, options: list[str], answer: str, call: str, summary: str) -> str:
        listed = ", ".join(arguments + ["*"] * bool(options) + options)
        lines = textwrap.wrap(summary, 80)
        summary = "\n        ".join(lines if len(lines) == 1 else [*lines, ""])
        kind = "def" if answer.startswith("AsyncIterator") else "async def"
        return (
            f"    {kind} {name}({listed}) -> {answer}:\n"
            f'        """{summary}"""\n'
            f"        return {call})\n"
        )

    name, summary, sent = snake(identifier), operation["summary"], ", ".join(asked)
    iterator = f"AsyncIterator[{element}]"
    if identifier in GROWING:
        return [text(name, options, iterator, f"self._grow({element}, {sent}", summary)]
    call = f"await self._call({answer}, {sent}"
    if answer == "None":
        call = f"await self._do({sent}"
    methods = [text(name, options, answer, call, summary)]
    if is_followed:
        follow = "follow_" + name.split("_", 1)[1]
        summary += " Goes on with those to come. After a break, `last` is the last one's number."
        sent = sent.removeprefix('"GET", ') + ", last=last"
        options = [*options, "last: int | None = None"]
        methods.append(text(follow, options, iterator, f"self._follow({element}, {sent}", summary))
    return methods


def operations(description: dict[str, Any]) -> str:
    methods = [
        method
        for path, item in description["paths"].items()
        for verb, operation in item.items()
        for method in methods_of(verb, path, operation)
    ]
    return (
        HEADER
        + '''
"""The operations of the API, a method each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from weir import models
from weir._wire import Body, Query, segment

T = TypeVar("T")


class AsyncOperations(ABC):
    """The operations of the API, a method each."""

    @abstractmethod
    async def _call(
        self, answer: type[T], method: str, path: str, *, body: Body = None, query: Query = None
    ) -> T: ...

    @abstractmethod
    async def _do(
        self, method: str, path: str, *, body: Body = None, query: Query = None
    ) -> None: ...

    @abstractmethod
    def _grow(
        self, element: type[T], method: str, path: str, *, body: Body = None, query: Query = None
    ) -> AsyncIterator[T]: ...

    @abstractmethod
    def _follow(
        self, element: type[T], path: str, *, query: Query = None, last: int | None
    ) -> AsyncIterator[T]: ...

'''
        + "\n".join(methods)
    )


def formatted(text: str) -> str:
    for command in ("check --fix --select I,F401", "format"):
        run = [sys.executable, "-m", "ruff", *command.split(), "--quiet", "-"]
        output = subprocess.run(
            run, cwd=SOURCE, input=text, capture_output=True, text=True, check=True
        )
        text = output.stdout
    return text


def synchronous(folder: Path) -> dict[str, str]:
    """What the files of `_async` are in `_sync`."""
    rule = unasync.Rule(fromdir="/_async/", todir="/_sync/", additional_replacements=SYNC)
    paths = sorted((folder / "_async").glob("*.py"))
    unasync.unasync_files([str(path) for path in paths], [rule])
    texts = {path.name: (folder / "_sync" / path.name).read_text() for path in paths}
    return {
        f"_sync/{name}": formatted(text if text.startswith(HEADER) else HEADER + "\n" + text)
        for name, text in texts.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and compare")
    check = parser.parse_args().check
    description = json.load(sys.stdin)
    files = {
        "models.py": formatted(models(description)),
        "_async/operations.py": formatted(operations(description)),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(SOURCE / "_async", folder / "_async")
        (folder / "_async" / "operations.py").write_text(files["_async/operations.py"])
        files |= synchronous(folder)
    for name, text in files.items():
        path = SOURCE / name
        if path.exists() and path.read_text() == text:
            continue
        if check:
            sys.exit(f"{path} does not match the API: `make clients` writes it")
        path.write_text(text)


if __name__ == "__main__":
    main()
