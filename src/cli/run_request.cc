#include "cli/run_request.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "api/json.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "cli/command_line.h"
#include "cli/percentage.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;

base::Result<std::vector<std::string>> CommandToRun(const RunOptions& options,
                                                    const std::optional<std::vector<std::string>>& trailing) {
  if (options.command && trailing)
    return base::Fail(ErrorCode::kInvalidArgument, "the command is given twice: with --command and after --",
                      "give one of them");
  if (options.command) {
    auto words = SplitCommand(*options.command);
    if (!words) return base::Fail(std::move(words.error()).In("--command"));
    return words;
  }
  if (!trailing || trailing->empty() || trailing->front().empty())
    return base::Fail(ErrorCode::kInvalidArgument, "there is no command to run",
                      "gpuman run --tag NAME --memory 8GiB -- COMMAND ARGUMENTS…");
  return *trailing;
}

base::Result<> RequireUtf8(std::string_view what, std::string_view text) {
  if (base::IsUtf8(text)) return {};
  return base::Fail(ErrorCode::kInvalidArgument, fmt::format("{} is not UTF-8", what),
                    "put it into a script and run the script");
}

// A job that shares may come from a shell that was set up for nvshare. The daemon takes over the meaning of
// nvshare's variables; nvshare's library would look for its own scheduler, and end the program without one.
void TakeFromNvshare(MadeRequest& made) {
  auto& variables = made.request.environment;
  if (!made.request.share) return;
  if (variables.contains("NVSHARE_DEBUG"))
    made.notes.emplace_back(
        "NVSHARE_DEBUG has no effect: libgpuman.so writes nothing into a job's output; gpuman share status "
        "and gpuman events show what happens to the job");
  const auto preload = variables.find("LD_PRELOAD");
  if (preload == variables.end() || preload->second.find("libnvshare.so") == std::string::npos) return;
  std::string kept;
  for (std::size_t at = 0; at < preload->second.size();) {
    const auto end = std::min(preload->second.find_first_of(": ", at), preload->second.size());
    const auto name = preload->second.substr(at, end - at);
    if (!name.empty() && std::filesystem::path(name).filename() != "libnvshare.so")
      kept += (kept.empty() ? "" : ":") + name;
    at = end + 1;
  }
  if (kept.empty())
    variables.erase(preload);
  else
    preload->second = kept;
  made.notes.emplace_back("libnvshare.so was removed from LD_PRELOAD: libgpuman.so replaces it");
}

enum class Program { kMissing, kDirectory, kNotExecutable, kFine };

Program LookAt(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Program::kMissing;
  if (S_ISDIR(info.st_mode)) return Program::kDirectory;
  return ::access(path.c_str(), X_OK) == 0 ? Program::kFine : Program::kNotExecutable;
}

// Looks up the program as execvp does, with the job's PATH and directory.
Program FindProgramOf(const api::RunRequest& request) {
  const std::filesystem::path directory(request.directory);
  const auto& name = request.command.front();
  if (name.find('/') != std::string::npos) return LookAt(directory / name);
  const auto variable = request.environment.find("PATH");
  const std::string path =
      variable == request.environment.end() ? "/usr/local/bin:/usr/bin:/bin" : variable->second;
  Program best = Program::kMissing;
  for (std::size_t at = 0; at <= path.size() && best != Program::kFine;) {
    const auto end = std::min(path.find(':', at), path.size());
    const Program found = LookAt(directory / path.substr(at, end - at) / name);
    if (found == Program::kFine || found == Program::kNotExecutable) best = found;
    at = end + 1;
  }
  return best;
}

bool LooksLikeFile(const std::filesystem::path& name) {
  constexpr std::array<std::string_view, 9> kExtensions{".sh",    ".bash",   ".zsh", ".py", ".pl",
                                                        ".slurm", ".sbatch", ".job", ".exe"};
  const auto extension = name.extension().string();
  return name.has_parent_path() ||
         std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

// The file of the directory with the nearest name.
std::optional<std::string> NearestFile(const std::filesystem::path& path) {
  constexpr std::size_t kMax = 10'000;
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path.parent_path(), error), end;
       !error && it != end && names.size() < kMax; it.increment(error))
    names.push_back(it->path().filename().string());
  return base::Nearest(path.filename().string(), names);
}

base::Error NoSuchProgram(const std::string& name, const std::filesystem::path& directory) {
  const auto path = (directory / name).lexically_normal();
  if (LookAt(path) == Program::kFine)
    return {ErrorCode::kNotFound, fmt::format("command not found: {}", name),
            fmt::format("the file of this name in {} needs ./ in front: ./{}", directory.string(), name)};
  if (LookAt(path) == Program::kNotExecutable)
    return {
        ErrorCode::kNotFound, fmt::format("command not found: {}", name),
        fmt::format("the file of this name in {} is not executable: chmod +x {} and write ./{}, or run it "
                    "with its interpreter",
                    directory.string(), name, name)};
  if (!LooksLikeFile(name))
    return {ErrorCode::kNotFound, fmt::format("command not found: {}", name),
            "a program that is not in PATH needs its full path"};
  const auto nearest = NearestFile(path);
  return {ErrorCode::kNotFound, fmt::format("command not found: {}", name),
          fmt::format("there is no file {}{}", path.string(),
                      nearest ? fmt::format("; did you mean {}?", *nearest) : std::string())};
}

}  // namespace

base::Result<> CheckProgram(const api::RunRequest& request) {
  const auto& name = request.command.front();
  switch (FindProgramOf(request)) {
    case Program::kFine:
      return {};
    case Program::kDirectory:
      return base::Fail(ErrorCode::kPermissionDenied, fmt::format("{} is a directory, not a program", name));
    case Program::kNotExecutable:
      return base::Fail(ErrorCode::kPermissionDenied, fmt::format("{} is not executable", name),
                        fmt::format("chmod +x {}, or run it with its interpreter", name));
    case Program::kMissing:
      break;
  }
  return base::Fail(NoSuchProgram(name, request.directory));
}

base::Result<std::optional<base::SizeSpec>> SizeOption(std::string_view name,
                                                       const std::optional<std::string>& text) {
  if (!text) return std::optional<base::SizeSpec>();
  auto size = base::ParseSize(*text);
  if (!size) return base::Fail(std::move(size.error()).In(name));
  return std::optional(*size);
}

base::Result<std::optional<base::Millis>> TimeOption(std::string_view name,
                                                     const std::optional<std::string>& text) {
  if (!text) return std::optional<base::Millis>();
  auto time = base::ParseDuration(*text);
  if (!time) return base::Fail(std::move(time.error()).In(name));
  return std::optional(*time);
}

base::Result<Origin> OriginOfThisProcess() {
  Origin origin;
  std::error_code error;
  origin.directory = std::filesystem::current_path(error).string();
  if (error) return base::Fail(base::SystemError(error.value(), "finding the current directory"));
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    origin.environment.emplace_back(*entry);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  origin.umask = mask;
  return origin;
}

base::Result<MadeRequest> MakeRunRequest(const RunOptions& options,
                                         const std::optional<std::vector<std::string>>& trailing,
                                         const Origin& origin) {
  MadeRequest made;
  api::RunRequest& request = made.request;
  if (options.tag.empty()) return base::Fail(ErrorCode::kInvalidArgument, "--tag: the tag is empty");
  request.tag = options.tag;
  GPUMAN_ASSIGN(request.command, CommandToRun(options, trailing));
  GPUMAN_ASSIGN(request.memory, SizeOption("--memory", options.memory));
  GPUMAN_ASSIGN(request.soft, SizeOption("--soft", options.soft));
  GPUMAN_ASSIGN(request.grace, TimeOption("--grace", options.grace));
  request.gpus = options.gpus;
  request.priority = options.priority;
  request.restart =
      base::ValueOf(WordsOf(spec::RestartMode{}), options.restart).value_or(spec::RestartMode::kNo);
  request.preload = !options.no_preload;
  request.share = options.share;
  request.weight = options.weight;
  request.oversubscribe = options.oversubscribe;
  request.device_profile = options.device_profile;
  request.mps = options.mps || options.mps_threads;
  if (options.mps_threads) {
    auto threads = ParsePercentage(*options.mps_threads);
    if (!threads) return base::Fail(std::move(threads.error()).In("--mps-threads"));
    request.mps_threads = *threads;
  }
  request.directory = origin.directory;
  request.umask = origin.umask;

  GPUMAN_TRY(RequireUtf8("the tag", request.tag));
  GPUMAN_TRY(RequireUtf8("the current directory's name", request.directory));
  for (std::size_t i = 0; i < request.command.size(); ++i)
    GPUMAN_TRY(RequireUtf8(fmt::format("argument {} of the command", i), request.command[i]));
  for (const auto& entry : origin.environment) {
    const auto equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) continue;  // not a variable; some programs leave these
    if (base::IsUtf8(entry))
      request.environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    else
      made.left_out.push_back(entry.substr(0, equals));
  }
  TakeFromNvshare(made);
  return made;
}

}  // namespace gpuman::cli
