#include "cli/queue/find_program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/nearest.h"
#include "cli/search_path.h"

namespace gpuman::cli::queue {
namespace {

using base::ErrorCode;

enum class Program { kMissing, kDirectory, kNotExecutable, kFine };

Program Examine(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Program::kMissing;
  if (S_ISDIR(info.st_mode)) return Program::kDirectory;
  return ::access(path.c_str(), X_OK) == 0 ? Program::kFine : Program::kNotExecutable;
}

// Looks up the program as execvp does, with the job's PATH and directory.
Program Find(const std::string& name, const std::filesystem::path& directory, const Variables& environment) {
  if (name.find('/') != std::string::npos) return Examine(directory / name);
  const auto variable = environment.find("PATH");
  const std::string_view path = variable == environment.end() ? kUsualPath : variable->second;
  Program best = Program::kMissing;
  for (const auto& folder : FoldersOf(path)) {
    const Program found = Examine(directory / folder / name);
    if (found == Program::kFine) return found;
    if (found == Program::kNotExecutable) best = found;
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
  if (Examine(path) == Program::kFine)
    return {ErrorCode::kNotFound, fmt::format("command not found: {}", name),
            fmt::format("the file of this name in {} needs ./ in front: ./{}", directory.string(), name)};
  if (Examine(path) == Program::kNotExecutable)
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

base::Result<> CheckProgram(const std::string& name, const std::string& directory,
                            const Variables& environment) {
  switch (Find(name, directory, environment)) {
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
  return base::Fail(NoSuchProgram(name, directory));
}

}  // namespace gpuman::cli::queue
