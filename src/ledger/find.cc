#include "ledger/find.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/untrusted_file.h"

namespace gpuman::ledger {
namespace {

// `memory`: a file on the device of memory files, as the ledger's is. The name is not enough: a file of any
// file system can have this name once its mount is gone, and that file system may take any time to open the
// file.
std::optional<base::Fd> FindIn(const std::filesystem::path& folder, const std::string& name, int memory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (std::filesystem::read_symlink(entry.path(), error) != name) continue;
    // O_PATH holds the file without opening it, so that the process cannot put another file in its place
    // meanwhile.
    const base::Fd held(::open(entry.path().c_str(), O_PATH | O_CLOEXEC));
    const auto own = fmt::format("/proc/self/fd/{}", held.get());
    if (!held.ok() || std::filesystem::read_symlink(own, error) != name ||
        !base::AreOnOneDevice(held.get(), memory))
      continue;
    base::Fd file(::open(own.c_str(), O_RDWR | O_CLOEXEC));
    if (file.ok()) return file;
  }
  return std::nullopt;
}

std::optional<base::Fd> FindInFolders(const std::vector<pid_t>& pids, const std::filesystem::path& proc,
                                      const char* folder, const std::string& name) {
  const base::Fd memory(::memfd_create("gpuman-find", MFD_CLOEXEC));
  for (const pid_t pid : pids) {
    if (auto found = FindIn(proc / std::to_string(pid) / folder, name, memory.get())) return found;
  }
  return std::nullopt;
}

// A look at a process's mappings waits for as long as the process's owner keeps its memory locked: so a
// thread of its own waits for that, and the caller waits only for a moment.
template <typename Function>
std::invoke_result_t<Function> WithTimeout(Function look) {
  constexpr std::chrono::milliseconds kPatience{500};
  constexpr int kMaxHeld = 8;
  static std::atomic<int> held = 0;
  if (held >= kMaxHeld) return {};
  const auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Function>()>>(std::move(look));
  auto answer = task->get_future();
  ++held;
  try {
    std::thread([task] {
      (*task)();
      --held;
    }).detach();
  } catch (const std::system_error&) {
    --held;
    return {};
  }
  if (answer.wait_for(kPatience) != std::future_status::ready) return {};
  return answer.get();
}

}  // namespace

std::optional<base::Fd> FindLedger(base::JobId job, std::span<const pid_t> pids,
                                   const std::filesystem::path& proc) {
  const std::string name = fmt::format("/memfd:gpuman-ledger-{} (deleted)", job.value);
  const std::vector<pid_t> all(pids.begin(), pids.end());
  if (auto found = FindInFolders(all, proc, "fd", name)) return found;
  // A program may have closed the shim's descriptor: the process still has the file mapped.
  return WithTimeout([all, proc, name] { return FindInFolders(all, proc, "map_files", name); });
}

}  // namespace gpuman::ledger
