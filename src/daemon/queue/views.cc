#include "daemon/queue/views.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/url.h"
#include "daemon/core/views.h"
#include "queue/priority.h"

namespace gpuman::daemon {
namespace {

// At most the first `most` of them.
spec::NamedDependencies DependenciesView(const spec::Dependencies& depends, std::size_t most) {
  spec::NamedDependencies view;
  view.mode = depends.mode;
  const std::size_t count = std::min(depends.list.size(), most);
  view.list.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    view.list.push_back({depends.list[i].kind, std::to_string(depends.list[i].job.value)});
  return view;
}

bool ShortenOptions(spec::JobOptions& options) {
  bool shortened = false;
  for (auto* const text :
       {&options.conda_env, &options.stdin_file, &options.stdout_file, &options.stderr_file})
    if (*text) shortened = ShortenText(**text) || shortened;
  shortened = ShortenTexts(options.notify.webhooks) || shortened;
  shortened = ShortenTexts(options.notify.mails) || shortened;
  return shortened;
}

std::optional<base::Millis> AgeOf(const base::ProcessId& process) {
  timespec up{};
  const auto ticks = ::sysconf(_SC_CLK_TCK);
  if (ticks <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &up) != 0) return std::nullopt;
  const auto now = std::chrono::seconds(up.tv_sec) + std::chrono::nanoseconds(up.tv_nsec);
  const base::Millis started(static_cast<std::int64_t>(process.start_time) * 1000 / ticks);
  return std::max(std::chrono::duration_cast<base::Millis>(now) - started, base::Millis{0});
}

// idle allocated shared unmanaged restricted drained
std::string StateOf(const queue::Gpu& gpu, const queue::Snapshot& snapshot, std::size_t place) {
  bool taken = false, shared = false;
  for (const auto& row : snapshot.running) {
    if (row.phase == queue::RunningPhase::kSuspended || !row.gpus.test(place)) continue;
    taken = true;
    shared = shared || snapshot.needs[row.need].share;
  }
  if (gpu.split) return "split";
  if (gpu.lost || gpu.drained) return "drained";
  if (gpu.restricted) return "restricted";
  if (gpu.unmanaged) return "unmanaged";
  return taken ? (shared ? "shared" : "allocated") : "idle";
}

// Why the queue starts nothing there: "lost", "unhealthy", "drained" (by hand).
std::vector<std::string> UnfitOf(const queue::Gpu& gpu, const std::set<std::string>& drained,
                                 const gpu::Inventory& inventory) {
  const auto* const known = gpu::FindGpu(inventory, gpu.uuid);
  std::vector<std::string> words;
  if (gpu.lost) words.emplace_back("lost");
  if (gpu.unhealthy) words.emplace_back("unhealthy");
  if (drained.contains(gpu.uuid) || (known && known->mig && drained.contains(known->mig->parent)))
    words.emplace_back("drained");
  return words;
}

std::vector<std::string> LinksOf(const std::vector<gpu::Link>& links, std::size_t place, std::size_t gpus) {
  std::vector<std::string> words;
  for (std::size_t other = 0; other < gpus; ++other) {
    const auto link = links.size() == gpus * gpus ? links[place * gpus + other] : gpu::Link::kUnknown;
    words.emplace_back(other == place ? "self" : gpu::ToString(link));
  }
  return words;
}

}  // namespace

void ShowQueueFields(const jobs::Job& job, JobDetail detail, api::JobView& view) {
  if (!job.queued) return;
  const spec::JobSpec& spec = *job.spec;
  api::JobQueueView& fields = view.queue.emplace();
  static_cast<spec::JobOptions&>(fields.asked) = spec;
  fields.asked.hold = false;  // the job's state tells it
  for (auto& url : fields.asked.notify.webhooks)
    url = base::UrlWithoutSecrets(url);  // everybody may see a job
  const bool is_listed = detail == JobDetail::kListed;
  fields.asked.depends = DependenciesView(spec.depends, is_listed ? kListedElements : SIZE_MAX);
  const bool fewer = fields.asked.depends.list.size() < spec.depends.list.size();
  const bool shorter = is_listed && ShortenOptions(fields.asked);
  view.cut = view.cut || fewer || shorter;
  fields.gpus = spec.gpus;
  if (job.array.array.value != 0) {
    fields.array_id = job.array.array.value;
    fields.array_task = static_cast<int>(job.array.task);
  }
  fields.attempts = job.runs;
  if (job.redo_of.value != 0) fields.redo_of = job.redo_of.value;
  if (job.suspended.count() > 0) fields.suspended_total = job.suspended;
}

void ShowWaiting(const Dispatcher::View& queue_view, const queue::Explainer& explainer, queue::Index row,
                 api::JobView& view) {
  if (row == queue::kNone) return;
  const auto& verdict = queue_view.plan.verdicts[row];
  if (const auto word = ToString(verdict.reason);
      !word.empty() && verdict.reason != queue::WaitReason::kHeld) {
    view.reason = word;
    view.reason_detail = explainer.Of(row);
  }
  if (!view.queue) return;
  if (verdict.position > 0) view.queue->position = static_cast<int>(verdict.position);
  if (queue_view.starts[row] == queue::kNever) return;
  view.queue->estimated_start = queue_view.starts[row];
  view.queue->estimate_presumed = queue_view.presumed[row];
}

void ShowAdvantage(const Dispatcher::View& queue_view, queue::Index row, api::JobView& view) {
  if (row == queue::kNone || !view.queue) return;
  const auto& job = queue_view.snapshot.waiting[row];
  const auto parts = queue::Ranks(queue_view.snapshot, queue_view.now).Of(job.member, job.need, job.priority);
  const auto seconds = [](base::Millis time) { return static_cast<double>(time.count()) / 1000; };
  view.queue->advantage =
      api::Advantage{seconds(parts.priority), seconds(parts.fair_share), seconds(parts.short_job)};
}

void ShowFairShares(const queue::Snapshot& snapshot, queue::WallTime now, api::StatsView& view) {
  if (view.by != "user" && view.by != "project") return;
  const auto fair = queue::FairSharesOf(snapshot, now);
  std::map<std::string, api::FairShare> shown;
  const auto add = [&](const std::string& name, const queue::FairShare& part) {
    const auto [it, fresh] = shown.try_emplace(name, api::FairShare{0, 0, part.factor});
    it->second.entitled += part.entitled;
    it->second.used += part.used;
    if (!fresh) it->second.factor.reset();
  };
  if (view.by == "project") {
    for (std::size_t i = 0; i < snapshot.projects.size(); ++i)
      if (snapshot.projects[i].shares > 0) add(snapshot.projects[i].name, fair.projects[i]);
    add("", fair.projects.back());
  } else {
    std::set<std::pair<queue::Index, queue::Index>> seen;
    for (std::size_t i = 0; i < snapshot.members.size(); ++i) {
      const auto& member = snapshot.members[i];
      const auto& name = snapshot.users[member.user].name;
      if (seen.emplace(member.user, queue::LevelOf(snapshot, member)).second)
        add(name, fair.members[i]);
      else
        shown[name].used += fair.members[i].used;
    }
  }
  for (auto& row : view.rows)
    if (const auto it = shown.find(row.name); it != shown.end()) row.fair_share = it->second;
}

api::QueueInfo InfoOf(Dispatcher& dispatcher, const std::map<std::string, guard::GpuStatus>& statuses,
                      const jobs::JobManager& jobs, const QueueInfoContext& context) {
  const auto& name_of = context.name_of;
  const auto& snapshot = dispatcher.updater().View(context.now);
  const auto& state = dispatcher.state();
  api::QueueInfo info;
  info.settings.choice = ToString(state.choice);
  info.settings.paused = state.paused;
  if (state.allowed) info.settings.allowed.emplace(state.allowed->begin(), state.allowed->end());
  info.settings.drained.assign(state.drained.begin(), state.drained.end());
  for (std::size_t place = 0; place < snapshot.gpus.size(); ++place) {
    const auto& gpu = snapshot.gpus[place];
    api::QueueGpu view;
    view.number = NumberOf(gpu);
    if (!gpu.instance) view.index = static_cast<int>(gpu.index);
    view.uuid = gpu.uuid;
    view.model = gpu.model;
    view.state = StateOf(gpu, snapshot, place);
    view.unfit = UnfitOf(gpu, state.drained, context.inventory);
    for (const auto& row : snapshot.running)
      if (row.phase != queue::RunningPhase::kSuspended && row.gpus.test(place))
        view.jobs.push_back(row.id.value);
    std::sort(view.jobs.begin(), view.jobs.end());
    const auto tag_of = [&](std::int64_t id) {
      const auto* const job = jobs.Find({id});
      return job ? job->tag : std::string();
    };
    for (const auto id : view.jobs) view.tags.push_back(tag_of(id));
    for (const auto& row : snapshot.running)
      if (const auto left = LeftOn(row, place);
          row.phase == queue::RunningPhase::kSuspended && left.count > 0)
        view.left.push_back({row.id.value, tag_of(row.id.value), left});
    std::sort(view.left.begin(), view.left.end(), [](const auto& a, const auto& b) { return a.job < b.job; });
    if (const auto it = statuses.find(gpu.uuid); it != statuses.end()) {
      view.mig = PartOf(it->second.gpu);
      if (const auto& memory = it->second.sample.memory)
        view.memory = api::MemoryView{memory->total, memory->used, memory->free, memory->reserved};
      for (const auto& process : it->second.processes) {
        if (process.job || !base::IsAlive(process.id)) continue;
        api::QueueProcess shown;
        shown.pid = process.id.pid;
        if (process.uid) shown.user = name_of(*process.uid);
        if (!process.name.empty()) shown.name = process.name;
        shown.memory = process.memory;
        shown.age = AgeOf(process.id);
        shown.idle = dispatcher.idle().IdleOf(gpu.uuid, process.id, context.now);
        shown.gpuman = process.ours;
        shown.ignored = Ignores(state.ignored, process, gpu.uuid, name_of);
        shown.hoarding =
            !shown.ignored && IsHoarding(process, shown.idle, context.hoarder_idle, context.protected_names);
        view.processes.push_back(std::move(shown));
      }
    }
    view.links = LinksOf(context.inventory.links, place, snapshot.gpus.size());
    info.gpus.push_back(std::move(view));
  }
  return info;
}

}  // namespace gpuman::daemon
