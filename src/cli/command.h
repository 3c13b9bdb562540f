// How a command of `gpuman` registers: a function adds its subcommand to the parser.
//
// Parsing a command line only chooses an action; the action runs afterwards. app.cc has the table of all
// commands.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "base/result.h"
#include "cli/session.h"

namespace gpuman::cli {

// Does what the command says; the value is the exit status.
using Action = std::function<base::Result<int>(Session&)>;

struct Registry {
  CLI::App& root;
  Session& session;
  Action& chosen;  // the parser sets it when it recognises a command

  // Adds a subcommand of `parent` (of the root when null) with the options that every command has and an
  // example in its help. The variables that the options write to must live as long as `action`: capture them
  // in it.
  CLI::App* Add(const std::string& name, const std::string& summary, const std::string& example,
                Action action, CLI::App* parent = nullptr) const;
};

void AddRun(const Registry& registry);
void AddStatus(const Registry& registry);
void AddProclist(const Registry& registry);
void AddUpdate(const Registry& registry);
void AddRestart(const Registry& registry);
void AddRemove(const Registry& registry);
void AddSuspend(const Registry& registry);
void AddResume(const Registry& registry);
void AddMove(const Registry& registry);
void AddLogs(const Registry& registry);
void AddEvents(const Registry& registry);
void AddShare(const Registry& registry);
void AddDevice(const Registry& registry);
void AddHealth(const Registry& registry);
void AddTop(const Registry& registry);
void AddMetrics(const Registry& registry);
void AddMig(const Registry& registry);
void AddMps(const Registry& registry);
void AddDoctor(const Registry& registry);
void AddGpu(const Registry& registry);
void AddConfig(const Registry& registry);
void AddCompletion(const Registry& registry);
void AddSubmit(const Registry& registry);
void AddQueue(const Registry& registry);
void AddJob(const Registry& registry);
void AddCancel(const Registry& registry);
void AddInfo(const Registry& registry);
void AddStats(const Registry& registry);
void AddReserve(const Registry& registry);
void AddQuota(const Registry& registry);
// allow, restrict, ignore-process, choice: below `gpu`.
void AddQueueOfGpus(const Registry& registry, CLI::App* gpu);
// drain, undrain: below `gpu`.
void AddDrain(const Registry& registry, CLI::App* gpu);

// What the value of an option is, for help and completion. Alternatives are written "no|yes".
inline constexpr const char* kJobValue = "JOB";
inline constexpr const char* kGpuValue = "GPU";
inline constexpr const char* kFileValue = "FILE";
inline constexpr const char* kSizeValue = "SIZE";
inline constexpr const char* kTimeValue = "TIME";
inline constexpr const char* kRestartValue = "no|on-failure|always";

// The job that a command is about: an argument, or --tag as in the first tool of this kind.
CLI::Option* AddJobArgument(CLI::App* command, std::string& job);

}  // namespace gpuman::cli
