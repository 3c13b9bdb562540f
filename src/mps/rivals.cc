#include "mps/rivals.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace gpuman::mps {
namespace {

constexpr std::string_view kComm = "nvidia-cuda-mps";  // 15 characters, as the kernel cuts names
constexpr std::string_view kControl = "nvidia-cuda-mps-control";

bool IsDaemon(const std::vector<std::string>& command) {
  if (command.empty() || std::filesystem::path(command.front()).filename() != kControl) return false;
  return std::any_of(command.begin() + 1, command.end(),
                     [](const std::string& word) { return word == "-d" || word == "-f"; });
}

// Of a control daemon of gpuman: no variable overrules its option.
int ProtocolOf(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i + 1 < command.size(); ++i)
    if ((command[i] == "-p" || command[i] == "--protocol") && command[i + 1] == "3") return 3;
  return 2;
}

bool MayServe(const std::optional<std::string>& devices, const std::string& uuid) {
  if (!devices) return true;
  std::istringstream list(*devices);
  for (std::string entry; std::getline(list, entry, ',');)
    if (!entry.starts_with("GPU-") || uuid.starts_with(entry)) return true;
  return false;
}

bool IsBelow(const std::optional<std::string>& pipe, const std::filesystem::path& root) {
  return pipe && std::filesystem::path(*pipe).lexically_normal().string().starts_with(
                     root.lexically_normal().string() + "/");
}

}  // namespace

std::vector<FoundControlDaemon> FindControls(const base::ProcessTable& table) {
  std::vector<FoundControlDaemon> controls;
  for (const auto& process : table.List()) {
    if (process.name != kComm || process.state == 'Z') continue;
    const pid_t pid = process.id.pid;
    const auto command = table.CommandLine(pid);
    if (!IsDaemon(command)) continue;
    controls.push_back({process.id, table.Owner(pid).value_or(0),
                        table.Environment(pid, "CUDA_MPS_PIPE_DIRECTORY"),
                        table.Environment(pid, "CUDA_VISIBLE_DEVICES"), ProtocolOf(command)});
  }
  return controls;
}

std::optional<FoundControlDaemon> ControlAt(const std::vector<FoundControlDaemon>& controls,
                                            const std::filesystem::path& pipe) {
  const auto it = std::find_if(controls.begin(), controls.end(), [&](const FoundControlDaemon& control) {
    // Anybody can start a program with that name and that variable.
    return (control.uid == 0 || control.uid == ::geteuid()) && control.pipe &&
           std::filesystem::path(*control.pipe).lexically_normal() == pipe.lexically_normal();
  });
  return it == controls.end() ? std::nullopt : std::optional(*it);
}

std::optional<FoundControlDaemon> RivalFor(const std::vector<FoundControlDaemon>& controls,
                                           const std::filesystem::path& root, const std::string& uuid) {
  const auto it = std::find_if(controls.begin(), controls.end(), [&](const FoundControlDaemon& control) {
    return !IsBelow(control.pipe, root) && MayServe(control.devices, uuid);
  });
  return it == controls.end() ? std::nullopt : std::optional(*it);
}

}  // namespace gpuman::mps
