"""The common part of the tests of tests/integration: a daemon on the simulated driver and requests to it.

Every answer is checked against docs/api/openapi.yaml. Standard library and PyYAML.
"""

import contextlib
import json
import os
import re
import subprocess
import time
import unittest

import yaml
from machine import Machine, ROOT, UnixConnection, program

MIB = 1 << 20
PATIENCE = 180  # seconds; on an idle machine nothing takes long, and nothing is measured
NOBODY = 65534
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where the library has it


def until(what, true, remark=lambda: ""):
    """Waits until true() is true, and returns its value. remark() says what stands, where it stays false. Looks less
    often where that takes long: other tests want the processor."""
    begin = time.monotonic()
    while (waited := time.monotonic() - begin) < PATIENCE:
        value = true()
        if value:
            return value
        time.sleep(min(0.01 + waited / 50, 0.03))
    said = "".join(machine.last_words() for machine in Machine.running)
    raise AssertionError(f"{what}: not within {PATIENCE} s {remark()}{said}")


def needs_reach(test, path):
    """Skips the test if other users cannot reach the file: in a checkout below /root, or in a home that is closed to
    others."""
    reached = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "test", "-x", path])
    if reached.returncode != 0:
        test.skipTest(f"other users do not get at {path}: they may not enter a directory above it")


class DescriptionMismatch(AssertionError):
    """A value that its schema does not describe: what is wrong, and where in the value (innermost part first)."""

    def __init__(self, what):
        super().__init__(what)
        self.what, self.where = what, []

    def __str__(self):
        return "".join(reversed(self.where)) + self.what


class Schema:
    """The part of OpenAPI's schemas that docs/api/openapi.yaml uses. Each schema becomes a function once: tests check
    thousands of answers."""

    TYPES = {"object": {dict}, "array": {list}, "string": {str}, "integer": {int}, "number": {int, float}, "boolean": {bool}}

    def __init__(self):
        self.document = yaml.load((ROOT / "docs/api/openapi.yaml").read_text(), Loader=LOADER)
        self.paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", pattern)), item)
                      for pattern, item in self.document["paths"].items()]
        self.checkers = {}  # by the schema's identity: the schema, so that no other gets its identity, and its function

    def resolve(self, schema):
        while "$ref" in schema:
            node = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                node = node[part]
            schema = node
        return schema

    def merge(self, schema):
        """The schema with the parts of its allOf in it."""
        schema = self.resolve(schema)
        whole = {}
        for part in [self.merge(part) for part in schema.get("allOf", [])] + [schema]:
            whole = {**whole, **part,
                     "properties": {**whole.get("properties", {}), **part.get("properties", {})},
                     "required": whole.get("required", []) + part.get("required", [])}
        return whole

    def find(self, method, path):
        """The path's item and its operation."""
        method = method.lower()
        for pattern, item in self.paths:
            if method in item and pattern.fullmatch(path):
                return item, item[method]
        return {}, None

    def checker(self, schema):
        """A function that raises a DescriptionMismatch where a value does not fit the schema."""
        schema = self.resolve(schema)
        known = self.checkers.get(id(schema))
        if known is None:
            # First a stand-in: a schema may have itself in it.
            self.checkers[id(schema)] = schema, lambda value: self.checkers[id(schema)][1](value)
            known = self.checkers[id(schema)] = schema, self.make_checker(self.merge(schema))
        return known[1]

    def make_checker(self, schema):
        nullable, kind, words = schema.get("nullable"), schema.get("type"), schema.get("enum")
        types = self.TYPES[kind] if kind else None
        choices = [self.checker(part) for part in schema.get("oneOf", [])]
        items = self.checker(schema["items"]) if kind == "array" else None
        assert all(schema["properties"].values()), f"a property is not described: {schema['properties']}"
        properties = {name: self.checker(part) for name, part in schema["properties"].items()}
        others = schema.get("additionalProperties")
        others = self.checker(others) if others else None
        required = schema["required"]

        def check(value):
            if value is None:
                if not nullable:
                    raise DescriptionMismatch(" is null")
                return
            if choices and sum(self.fits(choice, value) for choice in choices) != 1:
                raise DescriptionMismatch(f": {value!r} is not one of them")
            if types and type(value) not in types:
                raise DescriptionMismatch(f": {value!r} is no {kind}")
            if words and value not in words:
                raise DescriptionMismatch(f": {value!r} is none of {words}")
            if items:
                for i, element in enumerate(value):
                    try:
                        items(element)
                    except DescriptionMismatch as mismatch:
                        mismatch.where.append(f"[{i}]")
                        raise
            if kind != "object":
                return
            for name in required:
                if name not in value:
                    raise DescriptionMismatch(f".{name} is missing")
            for name, element in value.items():
                part = properties.get(name, others)
                if part is None:
                    raise DescriptionMismatch(f".{name} is not described")
                try:
                    part(element)
                except DescriptionMismatch as mismatch:
                    mismatch.where.append(f".{name}")
                    raise
        return check

    @staticmethod
    def fits(choice, value):
        try:
            choice(value)
        except DescriptionMismatch:
            return False
        return True

    def check(self, schema, value, where="answer"):
        try:
            self.checker(schema)(value)
        except DescriptionMismatch as mismatch:
            mismatch.where.append(where)
            raise

    def check_exchange(self, method, target, body, status, content_type, answer):
        """Checks one request and its whole answer against the document."""
        path, _, query = target.partition("?")
        item, operation = self.find(method, path)
        assert operation, f"{method} {path} is not described"
        described = self.resolve(operation["responses"].get(str(status)) or operation["responses"]["default"])
        kind = content_type.partition(";")[0]
        assert kind in described["content"], f"{method} {target}: {kind} is not described"
        if kind == "application/json":
            self.check(described["content"][kind]["schema"], json.loads(answer), f"{method} {target}")
        if status >= 300:
            return
        known = [self.resolve(p)["name"] for p in item.get("parameters", []) + operation.get("parameters", [])]
        for name in filter(None, re.split("&", query)):
            assert name.partition("=")[0] in known, f"{method} {target}: the query is taken and not described"
        if body is not None:
            self.check(operation["requestBody"]["content"]["application/json"]["schema"], body, f"{method} {target} body")


SCHEMA = Schema()


class Answer:
    def __init__(self, status, body):
        self.status, self.body = status, body

    def json(self):
        return json.loads(self.body)

    def code(self):
        return self.json()["error"]["code"]


class DaemonTest(unittest.TestCase):
    profile, gpus, memory, config, real, driver, bus, vmm, nvlink = "rtx4050", 1, None, "", False, None, None, True, None

    @classmethod
    def setUpClass(cls):
        cls.m = Machine(profile=cls.profile, gpus=cls.gpus, memory=cls.memory, config=cls.config, real=cls.real,
                        driver=cls.driver, bus=cls.bus, vmm=cls.vmm, nvlink=cls.nvlink)
        cls.addClassCleanup(cls.m.__exit__)
        cls.prepare()
        cls.m.__enter__()

    @classmethod
    def prepare(cls):
        """Runs before the daemon starts."""

    def tearDown(self):
        for job in self.request("GET", "/v1/jobs?all=1").json()["jobs"]:
            self.request("DELETE", f"/v1/jobs/{job['id']}")

    def inject(self, *words):
        self.m.inject(*words)

    def request(self, method, path, body=None, headers=None, checked=True):
        """Sends one request; checks the answer against the document unless `checked` is false."""
        connection = UnixConnection(self.m.env["GPUMAN_SOCKET"], timeout=PATIENCE)
        with contextlib.closing(connection):
            data = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, data, headers or {})
            got = connection.getresponse()
            answer = Answer(got.status, got.read())
        if checked:
            SCHEMA.check_exchange(method, path, body if isinstance(body, dict) else None, answer.status,
                                  got.getheader("Content-Type"), answer.body)
        return answer

    def run_request(self, tag, script, **more):
        environment = {"PATH": os.environ["PATH"]}
        environment.update({k: v for k, v in self.m.env.items() if k.startswith("GPUMAN_SIM") or k == "LD_LIBRARY_PATH"})
        return {"tag": tag, "command": ["/bin/sh", "-c", script], "directory": "/", "environment": environment, **more}

    def start(self, tag, script, **more):
        answer = self.request("POST", "/v1/jobs", self.run_request(tag, script, **more))
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["id"]

    def job(self, ref):
        return self.request("GET", f"/v1/jobs/{ref}").json()

    def becomes(self, ref, state):
        return until(f"job {ref} is {state}", lambda: (job := self.job(ref))["state"] == state and job, self.what_stands)

    def wait(self, ref):
        """The job, once it has ended."""
        try:
            return self.request("GET", f"/v1/jobs/{ref}/wait").json()
        except TimeoutError:
            said = "".join(machine.last_words() for machine in Machine.running)
            raise AssertionError(f"job {ref} has not ended within {PATIENCE} s {self.what_stands()}{said}") from None

    def log(self, ref, query=""):
        return self.request("GET", f"/v1/jobs/{ref}/log{query}").body.decode()

    def events(self):
        return self.request("GET", "/v1/events").json()["events"]

    def metric(self, name, **labels):
        """The sum of the samples with these labels."""
        text = self.request("GET", "/metrics").body.decode()
        found = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for has, value in found
                   if all(f'{label}="{wanted}"' in has for label, wanted in labels.items()))

    def what_stands(self):
        """For a failure: how the jobs share, what became of them, what was told of them and what they said."""
        def said(job):
            try:
                return self.log(job)[-300:]
            except (AssertionError, OSError) as error:
                return str(error)
        jobs = self.request("GET", "/v1/jobs").json()["jobs"]
        return json.dumps({
            "share": self.request("GET", "/v1/share").json(),
            "jobs": [[job["id"], job["state"], job["reason_detail"], job["memory"]] for job in jobs],
            "events": [[event["kind"], event["job"], event["message"]] for event in self.events()][-20:],
            "logs": {job["id"]: said(job["id"]) for job in jobs[-4:]}})

    def load(self, size, *more):
        return " ".join([program("gpuman-load"), "--alloc", str(size), *more])
