"""Reads a profile of pprof whole (github.com/google/pprof, proto/profile.proto), and refuses what its format does not
allow. Standard library only; it shares nothing with what writes profiles.
"""

import dataclasses

# Number: name and kind of each field that the format has, by message.
PROFILE = {1: ("sample_type", "message"), 2: ("sample", "message"), 3: ("mapping", "message"), 4: ("location", "message"),
           5: ("function", "message"), 6: ("string_table", "text"), 7: ("drop_frames", "number"), 8: ("keep_frames", "number"),
           9: ("time_nanos", "number"), 10: ("duration_nanos", "number"), 11: ("period_type", "message"), 12: ("period", "number"),
           13: ("comment", "numbers"), 14: ("default_sample_type", "number"), 15: ("doc_url", "number")}
VALUE_TYPE = {1: ("type", "number"), 2: ("unit", "number")}
SAMPLE = {1: ("location_id", "numbers"), 2: ("value", "numbers"), 3: ("label", "message")}
LABEL = {1: ("key", "number"), 2: ("str", "number"), 3: ("num", "number"), 4: ("num_unit", "number")}
MAPPING = {1: ("id", "number"), 2: ("memory_start", "number"), 3: ("memory_limit", "number"), 4: ("file_offset", "number"),
           5: ("filename", "number"), 6: ("build_id", "number"), 7: ("has_functions", "number"), 8: ("has_filenames", "number"),
           9: ("has_line_numbers", "number"), 10: ("has_inline_frames", "number")}
LOCATION = {1: ("id", "number"), 2: ("mapping_id", "number"), 3: ("address", "number"), 4: ("line", "message"),
            5: ("is_folded", "number")}
LINE = {1: ("function_id", "number"), 2: ("line", "number"), 3: ("column", "number")}
FUNCTION = {1: ("id", "number"), 2: ("name", "number"), 3: ("system_name", "number"), 4: ("filename", "number"),
            5: ("start_line", "number")}
WIRE = {"number": {0}, "numbers": {0, 2}, "text": {2}, "message": {2}}


class NotAProfile(ValueError):
    pass


@dataclasses.dataclass(frozen=True)
class Frame:
    function: str
    file: str
    line: int
    module: str
    address: int


@dataclasses.dataclass(frozen=True)
class Sample:
    frames: tuple  # the innermost first
    values: dict   # by type
    labels: dict


@dataclasses.dataclass(frozen=True)
class Profile:
    types: dict  # the unit of each, in their order
    default: str
    time: int    # ns since 1970
    samples: list


def varint(data, at):
    value = shift = 0
    while True:
        if at == len(data) or shift > 63:
            raise NotAProfile(f"a number at {at} does not end")
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def message(data, fields):
    """Its fields by name: lists of those that may come more than once."""
    single = {"number"}
    found = {name: 0 if kind in single else [] for name, kind in fields.values()}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag >> 3 not in fields:
            raise NotAProfile(f"there is no field {tag >> 3}; known are {[name for name, _ in fields.values()]}")
        name, kind = fields[tag >> 3]
        if tag & 7 not in WIRE[kind]:
            raise NotAProfile(f"{name} has the type {tag & 7}")
        value, at = varint(data, at)
        if tag & 7 == 0:
            found[name] = value if kind == "number" else found[name] + [value]
            continue
        if at + value > len(data):
            raise NotAProfile(f"{name} is longer than what is left")
        part, at = data[at:at + value], at + value
        if kind == "numbers":
            within = 0
            while within < len(part):
                number, within = varint(part, within)
                found[name].append(number)
        else:
            found[name].append(part.decode() if kind == "text" else part)  # text has to be UTF-8
    return found


def by_id(parts, fields, what):
    found = {}
    for part in (message(data, fields) for data in parts):
        if part["id"] == 0 or part["id"] in found:
            raise NotAProfile(f"the id {part['id']} of a {what} is 0 or there twice")
        found[part["id"]] = part
    return found


def read(data):
    whole = message(data, PROFILE)
    texts = whole["string_table"]
    if not texts or texts[0]:
        raise NotAProfile("the first text is not the empty one")

    def text(number):
        if number >= len(texts):
            raise NotAProfile(f"there is no text {number}")
        return texts[number]

    def of(found, number, what):
        if number not in found:
            raise NotAProfile(f"there is no {what} {number}")
        return found[number]

    kinds = [message(one, VALUE_TYPE) for one in whole["sample_type"]]
    types = {text(kind["type"]): text(kind["unit"]) for kind in kinds}
    if len(types) != len(kinds) or not types:
        raise NotAProfile(f"the types of values are {types}")
    mappings = by_id(whole["mapping"], MAPPING, "mapping")
    functions = by_id(whole["function"], FUNCTION, "function")
    frames = {}
    for number, location in by_id(whole["location"], LOCATION, "location").items():
        if len(location["line"]) != 1:
            raise NotAProfile(f"location {number} has {len(location['line'])} lines")
        line = message(location["line"][0], LINE)
        function = of(functions, line["function_id"], "function")
        module = text(of(mappings, location["mapping_id"], "mapping")["filename"]) if location["mapping_id"] else ""
        frames[number] = Frame(text(function["name"]), text(function["filename"]), line["line"], module, location["address"])
    samples = []
    for one in (message(part, SAMPLE) for part in whole["sample"]):
        if len(one["value"]) != len(types):
            raise NotAProfile(f"a sample has {len(one['value'])} values for {list(types)}")
        labels = [message(label, LABEL) for label in one["label"]]
        samples.append(Sample(tuple(of(frames, number, "location") for number in one["location_id"]), dict(zip(types, one["value"])),
                              {text(label["key"]): text(label["str"]) or label["num"] for label in labels}))
    return Profile(types, text(whole["default_sample_type"]), whole["time_nanos"], samples)
