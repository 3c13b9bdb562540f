// The interface to Slurm: spank_gpuman.so, loaded by srun, sbatch and salloc for the options, and by each
// task that slurmstepd starts.
//
// The task asks gpumand before it changes to the user's identity: slurmstepd itself never waits, and a
// failure affects one task. No exception leaves a function here. Messages go to slurmd's log and to the user.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string>
#include <vector>

extern "C" {
#include <slurm/spank.h>

// The symbols that Slurm looks up; declared first, since a C++ constant has internal linkage by default.
#define GPUMAN_SEEN __attribute__((visibility("default")))
extern GPUMAN_SEEN const char plugin_name[];
extern GPUMAN_SEEN const char plugin_type[];
extern GPUMAN_SEEN const unsigned int plugin_version;
extern GPUMAN_SEEN const unsigned int spank_plugin_version;
GPUMAN_SEEN int slurm_spank_init(spank_t spank, int count, char* words[]);
GPUMAN_SEEN int slurm_spank_task_init_privileged(spank_t spank, int count, char* words[]);

SPANK_PLUGIN(gpuman, 1)
}

#include "api/attach_json.h"
#include "plugins/slurm/slurm_step.h"

namespace gpuman::slurm {
namespace {

constexpr int kRefused = -1;

// `Act` returns a Result<>. Guarded logs its error, or what it throws, and returns Slurm's status.
template <typename Act>
int Guarded(Act act) {
  try {
    const base::Result<> done = act();
    if (done) return ESPANK_SUCCESS;
    slurm_error("%s", done.error().message.c_str());
  } catch (const std::exception& error) {
    slurm_error("gpuman: %s", error.what());
  } catch (...) {
    slurm_error("gpuman: an unknown error");
  }
  return kRefused;
}

int CheckLimit(const char* option, const char* text) {
  return Guarded([&]() -> base::Result<> {
    GPUMAN_TRY(ParseLimit(option, text ? text : ""));
    return {};
  });
}
int CheckMemory(int, const char* text, int) { return CheckLimit(kMemoryOption, text); }
int CheckSoft(int, const char* text, int) { return CheckLimit(kSoftOption, text); }
int CheckCompute(int, const char* text, int) {
  return Guarded([&]() -> base::Result<> {
    GPUMAN_TRY(ParseCompute(text ? text : ""));
    return {};
  });
}
int TakeFlag(int, const char*, int) { return ESPANK_SUCCESS; }

char* Text(const char* text) { return const_cast<char*>(text); }  // Slurm does not write to these texts

// A function, so that loading the library constructs nothing.
std::array<spank_option, 5> Options() {
  return {{{Text(kMemoryOption), Text("SIZE"), Text("GPU memory that the step may have on each of its GPUs"),
            1, 0, CheckMemory},
           {Text(kSoftOption), Text("SIZE"), Text("GPU memory from which on gpuman warns"), 1, 0, CheckSoft},
           {Text(kShareOption), nullptr, Text("take turns on the GPU: memory may leave it and come back"), 0,
            0, TakeFlag},
           {Text(kComputeOption), Text("PERCENT"),
            Text("with --gpuman-share: 30% of the GPU's time at most, or 30%+ to use what others leave"), 1,
            0, CheckCompute},
           {Text(kLatencyOption), nullptr,
            Text("with --gpuman-share: its work goes first, others are held back while it has work"), 0, 0,
            TakeFlag}}};
}

base::Result<PluginSettings> SettingsOf(int count, char* words[]) {
  std::vector<std::string_view> list(words, words + std::max(count, 0));
  auto settings = ParseSettings(list);
  if (!settings) return base::Fail(std::move(settings.error()).In("gpuman: plugstack.conf"));
  return settings;
}

// nullopt: the option was not given. Empty: it has no value.
std::optional<std::string> OptionOf(spank_t spank, spank_option option) {
  char* value = nullptr;
  if (spank_option_getopt(spank, &option, &value) != ESPANK_SUCCESS) return std::nullopt;
  return value ? value : "";
}

std::optional<std::string> VariableOf(spank_t spank, const char* name) {
  std::string value(256, '\0');
  constexpr std::size_t kLongest = 1 << 20;
  spank_err_t read;
  while ((read = spank_getenv(spank, name, value.data(), static_cast<int>(value.size()))) == ESPANK_NOSPACE &&
         value.size() < kLongest)
    value.resize(value.size() * 4);
  if (read != ESPANK_SUCCESS) return std::nullopt;
  value.resize(value.find('\0'));
  return value;
}

SlurmStep StepOf(spank_t spank) {
  SlurmStep step;
  uid_t uid = 0;
  (void)spank_get_item(spank, S_JOB_ID, &step.job);
  (void)spank_get_item(spank, S_JOB_STEPID, &step.step);
  (void)spank_get_item(spank, S_JOB_UID, &uid);
  step.uid = uid;
  step.daemon = ::getppid();
  int count = 0;
  char** words = nullptr;
  if (spank_get_item(spank, S_JOB_ARGV, &count, &words) == ESPANK_SUCCESS && words)
    step.command.assign(words, words + std::max(count, 0));
  const auto options = Options();
  step.memory = OptionOf(spank, options[0]);
  step.soft = OptionOf(spank, options[1]);
  step.share = OptionOf(spank, options[2]).has_value();
  step.compute = OptionOf(spank, options[3]);
  step.latency = OptionOf(spank, options[4]).has_value();
  step.variable = [spank](const char* name) { return VariableOf(spank, name); };
  return step;
}

// Each task of the step on this node would print the same message.
void SayOnce(spank_t spank, const std::string& message) {
  int task = 0;
  if (spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && task == 0)
    slurm_spank_log("%s", message.c_str());
}

base::Result<> Hold(spank_t spank, const PluginSettings& settings) {
  const auto step = StepOf(spank);
  const auto request = RequestFor(step, settings);
  if (request && !*request) {
    if (step.memory || step.soft || step.share || step.compute || step.latency)
      SayOnce(spank, "gpuman: this step has no GPU here; --gpuman-… mean nothing to it");
    return {};
  }
  const auto attached =
      request ? api::Attach(settings.socket, **request, settings.patience) : base::Fail(request.error());
  if (!attached) {
    const auto refusal = OnError(attached.error(), settings);
    if (!refusal.may_start) return base::Fail(attached.error().code, refusal.message);
    SayOnce(spank, refusal.message);
    return {};
  }
  for (const auto& [name, value] : EnvironmentFor(*attached, VariableOf(spank, "LD_PRELOAD").value_or("")))
    if (const auto set = spank_setenv(spank, name.c_str(), value.c_str(), 1); set != ESPANK_SUCCESS)
      return base::Fail(base::ErrorCode::kInternal,
                        std::string("gpuman: ") + name + " could not be set: " + spank_strerror(set));
  return {};
}

}  // namespace
}  // namespace gpuman::slurm

int slurm_spank_init(spank_t spank, int count, char* words[]) {
  using namespace gpuman;  // NOLINT(google-build-using-namespace)
  return slurm::Guarded([&]() -> base::Result<> {
    const auto context = spank_context();
    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return {};
    GPUMAN_TRY(slurm::SettingsOf(count, words));
    for (auto option : slurm::Options())
      if (const auto taken = spank_option_register(spank, &option); taken != ESPANK_SUCCESS)
        return base::Fail(base::ErrorCode::kInternal,
                          std::string("gpuman: --") + option.name + ": " + spank_strerror(taken));
    return {};
  });
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char* words[]) {
  using namespace gpuman;  // NOLINT(google-build-using-namespace)
  return slurm::Guarded([&]() -> base::Result<> {
    GPUMAN_ASSIGN(const auto settings, slurm::SettingsOf(count, words));
    return slurm::Hold(spank, settings);
  });
}
