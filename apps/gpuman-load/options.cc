#include "options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <string>

#include "base/output.h"
#include "exit_code.h"
#include "plan.h"

namespace gpuman::load {
namespace {

constexpr std::array<std::pair<const char*, Api>, 6> kApis{{{"malloc", Api::kMalloc},
                                                            {"async", Api::kAsync},
                                                            {"vmm", Api::kVmm},
                                                            {"managed", Api::kManaged},
                                                            {"pitch", Api::kPitch},
                                                            {"array", Api::kArray}}};

constexpr std::array<std::pair<const char*, Pattern>, 4> kPatterns{{{"ddp", Pattern::kDdp},
                                                                    {"pipeline", Pattern::kPipeline},
                                                                    {"tensor", Pattern::kTensor},
                                                                    {"random", Pattern::kRandom}}};
constexpr std::array<std::pair<const char*, Peer>, 4> kPeers{
    {{"vmm", Peer::kVmm}, {"ipc", Peer::kIpc}, {"host", Peer::kHost}, {"direct", Peer::kDirect}}};

template <typename Value, std::size_t N>
base::Result<Value> ParseWord(const std::array<std::pair<const char*, Value>, N>& words,
                              const std::string& text) {
  std::string all;
  for (const auto& [word, value] : words) {
    if (text == word) return value;
    all += (all.empty() ? "" : ", ") + std::string(word);
  }
  return base::Fail(base::ErrorCode::kInvalidArgument, "'" + text + "' is none of " + all);
}
base::Result<Api> ParseApi(const std::string& text) { return ParseWord(kApis, text); }
base::Result<Pattern> ParsePattern(const std::string& text) { return ParseWord(kPatterns, text); }
base::Result<Peer> ParsePeer(const std::string& text) {
  return ParseWord(std::array{kPeers[0], kPeers[1], kPeers[2]}, text);  // "direct" only comes with --threads
}

template <typename Value, std::size_t N>
const char* WordOf(const std::array<std::pair<const char*, Value>, N>& words, Value wanted) {
  for (const auto& [word, value] : words)
    if (value == wanted) return word;
  return "?";
}

constexpr const char* kFooter = R"(Sizes: bytes, 512MiB, 8G, or 50% of the device. Times: 500ms, 30s, 10m, 2h.
Order of work: allocate in steps, iterate, hold, jump (and hold again), verify, free.
Exit status: 0 done, 2 usage, 3 out of memory, 4 data wrong, 5 driver error; with --children that of the
worst child, 128+N for one that signal N ended.

With --ranks, N processes need each other, as those that torchrun starts: rank r uses device r modulo the
visible ones. In each step the device of each rank works for --work, its blocks (--buckets, 8 KiB each) grow
by one, and kernels send them to the other ranks' windows of 4 MiB and wait for theirs. --pattern says who
sends to whom:
  ddp       sums over all ranks beside the work, a bucket at a time
  tensor    sums over all ranks between the work, there and back
  pipeline  each bucket from the first rank to the last and back
  random    sums over groups that --seed draws; the last sum of a step is one of all
--verify compares every sum with what it must be, and reports a step's wrong words in that step; --flip-byte
spoils the first block of rank 0 before the first step. --alloc gives each rank memory of its own. All ranks
run as many steps: --iterations, or until --until, or while --hold lasts. With --grow one rank takes more in
the middle, and the others wait for it on their devices meanwhile. If a rank ends early, the others
are killed, and its status is that of the load. The GPUs must be Volta or newer and, except with --peer host,
reach each other. With --threads the ranks are threads of one process, each on a device of its own, and reach
each other's memory by its address.

Examples:
  gpuman-load --alloc 8GiB --step 64MiB --interval 20ms --json    a hog that climbs
  gpuman-load --alloc 1GiB --verify --iterations 100 --kernel-time 50ms --duty 0.5    a good neighbour
  gpuman-load --alloc 64MiB --hold 2s --jump 4GiB    a jump out of rest
  gpuman-load --ranks 2 --work 20ms --alloc 1GiB --verify --hold 1m    two ranks that train together)";

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
  std::string alloc, step, jump, api, interval, hold, kernel_time, pattern, peer, work, think, grow;
};

void DeclareRanks(CLI::App& app, Options& o, Texts& t) {
  const auto time = Parsed(base::ParseDuration, "TIME");
  app.add_option("--ranks", o.ranks, "Do it in N processes that wait for each other on the GPU")
      ->check(CLI::Range(2u, kMaxRanks))
      ->excludes("--children", "--device", "--jump", "--kernel-time", "--duty")
      ->option_text("N");
  app.add_flag("--threads", o.threads, "Make the ranks threads of one process");
  app.add_option("--pattern", t.pattern, "Who sends to whom: ddp (default), pipeline, tensor or random")
      ->option_text("PATTERN")
      ->check(Parsed(ParsePattern, "PATTERN"));
  app.add_option("--peer", t.peer, "How ranks reach each other's memory: vmm (default), ipc or host")
      ->option_text("HOW")
      ->check(Parsed(ParsePeer, "HOW"));
  app.add_option("--work", t.work, "Time for which each device works in a step")
      ->option_text("TIME")
      ->check(time);
  app.add_option("--buckets", o.buckets, "Blocks that a rank sends in a step (default: 4)")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  app.add_option("--ahead", o.ahead, "Steps that a rank queues before it waits for the first (default: 1)")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  app.add_flag("--opposite", o.opposite,
               "Two communicators, which odd ranks use in the opposite order (ddp)");
  app.add_flag("--graph", o.graph, "Capture a step once and launch it as a graph")->excludes("--opposite");
  app.add_option("--think", t.think,
                 "Longest pause of the program before a send in each step, drawn at random")
      ->option_text("TIME")
      ->check(time);
  app.add_option("--grow", t.grow,
                 "Memory that one rank takes between two steps while the others wait for it")
      ->option_text("SIZE")
      ->check(Parsed(base::ParseSize, "SIZE"));
  app.add_option("--grow-when", o.grow_when, "It does so once this file is there")->option_text("FILE");
  app.add_option("--grow-rank", o.grow_rank, "Which rank does (default: 0)")
      ->check(CLI::Range(0u, kMaxRanks - 1))
      ->option_text("N");
  app.get_option("--grow")->needs("--grow-when");
  for (const char* name : {"--grow-when", "--grow-rank"}) app.get_option(name)->needs("--grow");
  app.add_option("--seed", o.seed, "Seed of what is drawn at random")->option_text("N");
  app.get_option("--threads")->excludes("--peer");
  for (const char* name : {"--pattern", "--peer", "--work", "--buckets", "--ahead", "--opposite", "--graph",
                           "--think", "--threads", "--grow", "--seed"})
    app.get_option(name)->needs("--ranks");
}

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
  app.add_flag("--json", o.json, "Print each event as a line of JSON");
  app.get_option("--step")->needs("--alloc");
  app.get_option("--flip-byte")->needs("--verify");
  DeclareRanks(app, o, t);
}

template <typename Value, typename Parse>
void Assign(const std::string& text, Parse parse, Value& value) {
  if (!text.empty()) value = *parse(text);
}

}  // namespace

const char* ToString(Api api) { return WordOf(kApis, api); }
const char* ToString(Pattern pattern) { return WordOf(kPatterns, pattern); }
const char* ToString(Peer peer) { return WordOf(kPeers, peer); }

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
    if (options.opposite && !texts.pattern.empty() && texts.pattern != "ddp")
      throw CLI::RequiresError("--opposite", "--pattern ddp");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? base::FinishOutput("gpuman-load", kDone) : kUsage;
  }
  Assign(texts.alloc, base::ParseSize, options.alloc);
  Assign(texts.step, base::ParseSize, options.step);
  Assign(texts.jump, base::ParseSize, options.jump);
  Assign(texts.api, ParseApi, options.api);
  Assign(texts.interval, base::ParseDuration, options.interval);
  Assign(texts.hold, base::ParseDuration, options.hold);
  Assign(texts.kernel_time, base::ParseDuration, options.kernel_time);
  Assign(texts.pattern, ParsePattern, options.pattern);
  if (options.threads) options.peer = Peer::kDirect;
  Assign(texts.peer, ParsePeer, options.peer);
  Assign(texts.work, base::ParseDuration, options.work);
  Assign(texts.think, base::ParseDuration, options.think);
  Assign(texts.grow, base::ParseSize, options.grow);
  return options;
}

}  // namespace gpuman::load
