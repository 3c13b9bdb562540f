#include "suspend/helper.h"

#include <fmt/format.h>
#include <grp.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "suspend/operations.h"
#include "suspend/request.h"

namespace gpuman::suspend {
namespace {

using base::ErrorCode;
using base::Fail;
using base::FailSystem;
using base::Result;

// By the system call: the C library keeps two signals to itself, and posix_spawn left those ignored.
void ResetSignals() {
  constexpr std::size_t kKernelSetSize = 8;
  const std::array<unsigned long, 8> defaults{};  // handler SIG_DFL, no flags, empty mask
  for (int signal = 1; signal <= 64; ++signal)
    ::syscall(SYS_rt_sigaction, signal, defaults.data(), nullptr, kKernelSetSize);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Groups, gid, uid, for good.
Result<> Become(const HelperUser& user) {
  if (::geteuid() != 0) {
    if (::getuid() == user.uid && ::getgid() == user.gid) return {};
    return FailSystem(EPERM, fmt::format("becoming user {} group {}", user.uid, user.gid));
  }
  if (::setgroups(user.groups.size(), user.groups.data()) != 0) return FailSystem(errno, "taking on groups");
  if (::setresgid(user.gid, user.gid, user.gid) != 0) return FailSystem(errno, "taking on a group");
  if (::setresuid(user.uid, user.uid, user.uid) != 0) return FailSystem(errno, "taking on a user");
  // A change of user hands our own /proc/self to root, in which the driver looks things up.
  ::prctl(PR_SET_DUMPABLE, 1);
  return {};
}

// While it lives nobody else on the machine makes checkpoint calls.
class Turn {
 public:
  explicit Turn(bool lock) : lock_(lock) {
    while (lock_ && ::flock(kHelperLock, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Turn() {
    if (lock_) ::flock(kHelperLock, LOCK_UN);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  bool lock_;
};

bool Send(const Answer& answer) {
  const std::string line = Serialize(answer) + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t n = ::send(kHelperSocket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

class Lines {
 public:
  // The next line; nullopt when the socket has closed or talks nonsense without end.
  std::optional<std::string> Next() {
    for (;;) {
      if (const auto newline = buffer_.find('\n'); newline != std::string::npos) {
        std::string line = buffer_.substr(0, newline);
        buffer_.erase(0, newline + 1);
        return line;
      }
      if (buffer_.size() > kMaxLine) return std::nullopt;
      char chunk[4096];
      const ssize_t n = ::recv(kHelperSocket, chunk, sizeof chunk, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return std::nullopt;
      buffer_.append(chunk, static_cast<std::size_t>(n));
    }
  }

 private:
  std::string buffer_;
};

template <typename Number>
bool Read(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool ReadList(std::string_view text, std::vector<gid_t>& out) {
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (!Read(text.substr(0, comma), out.emplace_back())) return false;
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return true;
}

}  // namespace

Result<HelperOptions> ParseHelperOptions(int argc, char** argv) {
  HelperOptions options;
  HelperUser user;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--lock") {
      options.lock = true;
      continue;
    }
    const std::string_view value = i + 1 < argc ? argv[++i] : std::string_view();
    const bool good = word == "--uid"      ? Read(value, uid.emplace())
                      : word == "--gid"    ? Read(value, gid.emplace())
                      : word == "--groups" ? ReadList(value, user.groups)
                                           : false;
    if (!good) return Fail(ErrorCode::kInvalidArgument, fmt::format("wrong: {} {}", word, value));
  }
  if (uid.has_value() != gid.has_value())
    return Fail(ErrorCode::kInvalidArgument, "--uid and --gid go together");
  if (uid) options.user = HelperUser{*uid, *gid, std::move(user.groups)};
  return options;
}

int RunHelper(const HelperOptions& options) {
  ResetSignals();
  if (options.user) {
    if (const auto become = Become(*options.user); !become) {
      Send({.outcome = Outcome::kFailed, .message = become.error().message});
      return 1;
    }
  }
  const Operations operations = Operations::WithDriver();
  const Answer can = operations.Carry({});
  if (!Send(can)) return 1;
  if (can.outcome != Outcome::kDone) return 0;
  Lines lines;
  while (const auto line = lines.Next()) {
    const auto request = ParseRequest(*line);
    Answer answer{.outcome = Outcome::kFailed};
    if (request) {
      const Turn turn(options.lock);
      answer = operations.Carry(*request);
    } else {
      answer.message = request.error().message;
    }
    if (!Send(answer)) break;
  }
  return 0;
}

}  // namespace gpuman::suspend
