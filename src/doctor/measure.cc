#include "doctor/measure.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "base/process_spawner.h"
#include "driver/cuda.h"

namespace gpuman::doctor {
namespace {

using Steady = std::chrono::steady_clock;

base::Result<base::Millis> FirstCall() {
  const auto begin = Steady::now();
  GPUMAN_ASSIGN(const auto cuda, driver::CudaDriver::Load());
  GPUMAN_TRY(cuda.Init());
  driver::abi::CUcontext context{};
  GPUMAN_TRY(cuda.Invoke("cuDevicePrimaryCtxRetain", cuda.calls().cuDevicePrimaryCtxRetain, &context, 0));
  return std::chrono::duration_cast<base::Millis>(Steady::now() - begin);
}

// Prints "MILLISECONDS\n" or the error, then waits until the parent kills it.
[[noreturn]] void BeChild(int out, const std::string& uuid) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setenv("CUDA_VISIBLE_DEVICES", uuid.c_str(), 1);
  const auto took = FirstCall();
  const std::string line = took ? fmt::format("{}\n", took->count()) : took.error().message + "\n";
  (void)base::WriteAll(out, line).has_value();
  for (;;) ::pause();
}

class Child {
 public:
  Child(const std::string& uuid, base::Millis limit) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    reader_ = base::Fd(ends[0]);
    const base::Fd writer(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) BeChild(writer.get(), uuid);
    until_ = Steady::now() + limit;
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)base::WaitForChild(pid_);
  }

  base::Result<base::Millis> Ask() {
    std::string line;
    while (line.find('\n') == std::string::npos) {
      const auto left = std::chrono::duration_cast<base::Millis>(until_ - Steady::now());
      pollfd wait{reader_.get(), POLLIN, 0};
      if (pid_ <= 0 || left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) == 0)
        return base::Fail(base::ErrorCode::kTimeout, "the first CUDA call did not come back in time");
      std::array<char, 512> buffer{};
      const auto got = ::read(reader_.get(), buffer.data(), buffer.size());
      if (got == 0)
        return base::Fail(base::ErrorCode::kInternal, "the program that was to make the call ended");
      if (got > 0) line.append(buffer.data(), static_cast<std::size_t>(got));
    }
    line.pop_back();
    const auto milliseconds = base::ParseNumber<std::int64_t>(line);
    if (!milliseconds) return base::Fail(base::ErrorCode::kUnavailable, line);
    return base::Millis(*milliseconds);
  }

 private:
  base::Fd reader_;
  pid_t pid_ = -1;
  Steady::time_point until_{};
};

}  // namespace

ColdStart Measure(const GpuFacts& gpu, base::Millis limit) {
  ColdStart measured;
  measured.gpu = gpu.index;
  Child first(gpu.uuid, limit);
  const auto cold = first.Ask();
  if (!cold) {
    measured.problem = cold.error().message;
    return measured;
  }
  Child second(gpu.uuid, limit);
  const auto warm = second.Ask();
  if (!warm) {
    measured.problem = warm.error().message;
    return measured;
  }
  measured.cold = *cold;
  measured.warm = *warm;
  return measured;
}

}  // namespace gpuman::doctor
