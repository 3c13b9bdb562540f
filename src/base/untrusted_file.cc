#include "base/untrusted_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace gpuman::base {
namespace {

constexpr int kLookFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
constexpr int kMaxAttempts = 4;
constexpr int kMaxLinks = 40;            // as the kernel has it
constexpr std::uint64_t kCached = 0x20;  // RESOLVE_CACHED of Linux 5.12: what is known, so it mounts nothing

std::optional<struct statx> LookAt(int fd) {
  struct statx found {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &found) != 0) return std::nullopt;
  return found;
}

bool IsOfAutomounter(int fd) {
  struct statfs system {};
  return ::fstatfs(fd, &system) == 0 && system.f_type == AUTOFS_SUPER_MAGIC;
}

// A look at a name in an automounter's directory may mount it. What is mounted already is found. An older
// kernel cannot look without that.
Fd LookInAutomounter(int directory, const char* name) {
  open_how how{};
  how.flags = kLookFlags;
  how.resolve = kCached;
  Fd found;
  for (int i = 0; i < kMaxAttempts && !found.ok(); ++i) {
    found = Fd(static_cast<int>(::syscall(SYS_openat2, directory, name, &how, sizeof how)));
    if (!found.ok() && errno != EAGAIN) break;  // another change may be under way
  }
  if (!found.ok() && (errno == ENOSYS || errno == EINVAL || errno == EPERM))
    found = Fd(::openat(directory, name, kLookFlags));
  return found;
}

// Goes along a path by itself, one name after the other.
class PathWalk {
 public:
  explicit PathWalk(std::string path) : left_(std::move(path)) {}

  // The file at its end; not ok: errno says why.
  Fd Run() {
    if (!Begin(left_.starts_with('/') ? "/" : ".")) return {};
    while (true) {
      const auto begin = left_.find_first_not_of('/');
      if (begin == std::string::npos) return std::move(at_);
      const auto end = std::min(left_.find('/', begin), left_.size());
      const std::string name = left_.substr(begin, end - begin);
      left_.erase(0, end);
      if (!Enter(name)) return {};
    }
  }

 private:
  bool Begin(const char* path) {
    at_ = Fd(::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
    return at_.ok() && SeeDevice();
  }

  bool SeeDevice() {
    const auto found = LookAt(at_.get());
    if (!found) return false;
    const std::pair device(found->stx_dev_major, found->stx_dev_minor);
    if (device_ == device) return true;
    device_ = device;
    automounter_ = IsOfAutomounter(at_.get());
    return true;
  }

  bool Enter(const std::string& name) {
    Fd next = automounter_ ? LookInAutomounter(at_.get(), name.c_str())
                           : Fd(::openat(at_.get(), name.c_str(), kLookFlags));
    if (!next.ok()) return false;
    const auto found = LookAt(next.get());
    if (!found) return false;
    if (S_ISLNK(found->stx_mode)) return Follow(next.get());
    at_ = std::move(next);
    return SeeDevice();
  }

  bool Follow(int link) {
    std::array<char, 4096> target;
    const ssize_t bytes = ::readlinkat(link, "", target.data(), target.size());
    if (bytes < 0) return false;
    if (++links_ > kMaxLinks || bytes == 0 || static_cast<std::size_t>(bytes) == target.size()) {
      errno = ELOOP;
      return false;
    }
    left_ = std::string(target.data(), static_cast<std::size_t>(bytes)) + "/" + left_;
    return left_.front() == '/' ? Begin("/") : true;
  }

  std::string left_;
  Fd at_;
  std::pair<std::uint32_t, std::uint32_t> device_{};
  bool automounter_ = false;
  int links_ = 0;
};

// `held`: of O_PATH, so that nobody can put another file in its place.
Result<Fd> OpenHeld(const Fd& held, const std::string& name) {
  const auto found = held.ok() ? LookAt(held.get()) : std::nullopt;
  if (!found && errno == EAGAIN)
    return Fail(ErrorCode::kUnavailable, fmt::format("{} is not mounted yet", name),
                "whoever may have it mounted looks at it first: ls " + name);
  if (!found) return FailSystem(errno, fmt::format("opening {}", name));
  if (!S_ISREG(found->stx_mode))
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is no regular file", name));
  const auto own = fmt::format("/proc/self/fd/{}", held.get());
  Fd file(::open(own.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.ok()) return FailSystem(errno, fmt::format("opening {}", name));
  return file;
}

}  // namespace

Result<Fd> OpenUntrustedFile(const std::filesystem::path& path) {
  return OpenHeld(PathWalk(path.string()).Run(), path.string());
}

Result<Fd> OpenUntrustedFileIn(int directory, const std::string& name) {
  return OpenHeld(Fd(::openat(directory, name.c_str(), kLookFlags)), name);
}

bool AreOnOneDevice(int a, int b) {
  const auto one = LookAt(a), other = LookAt(b);
  return one && other && one->stx_dev_major == other->stx_dev_major &&
         one->stx_dev_minor == other->stx_dev_minor;
}

}  // namespace gpuman::base
