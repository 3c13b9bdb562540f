#!/usr/bin/env python3
"""The table of routes (src/api/routes.h), docs/api/openapi.yaml and what the daemon serves are the same.

Usage: routes_test.py [UNITTEST ARGUMENTS]    (GPUMAN_BUILD_DIR names the build tree)
"""

import collections
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
from daemon_case import ROOT, SCHEMA, DaemonTest  # noqa: E402
from routes import table  # noqa: E402

# Where the document has another name for a type than the code.
SCHEMA_OF = {"JobUpdate": "UpdateRequest", "RunOptionsPatch": "UpdateRequest", "WebPageView": "Web", "IgnoreRuleView": "IgnoredProcess",
             "IgnoreRuleList": "IgnoredProcessList", "DeviceSettingsResult": "DeviceReport", "DeviceSettingsRequest": "DeviceChange",
             "DeviceProfileRequest": "DeviceProfileChange", "AttachAnswer": "Attached"}


def schema_name(content):
    """Of a body or an answer in JSON; Text where there is no JSON, NoBody where there is nothing."""
    if not content:
        return "NoBody"
    if "application/json" not in content:
        return "Text"
    return content["application/json"]["schema"]["$ref"].rpartition("/")[2]


def name_in_document(type_name):
    return SCHEMA_OF.get(type_name, type_name.removesuffix("View"))


class RoutesTest(DaemonTest):
    def test_the_document_has_each_route_with_its_types_and_rights(self):
        described = {}
        for path, item in SCHEMA.document["paths"].items():
            for method in item.keys() - {"parameters"}:
                described[method.upper(), path] = item[method]
        self.assertEqual(sorted(described), sorted((route.method, route.path) for route in table()))
        for route in table():
            operation = described[route.method, route.path]
            with self.subTest(f"{route.method} {route.path}"):
                self.assertEqual(operation["x-right"], route.right)
                body = operation.get("requestBody", {})
                self.assertEqual(schema_name(body.get("content")), name_in_document(route.body))
                self.assertIn(str(route.status), operation["responses"])
                answer = schema_name(operation["responses"][str(route.status)]["content"])
                self.assertEqual(answer, name_in_document(route.answer))

    def test_the_check_of_answers_names_what_does_not_fit(self):
        status = self.request("GET", "/v1/status").json()
        for where, change in {
            "answer is null": lambda _: None,
            "answer.gpus is missing": lambda it: {name: it[name] for name in it if name != "gpus"},
            "answer.more is not described": lambda it: {**it, "more": 1},
            "answer.gpus: {} is no array": lambda it: {**it, "gpus": {}},
            "answer.gpus[0].uuid: 7 is no string": lambda it: {**it, "gpus": [{**it["gpus"][0], "uuid": 7}]},
            "answer.gpus[0].index: True is no integer": lambda it: {**it, "gpus": [{**it["gpus"][0], "index": True}]},
        }.items():
            with self.subTest(where), self.assertRaises(AssertionError) as raised:
                SCHEMA.check({"$ref": "#/components/schemas/Status"}, change(status))
            self.assertEqual(str(raised.exception), where)

    def test_no_route_is_served_that_the_table_does_not_have(self):
        declared = re.findall(r"inline constexpr (?:Job)?Route<", (ROOT / "src/api/routes.h").read_text())
        self.assertEqual(len(declared), len(table()), "ForEach lacks one")
        for source in (ROOT / "src/daemon").rglob("*.cc"):
            if not source.stem.endswith("_test"):
                self.assertNotRegex(source.read_text(), r'\.Add\(\s*"[A-Z]+",', source)

    def test_the_daemon_serves_each_route_with_its_methods(self):
        methods = collections.defaultdict(set)
        for route in table():
            methods[re.sub(r"\{\w+\}", "x", route.path)].add(route.method)
        for path, known in methods.items():
            with self.subTest(path):
                answer = self.request("OPTIONS", path, checked=False)
                self.assertEqual(answer.status, 405)
                hint = answer.json()["error"]["hint"]
                self.assertEqual(set(hint.removeprefix("it takes ").split(", ")), known)


if __name__ == "__main__":
    unittest.main(verbosity=2)
