// The conditions under which a GPU is not healthy: a table, and what of it holds at this moment.
//
// Sources: DCGM's health checks, gpud, and NVIDIA's GPU memory error management (row remapping, page
// retirement). Pure; a Watch belongs to one GPU and one thread.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "health/rates.h"
#include "health/reading.h"
#include "health/verdict.h"

namespace gpuman::health {

struct Rule {
  std::string_view code;  // "row_remap_failed"
  State state = State::kDegraded;
  Action action = Action::kNone;
  base::Millis raise_after{0};  // it has to hold for so long without a break
  base::Millis clear_after{0};  // and not to hold for so long
  std::string_view meaning;     // for the documentation
};

std::span<const Rule> Rules();
const Rule* RuleOf(std::string_view code);  // nullptr: there is none

// PCIe replays a minute that a link of so many lanes may have (bit error rate 1e-12 at its speed).
// nullopt for a generation that is not known.
std::optional<unsigned> ReplaysAllowed(unsigned generation, unsigned lanes);

// By rule: a sentence with its figures where it holds, nullopt where it does not. A rule that is missing
// could not be looked at: it stays what it was.
using Looked = std::map<std::string_view, std::optional<std::string>>;

// Whether each rule holds by what has been read so far.
class Watch {
 public:
  Looked Look(base::MonoTime now, const Reading& reading);

 private:
  void LookAtBus(base::MonoTime now, const Reading& reading, Looked& looked);
  void LookAtSlowdowns(base::MonoTime now, const Reading& reading, Looked& looked);
  void LookAtLinks(base::MonoTime now, const Reading& reading, Looked& looked);

  GrowthOf replays_{base::Millis(60'000)};
  GrowthOf crc_errors_{base::Millis(5'000)};
  MinutesWith slowdowns_{10};
};

}  // namespace gpuman::health
