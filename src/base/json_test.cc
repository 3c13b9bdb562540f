#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuman::base::json {
namespace {

using testing::HasSubstr;

enum class Colour { kRed, kBlue };
constexpr auto WordsOf(Colour) { return Words<Colour, 2>{{{Colour::kRed, "red"}, {Colour::kBlue, "blue"}}}; }

struct Part {
  int number = 0;
  friend bool operator==(const Part&, const Part&) = default;
};
template <typename V, Of<Part> T>
void Fields(V& v, T& x) {
  v.Required("number", x.number);
}

struct Thing {
  std::string name;
  Colour colour = Colour::kRed;
  std::vector<Part> parts;
  std::optional<int> count, limit;
  bool clear_limit = false;
  int weight = 7;
  WallTime at{};
  Millis lasted{0};
  std::map<std::string, std::uint64_t> table;
  friend bool operator==(const Thing&, const Thing&) = default;
};
template <typename V, Of<Thing> T>
void Fields(V& v, T& x) {
  v.Version("v", 1);
  v.Required("name", x.name);
  v("colour", x.colour);
  v.Changed("parts", x.parts);
  v.Option("count", x.count);
  v.Clearable("limit", x.limit, x.clear_limit);
  v.Changed("weight", x.weight, 7);
  v("at", x.at);
  v("lasted", x.lasted);
  v.Changed("table", x.table);
  v.Check(x.weight > 0, "weight", "it is not positive");
}

constexpr JsonFormat kPeople{.durations = DurationForm::kSeconds};
constexpr JsonFormat kMachine{.times = TimeForm::kMillis, .any_bytes = true, .strict = true};

Thing Full() {
  Thing thing;
  thing.name = "a \"b\"";
  thing.colour = Colour::kBlue;
  thing.parts = {{1}, {2}};
  thing.count = 0;
  thing.limit = 5;
  thing.weight = 3;
  thing.at = WallTime(Millis(1'764'000'000'000));
  thing.lasted = Millis(1500);
  thing.table = {{"x", UINT64_MAX}};
  return thing;
}

TEST(Json, WritesInTheOrderOfTheFieldsAndInTheFormsOfTheFormat) {
  EXPECT_EQ(
      ToText(Full(), kPeople),
      R"({"v":1,"name":"a \"b\"","colour":"blue","parts":[{"number":1},{"number":2}],"count":0,"limit":5,)"
      R"("weight":3,"at":"2025-11-24T16:00:00.000Z","lasted":1.5,"table":{"x":18446744073709551615}})");
  EXPECT_EQ(ToText(Thing{}, kMachine), R"({"v":1,"name":"","colour":"red","at":0,"lasted":0})");
}

TEST(Json, ReadsWhatItHasWritten) {
  for (const auto& format : {kPeople, kMachine})
    for (const auto& thing : {Thing{}, Full()}) {
      const auto back = FromText<Thing>(ToText(thing, format), format, "a thing");
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(*back, thing);
    }
}

TEST(Json, KeepsWhatIsNotUtf8WhereTheFormatSaysSo) {
  Thing thing;
  thing.name = "\xff\x01z";
  EXPECT_THAT(ToText(thing, kMachine), HasSubstr(R"("name":{"hex":"ff017a"})"));
  EXPECT_EQ(FromText<Thing>(ToText(thing, kMachine), kMachine, "")->name, thing.name);
  EXPECT_THAT(ToText(thing, kPeople), HasSubstr("\"name\":\"\xef\xbf\xbd"));
}

TEST(Json, ClearsWithNullAndLeavesWhatIsMissing) {
  const auto read = [](const char* rest) {
    return *FromText<Thing>(std::string(R"({"v":1,"name":"")") + rest + "}", kPeople, "");
  };
  EXPECT_FALSE(read("").clear_limit);
  EXPECT_TRUE(read(R"(,"limit":null)").clear_limit);
  EXPECT_EQ(read(R"(,"limit":4)").limit, 4);
  EXPECT_EQ(read("").weight, 7);
}

TEST(Json, SaysWhatIsWrongAndWhere) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "the thing cannot be read: it is no JSON"},
      {"[]", "the thing cannot be read: an object was expected, not an array"},
      {"{}", "'v' is missing"},
      {R"({"v":1})", "'name' is missing"},
      {R"({"v":1,"name":7})", "name: a string was expected, not an integer"},
      {R"({"v":1,"name":"","colour":"green"})", "colour: 'green' is none of red, blue"},
      {R"({"v":1,"name":"","parts":[{"number":1},{}]})", "parts[1]: 'number' is missing"},
      {R"({"v":1,"name":"","parts":[{"number":1e3}]})",
       "parts[0].number: an integer was expected, not a fraction"},
      {R"({"v":1,"name":"","count":4294967296})", "count: 4294967296 lies outside -2147483648 to 2147483647"},
      {R"({"v":1,"name":"","table":{"x":-1}})", "table.x: -1 lies outside 0 to 18446744073709551615"},
      {R"({"v":1,"name":"","weight":0})", "weight: it is not positive"},
      {R"({"v":1,"name":"","at":"noon"})", "at: "},
  };
  for (const auto& [text, said] : rows) {
    const auto read = FromText<Thing>(text, kPeople, "the thing");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message, HasSubstr(said)) << text;
  }
  EXPECT_EQ(FromText<Thing>(R"({"v":2})", kPeople, "the thing").error().code, ErrorCode::kNotSupported);
}

TEST(Json, RefusesUnknownFieldsAndNulOnlyWhereItIsStrict) {
  const char* const unknown = R"({"v":1,"name":"","x":1})";
  EXPECT_TRUE(FromText<Thing>(unknown, kPeople, ""));
  EXPECT_THAT(FromText<Thing>(unknown, kMachine, "").error().message, HasSubstr("unknown field 'x'"));
  const char* const nul = R"({"v":1,"name":"a\u0000b"})";
  EXPECT_TRUE(FromText<Thing>(nul, kPeople, ""));
  EXPECT_THAT(FromText<Thing>(nul, kMachine, "").error().message, HasSubstr("NUL"));
}

TEST(Json, TakesTheLastOfTwoWithOneName) {
  EXPECT_EQ(FromText<Thing>(R"({"v":1,"name":"a","name":"b"})", kPeople, "")->name, "b");
}

struct Span {
  int from = 0, to = 0;
  friend bool operator==(const Span&, const Span&) = default;
};
template <typename V, Of<Span> T>
void Fields(V& v, T& x) {
  v("from", x.from);
  v("to", x.to);
}

// A patch may set some of these fields, and has a field of its own.
struct Settings {
  int weight = 7;
  Span span;
  std::vector<int> codes;
  std::optional<int> count;
  friend bool operator==(const Settings&, const Settings&) = default;
};
template <typename V>
void SettingFields(V& v, auto& x) {
  v.Changed("weight", x.weight, 7);
  v.Changed("span", x.span);
  v.Changed("codes", x.codes);
  v.Option("count", x.count);
}
template <typename V, Of<Settings> T>
void Fields(V& v, T& x) {
  SettingFields(v, x);
}
struct SettingsUpdate {
  bool force = false;
  Patch<Settings> settings;
};
template <typename V, Of<SettingsUpdate> T>
void Fields(V& v, T& x) {
  v.Changed("force", x.force);
  v.Patched(x.settings, [](auto& list, auto& fields) { SettingFields(list, fields); });
}

Result<Settings> Patched(const char* text, Settings settings) {
  GPUMAN_ASSIGN(const auto update, FromText<SettingsUpdate>(text, kMachine, "the update"));
  const auto list = [](auto& fields, auto& x) { SettingFields(fields, x); };
  GPUMAN_TRY(Apply(update.settings, kMachine, settings, list));
  return settings;
}

TEST(JsonPatch, SetsWhatItNamesAndNullIsTheUsualValue) {
  const Settings before{3, {5, 6}, {1, 2}, 4};
  EXPECT_EQ(Patched("{}", before), before);
  EXPECT_EQ(Patched(R"({"codes":[8],"force":true})", before), (Settings{3, {5, 6}, {8}, 4}));
  EXPECT_EQ(Patched(R"({"span":{"to":9}})", before), (Settings{3, {0, 9}, {1, 2}, 4})) << "as a whole";
  EXPECT_EQ(Patched(R"({"weight":null,"span":null,"codes":null,"count":null})", before), Settings{});
  EXPECT_THAT(Patched(R"({"weight":"x"})", before).error().message, HasSubstr("weight: an integer"));
}

TEST(JsonPatch, HasNullOnlyForItsOwnFields) {
  EXPECT_THAT(Patched(R"({"force":null})", {}).error().message, HasSubstr("force: a boolean was expected"));
  EXPECT_THAT(Patched(R"({"span":{"to":null}})", {}).error().message,
              HasSubstr("span.to: an integer was expected, not null"));
  EXPECT_THAT(FromText<Settings>(R"({"weight":null})", kPeople, "").error().message,
              HasSubstr("weight: an integer was expected, not null"));
}

constexpr std::string_view NameOf(const Part&) { return "part"; }
constexpr std::string_view NameOf(const Thing&) { return "thing"; }
struct Message {
  std::uint64_t id = 0;
  std::variant<Part, Thing> body;
};
template <typename V, Of<Message> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v.Variant("kind", x.body);
}

TEST(Json, NamesTheAlternativeBesideItsFields) {
  EXPECT_EQ(ToText(Message{3, Part{9}}, kPeople), R"({"id":3,"kind":"part","number":9})");
  const auto read = FromText<Message>(R"({"id":3,"kind":"part","number":9})", kMachine, "");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(std::get<Part>(read->body), Part{9});
  const auto unknown = FromText<Message>(R"({"id":3,"kind":"song"})", kPeople, "");
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotSupported);
  EXPECT_THAT(unknown.error().message, HasSubstr("kind: 'song' is not known here"));
}

TEST(Json, ReadsSizesAsPeopleAndAsOlderRecordsHaveThem) {
  const auto read = [](const char* text) {
    ParseState state{kPeople};
    SizeSpec size;
    const FieldPath whole;
    Read(state, FieldPath(whole, "size"), *Parse(text), size);
    return std::pair(size, state.error);
  };
  EXPECT_EQ(read("1024").first, (SizeSpec{{1024}, 0}));
  EXPECT_EQ(read("\"50%\"").first, (SizeSpec{{}, 50}));
  EXPECT_EQ(read(R"({"percent":12.5})").first, (SizeSpec{{}, 12.5}));
  EXPECT_EQ(read(R"({"bytes":7})").first, (SizeSpec{{7}, 0}));
  EXPECT_EQ(read(R"({"percent":101})").second, "size.percent: it is no percentage");
  EXPECT_EQ(read("0"), (std::pair(SizeSpec{}, std::string()))) << "what can be written is read";
}

}  // namespace
}  // namespace gpuman::base::json
