// The parsers read or skip any output of Slurm's programs and any text of the record, and the views can show
// each result.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/compat/slurm/jobs.h"
#include "cli/compat/slurm/record.h"
#include "cli/compat/slurm/views.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::cli::slurm;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& jobs : {ReadQueue(text), ReadShown(text), ReadAccounting(text)})
    for (const auto& job : jobs) {
      Require(job.job != 0 && job.id != 0);
      const auto line = LineOf(job, {});
      (void)Sentence(line);
      (void)gpuman::api::Dump(ToJson(line));
    }
  if (const auto accepted = ReadAccepted(text)) Require(accepted->id != 0);
  Require(!RefusalOf("sbatch", text).message.empty());
  if (const auto name = SlurmJobIdFromString(text)) Require(SlurmJobIdFromString(ToString(*name)) == name);
  const auto kept = ReadRecord(text);
  Require(ReadRecord(WriteRecord(kept)).size() == kept.size());
  return 0;
}
