#include "base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <map>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::base {
namespace {

template <typename T>
bool ReadField(std::string_view& text, T& value) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const auto number = TakeNumber<T>(text);
  if (number) value = *number;
  return number.has_value();
}

std::vector<std::string> SplitAtNul(const std::string& data) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin < data.size()) {
    auto end = data.find('\0', begin);
    if (end == std::string::npos) end = data.size();
    parts.emplace_back(data, begin, end - begin);
    begin = end + 1;
  }
  return parts;
}

// Reads a file of /proc with one call, so that a process that executes another program between two calls does
// not show the beginning of one command line and the end of the other. Empty where that is not possible.
std::string ReadAtOnce(const std::filesystem::path& path) {
  constexpr std::size_t kMaxBytes = std::size_t{8} << 20;  // more than the kernel takes for arguments
  for (std::size_t size = 64 << 10; size <= kMaxBytes; size *= 2) {
    const auto fd = OpenFile(path, O_RDONLY);
    if (!fd) return {};
    std::string data(size, '\0');
    ssize_t n = 0;
    do n = ::read(fd->get(), data.data(), data.size());
    while (n < 0 && errno == EINTR);
    if (n < 0) return {};
    data.resize(static_cast<std::size_t>(n));
    if (data.size() < size) return data;
  }
  return {};
}

}  // namespace

std::optional<ProcessInfo> ParseStat(std::string_view text) {
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  ProcessInfo info;
  if (!ReadField(text, info.id.pid)) return std::nullopt;
  const auto shift = text.rfind(')');
  info.name = std::string(text.substr(text.find('(') + 1, shift - text.find('(') - 1));
  text.remove_prefix(shift + 1);
  if (text.size() < 2 || text[0] != ' ') return std::nullopt;
  info.state = text[1];
  text.remove_prefix(2);
  if (!ReadField(text, info.parent) || !ReadField(text, info.group) || !ReadField(text, info.session))
    return std::nullopt;
  // Fields 7 to 21 lie between session and start time.
  for (int field = 7; field <= 21; ++field) {
    long long ignored = 0;
    unsigned long long large = 0;
    auto copy = text;
    if (ReadField(text, ignored)) continue;
    text = copy;
    if (!ReadField(text, large)) return std::nullopt;
  }
  if (!ReadField(text, info.id.start_time)) return std::nullopt;
  return info;
}

std::optional<ProcessInfo> ProcFs::Find(pid_t pid) const {
  const auto text = ReadFile(root_ / std::to_string(pid) / "stat");
  return text ? ParseStat(*text) : std::nullopt;
}

std::vector<ProcessInfo> ProcFs::List() const {
  std::vector<ProcessInfo> processes;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!AreDigits(name)) continue;
    if (auto info = Find(ParseNumber<pid_t>(name).value_or(0))) processes.push_back(std::move(*info));
  }
  return processes;
}

std::optional<uid_t> ProcFs::Owner(pid_t pid) const {
  const auto text = ReadFile(root_ / std::to_string(pid) / "status");
  if (!text) return std::nullopt;
  const auto line = text->find("\nUid:");
  if (line == std::string::npos) return std::nullopt;
  const auto digits = text->find_first_of("0123456789", line);
  if (digits == std::string::npos) return std::nullopt;
  auto rest = std::string_view(*text).substr(digits);
  return TakeNumber<uid_t>(rest);
}

std::vector<std::string> ProcFs::CommandLine(pid_t pid) const {
  return SplitAtNul(ReadAtOnce(root_ / std::to_string(pid) / "cmdline"));
}

std::optional<std::string> ProcFs::Environment(pid_t pid, std::string_view name) const {
  const auto data = ReadFile(root_ / std::to_string(pid) / "environ");
  if (!data) return std::nullopt;
  for (const auto& entry : SplitAtNul(*data))
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
      return entry.substr(name.size() + 1);
  return std::nullopt;
}

std::optional<std::filesystem::path> ProcFs::Cgroup(pid_t pid) const {
  const auto groups = ReadFile(root_ / std::to_string(pid) / "cgroup");
  const auto mounts = ReadFile(root_ / "self" / "mountinfo");
  if (!groups || !mounts) return std::nullopt;
  const auto path = Cgroup2Path(*groups);
  const auto mount = FindCgroup2Mount(*mounts);
  return path && mount ? CgroupDirectory(*mount, *path) : std::nullopt;
}

std::optional<ProcessId> IdentityOf(pid_t pid) {
  const auto info = ProcFs().Find(pid);
  return info ? std::optional(info->id) : std::nullopt;
}

ProcessId SelfId() { return IdentityOf(::getpid()).value_or(ProcessId{::getpid(), 0}); }

Result<Fd> OpenProcess(ProcessId id) {
  const auto gone = [&] { return Fail(ErrorCode::kNotFound, fmt::format("process {} has ended", id.pid)); };
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, id.pid, 0)));
  if (!fd.ok()) {
    if (errno == ESRCH || errno == EINVAL) return gone();
    return FailSystem(errno, fmt::format("opening process {}", id.pid));
  }
  // The check comes after the open: the descriptor stays with the process that had the pid then.
  const auto now = IdentityOf(id.pid);
  if (!now || *now != id) return gone();
  return fd;
}

bool IsAlive(ProcessId id) {
  const auto text = ReadFile(fmt::format("/proc/{}/stat", id.pid));
  if (!text) return text.error().code != ErrorCode::kNotFound;
  const auto info = ParseStat(*text);
  return info && info->id == id && info->state != 'Z' && info->state != 'X';
}

Result<> SendSignal(ProcessId id, int signal) {
  GPUMAN_ASSIGN(const Fd fd, OpenProcess(id));
  if (::syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) != 0) {
    if (errno == ESRCH) return Fail(ErrorCode::kNotFound, fmt::format("process {} has ended", id.pid));
    return FailSystem(errno, fmt::format("sending signal {} to process {}", signal, id.pid));
  }
  return {};
}

std::vector<ProcessInfo> Descendants(const std::vector<ProcessInfo>& table, pid_t root) {
  std::multimap<pid_t, const ProcessInfo*> children;
  std::vector<ProcessInfo> tree;
  for (const auto& process : table) {
    children.emplace(process.parent, &process);
    if (process.id.pid == root) tree.push_back(process);
  }
  std::vector<pid_t> pending{root};
  while (!pending.empty()) {
    const pid_t parent = pending.back();
    pending.pop_back();
    const auto [first, last] = children.equal_range(parent);
    for (auto it = first; it != last; ++it) {
      if (it->second->id.pid == root) continue;
      tree.push_back(*it->second);
      pending.push_back(it->second->id.pid);
    }
  }
  return tree;
}

}  // namespace gpuman::base
