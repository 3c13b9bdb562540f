// The plugin accepts or refuses any text in an environment or in plugstack.conf.
#include <cstddef>
#include <cstdint>

#include "plugins/slurm/slurm_step.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuman::slurm;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto settings = ParseSettings({&text, 1});
  SlurmStep step;
  step.memory = std::string(text.substr(size / 2));
  step.variable = [&](const char*) { return std::optional(std::string(text.substr(0, size / 2))); };
  (void)RequestFor(step, settings.value_or(PluginSettings{})).has_value();
  (void)ParseLimit(kSoftOption, text).has_value();
  return 0;
}
