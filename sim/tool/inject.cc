#include "sim/tool/inject.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/units.h"
#include "sim/state/lifecycle.h"

namespace gpuman::sim {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr std::uint64_t kXidCriticalError = 0x8;         // nvmlEventTypeXidCriticalError
constexpr std::uint64_t kSingleBitEccError = 0x1;        // nvmlEventTypeSingleBitEccError
constexpr std::uint64_t kDoubleBitEccError = 0x2;        // nvmlEventTypeDoubleBitEccError
constexpr std::size_t kDram = 2;                         // NVML_MEMORY_LOCATION_DRAM
constexpr std::int64_t kHardwareThermalSlowdown = 0x40;  // nvmlClocksEventReasonHwThermalSlowdown

// The arguments of one fault; the parser fills them in.
struct Arguments {
  unsigned gpu = 0;
  std::int64_t number = 0;
  std::string text;
  std::string function;
  bool flag = false, second_flag = false;
};

using Strike = std::function<Result<>(const State&, const Arguments&)>;

CLI::App* Declare(CLI::App& parent, Injection& chosen, const char* name, const char* help,
                  const std::shared_ptr<Arguments>& arguments, Strike strike) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->add_option("--gpu", arguments->gpu, "Index of the GPU")->capture_default_str();
  command->callback([&chosen, arguments, strike = std::move(strike)] {
    chosen = [arguments, strike](const State& state) -> Result<> {
      if (arguments->gpu != kAllGpus && arguments->gpu >= state.gpus()) {
        return Fail(ErrorCode::kNotFound, "there is no GPU " + std::to_string(arguments->gpu) +
                                              ": the machine has " + std::to_string(state.gpus()));
      }
      return strike(state, *arguments);
    };
  });
  return command;
}

Result<> InjectEcc(const State& state, const Arguments& a) {
  const std::size_t uncorrected = a.flag ? 1 : 0;
  GpuDynamic& now = state->gpu[a.gpu];
  if (now.ecc_current.load() == 0)
    return Fail(ErrorCode::kNotSupported, "ECC is off on this GPU, or it has none");
  for (auto& counters : now.ecc) counters[uncorrected][kDram].fetch_add(static_cast<std::uint64_t>(a.number));
  if (a.second_flag) now.sram_threshold.store(1);
  PostEvent(state.shared(), a.gpu, a.flag ? kDoubleBitEccError : kSingleBitEccError, 0);
  return {};
}

Result<> InjectXid(const State& state, const Arguments& a) {
  state->gpu[a.gpu].last_xid.store(static_cast<std::uint32_t>(a.number));
  PostEvent(state.shared(), a.gpu, kXidCriticalError, static_cast<std::uint64_t>(a.number));
  return {};
}

Result<> InjectRowRemap(const State& state, const Arguments& a) {
  GpuDynamic& now = state->gpu[a.gpu];
  if ((state->gpu_static[a.gpu].features & kFeatureRemappedRows) == 0)
    return Fail(ErrorCode::kNotSupported, "this GPU does not remap rows");
  now.remapped_uncorrectable.fetch_add(static_cast<std::uint32_t>(a.number));
  if (a.flag) now.remap_pending.store(1);
  if (a.second_flag) now.remap_failed.store(1);
  return {};
}

// Adds one slow or hanging call in the first free entry of the machine's few.
Result<> SlowDown(const State& state, const Arguments& a, bool hang) {
  for (SlowCall& call : state->faults.slow_calls) {
    std::uint64_t unused = 0;
    if (call.active.load() != 0) continue;
    if (a.function.size() >= sizeof call.function)
      return Fail(ErrorCode::kInvalidArgument, "the name of the function is too long");
    a.function.copy(call.function, sizeof call.function - 1);
    call.function[a.function.size()] = '\0';
    call.gpu.store(a.gpu);
    call.delay_ms.store(static_cast<std::uint32_t>(a.number));
    call.hang.store(hang ? 1 : 0);
    if (!call.active.compare_exchange_strong(unused, 1)) continue;
    state->faults.slow_calls_active.fetch_add(1);
    state->faults.change.fetch_add(1);
    return {};
  }
  return Fail(ErrorCode::kExhausted, "all places for slow calls are taken", "gpuman-sim inject clear");
}

void DeclareReadings(CLI::App& parent, Injection& chosen) {
  const auto reading = [&](const char* name, const char* help, const char* unit, auto member,
                           std::int64_t scale) {
    auto a = std::make_shared<Arguments>();
    CLI::App* command = Declare(parent, chosen, name, help, a,
                                [member, scale](const State& state, const Arguments& given) -> Result<> {
                                  (state->gpu[given.gpu].*member).store(given.number * scale);
                                  return {};
                                });
    command->add_option("value", a->number, unit)->required();
  };
  reading("temperature", "The GPU reads this temperature", "degrees C", &GpuDynamic::temperature_c, 1);
  reading("power", "The GPU draws this much", "watts", &GpuDynamic::power_mw, 1000);
  reading("utilization", "The GPU reads as this busy", "percent", &GpuDynamic::utilization_gpu, 1);
  reading("pcie-width", "The link has this many lanes", "lanes", &GpuDynamic::pcie_width, 1);

  auto a = std::make_shared<Arguments>();
  a->number = kHardwareThermalSlowdown;
  Declare(parent, chosen, "throttle", "Clocks are held back", a,
          [](const State& state, const Arguments& given) -> Result<> {
            state->gpu[given.gpu].throttle_reasons.store(given.number);
            return {};
          })
      ->add_option("--reasons", a->number, "Bits of nvmlClocksEventReasons")
      ->capture_default_str();
}

void DeclareErrors(CLI::App& parent, Injection& chosen) {
  auto xid = std::make_shared<Arguments>();
  Declare(parent, chosen, "xid", "An Xid event", xid, InjectXid)
      ->add_option("number", xid->number, "The Xid")
      ->required()
      ->check(CLI::Range(1, 1000));

  auto ecc = std::make_shared<Arguments>();
  ecc->number = 1;
  CLI::App* command = Declare(parent, chosen, "ecc", "Memory errors", ecc, InjectEcc);
  command->add_option("--count", ecc->number, "How many")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_flag("--uncorrected", ecc->flag, "Double-bit errors (default: corrected ones)");
  command->add_flag("--sram-threshold", ecc->second_flag,
                    "On-chip memory has passed NVIDIA's threshold of errors");

  auto rows = std::make_shared<Arguments>();
  rows->number = 1;
  command =
      Declare(parent, chosen, "row-remap", "Rows remapped after uncorrectable errors", rows, InjectRowRemap);
  command->add_option("--count", rows->number, "How many")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_flag("--pending", rows->flag, "A remapping waits for a reset");
  command->add_flag("--failed", rows->second_flag, "A remapping failed");

  auto replays = std::make_shared<Arguments>();
  replays->number = 1;
  Declare(parent, chosen, "pcie-replays", "Packets sent again on the bus", replays,
          [](const State& state, const Arguments& given) -> Result<> {
            state->gpu[given.gpu].pcie_replays.fetch_add(static_cast<std::uint32_t>(given.number));
            return {};
          })
      ->add_option("--count", replays->number, "How many")
      ->capture_default_str();
}

void DeclareMig(CLI::App& parent, Injection& chosen) {
  Declare(parent, chosen, "mig-needs-reset",
          "A change of the MIG mode takes effect with the next reset alone", std::make_shared<Arguments>(),
          [](const State& state, const Arguments& given) -> Result<> {
            state->gpu[given.gpu].mig_needs_reset.store(1);
            return {};
          });

  auto fail = std::make_shared<Arguments>();
  CLI::App* failing =
      Declare(parent, chosen, "mig-create-fail", "A MIG instance cannot be made, for want of resources", fail,
              [](const State& state, const Arguments& given) -> Result<> {
                GpuDynamic& now = state->gpu[given.gpu];
                now.mig_create_fails_for_good.store(given.flag ? 1 : 0);
                now.mig_create_fails_in.store(static_cast<std::uint32_t>(given.number));
                return {};
              });
  failing->add_option("--nth", fail->number, "Which one from now; 1 is the next")
      ->required()
      ->check(CLI::Range(1, 1000));
  failing->add_flag("--for-good", fail->flag, "And all after it, until cleared");
}

void DeclareBreakage(CLI::App& parent, Injection& chosen) {
  Declare(parent, chosen, "lost", "The GPU falls off the bus", std::make_shared<Arguments>(),
          [](const State& state, const Arguments& given) -> Result<> {
            state->gpu[given.gpu].lost.store(1);
            return InjectXid(state, {given.gpu, 79, {}, {}, false, false});
          });

  auto slow = std::make_shared<Arguments>();
  slow->gpu = kAllGpus;
  CLI::App* command = Declare(parent, chosen, "nvml-slow", "NVML calls take longer (default: on every GPU)",
                              slow, [](const State& state, const Arguments& given) -> Result<> {
                                GPUMAN_ASSIGN(const auto delay, base::ParseDuration(given.text));
                                Arguments changed = given;
                                changed.number = delay.count();
                                return SlowDown(state, changed, false);
                              });
  command->add_option("--delay", slow->text, "How much longer, such as 50ms")->required();
  command->add_option("--function", slow->function, "This function alone, such as nvmlDeviceGetMemoryInfo");

  auto hang = std::make_shared<Arguments>();
  hang->gpu = kAllGpus;
  Declare(parent, chosen, "nvml-hang", "NVML calls hang until cleared (default: on every GPU)", hang,
          [](const State& state, const Arguments& given) { return SlowDown(state, given, true); })
      ->add_option("--function", hang->function, "This function alone");

  auto fail = std::make_shared<Arguments>();
  Declare(parent, chosen, "alloc-fail", "An allocation on the GPU fails once", fail,
          [](const State& state, const Arguments& given) -> Result<> {
            state->faults.allocation_fails_in[given.gpu].store(static_cast<std::uint64_t>(given.number));
            return {};
          })
      ->add_option("--nth", fail->number, "Which one from now; 1 is the next")
      ->required()
      ->check(CLI::PositiveNumber);

  auto copy = std::make_shared<Arguments>();
  CLI::App* failing = Declare(
      parent, chosen, "copy-fail", "A copy of 4 KiB or more to or from page-locked host memory fails once",
      copy, [](const State& state, const Arguments& given) -> Result<> {
        Faults& faults = state->faults;
        faults.copy_fails_for_good[given.gpu].store(given.flag ? 1 : 0);
        faults.copy_fails_in[given.gpu].store(static_cast<std::uint64_t>(given.number));
        return {};
      });
  failing->add_option("--nth", copy->number, "Which one from now; 1 is the next")
      ->required()
      ->check(CLI::PositiveNumber);
  failing->add_flag("--for-good", copy->flag, "The context of who copies is lost with it");

  Declare(parent, chosen, "module-fail", "No module can be loaded: the driver finds no compiler for PTX",
          std::make_shared<Arguments>(), [](const State& state, const Arguments& given) -> Result<> {
            state->faults.modules_fail[given.gpu].store(1);
            return {};
          });

  auto contexts = std::make_shared<Arguments>();
  Declare(parent, chosen, "contexts-lost",
          "A process loses its contexts with its next call (ECC_UNCORRECTABLE)", contexts,
          [](const State& state, const Arguments& given) -> Result<> {
            state->faults.loses_contexts.store(static_cast<std::uint64_t>(given.number));
            return {};
          })
      ->add_option("--pid", contexts->number, "Which process, by its number here")
      ->required()
      ->check(CLI::PositiveNumber);
  DeclareMig(parent, chosen);
}

// By NVML's numbers.
const std::map<std::string, std::uint32_t> kRefusals{
    {"ignored", 0}, {"invalid", 2}, {"not-supported", 3}, {"no-permission", 4},
    {"lost", 15},   {"in-use", 19}, {"unknown", 999}};

Result<> Refuse(const State& state, const Arguments& a) {
  for (Refusal& refusal : state->faults.refusals) {
    if (refusal.active.load() != 0) continue;
    if (a.function.size() >= sizeof refusal.function)
      return Fail(ErrorCode::kInvalidArgument, "the name of the function is too long");
    a.function.copy(refusal.function, sizeof refusal.function - 1);
    refusal.function[a.function.size()] = '\0';
    refusal.gpu.store(a.gpu);
    refusal.status.store(kRefusals.at(a.text));
    refusal.nth.store(static_cast<std::uint64_t>(a.number));
    refusal.for_good.store(a.flag ? 1 : 0);
    refusal.active.store(1);
    return {};
  }
  return Fail(ErrorCode::kExhausted, "all places for refused calls are taken", "gpuman-sim inject clear");
}

void DeclareRefusals(CLI::App& parent, Injection& chosen) {
  auto a = std::make_shared<Arguments>();
  a->gpu = kAllGpus;
  a->number = 1;
  a->text = "unknown";
  CLI::App* command =
      Declare(parent, chosen, "refuse", "A change of a setting is refused once (default: any, on every GPU)",
              a, Refuse);
  command->add_option("--function", a->function, "This function alone, such as nvmlDeviceSetComputeMode");
  command->add_option("--nth", a->number, "Which one from now; 1 is the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--status", a->text, "The answer; ignored: says yes and does nothing; lost: the GPU is")
      ->check(CLI::IsMember(kRefusals))
      ->capture_default_str();
  command->add_flag("--for-good", a->flag, "From then on, until cleared");
}

void DeclareMending(CLI::App& parent, Injection& chosen) {
  auto clear = std::make_shared<Arguments>();
  clear->gpu = kAllGpus;
  CLI::App* command =
      Declare(parent, chosen, "clear", "Ends faults and injected readings (default: on every GPU)", clear,
              [](const State& state, const Arguments& given) -> Result<> {
                ClearFaults(state.shared(), given.gpu);
                for (unsigned gpu = 0; given.flag && gpu < state.gpus(); ++gpu) {
                  if (given.gpu == kAllGpus || given.gpu == gpu) ClearCounters(state.shared(), gpu);
                }
                return {};
              });
  command->add_flag("--counters", clear->flag, "Error counters too");

  Declare(parent, chosen, "reset", "Resets the GPU: pending modes take effect, settings are lost",
          std::make_shared<Arguments>(), [](const State& state, const Arguments& given) -> Result<> {
            ResetGpu(state.shared(), given.gpu);
            return {};
          });
}

}  // namespace

void DeclareInjections(CLI::App& parent, Injection& chosen) {
  DeclareErrors(parent, chosen);
  DeclareReadings(parent, chosen);
  DeclareBreakage(parent, chosen);
  DeclareRefusals(parent, chosen);
  DeclareMending(parent, chosen);
}

}  // namespace gpuman::sim
