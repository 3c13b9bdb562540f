#include "cli/allocation_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "cli/queue/when.h"

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

api::Json FrameJson(const trace::Frame& frame) {
  const auto text = [](const std::string& value) { return value.empty() ? api::Json() : api::Json(value); };
  return {{"function", text(frame.function)},
          {"file", text(frame.file)},
          {"line", frame.line > 0 ? api::Json(frame.line) : api::Json()},
          {"module", text(frame.module)},
          {"address", frame.python ? api::Json() : api::Json(frame.address)},
          {"language", frame.python ? "python" : "native"}};
}

api::Json FramesJson(const std::vector<trace::Frame>& frames) {
  api::Json list = api::Json::array();
  for (const auto& frame : frames) list.push_back(FrameJson(frame));
  return list;
}

api::Json MomentJson(const JobAllocationTraces& job, const trace::Moment& moment,
                     const trace::NameFrame& name) {
  api::Json list = api::Json::array();
  for (const auto& place : trace::PlacesOf(job.traces.processes, moment, name)) {
    if (list.size() == kMaxPlaces) break;
    api::Json stacks = api::Json::array();
    for (const auto& [ref, amount] : place.stacks) {
      if (stacks.size() == kMaxStacks) break;
      const auto& process = job.traces.processes[ref.process];
      const auto frames = trace::FramesOf(process, process.stacks[ref.stack], name);
      stacks.push_back({{"bytes", BytesOf(amount.bytes).count}, {"frames", FramesJson(frames)}});
    }
    list.push_back({{"place", place.text},
                    {"bytes", BytesOf(place.amount.bytes).count},
                    {"share", ShareOf(place.amount, moment)},
                    {"allocations", BytesOf(place.amount.allocations).count},
                    {"stacks", std::move(stacks)}});
  }
  return {{"at", base::FormatIso8601(WallOf(job, moment))},
          {"bytes", BytesOf(moment.bytes).count},
          {"averaged", moment.averaged},
          {"places", std::move(list)}};
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
  api::Json gpus = api::Json::array();
  for (const auto& gpu : job.gpus) {
    api::Json refused;
    if (gpu.refusal) {
      const trace::RefusedAllocation& refusal = *gpu.refusal;
      const auto& process = job.traces.processes[refusal.stack.process];
      refused = MomentJson(job, refusal.then, name);
      refused["asked"] = refusal.bytes;
      refused["place"] = RequestedBy(job, refusal, name);
      refused["frames"] = FramesJson(trace::FramesOf(process, process.stacks[refusal.stack.stack], name));
    }
    gpus.push_back(
        {{"gpu", gpu.gpu}, {"peak", MomentJson(job, gpu.peak, name)}, {"refusal", std::move(refused)}});
  }
  return {{"id", job.id},
          {"tag", job.tag},
          {"processes", job.traces.processes.size()},
          {"gpus", std::move(gpus)},
          {"notes", Notes(job)}};
}

}  // namespace gpuman::cli
