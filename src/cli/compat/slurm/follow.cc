#include "cli/compat/slurm/follow.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/compat/slurm/output_file_reader.h"
#include "cli/log_printer.h"
#include "cli/signal_watch.h"

namespace gpuman::cli::slurm {
namespace {

using base::ErrorCode;
using base::Result;
using Steady = std::chrono::steady_clock;

// The times of the questions to Slurm.
class Pace {
 public:
  bool IsTime() {
    if (Steady::now() < next_) return false;
    next_ = Steady::now() + step_;
    step_ = std::min<Steady::duration>(step_ * 3 / 2, std::chrono::seconds(5));
    return true;
  }

 private:
  Steady::duration step_ = std::chrono::milliseconds(500);
  Steady::time_point next_ = Steady::now();
};

constexpr int kPollMillis = 200;  // between two looks at the output file

// Asks until the job has ended; calls `between` every kPollMillis, which says whether to continue.
template <typename Between>
Result<bool> UntilEnded(SlurmJobWatch& watched, int wake, Between between) {
  for (Pace pace;;) {
    if (pace.IsTime()) {
      GPUMAN_ASSIGN(const bool ended, watched.Ask());
      if (ended) return true;
    }
    GPUMAN_ASSIGN(const bool goes_on, between());
    if (!goes_on) return false;
    pollfd woken{wake, POLLIN, 0};
    ::poll(&woken, wake >= 0 ? 1 : 0, kPollMillis);
  }
}

// Prints what the job writes to its file.
class Output {
 public:
  explicit Output(CommandContext& session) : lines_(session) {}

  Result<> Show(const std::optional<std::string>& path) {
    if (!path) return {};
    if (!file_) file_.emplace(*path);
    return file_->Read([&](std::string_view piece) { return lines_.Feed(piece); });
  }
  Result<> SkipTo(const std::optional<std::string>& path, int lines) {
    if (!path) return {};
    return file_.emplace(*path).SkipTo(static_cast<std::uint64_t>(lines));
  }
  void Finish() { lines_.Finish(); }

 private:
  std::optional<OutputFileReader> file_;
  LogPrinter lines_;
};

Result<> PrintFirst(CommandContext& session, const std::string& path, int lines) {
  LogPrinter printer(session, lines);
  GPUMAN_TRY(OutputFileReader(path).Read([&](std::string_view piece) { return printer.Feed(piece); }));
  printer.Finish();
  return {};
}

// Tells the user which output the file does not have.
void TellWhereElse(CommandContext& session, const SlurmJobWatch& watched, const SlurmJobId& name) {
  if (watched.kept() && !watched.kept()->errors.empty())
    session.Note(fmt::format("{} writes its errors to {}", ToString(name), watched.kept()->errors));
  if (watched.IsArray())
    session.Note(
        fmt::format("this is the first task; the others have their own files: {}_INDEX", ToString(name)));
}

}  // namespace

Result<std::vector<SlurmJobView>> LookUp(const SlurmContext& engine, const SlurmJobId& name) {
  SlurmJobWatch watched(engine, name);
  GPUMAN_TRY(watched.Ask());
  return watched.Lines();
}

void PrintLines(CommandContext& session, const std::vector<SlurmJobView>& lines) {
  for (const auto& line : lines) {
    if (session.json)
      session.PrintJson(ToJson(line));
    else
      session.Print(Sentence(line) + "\n");
  }
  session.Flush();
}

Result<int> Wait(CommandContext& session, const SlurmContext& engine, const SlurmJobId& name) {
  SlurmJobWatch watched(engine, name);
  constexpr int kNobody = -1;
  GPUMAN_TRY(UntilEnded(watched, kNobody, [] { return Result<bool>(true); }));
  PrintLines(session, watched.Lines());
  return ExitStatusOf(watched.End());
}

Result<int> Attach(CommandContext& session, const SlurmContext& engine, const SlurmJobId& name) {
  SlurmJobWatch watched(engine, name);
  Output output(session);
  SignalWatch signals{SIGINT, SIGTERM};
  int first = 0;
  int second = 0;
  const auto between = [&]() -> Result<bool> {
    if (!session.json) GPUMAN_TRY(output.Show(watched.Output()));
    const int signal = signals.Take();
    if (signal == 0) return true;
    if (first != 0) {
      second = signal;
      return false;
    }
    first = signal;
    const bool passed = engine.programs.Signal(name, signal).has_value();
    session.Note(fmt::format(
        "{} {}; press Ctrl-C again to leave it running",
        passed ? fmt::format("passed SIG{} on to", ::sigabbrev_np(signal)) : "waiting for", ToString(name)));
    return true;
  };
  GPUMAN_ASSIGN(const bool ended, UntilEnded(watched, signals.fd(), between));
  if (!ended) {
    session.Note(fmt::format("{0} continues; stop it with: gpuman cancel {0}", ToString(name)));
    return 128 + second;
  }
  const auto lines = watched.Lines();
  if (session.json) {
    PrintLines(session, lines);
    return ExitStatusOf(watched.End());
  }
  GPUMAN_TRY(output.Show(watched.Output()));
  for (const auto& line : lines)
    if (line.state != spec::JobState::kFinished) session.Note(Sentence(line));
  return ExitStatusOf(watched.End());
}

Result<int> Log(CommandContext& session, const SlurmContext& engine, const SlurmJobId& name,
                const queue::LogSettings& settings) {
  SlurmJobWatch watched(engine, name);
  GPUMAN_ASSIGN(bool ended, watched.Ask());
  if (settings.first) {
    if (const auto path = watched.Output()) GPUMAN_TRY(PrintFirst(session, *path, *settings.first));
    return kExitDone;
  }
  Output output(session);
  if (settings.last) GPUMAN_TRY(output.SkipTo(watched.Output(), *settings.last));
  if (settings.follow && !ended) {
    GPUMAN_ASSIGN(ended, UntilEnded(watched, -1, [&]() -> Result<bool> {
                    GPUMAN_TRY(output.Show(watched.Output()));
                    return true;
                  }));
  }
  const auto path = watched.Output();
  if (ended && (!path || !OutputFileReader(*path).exists()))
    return base::Fail(
        ErrorCode::kNotFound,
        fmt::format("the output of {} is not here{}", ToString(name), path ? ": " + *path : ""),
        "where directories are not shared it is on the node that ran the job; one that never ran has none");
  GPUMAN_TRY(output.Show(path));
  output.Finish();
  TellWhereElse(session, watched, name);
  return kExitDone;
}

}  // namespace gpuman::cli::slurm
