#include "cli/compat/nvshare/environment.h"

#include <algorithm>
#include <filesystem>

namespace gpuman::cli {

std::vector<std::string> LeaveNvshare(std::map<std::string, std::string>& variables) {
  std::vector<std::string> notes;
  if (variables.contains("NVSHARE_DEBUG"))
    notes.emplace_back(
        "NVSHARE_DEBUG has no effect: libgpuman.so writes nothing into a job's output; gpuman share status "
        "and gpuman events show what happens to the job");
  const auto preload = variables.find("LD_PRELOAD");
  if (preload == variables.end() || preload->second.find("libnvshare.so") == std::string::npos) return notes;
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
  notes.emplace_back("libnvshare.so was removed from LD_PRELOAD: libgpuman.so replaces it");
  return notes;
}

}  // namespace gpuman::cli
