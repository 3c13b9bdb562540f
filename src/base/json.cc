#include "base/json.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace gpuman::base::json {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string EncodeHex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    hex += kHexDigits[static_cast<unsigned char>(c) >> 4];
    hex += kHexDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

std::optional<std::string> DecodeHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto high = kHexDigits.find(hex[i]);
    const auto low = kHexDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

std::optional<std::string> HexOf(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto hex = json.find("hex");
  return hex != json.end() && hex->is_string() ? DecodeHex(hex->get_ref<const std::string&>()) : std::nullopt;
}

// Each name has one of 64 marks.
std::uint64_t MarkOf(std::string_view name) {
  const auto at = [name](std::size_t i) { return static_cast<unsigned char>(name[i]); };
  return name.empty() ? 1 : std::uint64_t{1} << ((name.size() * 7 + at(0) * 3U + at(name.size() - 1)) & 63);
}

}  // namespace

Json Write(const JsonFormat& format, const std::string& value) {
  if (!format.any_bytes || IsUtf8(value)) return value;
  Json json = Json::object();
  json["hex"] = EncodeHex(value);
  return json;
}

Json Write(const JsonFormat& format, const std::filesystem::path& value) {
  return Write(format, value.native());
}

Json Write(const JsonFormat& format, WallTime value) {
  if (format.times == TimeForm::kIso8601) return FormatIso8601(value);
  return std::chrono::duration_cast<Millis>(value.time_since_epoch()).count();
}

Json Write(const JsonFormat& format, Millis value) {
  if (format.durations == DurationForm::kMillis) return value.count();
  if (value.count() % 1000 == 0) return value.count() / 1000;
  return static_cast<double>(value.count()) / 1000;
}

Json Write(const JsonFormat&, const SizeSpec& value) {
  if (!value.IsRelative()) return value.bytes.count;
  std::array<char, 400> text{};  // the longest double without an exponent has fewer than 350 characters
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value.percent, std::chars_format::fixed).ptr;
  return std::string(text.data(), end) + "%";
}

JsonObjectWriter::JsonObjectWriter(const JsonFormat& format) : format_(format) {
  json_.get_ref<Json::object_t&>().reserve(kUsualFields);
}

// Does without the search of operator[], since no list has a name twice.
void JsonObjectWriter::Add(const char* name, Json&& value) {
  json_.get_ref<Json::object_t&>().emplace_back(name, std::move(value));
}
void JsonObjectWriter::AddNull(const char* name) { Add(name, nullptr); }
void JsonObjectWriter::AddBool(const char* name, bool value) { Add(name, value); }
void JsonObjectWriter::AddSigned(const char* name, std::int64_t value) { Add(name, value); }
void JsonObjectWriter::AddUnsigned(const char* name, std::uint64_t value) { Add(name, value); }
void JsonObjectWriter::AddText(const char* name, std::string_view value) { Add(name, std::string(value)); }
void JsonObjectWriter::AddAll(const Json& fields) {
  for (const auto& [name, value] : fields.items()) json_.get_ref<Json::object_t&>().emplace_back(name, value);
}

std::string FieldPath::Text() const {
  std::string text = outer_ ? outer_->Text() : std::string();
  if (index_) return text + fmt::format("[{}]", *index_);
  if (!text.empty() && !name_.empty()) text += '.';
  return text.append(name_);
}

void ParseState::Fail(std::string_view path, std::string_view what, ErrorCode why) {
  if (failed()) return;
  error = path.empty() ? std::string(what) : fmt::format("{}: {}", path, what);
  code = why;
}

void ParseState::Fail(const FieldPath& path, std::string_view what, ErrorCode why) {
  if (!failed()) Fail(path.Text(), what, why);
}

void ParseState::WrongType(const FieldPath& path, std::string_view expected, const Json& found) {
  const std::string_view kind = found.is_number_float()     ? "a fraction"
                                : found.is_number_integer() ? "an integer"
                                : found.is_string()         ? "a string"
                                : found.is_object()         ? "an object"
                                : found.is_array()          ? "an array"
                                : found.is_boolean()        ? "a boolean"
                                                            : "null";
  Fail(path, fmt::format("{} was expected, not {}", expected, kind));
}

namespace {

template <typename T>
void ReadBetween(ParseState& r, const FieldPath& path, const Json& json, T least, T most, T& out) {
  if (!json.is_number_integer()) return r.WrongType(path, "an integer", json);
  const auto number = WholeNumber<T>(json);
  if (!number || *number < least || *number > most)
    return r.Fail(path, fmt::format("{} lies outside {} to {}", json.dump(), least, most));
  out = *number;
}

}  // namespace

void ReadWithin(ParseState& r, const FieldPath& path, const Json& json, std::int64_t least, std::int64_t most,
                std::int64_t& out) {
  ReadBetween(r, path, json, least, most, out);
}
void ReadWithin(ParseState& r, const FieldPath& path, const Json& json, std::uint64_t least,
                std::uint64_t most, std::uint64_t& out) {
  ReadBetween(r, path, json, least, most, out);
}

std::optional<std::size_t> ReadWord(ParseState& r, const FieldPath& path, const Json& json,
                                    std::span<const std::string_view> words) {
  if (!json.is_string()) {
    r.WrongType(path, "a word", json);
    return std::nullopt;
  }
  const auto& word = json.get_ref<const std::string&>();
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  r.Fail(path, fmt::format("'{}' is none of {}", word, fmt::join(words, ", ")));
  return std::nullopt;
}

void Read(ParseState& r, const FieldPath& path, const Json& json, bool& out) {
  if (!json.is_boolean()) return r.WrongType(path, "a boolean", json);
  out = json.get<bool>();
}

void Read(ParseState& r, const FieldPath& path, const Json& json, double& out) {
  if (!json.is_number()) return r.WrongType(path, "a number", json);
  out = json.get<double>();
}

// An argument, a path or a variable ends at a NUL, so a request must not contain one.
void Read(ParseState& r, const FieldPath& path, const Json& json, std::string& out) {
  if (json.is_string()) {
    out = json.get_ref<const std::string&>();
  } else {
    auto bytes = r.format.any_bytes ? HexOf(json) : std::nullopt;
    if (!bytes) return r.WrongType(path, "a string", json);
    out = std::move(*bytes);
  }
  if (r.format.strict && out.find('\0') != std::string::npos) r.Fail(path, "a string holds a NUL character");
}

void Read(ParseState& r, const FieldPath& path, const Json& json, std::filesystem::path& out) {
  std::string text;
  Read(r, path, json, text);
  out = std::move(text);
}

void Read(ParseState& r, const FieldPath& path, const Json& json, Bytes& out) {
  if (r.format.strict && json.is_string()) {
    const auto parsed = ParseBytes(json.get_ref<const std::string&>());
    if (!parsed) return r.Fail(path, parsed.error().message);
    out = *parsed;
    return;
  }
  const auto count = WholeNumber<std::uint64_t>(json);
  if (!count) return r.WrongType(path, "a number of bytes", json);
  out.count = *count;
}

void Read(ParseState& r, const FieldPath& path, const Json& json, JobId& out) {
  Read(r, path, json, out.value);
}

void Read(ParseState& r, const FieldPath& path, const Json& json, WallTime& out) {
  if (r.format.times == TimeForm::kMillis) {
    std::int64_t count = 0;
    Read(r, path, json, count);
    out = WallTime(Millis(count));
    return;
  }
  if (!json.is_string()) return r.WrongType(path, "a time", json);
  const auto time = ParseIso8601(json.get_ref<const std::string&>());
  if (!time) return r.Fail(path, time.error().message);
  out = *time;
}

void Read(ParseState& r, const FieldPath& path, const Json& json, Millis& out) {
  if (r.format.durations == DurationForm::kMillis) {
    std::int64_t count = 0;
    Read(r, path, json, count);
    out = Millis(count);
    return;
  }
  constexpr double kLongest = 3.2e10;  // seconds; as in ParseDuration
  if (json.is_string()) {
    const auto parsed = ParseDuration(json.get_ref<const std::string&>());
    if (!parsed) return r.Fail(path, parsed.error().message);
    out = *parsed;
  } else if (json.is_number()) {
    const double seconds = json.get<double>();
    if (!(seconds >= 0 && seconds < kLongest))
      return r.Fail(path, "a time is at least 0 and shorter than a thousand years");
    out = Millis(std::llround(seconds * 1000));
  } else {
    r.WrongType(path, "seconds or a string such as \"30s\"", json);
  }
}

void Read(ParseState& r, const FieldPath& path, const Json& json, SizeSpec& out) {
  std::string text;
  if (json.is_object() && !r.format.strict) {
    // A record of an older gpuman has {"bytes":…} or {"percent":…}.
    JsonObjectReader older(r, path, json);
    older("bytes", out.bytes);
    older("percent", out.percent);
    older.Check(out.percent >= 0 && out.percent <= 100, "percent", "it is no percentage");

    return;
  }
  // A number in a record is read as it was written, without the checks of ParseSize.
  if (!r.format.strict && json.is_number_integer()) {
    out = {};
    return Read(r, path, json, out.bytes);
  }
  if (json.is_string())
    text = json.get<std::string>();
  else if (json.is_number_integer())
    text = Dump(json);
  else
    return r.WrongType(path, "bytes or a string such as \"8GiB\"", json);
  const auto parsed = ParseSize(text);
  if (!parsed) return r.Fail(path, parsed.error().message);
  out = *parsed;
}

JsonObjectReader::JsonObjectReader(ParseState& state, const FieldPath& path, const Json& json)
    : state_(state), path_(path), json_(json) {
  if (!json_.is_object()) {
    state_.WrongType(path_, "an object", json_);
    return;
  }
  for (const auto& [name, ignored] : json_.get_ref<const Json::object_t&>()) marks_ |= MarkOf(name);
}

const Json* JsonObjectReader::Find(const char* name) {
  if (!json_.is_object()) return nullptr;
  if (state_.format.strict) seen_.emplace_back(name);
  const std::string_view text = name;
  if (!(marks_ & MarkOf(text))) return nullptr;
  // If a name occurs twice, the last value counts.
  const auto& members = json_.get_ref<const Json::object_t&>();
  const auto found = std::find_if(members.rbegin(), members.rend(),
                                  [&](const auto& member) { return member.first == text; });
  if (found == members.rend()) return nullptr;
  if (taken_ != nullptr) (*taken_)[name] = found->second;
  return &found->second;
}

void JsonObjectReader::Missing(const char* name) { state_.Fail(path_, fmt::format("'{}' is missing", name)); }

void JsonObjectReader::NotKnown(const char* name, std::string_view alternative) {
  state_.Fail(At(name), fmt::format("'{}' is not known here", alternative), ErrorCode::kNotSupported);
}

void JsonObjectReader::Version(const char* name, int version) {
  int found = 0;
  Required(name, found);
  if (found != version)
    state_.Fail(At(name), fmt::format("{} is not known here, only {}", found, version),
                ErrorCode::kNotSupported);
}

void JsonObjectReader::Check(bool holds, const char* name, std::string_view what) {
  if (!holds) state_.Fail(At(name), what);
}

void JsonObjectReader::Valid(const Result<>& valid) {
  if (!valid) state_.Fail(path_, valid.error().message);
}

void JsonObjectReader::Finish() {
  if (!state_.format.strict || !json_.is_object()) return;
  for (const auto& [key, ignored] : json_.items())
    if (std::find(seen_.begin(), seen_.end(), key) == seen_.end())
      state_.Fail(path_, fmt::format("unknown field '{}'", key));
}

std::optional<Json> Parse(std::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace gpuman::base::json
