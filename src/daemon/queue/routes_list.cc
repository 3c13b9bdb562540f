// The queue as a list of jobs: JSON, or lines of text.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "api/json.h"
#include "api/queue_rows.h"
#include "daemon/queue/requests.h"
#include "daemon/queue/views.h"

namespace gpuman::daemon {
namespace {

using http::ExchangePtr;

// Between two looks at the clock: at most so many jobs, and no more after so many bytes.
constexpr int kSome = 8;
constexpr std::size_t kSomeText = 16u << 10;

struct Filter {
  std::set<std::string> states, users, projects, names;
  std::set<base::JobId> jobs;
  bool named = false;  // the request names jobs
  std::size_t limit = SIZE_MAX;
  std::optional<base::JobId> after;  // the list is then by id, from the next one on

  bool WantsEnded() const { return !states.empty() || named; }
  bool Takes(const jobs::Job& job, spec::JobState state) const {
    if (named && !jobs.contains(job.id)) return false;
    if (states.empty() ? spec::IsEnded(state) && !named
                       : !states.contains("all") && !states.contains(std::string(spec::ToString(state))))
      return false;
    if (!users.empty() && !users.contains(job.owner->user)) return false;
    if (!projects.empty() && !projects.contains(job.spec->project.value_or(""))) return false;
    return names.empty() || names.contains(job.tag);
  }
};

std::set<std::string> WordsOf(const http::Request& request, std::string_view name) {
  std::set<std::string> words;
  std::istringstream text{std::string(request.Query(name).value_or(""))};
  for (std::string word; std::getline(text, word, ',');)
    if (!word.empty()) words.insert(word);
  return words;
}

base::Result<Filter> FilterOf(QueueModule& queue, const http::ExchangePtr& exchange) {
  const http::Request& request = exchange->request();
  Filter filter;
  filter.states = WordsOf(request, "states");
  filter.users = WordsOf(request, "users");
  filter.projects = WordsOf(request, "projects");
  filter.names = WordsOf(request, "names");
  for (const auto& word : filter.states)
    if (word != "all" && !spec::JobStateFromString(word))
      return base::Fail(base::ErrorCode::kInvalidArgument, fmt::format("states: '{}' is no state", word));
  for (const auto& word : WordsOf(request, "jobs")) {
    GPUMAN_ASSIGN(const auto ids, queue.dispatcher().references().JobsOf(word, request.peer.uid));
    NoteOnName(queue, exchange, word);
    filter.jobs.insert(ids.begin(), ids.end());
    filter.named = true;
  }
  GPUMAN_ASSIGN(const auto page, PageOf(request));
  filter.limit = page.limit;
  filter.after = page.after;
  return filter;
}

// Gives the jobs of a list, one after the other. Without `after`: first running jobs, then waiting jobs in
// the order in which they start, then the other waiting jobs, then ended jobs. The state of a job when the
// list was begun decides its place. Each job is shown once, as it is when its turn comes.
class Walk {
 public:
  Walk(QueueModule& queue, std::shared_ptr<const QueueSnapshot> snapshot, Filter filter)
      : queue_(queue), snapshot_(std::move(snapshot)), filter_(std::move(filter)) {
    if (filter_.after) return;
    for (const auto* const job : jobs().Active()) first_.push_back(job->id);
    if (filter_.WantsEnded()) last_ = jobs().Ended();
  }

  // False: there are no more jobs. `job` is null where a job was passed over. `row`: the job's row among
  // waiting jobs.
  bool Next(const jobs::Job*& job, queue::Index& row) {
    if (shown_ == filter_.limit) return false;
    row = queue::kNone;
    job = filter_.after ? NextById(row) : NextInOrder(row);
    if (over_) return false;
    if (job && !filter_.Takes(*job, queue_.StateOf(*job))) job = nullptr;
    if (job) ++shown_;
    return true;
  }
  const QueueSnapshot& snapshot() const { return *snapshot_; }

 private:
  const jobs::JobIndex& jobs() const { return queue_.core().jobs().index(); }

  const jobs::Job* NextById(queue::Index& row) {
    const jobs::Job* job = nullptr;
    if (filter_.named) {
      const auto id = filter_.jobs.upper_bound(*filter_.after);
      over_ = id == filter_.jobs.end();
      if (over_) return nullptr;
      filter_.after = *id;
      job = jobs().Find(*id);
    } else {
      job = jobs().After(*filter_.after);
      over_ = !job;
      if (over_) return nullptr;
      filter_.after = job->id;
    }
    if (job && jobs::IsWaiting(*job)) row = snapshot_->RowOf(job->id);
    return job;
  }

  const jobs::Job* NextInOrder(queue::Index& row) {
    const auto& waiting = snapshot_->view().snapshot.waiting;
    std::size_t at = at_++;
    if (at < first_.size()) return jobs().Find(first_[at]);
    at -= first_.size();
    if (at < snapshot_->order().size()) {
      row = snapshot_->order()[at];
      const auto id = waiting[row].id;
      if (std::binary_search(first_.begin(), first_.end(), id) ||
          std::binary_search(last_.begin(), last_.end(), id))
        return nullptr;
      const auto* const job = jobs().Find(id);
      if (job && !jobs::IsWaiting(*job)) row = queue::kNone;
      return job;
    }
    at -= snapshot_->order().size();
    over_ = at >= last_.size();
    return over_ ? nullptr : jobs().Find(last_[at]);
  }

  QueueModule& queue_;
  const std::shared_ptr<const QueueSnapshot> snapshot_;
  Filter filter_;
  std::vector<base::JobId> first_, last_;  // by id
  std::size_t at_ = 0, shown_ = 0;
  bool over_ = false;
};

// `write` writes a job as text. Copies of the source share `walk`.
template <typename Write>
ListAnswerStreamer::Source SourceOf(std::shared_ptr<Walk> walk, Write write) {
  return [walk = std::move(walk), write = std::move(write)](std::string& text) mutable {
    const jobs::Job* job = nullptr;
    queue::Index row = queue::kNone;
    const std::size_t before = text.size();
    for (int i = 0; i < kSome && text.size() - before < kSomeText; ++i) {
      if (!walk->Next(job, row)) {
        write.End(text);
        return false;
      }
      if (job) write.One(text, *job, row, walk->snapshot());
    }
    return true;
  };
}

class WriteJson {
 public:
  explicit WriteJson(QueueModule& queue) : queue_(queue) {}
  void One(std::string& text, const jobs::Job& job, queue::Index row, const QueueSnapshot& snapshot) {
    auto view = queue_.core().View(job, JobDetail::kListed);
    ShowQueueFields(job, JobDetail::kListed, view);
    ShowWaiting(snapshot.view(), snapshot.explainer(), row, view);
    list_.Add(text, api::Encode(view));
  }
  void End(std::string& text) { list_.End(text); }

 private:
  QueueModule& queue_;
  JsonListWriter list_{R"({"jobs":[)"};
};

std::string IndicesOf(const std::vector<std::string>& uuids, const gpu::Inventory& inventory) {
  std::string text;
  for (const auto& gpu : inventory.gpus)
    if (std::find(uuids.begin(), uuids.end(), gpu.uuid) != uuids.end())
      text += (text.empty() ? "" : ",") + gpu::NumberOf(gpu);
  return text;
}

class WriteRows {
 public:
  explicit WriteRows(QueueModule& queue) : queue_(queue) {}
  void One(std::string& text, const jobs::Job& job, queue::Index place, const QueueSnapshot& snapshot) {
    Begin(text);
    const auto spec = queue_.dispatcher().SpecFor(job);
    api::QueueRow row;
    row.id = job.id.value;
    if (job.array.array.value != 0) {
      row.array_id = job.array.array.value;
      row.array_task = static_cast<int>(job.array.task);
    }
    row.tag = job.tag;
    row.user = job.owner->user;
    row.project = job.spec->project.value_or("");
    row.state = queue_.StateOf(job);
    row.reason = job.reason.value_or("");
    row.priority = job.spec->priority;
    row.gpus_asked = spec->gpus.count;
    row.gpus = IndicesOf(job.gpus, queue_.core().inventory());
    row.memory = spec->memory_on_each;
    if (!job.queued) TakeOfRun(job, row);
    row.host_memory = spec->host_memory;
    row.time_limit = spec->time_limit;
    row.submitted_at = job.submitted_at;
    row.started_at = job.started_at;
    row.ended_at = job.ended_at;
    if (place != queue::kNone) {
      const auto& verdict = snapshot.view().plan.verdicts[place];
      if (verdict.reason != queue::WaitReason::kHeld) row.reason = ToString(verdict.reason);
      if (snapshot.view().starts[place] != queue::kNever) row.estimated_start = snapshot.view().starts[place];
      row.estimate_presumed = snapshot.view().presumed[place];
      if (verdict.position > 0) row.position = static_cast<int>(verdict.position);
    }
    api::AppendQueueRow(text, row);
  }
  void End(std::string& text) { Begin(text); }

 private:
  // A job that never was in the queue has the GPUs that it may use, as everywhere else.
  void TakeOfRun(const jobs::Job& job, api::QueueRow& row) {
    const auto view = queue_.core().View(job, JobDetail::kListed);
    row.gpus_asked = static_cast<int>(view.gpus.size());
    row.memory = view.memory.limit;
    const bool never_ran = jobs::IsEnded(job) && !job.started_at;
    row.gpus = never_ran ? std::string() : IndicesOf(view.gpus, queue_.core().inventory());
  }
  void Begin(std::string& text) {
    if (!std::exchange(begun_, true)) text += api::QueueRowTitles();
  }

  QueueModule& queue_;
  bool begun_ = false;
};

template <typename Write>
void ShowList(QueueModule& queue, const ExchangePtr& exchange, const char* content_type) {
  auto filter = FilterOf(queue, exchange);
  if (!filter) return SendError(exchange, filter.error());
  queue.core().lists().Answer(
      exchange, content_type, [&queue, filter = std::move(*filter)](const auto& then) {
        queue.dispatcher().WithSnapshot(
            [&queue, filter, then](std::shared_ptr<const QueueSnapshot> snapshot) {
              then(SourceOf(std::make_shared<Walk>(queue, std::move(snapshot), filter), Write(queue)));
            });
      });
}

}  // namespace

void QueueModule::AddListRoutes(http::Router& router) {
  Serve(router, core_, api::routes::kQueue,
        [this](const auto& call) { ShowList<WriteJson>(*this, call.exchange(), "application/json"); });
  Serve(router, core_, api::routes::kQueueRows, [this](const auto& call) {
    ShowList<WriteRows>(*this, call.exchange(), "text/tab-separated-values");
  });
}

}  // namespace gpuman::daemon
