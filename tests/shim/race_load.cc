// One of the processes that race for a limit, on any driver:
//
//   race_load [--threads N] [--seconds S] [--families NAME,…] [--most MIB] [--take MIB] [--seed N]
//
// Makes a context (and waits for room for it), takes --take MiB, prints "ready" and waits for a line. Then N
// threads take and free blocks of up to --most MiB of the families at random for S seconds, and free all they
// have; it prints their counts as one line of JSON. Then it keeps only its context and --take until its
// standard input ends. Exit status 2: usage; 5: the driver returned another status than success or out of
// memory.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/cuda.h"
#include "race_families.h"

namespace gpuman::race {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Options {
  unsigned threads = 0;
  double seconds = 1;
  std::vector<Family> families = AllFamilies();
  std::uint64_t most = 64;
  std::uint64_t take = 0;
  std::uint64_t seed = 1;
};

struct Counts {
  std::atomic<std::uint64_t> taken{0}, refused{0}, bytes{0};
};

[[noreturn]] void Quit(const base::Error& error) {
  std::fprintf(stderr, "race_load: %s\n", error.message.c_str());
  std::exit(5);
}

template <typename T>
T Must(base::Result<T> result) {
  if (!result) Quit(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Contexts count too: if the others have all room, the context comes later.
abi::CUcontext MakeContext(const driver::CudaDriver& cuda) {
  for (;;) {
    abi::CUcontext context = nullptr;
    const auto made =
        cuda.Invoke("cuDevicePrimaryCtxRetain", cuda.calls().cuDevicePrimaryCtxRetain, &context, 0);
    if (made) return context;
    if (made.error().code != base::ErrorCode::kExhausted) Quit(made.error());
    std::this_thread::yield();
  }
}

// Makes the driver load what it needs at the first use of each family before the race.
void WarmUp(Taker& taker, const std::vector<Family>& families) {
  for (const Family family : families) {
    if (const auto block = taker.Take(family, 4096)) Must(taker.Give(*block));
  }
}

// Counts down `opened` when it is ready, and races after `go`.
void Race(const driver::CudaDriver& cuda, abi::CUcontext context, const Options& options, unsigned thread,
          std::latch& opened, std::latch& go, Counts& counts) {
  Must(cuda.Invoke("cuCtxSetCurrent", cuda.calls().cuCtxSetCurrent, context));
  Taker taker(cuda);
  Must(taker.Open());
  if (thread == 0) WarmUp(taker, options.families);
  opened.count_down();
  go.wait();
  std::mt19937_64 random(options.seed * 1000 + thread);
  std::vector<Block> held;
  const auto end = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                            std::chrono::duration<double>(options.seconds));
  while (SteadyClock::now() < end) {
    const std::uint64_t dice = random();
    if (!held.empty() && (dice & 1) != 0) {
      const std::size_t which = random() % held.size();
      std::swap(held[which], held.back());
      Must(taker.Give(held.back()));
      held.pop_back();
      continue;
    }
    const Family family = options.families[(dice >> 1) % options.families.size()];
    // Small ones often, since they share what the device gives.
    const std::uint64_t range = (dice & 6) == 0 ? std::uint64_t{64} << 10 : options.most << 20;
    const auto block = taker.Take(family, random() % range + 1);
    if (block) {
      held.push_back(*block);
      ++counts.taken;
      counts.bytes += block->bytes;
    } else if (block.error().code == base::ErrorCode::kExhausted) {
      ++counts.refused;
    } else {
      Quit(block.error());
    }
  }
  for (const Block& block : held) Must(taker.Give(block));
  Must(taker.Close());
}

int Run(const Options& options) {
  const driver::CudaDriver cuda = Must(driver::CudaDriver::Load());
  Must(cuda.Init());
  const abi::CUcontext context = MakeContext(cuda);
  Must(cuda.Invoke("cuCtxSetCurrent", cuda.calls().cuCtxSetCurrent, context));
  abi::CUdeviceptr taken = 0;
  if (options.take != 0)
    Must(cuda.Invoke("cuMemAlloc", cuda.calls().cuMemAlloc_v2, &taken, std::size_t{options.take << 20}));
  Counts counts;
  std::latch opened(options.threads), go(1);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options.threads; ++i)
    threads.emplace_back([&, i] { Race(cuda, context, options, i, opened, go, counts); });
  opened.wait();
  // In one write, since many of these processes may share a pipe.
  std::printf("ready\n");
  std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line)) std::_Exit(0);  // the threads still wait
  go.count_down();
  for (auto& thread : threads) thread.join();
  std::printf("{\"taken\": %llu, \"refused\": %llu, \"bytes\": %llu}\n",
              static_cast<unsigned long long>(counts.taken), static_cast<unsigned long long>(counts.refused),
              static_cast<unsigned long long>(counts.bytes));
  std::fflush(stdout);
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

bool ParseFamilies(const std::string& text, std::vector<Family>& families) {
  families.clear();
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const auto family = FamilyOf(text.substr(start, end - start));
    if (!family) return false;
    families.push_back(*family);
    start = end + 1;
  }
  return true;
}

bool Parse(int count, char** words, Options& options) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i], value = words[i + 1];
    if (name == "--threads") {
      options.threads = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (name == "--seconds") {
      options.seconds = std::strtod(value.c_str(), nullptr);
    } else if (name == "--families") {
      if (!ParseFamilies(value, options.families)) return false;
    } else if (name == "--most") {
      options.most = std::max(1ull, std::strtoull(value.c_str(), nullptr, 10));
    } else if (name == "--take") {
      options.take = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--seed") {
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else {
      return false;
    }
  }
  return count % 2 == 1;
}

}  // namespace
}  // namespace gpuman::race

int main(int count, char** words) {
  gpuman::race::Options options;
  if (!gpuman::race::Parse(count, words, options)) {
    std::fprintf(
        stderr,
        "usage: race_load [--threads N] [--seconds S] [--families NAME,...] [--most MIB] [--take MIB] "
        "[--seed N]\n");
    return 2;
  }
  return gpuman::race::Run(options);
}
