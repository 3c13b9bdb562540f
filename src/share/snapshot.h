// What `gpuman share status` shows. Values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "share/events.h"
#include "share/recent_waits.h"

namespace gpuman::share {

struct TenantStatus {
  TenantId tenant;
  MemoryDemand demand;  // on this GPU
  bool in_run_set = false;
  GatePosition gate = GatePosition::kOpen;
  TenantActivity activity = TenantActivity::kUnknown;
  bool suspended = false;
  // "latency" (a tenant whose work goes first has work), "share" (it has used its share of the time up),
  // "turn", "room", "return" (its memory is on its way), "yield" (another tenant does not yield), "retry" (a
  // move failed), "too_large"; empty: the tenant waits for nothing.
  std::string waits_for{};
  std::optional<TenantId> obstacle{};  // does not yield: this tenant, or one with the room that it waits for
  std::string why{};                   // why that tenant does not yield
  Span waiting{};                      // how long it has waited so far
  Span had_turn{};                     // since it joined
  TenantOptions options{};
  bool learned_interactive = false;  // it works in short bursts, by its rhythm
  // While the GPU's jobs have turns by shares: its part of the time, and what it had of the last ten seconds;
  // from 0 to 1.
  std::optional<double> compute_part{}, compute_had{};
  // How long its work stayed on the GPU at most, the last times that its gate was closed: a kernel or a graph
  // is not cut. Where it did not leave in the time that it was given: that time.
  std::optional<Span> longest_unit{};
  // While it had work that goes first: how long other tenants stood still, since it joined.
  Span held_others{};
  RecentWaits::Summary waits{};
};

// The bounds of the histogram, in seconds.
inline std::vector<double> HandOverBounds() { return {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}; }

struct SharedGpuStatus {
  std::string gpu;
  std::optional<base::Bytes> capacity;
  base::Bytes demand;                 // of all tenants: resident, away, pinned and wanted
  std::vector<TenantStatus> tenants;  // by id
  bool contended = false;             // not all tenants fit, or they take turns
  bool exclusive = false;             // tenants that fit together take turns too
  bool by_share = false;              // and their turns are by their shares of the time
  bool handing_over = false;
  Span quantum{};
  std::optional<Span> quantum_left;   // of the turn that ends first, while a tenant waits for it
  base::Bytes moved_out, moved_in;    // since the scheduler began
  base::Bytes copied_out, copied_in;  // of these, what had to be copied
  std::uint64_t hand_overs = 0;
  base::Histogram hand_over_times{HandOverBounds()};  // in seconds
  Span moving{};                                      // spent in hand-overs
  double moving_share = 0;                            // part of the contended time, from 0 to 1
};

struct Snapshot {
  std::vector<SharedGpuStatus> gpus;  // by UUID
};

// What a tenant waits for, on which GPUs, and which tenants use them meanwhile.
struct TenantWait {
  std::vector<std::string> gpus;
  std::string for_what;  // as TenantStatus::waits_for
  Span waiting{};
  std::vector<TenantId> others;  // in the run set of one of these GPUs, by id
};
// nullopt: it waits for nothing.
std::optional<TenantWait> WaitOf(const Snapshot& snapshot, TenantId tenant);

}  // namespace gpuman::share
