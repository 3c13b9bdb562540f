#include "trace/frames.h"

#include <gmock/gmock.h>

#include "trace/pprof.h"
#include "trace/test_trace.h"

namespace gpuman::trace {
namespace {

constexpr std::uint64_t kShim = 0x1000, kDriver = 0x2000, kModel = 0x3000, kPython = 0x4000;

TraceBytes Modules() {
  TraceBytes bytes;
  bytes.Device(0, 1)
      .Module(kShim, kShim + 0x1000, "/opt/lib/libgpuman.so")
      .Module(kDriver, kDriver + 0x1000, "/usr/lib/libcudart.so.12")
      .Module(kModel, kModel + 0x1000, "/home/ann/libmodel.so")
      .Module(kPython, kPython + 0x1000, "/usr/bin/python3.11", true)
      .Function("/home/ann/train.py", "Net.forward")
      .Function("/home/ann/train.py", "main");
  return bytes;
}

void Name(const MappedBinary& module, std::uint64_t address, Frame& frame) {
  if (!module.path.ends_with("libmodel.so") || address != 0x1f) return;
  frame.function = "Tensor::grow(unsigned long)";
  frame.file = "tensor.cc";
  frame.line = 12;
}

std::vector<Frame> FramesOfFirst(const TraceBytes& bytes) {
  const auto trace = ParseTrace(bytes.bytes);
  EXPECT_TRUE(trace);
  return FramesOf(*trace, trace->stacks[0], Name);
}

std::string PlaceTextOfFirst(const TraceBytes& bytes) {
  const auto trace = ParseTrace(bytes.bytes);
  EXPECT_TRUE(trace);
  return PlaceTextOf(*trace, trace->stacks[0], Name);
}

TEST(Frames, GoFromTheCodeToTheLinesOfPython) {
  TraceBytes bytes = Modules();
  bytes.Stack({kShim + 1, kDriver + 2, kModel + 0x20, kPython + 9, kModel + 7}, {{0, 31}, {1, 99}});
  const auto frames = FramesOfFirst(bytes);
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[0].module, "/usr/lib/libcudart.so.12");
  EXPECT_EQ(frames[1].function, "Tensor::grow(unsigned long)");
  EXPECT_TRUE(frames[2].python);
  EXPECT_EQ(PlaceTextOfFirst(bytes), "/home/ann/train.py:31 in Net.forward");
}

TEST(Frames, WithoutPythonHaveThePlaceOutsideOfCuda) {
  EXPECT_EQ(PlaceTextOfFirst(Modules().Stack({kShim + 1, kDriver + 2, kModel + 0x20, kPython + 9})),
            "Tensor::grow(unsigned long) (tensor.cc:12)");
  EXPECT_EQ(PlaceTextOfFirst(Modules().Stack({kModel + 0x31})), "libmodel.so+0x30");
  EXPECT_EQ(PlaceTextOfFirst(Modules().Stack({kDriver + 2, 0x99})), "unknown");
  EXPECT_EQ(PlaceTextOfFirst(Modules().Stack({0})), "unknown");
}

TEST(Places, AddUpStacksOfOneLine) {
  auto bytes = Modules();
  bytes.Stack({kModel + 1}, {{0, 31}}).Stack({kModel + 2}, {{0, 31}}).Stack({kModel + 3}, {{1, 5}});
  bytes.Allocated(1010, 1, 100, 0).Allocated(1020, 2, 200, 1).Allocated(1030, 3, 250, 2);
  std::vector<ProcessTrace> processes{*ParseTrace(bytes.bytes)};
  const auto places = PlacesOf(processes, Replay(processes)[0].peak, Name);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].text, "/home/ann/train.py:31 in Net.forward");
  EXPECT_DOUBLE_EQ(places[0].amount.bytes, 300);
  ASSERT_EQ(places[0].stacks.size(), 2u);
  EXPECT_DOUBLE_EQ(places[0].stacks[0].second.bytes, 200);
  EXPECT_EQ(places[0].stacks[0].first, (StackRef{0, 1}));
  EXPECT_EQ(places[1].text, "/home/ann/train.py:5 in main");
}

TEST(Places, AskForNoMoreNamesThanTheyShow) {
  const auto trace = ParseTrace(Modules()
                                    .Stack({kDriver + 2, kModel + 0x20, kModel + 7}, {{0, 31}})
                                    .Stack({kDriver + 2, kModel + 0x20, kModel + 7})
                                    .bytes);
  ASSERT_TRUE(trace);
  unsigned asked = 0;
  const NameFrame name = [&](const MappedBinary& module, std::uint64_t address, Frame& frame) {
    ++asked;
    Name(module, address, frame);
  };
  EXPECT_EQ(PlaceTextOf(*trace, trace->stacks[0], name), "/home/ann/train.py:31 in Net.forward");
  EXPECT_EQ(asked, 0u);
  EXPECT_EQ(PlaceTextOf(*trace, trace->stacks[1], name), "Tensor::grow(unsigned long) (tensor.cc:12)");
  EXPECT_EQ(asked, 1u);
}

// Reads messages of protocol buffers, by field.
struct Message {
  std::multimap<unsigned, std::uint64_t> numbers;
  std::multimap<unsigned, std::string> texts;
};

std::uint64_t TakeVarint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(bytes[0]);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

Message Decode(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const std::uint64_t tag = TakeVarint(bytes);
    const std::uint64_t value = TakeVarint(bytes);
    const auto field = static_cast<unsigned>(tag >> 3);
    if ((tag & 7) == 0) {
      message.numbers.emplace(field, value);
      continue;
    }
    EXPECT_EQ(tag & 7, 2u);
    EXPECT_LE(value, bytes.size());
    message.texts.emplace(field, bytes.substr(0, value));
    bytes.remove_prefix(value);
  }
  return message;
}

std::vector<std::uint64_t> Packed(std::string_view bytes) {
  std::vector<std::uint64_t> values;
  while (!bytes.empty()) values.push_back(TakeVarint(bytes));
  return values;
}

std::vector<std::string> All(const Message& message, unsigned field) {
  std::vector<std::string> list;
  const auto [begin, end] = message.texts.equal_range(field);
  for (auto it = begin; it != end; ++it) list.push_back(it->second);
  return list;
}

TEST(Pprof, HasEachStackWithItsBytesAtThePeakAndAtTheRefusal) {
  auto bytes = Modules();
  bytes.Stack({kModel + 0x20, kPython + 9}, {{0, 31}, {1, 99}}).Stack({kModel + 0x31});
  bytes.Allocated(1010, 1, 300, 0).Allocated(1020, 2, 200, 1).Freed(1030, 1).Refused(1040, 1000, 0);
  std::vector<ProcessTrace> processes{*ParseTrace(bytes.bytes)};
  const Message profile = Decode(WritePprof(processes, Replay(processes), Name));
  const auto texts = All(profile, 6);
  ASSERT_FALSE(texts.empty());
  EXPECT_EQ(texts[0], "");
  const auto text = [&](const Message& message, unsigned field) {
    const auto found = message.numbers.find(field);
    return found == message.numbers.end() ? "" : texts.at(found->second);
  };
  std::vector<std::string> types;
  for (const auto& type : All(profile, 1))
    types.push_back(text(Decode(type), 1) + "/" + text(Decode(type), 2));
  EXPECT_THAT(types, testing::ElementsAre("peak/bytes", "refusal/bytes"));
  EXPECT_EQ(text(profile, 14), "peak");

  std::map<std::uint64_t, std::string> functions, locations;
  for (const auto& one : All(profile, 5)) {
    const Message function = Decode(one);
    functions[function.numbers.find(1)->second] = text(function, 2) + " " + text(function, 4);
  }
  for (const auto& one : All(profile, 4)) {
    const Message location = Decode(one), line = Decode(location.texts.find(4)->second);
    const auto number = line.numbers.find(2);
    locations[location.numbers.find(1)->second] =
        functions.at(line.numbers.find(1)->second) +
        (number != line.numbers.end() ? ":" + std::to_string(number->second) : "");
  }
  std::map<std::vector<std::uint64_t>, std::vector<std::string>> samples;
  for (const auto& one : All(profile, 2)) {
    const Message sample = Decode(one);
    auto& frames = samples[Packed(sample.texts.find(2)->second)];
    for (const std::uint64_t location : Packed(sample.texts.find(1)->second))
      frames.push_back(locations.at(location));
  }
  EXPECT_THAT(samples,
              testing::ElementsAre(
                  testing::Pair(testing::ElementsAre(200, 200), testing::ElementsAre("libmodel.so+0x30 ")),
                  testing::Pair(testing::ElementsAre(300, 0),
                                testing::ElementsAre("Tensor::grow(unsigned long) tensor.cc:12",
                                                     "Net.forward /home/ann/train.py:31",
                                                     "main /home/ann/train.py:99"))));
}

// The first mapping's file, as readers of profiles show it.
std::string ProgramIn(const TraceBytes& bytes) {
  const std::vector<ProcessTrace> processes{*ParseTrace(bytes.bytes)};
  const Message profile = Decode(WritePprof(processes, Replay(processes), Name));
  const Message mapping = Decode(All(profile, 3).at(0));
  return All(profile, 6).at(mapping.numbers.find(5)->second);
}

TEST(Pprof, HasTheProgramAsItsFirstMapping) {
  EXPECT_EQ(ProgramIn(Modules().Stack({kDriver + 2, kModel + 0x20}).Allocated(1010, 1, 300, 0)),
            "/usr/bin/python3.11");
  TraceBytes bytes;
  bytes.Device(0, 1)
      .Module(kDriver, kDriver + 0x1000, "/usr/lib/libcudart.so.12")
      .Module(kModel, kModel + 0x1000, "/home/ann/solve")
      .Module(kPython, kPython + 0x1000, "/lib/libc.so.6")
      .Stack({kDriver + 2, kModel + 0x20, kPython + 7})
      .Allocated(1010, 1, 300, 0);
  EXPECT_EQ(ProgramIn(bytes), "/home/ann/solve") << "a thread of it begins in the C library";
}

TEST(Pprof, HasNamesThatAreNoTextAsText) {
  auto bytes = Modules();
  bytes.Stack({kModel + 0x20}).Allocated(1010, 1, 300, 0);
  const std::vector<ProcessTrace> processes{*ParseTrace(bytes.bytes)};
  const auto name = [](const MappedBinary&, std::uint64_t, Frame& frame) { frame.function = "gr\xfc\xdf"; };
  EXPECT_THAT(All(Decode(WritePprof(processes, Replay(processes), name)), 6),
              testing::Contains("gr\xef\xbf\xbd\xef\xbf\xbd"));
}

}  // namespace
}  // namespace gpuman::trace
