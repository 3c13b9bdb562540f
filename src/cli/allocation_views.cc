#include "cli/allocation_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "cli/printed_json.h"
#include "cli/queue/when.h"

namespace gpuman::trace {

static void Fields(base::json::JsonObjectWriter& v, const Frame& x) {
  v("function", cli::NonEmpty(x.function));
  v("file", cli::NonEmpty(x.file));
  v("line", x.line > 0 ? std::optional(x.line) : std::nullopt);
  v("module", cli::NonEmpty(x.module));
  v("address", x.python ? std::nullopt : std::optional(x.address));
  v("language", std::string(x.python ? "python" : "native"));
}

}  // namespace gpuman::trace

namespace gpuman::cli {
namespace {

constexpr std::size_t kMaxPlaces = 10, kMaxStacks = 10;

base::Bytes BytesOf(double estimate) {
  return {static_cast<std::uint64_t>(std::llround(std::max(estimate, 0.0)))};
}

double ShareOf(const trace::Amount& amount, const trace::Moment& moment) {
  return moment.bytes > 0 ? amount.bytes / moment.bytes : 0;
}

base::WallTime WallOf(const JobAllocationTraces& job, const trace::Moment& moment) {
  return job.traces.processes[moment.process].WallOf(moment.at);
}

// How exact the parts are.
std::string Remark(const trace::Moment& moment) {
  return moment.averaged ? "  (samples were few: the average of moments at which it held nearly as much)\n"
                         : "";
}

std::string RenderPlaces(const JobAllocationTraces& job, const trace::Moment& moment,
                         const trace::NameFrame& name) {
  const auto places = trace::PlacesOf(job.traces.processes, moment, name);
  std::string text;
  double left = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i >= kMaxPlaces) {
      left += places[i].amount.bytes;
      continue;
    }
    text += fmt::format("  {:>9}  {:>3.0f} %  {}\n", base::FormatBytes(BytesOf(places[i].amount.bytes)),
                        100 * ShareOf(places[i].amount, moment), Printable(places[i].text));
  }
  if (places.size() > kMaxPlaces)
    text += fmt::format("  {:>9}         at {} more places\n", base::FormatBytes(BytesOf(left)),
                        places.size() - kMaxPlaces);
  return text.empty() ? "  nothing that was traced\n" : text + Remark(moment);
}

std::string RequestedBy(const JobAllocationTraces& job, const trace::RefusedAllocation& refusal,
                        const trace::NameFrame& name) {
  const auto& process = job.traces.processes[refusal.stack.process];
  return trace::PlaceTextOf(process, process.stacks[refusal.stack.stack], name);
}

const trace::GpuTraceSummary* LastRefused(const JobAllocationTraces& job) {
  const trace::GpuTraceSummary* last = nullptr;
  for (const auto& gpu : job.gpus)
    if (gpu.refusal && (last == nullptr || gpu.refusal->then.at > last->refusal->then.at)) last = &gpu;
  return last;
}

std::vector<std::string> Notes(const JobAllocationTraces& job) {
  std::vector<std::string> notes = job.traces.notes;
  for (const auto& process : job.traces.processes)
    if (process.end == trace::TraceEnd::kFull)
      notes.push_back(
          fmt::format("the trace of process {} is full: what it did later is not in it", process.pid));
  return notes;
}

// What --json prints.
struct StackView {
  base::Bytes bytes;
  std::vector<trace::Frame> frames;
};

struct PlaceView {
  std::string text;
  base::Bytes bytes, allocations;
  double share = 0;
  std::vector<StackView> stacks;
};

struct MomentView {
  base::WallTime at;
  base::Bytes bytes;
  bool averaged = false;
  std::vector<PlaceView> places;
};

struct RefusalView {
  MomentView then;
  std::uint64_t asked = 0;
  std::string place;
  std::vector<trace::Frame> frames;
};

struct GpuAllocationsView {
  std::string gpu;
  MomentView peak;
  std::optional<RefusalView> refusal;
};

struct AllocationsView {
  std::int64_t id = 0;
  std::string tag;
  std::size_t processes = 0;
  std::vector<GpuAllocationsView> gpus;
  std::vector<std::string> notes;
};

using base::json::JsonObjectWriter;

void Fields(JsonObjectWriter& v, const StackView& x) {
  v("bytes", x.bytes);
  v("frames", x.frames);
}

void Fields(JsonObjectWriter& v, const PlaceView& x) {
  v("place", x.text);
  v("bytes", x.bytes);
  v("share", x.share);
  v("allocations", x.allocations);
  v("stacks", x.stacks);
}

void Fields(JsonObjectWriter& v, const MomentView& x) {
  v("at", x.at);
  v("bytes", x.bytes);
  v("averaged", x.averaged);
  v("places", x.places);
}

void Fields(JsonObjectWriter& v, const RefusalView& x) {
  Fields(v, x.then);
  v("asked", x.asked);
  v("place", x.place);
  v("frames", x.frames);
}

void Fields(JsonObjectWriter& v, const GpuAllocationsView& x) {
  v("gpu", x.gpu);
  v("peak", x.peak);
  v("refusal", x.refusal);
}

void Fields(JsonObjectWriter& v, const AllocationsView& x) {
  v("id", x.id);
  v("tag", x.tag);
  v("processes", x.processes);
  v("gpus", x.gpus);
  v("notes", x.notes);
}

PlaceView PlaceViewOf(const JobAllocationTraces& job, const trace::Moment& moment,
                      const trace::AllocationSite& place, const trace::NameFrame& name) {
  PlaceView view{place.text,
                 BytesOf(place.amount.bytes),
                 BytesOf(place.amount.allocations),
                 ShareOf(place.amount, moment),
                 {}};
  for (const auto& [ref, amount] : place.stacks) {
    if (view.stacks.size() == kMaxStacks) break;
    const auto& process = job.traces.processes[ref.process];
    view.stacks.push_back({BytesOf(amount.bytes), trace::FramesOf(process, process.stacks[ref.stack], name)});
  }
  return view;
}

MomentView MomentViewOf(const JobAllocationTraces& job, const trace::Moment& moment,
                        const trace::NameFrame& name) {
  MomentView view{WallOf(job, moment), BytesOf(moment.bytes), moment.averaged, {}};
  for (const auto& place : trace::PlacesOf(job.traces.processes, moment, name)) {
    if (view.places.size() == kMaxPlaces) break;
    view.places.push_back(PlaceViewOf(job, moment, place, name));
  }
  return view;
}

RefusalView RefusalViewOf(const JobAllocationTraces& job, const trace::RefusedAllocation& refusal,
                          const trace::NameFrame& name) {
  const auto& process = job.traces.processes[refusal.stack.process];
  return {MomentViewOf(job, refusal.then, name), refusal.bytes, RequestedBy(job, refusal, name),
          trace::FramesOf(process, process.stacks[refusal.stack.stack], name)};
}

}  // namespace

std::string RenderAllocations(const JobAllocationTraces& job, const trace::NameFrame& name,
                              const GpuName& gpu_name, const TerminalStyle& style) {
  const std::size_t processes = job.traces.processes.size();
  std::string text =
      fmt::format("job {} '{}': who held GPU memory, by samples of {} {}; parts are estimates\n", job.id,
                  Printable(job.tag), processes, processes == 1 ? "process" : "processes");
  if (job.gpus.empty()) text += "\nno allocation was traced\n";
  if (!job.gpus.empty()) {
    const trace::GpuTraceSummary& gpu = job.gpus.front();
    text += fmt::format("\n{} {}, {}: {}\n{}", Paint(style, Color::kBold, "At the peak of"),
                        gpu_name(gpu.gpu), queue::FormatLocal(WallOf(job, gpu.peak)),
                        base::FormatBytes(BytesOf(gpu.peak.bytes)), RenderPlaces(job, gpu.peak, name));
  }
  if (const trace::GpuTraceSummary* const gpu = LastRefused(job)) {
    const trace::RefusedAllocation& refusal = *gpu->refusal;
    text += fmt::format("\n{} of {} on {}, {}: {} were held; it was for\n  {}\n  held then:\n{}",
                        Paint(style, Color::kBold, "At the refusal"), base::FormatBytes({refusal.bytes}),
                        gpu_name(gpu->gpu), queue::FormatLocal(WallOf(job, refusal.then)),
                        base::FormatBytes(BytesOf(refusal.then.bytes)),
                        Printable(RequestedBy(job, refusal, name)), RenderPlaces(job, refusal.then, name));
  }
  if (job.gpus.size() > 1) text += fmt::format("\n{} GPUs were used: --json has all\n", job.gpus.size());
  for (const auto& note : Notes(job)) text += fmt::format("\nnote: {}\n", Printable(note));
  return text;
}

api::Json AllocationsJson(const JobAllocationTraces& job, const trace::NameFrame& name) {
  AllocationsView view{job.id, job.tag, job.traces.processes.size(), {}, Notes(job)};
  for (const auto& gpu : job.gpus) {
    GpuAllocationsView& added =
        view.gpus.emplace_back(GpuAllocationsView{gpu.gpu, MomentViewOf(job, gpu.peak, name), {}});
    if (gpu.refusal) added.refusal = RefusalViewOf(job, *gpu.refusal, name);
  }
  return base::json::Write(kPrintedFormat, view);
}

}  // namespace gpuman::cli
