"""Runs the plugins of one file: a request a line on standard input, an answer a line on standard output.

What the file prints does not reach standard output. This side of the pipe is the plugin's: the scheduler
believes nothing that comes out of it without checking.
"""
import ast
import contextlib
import inspect
import io
import json
import os
import resource
import select
import sys
import threading
import types

METHODS = ("do_filter", "do_score", "do_balance")


class Named(str):
    """A name that has facts as attributes."""

    def __new__(cls, name, facts):
        self = super().__new__(cls, name)
        self.__dict__.update((key.replace("-", "_"), value) for key, value in facts.items())
        return self


def guest(told):
    return Named(told["name"], told["facts"])


def host(told):
    facts = dict(told["facts"])
    facts.update((key, value) for key, value in told.items() if key not in ("name", "facts", "vms"))
    facts["memory_free"] = facts["memory"] - facts["memory_booked"]
    if told["vms"] is not None:
        facts["vms"] = [guest(vm) for vm in told["vms"]]
    return Named(told["name"], facts)


def load(request):
    sys.path.append(request["folder"])
    name = request["file"].rsplit("/", 1)[-1].removesuffix(".py")
    module = types.ModuleType(name)
    module.__file__ = request["file"]
    sys.modules[name] = module
    exec(compile(request["source"], request["file"], "exec"), module.__dict__)
    classes = {}
    for name, member in inspect.getmembers(module, inspect.isclass):
        methods = {m: inspect.getdoc(getattr(member, m)) or "" for m in METHODS if hasattr(member, m)}
        if methods and member.__module__ == module.__name__:
            classes[name] = member
            validation = getattr(member, "properties_validation", "")
            yield {"name": name, "methods": methods, "properties_validation": str(validation)}
    yield classes


def call(classes, request):
    method = getattr(classes[request["class"]](), request["method"])
    arguments = [[host(told) for told in request["hosts"]]]
    if request["vm"] is not None:
        arguments.append(guest(request["vm"]))
    printed, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
        result = method(*arguments, request["args"])
    if complained.getvalue().strip():
        return {"error": complained.getvalue().strip()[:2000]}
    if result is None and printed.getvalue().strip():
        try:
            result = ast.literal_eval(printed.getvalue().strip())
        except Exception:
            return {"error": "it printed " + printed.getvalue().strip()[:200] + ", which is no Python value"}
    if isinstance(result, (set, frozenset)):
        result = list(result)
    return {"result": result}


def lifeline():
    """Ends the process with the scheduler, even if the plugin hangs."""
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(0)


def main():
    for bound in sys.argv[1].split(","):
        name, limit = bound.split("=")
        resource.setrlimit(getattr(resource, name), (int(limit), int(limit)))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Errors go nowhere, and so does what is printed past Python.
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    threading.Thread(target=lifeline, daemon=True).start()
    classes = {}
    for line in requests:
        number, text = line.split(" ", 1)
        try:
            request = json.loads(text)
            if "source" in request:
                *described, classes = load(request)
                answer = {"result": described}
            else:
                answer = call(classes, request)
            said = json.dumps(answer, allow_nan=False)
        except BaseException as error:
            said = json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]})
        answers.write(f"{number} {said}\n")
        answers.flush()


main()
