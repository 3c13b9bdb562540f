#!/usr/bin/env python3
"""tools/sbom.py: what it reads of ninja, readelf and dpkg, and the document of the build in GPUMAN_BUILD_DIR."""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sbom  # noqa: E402

BUILD = os.environ.get("GPUMAN_BUILD_DIR")


class ReadingTest(unittest.TestCase):
    def test_headers_belong_to_the_object_that_was_compiled_with_them(self):
        objects = sbom.headers_by_object("a.o: #deps 2, deps mtime 1 (VALID)\n    ../src/a.h\n    /usr/include/x.hpp\n\n"
                                         "b.o: #deps 1, deps mtime 1 (VALID)\n    /usr/include/y.hpp\n")
        self.assertEqual(objects, {"a.o": {"/usr/include/x.hpp"}, "b.o": {"/usr/include/y.hpp"}})

    def test_static_archives_of_the_system_are_found_in_the_link(self):
        self.assertEqual(sbom.archives_of("c++ -o bin/x x.o src/liby.a /usr/lib/libncursesw.a -lz\n"), {"/usr/lib/libncursesw.a"})

    def test_embedded_files_of_the_system_are_found(self):
        text = 'cd src && cmake -DOUTPUT=x.cc "-DFILES=/tree/a.js|/usr/share/javascript/b.js|/usr/share/c.css" -P cmake/EmbedFiles.cmake\n'
        self.assertEqual(sbom.embedded_of(text), {"/usr/share/javascript/b.js", "/usr/share/c.css"})

    def test_loaded_libraries_are_found(self):
        text = " 0x01 (NEEDED)  Shared library: [libfmt.so.9]\n 0x0e (SONAME) Library soname: [libx.so]\n"
        self.assertEqual(sbom.needed_of(text), ["libfmt.so.9"])
        self.assertEqual(sbom.library_paths("\tlibfmt.so.9 (libc6,x86-64) => /lib/libfmt.so.9\n\tlibold.so (libc6) => /lib32/libold.so\n"),
                         {"libfmt.so.9": "/lib/libfmt.so.9"})

    def test_owners_are_found_and_diversions_are_none(self):
        self.assertEqual(sbom.owners_of("diversion by a from: /x\nlibc6:amd64, libc6:i386: /lib/a\nno line\nb: /lib/c\n"),
                         {"/lib/a": "libc6:amd64", "/lib/c": "b"})

    def test_a_folder_that_is_no_build_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(sbom.main(["/"]), 1)
            self.assertEqual(sbom.main([]), 2)
        self.assertIn("no build directory", said.getvalue())


@unittest.skipUnless(BUILD and (pathlib.Path(BUILD, "bin/gpuman")).is_file() and shutil.which("dpkg-query") and shutil.which("readelf"),
                     "no programs are built here, or this is no Debian")
class DocumentTest(unittest.TestCase):
    def test_the_build_is_described(self):
        os.environ["SOURCE_DATE_EPOCH"] = "1700000000"
        with contextlib.redirect_stdout(io.StringIO()) as written:
            self.assertEqual(sbom.main([BUILD]), 0)
        document = json.loads(written.getvalue())
        self.assertEqual((document["bomFormat"], document["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual(document["metadata"]["timestamp"], "2023-11-14T22:13:20Z")
        by_name = {component["name"]: component for component in document["components"]}
        self.assertRegex(by_name["gpuman"]["hashes"][0]["content"], "^[0-9a-f]{64}$")
        self.assertTrue(by_name["nlohmann-json3-dev"]["purl"].startswith("pkg:deb/"), "a library of headers")
        self.assertTrue(by_name["libjs-dygraphs"]["purl"].startswith("pkg:deb/"), "files that are embedded")
        self.assertTrue(any(re.match(r"libfmt\d", name) for name in by_name), "a library that is loaded")
        self.assertTrue(all(component["version"] for component in document["components"]))
        references = [component["bom-ref"] for component in document["components"]]
        self.assertEqual(len(references), len(set(references)))
        known = set(references) | {document["metadata"]["component"]["bom-ref"]}
        for dependency in document["dependencies"]:
            self.assertLessEqual({dependency["ref"], *dependency["dependsOn"]}, known)


if __name__ == "__main__":
    unittest.main()
