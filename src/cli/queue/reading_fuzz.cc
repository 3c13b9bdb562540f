// The parsers read or refuse any text of a script, a file of jobs, a CSV file or an option, and each result
// holds what its parser promises.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/compat/known_tools.h"
#include "cli/queue/request.h"
#include "cli/queue/script.h"
#include "cli/queue/sweep.h"
#include "cli/values.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::cli;         // NOLINT(google-build-using-namespace)
  using namespace gpuman::cli::queue;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const gpuman::base::WallTime now(gpuman::base::Millis(1'800'000'000'000));
  if (const auto directives = ReadDirectives(text, KnownTools().dialects)) {
    SubmitSettings settings;
    (void)ApplyDirectives(*directives, "script", settings, now);
  }
  (void)ReadJobs(text, "jobs", SubmitSettings{}, kGpuman, now);
  if (const auto table = ReadCsv(text))
    for (const auto& row : *table) Require(row.size() == table->front().size());
  if (const auto array = ParseArray(text)) {
    Require(gpuman::api::CountTasks(*array) <= gpuman::api::kMaxArrayTasks);
    Require(gpuman::api::CountTasks(*array) > 0);
  }
  if (const auto parameter = ParseParameter(text)) Require(!parameter->values.empty());
  (void)ParseDependencies(text);
  (void)ParseTime(text, now);
  (void)ParseSince(text, now);
  (void)ParseMinutes(text);
  (void)ParseJobs(text);
  (void)ParseGpus(text);
  (void)ParseWarning(text);
  Require(Substitute(text, {}) == text);
  return 0;
}
