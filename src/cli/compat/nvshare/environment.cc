#include "cli/compat/nvshare/environment.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace gpuman::cli::nvshare {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr const char* kPreload = "LD_PRELOAD";
constexpr std::string_view kLibrary = "libnvshare.so";

// LD_PRELOAD without nvshare's library.
std::string WithoutLibrary(const std::string& preload) {
  std::string kept;
  for (std::size_t at = 0; at < preload.size();) {
    const auto end = std::min(preload.find_first_of(": ", at), preload.size());
    const auto name = preload.substr(at, end - at);
    if (!name.empty() && std::filesystem::path(name).filename() != kLibrary)
      kept += (kept.empty() ? "" : ":") + name;
    at = end + 1;
  }
  return kept;
}

void AddNote(std::vector<std::string>& notes, const char* note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.emplace_back(note);
}

// Returns whether the variables were changed.
bool Clean(Variables& variables, std::vector<std::string>& notes) {
  if (variables.contains("NVSHARE_DEBUG"))
    AddNote(
        notes,
        "NVSHARE_DEBUG has no effect: libgpuman.so writes nothing into a job's output; gpuman share status "
        "and gpuman events show what happens to the job");
  const auto preload = variables.find(kPreload);
  if (preload == variables.end() || preload->second.find(kLibrary) == std::string::npos) return false;
  preload->second = WithoutLibrary(preload->second);
  if (preload->second.empty()) variables.erase(preload);
  AddNote(notes, "libnvshare.so was removed from LD_PRELOAD: libgpuman.so replaces it");
  return true;
}

}  // namespace

std::vector<std::string> LeaveOutLibrary(api::SubmitRequest& request) {
  std::vector<std::string> notes;
  std::vector<api::Submission*> sharing;  // jobs with the environment of the request
  bool others_have_it = false;
  for (auto& job : request.jobs) {
    if (!job.share)
      others_have_it = others_have_it || !job.environment;
    else if (job.environment)
      Clean(*job.environment, notes);
    else
      sharing.push_back(&job);
  }
  if (sharing.empty()) return notes;
  Variables cleaned = request.environment;
  if (!Clean(cleaned, notes)) return notes;
  if (!others_have_it)
    request.environment = std::move(cleaned);
  else
    for (auto* job : sharing) job->environment = cleaned;
  return notes;
}

}  // namespace gpuman::cli::nvshare
