#!/usr/bin/env python3
"""Writes what the programs of a build are made of, as a CycloneDX document (an SBOM): each program with its hash, and
the distribution's packages whose libraries it loads, whose archives are linked into it, whose headers are compiled into
it, and whose files are embedded in it (cmake/EmbedFiles.cmake).

Usage: sbom.py BUILD-DIRECTORY [OUTPUT [PACKAGE…]]

With packages (.deb) the hashes are those of the programs in them, which are stripped, and the packages have one each.

Everything is asked of this machine: the build's own record of headers (ninja), the programs (readelf), the package
manager (dpkg). No network. SOURCE_DATE_EPOCH sets the time in it. Exit status: 0 written, 1 not possible, 2 usage.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import uuid

PROGRAMS = ("bin/gpuman", "bin/gpumand", "bin/gpuman-keeper", "bin/gpuman-mover", "bin/gpuman-notifier", "bin/gpuman-kube-plugin",
            "bin/gpuman-sim", "bin/gpuman-load", "lib/libgpuman.so", "lib/spank_gpuman.so")


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout


def version_of(build):
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    return re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", cache, re.MULTILINE).group(1)


def archives_of(links):
    """Static libraries of the system in the output of `ninja -t commands`."""
    return set(re.findall(r"(?<=\s)(/usr/\S+\.a)(?=\s|$)", links))


def embedded_of(commands):
    """Files of the system that are embedded, in the output of `ninja -t commands`."""
    lists = re.findall(r"-DFILES=([^\s\"']+)", commands)
    return {file for files in lists for file in re.split(r"\\?\|", files) if file.startswith("/usr/")}


def needed_of(readelf):
    """Shared libraries in the output of `readelf -d`."""
    return re.findall(r"\(NEEDED\).*\[([^\]]+)\]", readelf)


def owners_of(search):
    """Path to package, from the output of `dpkg -S`."""
    owners = {}
    for line in search.splitlines():
        names, found, path = line.partition(": ")
        if found and path.startswith("/") and not line.startswith("diversion"):
            owners[path] = names.split(",")[0].strip()
    return owners


def ask_owners(paths):
    # A header by its real place and by the one without /usr: the package manager may know either.
    owners, paths = {}, sorted(paths)
    for start in range(0, len(paths), 500):
        owners.update(owners_of(run("dpkg", "-S", *paths[start:start + 500])))
    missing = [path for path in paths if path not in owners]
    short = {path[len("/usr"):]: path for path in missing if path.startswith("/usr/lib")}
    if short:
        owners.update({short[path]: owner for path, owner in owners_of(run("dpkg", "-S", *short)).items() if path in short})
    return owners


def package_component(name, distribution):
    asked = run("dpkg-query", "-W", "-f", "${binary:Package}\t${Version}\t${Architecture}\t${source:Package}\t${Homepage}", name)
    _, version, architecture, source, homepage = (asked.split("\t") + [""] * 5)[:5]
    short = name.split(":")[0]
    purl = "pkg:deb/%s/%s@%s?arch=%s&distro=%s-%s" % (
        distribution["ID"], short, version.replace("+", "%2B").replace(":", "%3A"), architecture, distribution["ID"],
        distribution.get("VERSION_ID", "unknown"))
    component = {"type": "library", "bom-ref": purl, "name": short, "version": version, "purl": purl,
                 "properties": [{"name": "debian:source", "value": source}]}
    if homepage:
        component["externalReferences"] = [{"type": "website", "url": homepage}]
    return component


def distribution_of(text):
    return dict((key, value.strip('"')) for key, _, value in (line.partition("=") for line in text.splitlines()) if key)


def library_paths(ldconfig):
    """Name to path, from the output of `ldconfig -p`."""
    return dict(re.findall(r"^\s+(\S+) \([^)]*x86-64[^)]*\) => (\S+)$", ldconfig, re.MULTILINE))


def targets_of(build, program):
    """The objects that are linked into a program, and its command lines."""
    commands = run("ninja", "-t", "commands", program, cwd=build)
    return set(re.findall(r" -o (\S+\.o) ", commands)), commands


def headers_by_object(dependencies):
    objects, current = {}, None
    for line in dependencies.splitlines():
        if line and not line.startswith(" "):
            current = objects.setdefault(line.split(":")[0], set())
        elif line.startswith("    /usr/") and current is not None:
            current.add(line.strip())
    return objects


def shipped_in(packages):
    """The hash of each file in the packages, by its name without folders."""
    hashes = {}
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as unpacking:
            with tarfile.open(fileobj=unpacking.stdout, mode="r|") as files:
                for entry in files:
                    if entry.isfile():
                        hashes[pathlib.Path(entry.name).name] = hashlib.sha256(files.extractfile(entry).read()).hexdigest()
    return hashes


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def describe(build, debs=()):
    """The document of the programs that are built in `build`, and are in these packages."""
    shipped = shipped_in(debs)
    version = version_of(build)
    distribution = {"ID": "linux", **distribution_of(pathlib.Path("/etc/os-release").read_text(encoding="utf-8"))}
    headers = headers_by_object(run("ninja", "-t", "deps", cwd=build))
    libraries = library_paths(run("/sbin/ldconfig", "-p"))
    used = {}
    for program in PROGRAMS:
        if not (build / program).is_file():
            continue
        objects, commands = targets_of(build, program)
        paths = archives_of(commands) | embedded_of(commands)
        for each in objects:
            paths |= headers.get(each, set())
        # Precompiled headers are no object of the program's own.
        for each in set(re.findall(r"(\S+cmake_pch\.hxx)\b", commands)):
            for name, theirs in headers.items():
                if name.endswith((".gch", ".pch")) and str(build / name).startswith(each):
                    paths |= theirs
        loaded = {libraries[name] for name in needed_of(run("readelf", "-d", str(build / program))) if name in libraries}
        used[program] = (paths, loaded)
    if not used:
        return None
    every = set().union(*(paths | loaded for paths, loaded in used.values()))
    owners = ask_owners(every | {os.path.realpath(path) for path in every})

    def owner(path):
        return owners.get(path) or owners.get(os.path.realpath(path))

    packages = {name: package_component(name, distribution) for name in sorted({owner(path) for path in every} - {None})}
    components, dependencies, whole = [], [], "gpuman@" + version
    for program, (paths, loaded) in used.items():
        name = pathlib.Path(program).name
        reference = "%s@%s" % (name if name != "gpuman" else "program/gpuman", version)
        components.append({"type": "application" if program.startswith("bin/") else "library", "bom-ref": reference, "name": name,
                           "version": version,
                           "hashes": [{"alg": "SHA-256", "content": shipped.get(name) or hash_of(build / program)}]})
        names = {owner(path) for path in paths | loaded} - {None}
        dependencies.append({"ref": reference, "dependsOn": sorted(packages[each]["bom-ref"] for each in names)})
    dependencies.append({"ref": whole, "dependsOn": [component["bom-ref"] for component in components]})
    components += packages.values()
    components += [{"type": "file", "bom-ref": pathlib.Path(deb).name, "name": pathlib.Path(deb).name,
                    "hashes": [{"alg": "SHA-256", "content": hash_of(pathlib.Path(deb))}]} for deb in debs]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now().timestamp())
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": "urn:uuid:%s" % identity, "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": whole, "name": "gpuman", "version": version,
                          "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components, "dependencies": dependencies}


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(arguments[0]).resolve()
    if not (build / "build.ninja").is_file():
        print("sbom.py: %s is no build directory of ninja's" % build, file=sys.stderr)
        return 1
    document = describe(build, arguments[2:])
    if document is None:
        print("sbom.py: no program is built in %s" % build, file=sys.stderr)
        return 1
    text = json.dumps(document, indent=1) + "\n"
    if len(arguments) > 1:
        pathlib.Path(arguments[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
