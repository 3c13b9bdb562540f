#include "mps/control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "mps/answers.h"
#include "mps/rivals.h"

namespace gpuman::mps {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{15};  // for a daemon to start, or to end
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

ControlProgram Control::ProgramFor(const std::string& uuid) const {
  return {program_, DirectoriesFor(uuid), uuid};
}

std::unique_ptr<Dialect> Control::Speak(const std::string& uuid) const {
  return MakeDialect(protocol_, ProgramFor(uuid), table_);
}

Result<base::ProcessId> Control::Start(const std::string& uuid, const Limits& limits) const {
  const Directories directories = DirectoriesFor(uuid);
  GPUMAN_TRY(CheckLength(directories));
  for (const auto& directory : {directories.pipe, directories.logs})
    GPUMAN_TRY(base::MakeDirectories(directory, 0755));
  const auto dialect = Speak(uuid);
  std::string said;
  if (!ControlAt(FindControls(table_), directories.pipe)) {
    GPUMAN_ASSIGN(const auto started, ProgramFor(uuid).Run(dialect->StartArguments()));
    said = FirstLine(started.output);
    if (started.status != 0)
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("nvidia-cuda-mps-control -d ended with status {}{}", started.status,
                              said.empty() ? "" : ": " + said),
                  fmt::format("its log is {}", (directories.logs / "control.log").string()));
  }
  for (const auto until = Clock::now() + kPatience; Clock::now() < until;
       std::this_thread::sleep_for(kPause)) {
    const auto control = ControlAt(FindControls(table_), directories.pipe);
    if (!control || !dialect->Servers()) continue;
    if (auto applied = dialect->ApplyLimits({limits, {}, {}}); !applied) {
      (void)Stop(uuid, control->id, true).has_value();  // a daemon without the limits must not stay
      return Fail(std::move(applied.error()));
    }
    return control->id;
  }
  return Fail(ErrorCode::kUnavailable,
              fmt::format("nvidia-cuda-mps-control was started and does not answer{}",
                          said.empty() ? "" : ": " + said),
              fmt::format("its log is {}", (directories.logs / "control.log").string()));
}

Result<AppliedLimits> Control::ApplyLimits(const std::string& uuid, const WantedOnGpu& wanted) const {
  return Speak(uuid)->ApplyLimits(wanted);
}

Result<std::vector<MpsServerStatus>> Control::Servers(const std::string& uuid) const {
  return Speak(uuid)->Servers();
}

Result<> Control::Terminate(const std::string& uuid, pid_t server, pid_t client) const {
  return Speak(uuid)->Terminate(server, client);
}

bool Control::HasTimeSlices(const std::string& uuid) const { return Speak(uuid)->HasTimeSlices(); }

Result<> Control::Stop(const std::string& uuid, base::ProcessId daemon, bool force) const {
  const auto dialect = Speak(uuid);
  if (force) {
    GPUMAN_ASSIGN(const auto servers, dialect->Servers());
    for (const auto& server : servers)
      // The control program refuses if the client has ended meanwhile.
      for (const auto& client : server.clients) (void)dialect->Terminate(server.pid, client.pid).has_value();
  }
  GPUMAN_TRY(dialect->Quit(force));
  for (const auto until = Clock::now() + kPatience; Clock::now() < until; std::this_thread::sleep_for(kPause))
    if (!base::IsAlive(daemon)) return {};
  return Fail(ErrorCode::kTimeout,
              fmt::format("the control daemon (pid {}) was told to end and has not yet: it waits for clients",
                          daemon.pid),
              "gpuman mps status shows them; gpuman mps stop --force ends them");
}

// The program follows the protocol of a daemon that runs in its directory: here is none.
int AskProtocol(const std::filesystem::path& program) {
  const auto help = ControlProgram(program, {"/nonexistent", "/nonexistent"}, "").Run({"-p", "3", "-h"});
  return help ? ParseProtocol(help->output) : 2;
}

Result<std::filesystem::path> FindControl(const std::string& search_path) {
  std::istringstream folders(search_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const auto path = std::filesystem::path(folder) / "nvidia-cuda-mps-control";
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return Fail(ErrorCode::kNotSupported, "there is no nvidia-cuda-mps-control in the daemon's PATH",
              "it comes with the driver (Debian: nvidia-cuda-mps, Ubuntu: nvidia-compute-utils); or set "
              "mps.control in gpumand.toml");
}

}  // namespace gpuman::mps
