// update, restart, remove, suspend, resume, move: commands that change a job.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/run_request.h"
#include "cli/views.h"

namespace gpuman::cli {
namespace {

struct UpdateOptions {
  std::string job;
  std::optional<std::string> memory, soft, restart, grace;
  std::optional<int> priority;
  std::optional<double> weight;
};

// "none" removes the limit.
base::Result<> TakeSize(std::string_view name, const std::optional<std::string>& text,
                        std::optional<base::SizeSpec>& size, bool& clear) {
  clear = text == "none";
  if (clear) return {};
  GPUMAN_ASSIGN(size, SizeOption(name, text));
  return {};
}

base::Result<api::UpdateRequest> MakeUpdate(const UpdateOptions& options) {
  api::UpdateRequest request;
  GPUMAN_TRY(TakeSize("--memory", options.memory, request.memory, request.clear_memory));
  GPUMAN_TRY(TakeSize("--soft", options.soft, request.soft, request.clear_soft));
  GPUMAN_ASSIGN(request.grace, TimeOption("--grace", options.grace));
  request.priority = options.priority;
  request.weight = options.weight;
  if (options.restart) request.restart = base::ValueOf(WordsOf(spec::RestartMode{}), *options.restart);
  if (!options.memory && !options.soft && !options.grace && !options.priority && !options.weight &&
      !options.restart)
    return base::Fail(base::ErrorCode::kInvalidArgument, "there is nothing to change",
                      fmt::format("gpuman update {} --memory 8GiB", options.job));
  return request;
}

// Sends a request about a job to the daemon and prints the job's new state.
template <typename Ask>
base::Result<int> WithJob(Session& session, const std::string& job, std::string_view done, Ask ask) {
  GPUMAN_ASSIGN(const api::Client daemon, session.Daemon());
  const base::Result<api::JobView> view = ask(daemon);
  if (!view) return base::Fail(WithNearestTag(daemon, job, view.error()));
  if (session.json)
    session.PrintJson(api::ToJson(*view));
  else
    session.Print(fmt::format("{}{}\n", done, JobSentence(*view)));
  if (!api::IsEnded(view->state))
    for (const auto& note : view->notes) session.Note(note);
  return kExitDone;
}

struct RemoveOptions {
  std::string job;
  bool keep_running = false;
};

}  // namespace

void AddUpdate(const Registry& registry) {
  const auto o = std::make_shared<UpdateOptions>();  // shared by the parser's bindings and the action
  auto* update = registry.Add(
      "update", "Change the limits of a job, also while it runs", "gpuman update train --memory 12GiB",
      [o](Session& session) -> base::Result<int> {
        GPUMAN_ASSIGN(const auto request, MakeUpdate(*o));
        return WithJob(session, o->job,
                       "updated: ", [&](const auto& daemon) { return daemon.Update(o->job, request); });
      });
  AddJobArgument(update, o->job);
  update->add_option("-m,--memory", o->memory, "New memory limit on each of its GPUs, or none")
      ->type_name(kSizeValue);
  update->add_option("--soft", o->soft, "New soft memory limit, or none")->type_name(kSizeValue);
  update->add_option("-p,--priority", o->priority, "0 to 255")
      ->type_name("N")
      ->check(CLI::Range(0, 255).description(""));
  update
      ->add_option("--weight", o->weight, "Its part of the turns on a shared GPU; 2 gets twice as much as 1")
      ->type_name("N")
      ->check(CLI::Range(0.001, 1000.0).description(""));
  update->add_option("--restart", o->restart, "Whether to start it again when it ends")
      ->type_name(kRestartValue)
      ->check(CLI::IsMember(std::vector<std::string>{"no", "on-failure", "always"}).description(""));
  update->add_option("--grace", o->grace, "Time between SIGTERM and SIGKILL when it is stopped")
      ->type_name(kTimeValue);
}

void AddRestart(const Registry& registry) {
  const auto o = std::make_shared<UpdateOptions>();  // shared by the parser's bindings and the action
  auto* restart = registry.Add(
      "restart", "Stop a job and start it again", "gpuman restart train --memory 12GiB",
      [o](Session& session) -> base::Result<int> {
        api::UpdateRequest changes;
        if (o->memory || o->soft) {
          GPUMAN_ASSIGN(changes, MakeUpdate(*o));
        }
        return WithJob(session, o->job,
                       "restarted: ", [&](const auto& daemon) { return daemon.Restart(o->job, changes); });
      });
  AddJobArgument(restart, o->job);
  restart->add_option("-m,--memory", o->memory, "New limit on each of its GPUs, or none")
      ->type_name(kSizeValue);
  restart->add_option("--soft", o->soft, "New soft limit, or none")->type_name(kSizeValue);
}

void AddRemove(const Registry& registry) {
  const auto o = std::make_shared<RemoveOptions>();  // shared by the parser's bindings and the action
  auto* remove = registry.Add(
      "remove", "Stop a job and remove it from the list", "gpuman remove train", [o](Session& session) {
        return WithJob(session, o->job, o->keep_running ? "no longer managed: " : "removed: ",
                       [&](const auto& daemon) { return daemon.Remove(o->job, o->keep_running); });
      });
  AddJobArgument(remove, o->job);
  remove->add_flag("-k,--keep-running", o->keep_running, "Let its processes continue without limits");
}

void AddSuspend(const Registry& registry) {
  const auto job = std::make_shared<std::string>();  // shared by the parser's bindings and the action
  auto* suspend = registry.Add("suspend", "Take a job off its GPUs; its data is kept in the machine's memory",
                               "gpuman suspend train", [job](Session& session) {
                                 return WithJob(session, *job, "off its GPUs: ", [&](const auto& daemon) {
                                   return daemon.Suspend(*job);
                                 });
                               });
  AddJobArgument(suspend, *job);
}

namespace {

struct PlaceOptions {
  std::string job;
  std::optional<std::string> gpu;
};

}  // namespace

void AddResume(const Registry& registry) {
  const auto o = std::make_shared<PlaceOptions>();  // shared by the parser's bindings and the action
  auto* resume = registry.Add("resume", "Bring a suspended job back to a GPU as soon as there is room",
                              "gpuman resume train --gpu 1", [o](Session& session) {
                                return WithJob(session, o->job, "", [&](const auto& daemon) {
                                  return daemon.Resume(o->job, {o->gpu});
                                });
                              });
  AddJobArgument(resume, o->job);
  resume->add_option("-g,--gpu", o->gpu, "Another GPU of the same model (default: the one it was on)")
      ->type_name(kGpuValue);
}

void AddMove(const Registry& registry) {
  const auto o = std::make_shared<PlaceOptions>();  // shared by the parser's bindings and the action
  auto* move = registry.Add("move", "Move a job to another GPU of the same model; it continues there",
                            "gpuman move train --to 1", [o](Session& session) {
                              return WithJob(session, o->job, "", [&](const auto& daemon) {
                                return daemon.Move(o->job, {o->gpu});
                              });
                            });
  AddJobArgument(move, o->job);
  move->add_option("--to", o->gpu, "The GPU, by index or UUID")->type_name(kGpuValue)->required();
}

}  // namespace gpuman::cli
