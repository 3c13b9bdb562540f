#include "options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <string>

#include "exit_code.h"

namespace gpuman::load {
namespace {

constexpr std::array<std::pair<const char*, Api>, 6> kApis{{{"malloc", Api::kMalloc},
                                                            {"async", Api::kAsync},
                                                            {"vmm", Api::kVmm},
                                                            {"managed", Api::kManaged},
                                                            {"pitch", Api::kPitch},
                                                            {"array", Api::kArray}}};

base::Result<Api> ParseApi(const std::string& text) {
  for (const auto& [word, api] : kApis)
    if (text == word) return api;
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    "'" + text + "' is none of malloc, async, vmm, managed, pitch, array");
}

constexpr const char* kFooter = R"(Sizes: bytes, 512MiB, 8G, or 50% of the device. Times: 500ms, 30s, 10m, 2h.
Order of work: allocate in steps, iterate, hold, jump (and hold again), verify, free.
Exit status: 0 done, 2 usage, 3 out of memory, 4 data wrong, 5 driver error; with --children that of the
worst child, 128+N for one that signal N ended.

Examples:
  gpuman-load --alloc 8GiB --step 64MiB --interval 20ms --json    a hog that climbs
  gpuman-load --alloc 1GiB --verify --iterations 100 --kernel-time 50ms --duty 0.5    a good neighbour
  gpuman-load --alloc 64MiB --hold 2s --jump 4GiB    a jump out of rest)";

// Validates the text with the parser itself, so that the user sees the parser's message.
template <typename Parse>
CLI::Validator Parsed(Parse parse, const char* type) {
  return {[parse](std::string& text) {
            const auto value = parse(text);
            return value ? std::string() : value.error().message;
          },
          type};
}

struct Texts {
  std::string alloc, step, jump, api, interval, hold, kernel_time;
};

void Declare(CLI::App& app, Options& o, Texts& t) {
  const auto size = Parsed(base::ParseSize, "SIZE");
  const auto time = Parsed(base::ParseDuration, "TIME");
  app.add_option("--alloc", t.alloc, "Device memory to take in all")->option_text("SIZE")->check(size);
  app.add_option("--step", t.step, "Take it in steps of this size (default: all at once)")
      ->option_text("SIZE")
      ->check(size);
  app.add_option("--interval", t.interval, "Time between two steps")->option_text("TIME")->check(time);
  app.add_option("--hold", t.hold, "Keep it this long, with kernels running if --kernel-time is given")
      ->option_text("TIME")
      ->check(time);
  app.add_option("--jump", t.jump, "After the hold take this much at once; without a size, all of --alloc")
      ->expected(0, 1)
      ->option_text("SIZE")
      ->check(size);
  app.add_option("--api", t.api, "Kind of memory: malloc, async, vmm, managed, pitch or array")
      ->option_text("API")
      ->check(Parsed(ParseApi, "API"));
  app.add_option("--kernel-time", t.kernel_time, "Length of one kernel")->option_text("TIME")->check(time);
  app.add_option("--duty", o.duty, "Share of the time in which a kernel runs, up to 1")
      ->check(CLI::Range(0.001, 1.0))
      ->option_text("FRACTION");
  app.add_option("--iterations", o.iterations, "Iterations to run (default: as many as fit in the hold)")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  app.add_option("--until", o.until, "Run iterations until this file is there")
      ->excludes("--iterations")
      ->option_text("FILE");
  app.add_flag("--verify", o.verify, "Write a pattern, change it in every iteration, check every byte");
  app.add_option("--flip-byte", o.flip_byte, "Spoil this byte of the first block before the check")
      ->check(CLI::NonNegativeNumber)
      ->option_text("OFFSET");
  app.add_option("--device", o.device, "CUDA's index of the device")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  app.add_option("--children", o.children, "Do it in N child processes instead")
      ->check(CLI::Range(1, 1000))
      ->option_text("N");
  app.add_flag("--daemonize", o.daemonize, "Children leave the session and the parent (double fork, setsid)")
      ->needs("--children");
  app.add_flag("--parent-exits", o.parent_exits, "End at once and leave the children behind")
      ->needs("--children");
  app.add_flag("--ignore-term", o.ignore_term, "Ignore SIGTERM, SIGINT and SIGHUP");
  app.add_flag("--json", o.json, "One JSON line an event");
  app.get_option("--step")->needs("--alloc");
  app.get_option("--flip-byte")->needs("--verify");
}

template <typename Value, typename Parse>
void Assign(const std::string& text, Parse parse, Value& value) {
  if (!text.empty()) value = *parse(text);
}

}  // namespace

const char* ToString(Api api) {
  for (const auto& [word, value] : kApis)
    if (value == api) return word;
  return "?";
}

std::variant<Options, int> ParseOptions(int argc, char** argv) {
  CLI::App app{"Loads a GPU with memory and kernels, the same on real and on simulated ones.", "gpuman-load"};
  app.footer(kFooter);
  Options options;
  Texts texts;
  Declare(app, options, texts);
  try {
    app.parse(argc, argv);
    options.jump_all = app.count("--jump") > 0 && texts.jump.empty();
    if (options.jump_all && texts.alloc.empty()) throw CLI::RequiresError("--jump without a size", "--alloc");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  Assign(texts.alloc, base::ParseSize, options.alloc);
  Assign(texts.step, base::ParseSize, options.step);
  Assign(texts.jump, base::ParseSize, options.jump);
  Assign(texts.api, ParseApi, options.api);
  Assign(texts.interval, base::ParseDuration, options.interval);
  Assign(texts.hold, base::ParseDuration, options.hold);
  Assign(texts.kernel_time, base::ParseDuration, options.kernel_time);
  return options;
}

}  // namespace gpuman::load
