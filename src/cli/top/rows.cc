#include "cli/top/rows.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <tuple>

#include "base/text.h"

namespace gpuman::cli::top {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// `part` is in lower case.
bool Contains(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char a, char b) { return Lower(a) == b; }) != text.end();
}

bool Contains(const std::vector<std::string>& words, std::string_view part) {
  return std::any_of(words.begin(), words.end(), [&](const auto& word) { return Contains(word, part); });
}

struct FilterWord {
  std::string field;  // "gpu"; empty: any
  std::string value;  // in lower case
};

std::vector<FilterWord> ReadFilter(const std::string& filter) {
  std::vector<FilterWord> words;
  std::istringstream text(base::LowerCase(filter));
  for (std::string word; text >> word;) {
    FilterWord read{"", word};
    for (const std::string_view field : {"gpu", "user", "name", "id", "pid", "state"})
      if (word.starts_with(std::string(field) + ":"))
        read = {std::string(field), word.substr(field.size() + 1)};
    words.push_back(std::move(read));
  }
  return words;
}

class Filter {
 public:
  explicit Filter(const State& state) : words_(ReadFilter(state.filter)) {
    for (const auto& gpu : state.status.gpus) numbers_[gpu.uuid] = api::NumberOf(gpu);
  }

  bool empty() const { return words_.empty(); }
  bool Leaves(const api::GpuView& gpu) const {
    return std::all_of(words_.begin(), words_.end(),
                       [&](const auto& word) { return word.field != "gpu" || IsGpu(gpu.uuid, word.value); });
  }
  bool Fits(const api::JobView& job) const {
    return std::all_of(words_.begin(), words_.end(), [&](const auto& word) { return Fits(job, word); });
  }
  bool Fits(const api::QueueRow& job) const {
    return std::all_of(words_.begin(), words_.end(), [&](const auto& word) { return Fits(job, word); });
  }
  bool Fits(const api::GpuView& gpu, const api::ProcessView& process) const {
    return std::all_of(words_.begin(), words_.end(),
                       [&](const auto& word) { return Fits(gpu, process, word); });
  }

 private:
  bool Fits(const api::JobView& job, const FilterWord& word) const {
    const auto& [field, value] = word;
    const bool any = field.empty();
    if (field == "gpu")
      return std::any_of(job.gpus.begin(), job.gpus.end(),
                         [&](const auto& uuid) { return IsGpu(uuid, word.value); });
    if ((any || field == "user") && Contains(job.user, value)) return true;
    if ((any || field == "name") && Contains(job.tag, value)) return true;
    if ((any || field == "id") && std::to_string(job.id) == value) return true;
    if ((any || field == "state") && Contains(spec::ToString(job.state), value)) return true;
    if (field == "pid" && job.pid && std::to_string(*job.pid) == value) return true;
    return any && Contains(job.command, value);
  }
  bool Fits(const api::QueueRow& job, const FilterWord& word) const {
    const auto& [field, value] = word;
    const bool any = field.empty();
    if ((any || field == "user") && Contains(job.user, value)) return true;
    if ((any || field == "name") && Contains(job.tag, value)) return true;
    if ((any || field == "id") && std::to_string(job.id) == value) return true;
    if ((any || field == "state") && Contains(spec::ToString(job.state), value)) return true;
    return any && (Contains(job.reason, value) || Contains(job.project, value));
  }
  bool Fits(const api::GpuView& gpu, const api::ProcessView& process, const FilterWord& word) const {
    const auto& [field, value] = word;
    const bool any = field.empty();
    if (field == "gpu") return IsGpu(gpu.uuid, value);
    if ((any || field == "pid") && std::to_string(process.pid) == value) return true;
    if ((any || field == "user") && process.user && Contains(*process.user, value)) return true;
    if ((any || field == "name") && process.tag && Contains(*process.tag, value)) return true;
    if ((any || field == "name") && process.name && Contains(*process.name, value)) return true;
    if ((any || field == "id") && process.job && std::to_string(*process.job) == value) return true;
    return any && Contains(process.command, value);
  }
  bool IsGpu(const std::string& uuid, const std::string& value) const {
    const auto number = numbers_.find(uuid);
    return (number != numbers_.end() && number->second == value) ||
           (value.size() > 4 && base::LowerCase(uuid).starts_with(value));
  }

  std::vector<FilterWord> words_;
  std::map<std::string, std::string> numbers_;
};

// What rows are ordered by. Unknown numbers come last.
struct SortKey {
  double number = 0;  // the smallest first
  std::string_view word{};
  std::int64_t id = 0;
};

double Falling(const std::optional<double>& value) { return value ? -*value : 1; }

// What a row uses of the host, by the State's order.
std::optional<double> HostNumber(const State& state, const Row& row) {
  JobHostUsage use;
  if (!row.process) {
    use = HostUseOf(state, *row.job);
  } else if (const auto facts = state.facts.find(row.process->pid); facts != state.facts.end()) {
    use = {facts->second.cpu, facts->second.resident};
  }
  if (state.order == TopOrder::kCpu) return use.cpu;
  return use.memory ? std::optional(static_cast<double>(use.memory->count)) : std::nullopt;
}

SortKey KeyOf(const State& state, const Row& row) {
  const auto& job = row.job;
  const auto& process = row.process;
  const std::int64_t id = job ? job->id : INT64_C(1) << 60;
  const int pid = process ? process->pid : job->pid.value_or(INT32_MAX);
  const std::int64_t tie = job && !process ? job->id : pid;
  switch (state.order) {
    case TopOrder::kMemory: {
      const auto memory = process ? process->memory : job->memory.used;
      return {Falling(memory ? std::optional(static_cast<double>(memory->count)) : std::nullopt), {}, tie};
    }
    case TopOrder::kUtilization: {
      const auto percent = process ? process->gpu_percent : UtilizationOf(state, *job);
      return {Falling(percent ? std::optional<double>(*percent) : std::nullopt), {}, tie};
    }
    case TopOrder::kAge: {
      std::optional<double> age;
      if (process) {
        const auto facts = state.facts.find(process->pid);
        if (facts != state.facts.end()) age = static_cast<double>(facts->second.age.count());
      } else if (job->started_at) {
        age = static_cast<double>((state.now - *job->started_at).count());
      }
      return {Falling(age), {}, tie};
    }
    case TopOrder::kCpu:
    case TopOrder::kHostMemory:
      return {Falling(HostNumber(state, row)), {}, tie};
    case TopOrder::kUser:
      if (!process) return {0, job->user, tie};
      return {0, process->user ? std::string_view(*process->user) : std::string_view(), tie};
    case TopOrder::kJob:
      return {static_cast<double>(id), {}, tie};
    case TopOrder::kPid:
      return {static_cast<double>(pid), {}, tie};
  }
  return {};
}

void Sort(const State& state, std::vector<Row>& rows) {
  std::vector<std::pair<SortKey, Row>> keyed;
  keyed.reserve(rows.size());
  for (auto& row : rows) {
    auto key = KeyOf(state, row);
    keyed.emplace_back(key, std::move(row));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const auto order = [](const SortKey& key) { return std::tie(key.number, key.word, key.id); };
    return state.inverted ? order(b.first) < order(a.first) : order(a.first) < order(b.first);
  });
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::move(keyed[i].second);
}

Row RowOf(const api::JobView& job) {
  Row row;
  row.id = {RowId::Kind::kJob, job.id};
  row.job = &job;
  return row;
}

Row RowOf(const State& state, const api::GpuView& gpu, const api::ProcessView& process) {
  Row row;
  row.id = {RowId::Kind::kProcess, process.pid, gpu.uuid};
  row.gpu = &gpu;
  row.process = &process;
  if (process.job) row.job = FindJob(state, *process.job);
  return row;
}

bool IsActive(const api::JobView& job) { return !spec::IsWaiting(job.state) && !spec::IsEnded(job.state); }

// The rows of processes by their jobs, the largest first; those of no job that is shown are in `others`.
std::map<std::int64_t, std::vector<Row>> ProcessesOfJobs(const State& state, std::vector<Row>& others) {
  std::map<std::int64_t, std::vector<Row>> of_jobs;
  for (const auto& gpu : state.status.gpus) {
    for (const auto& process : gpu.processes) {
      auto row = RowOf(state, gpu, process);
      if (row.job && IsActive(*row.job))
        of_jobs[row.job->id].push_back(std::move(row));
      else
        others.push_back(std::move(row));
    }
  }
  for (auto& [job, rows] : of_jobs)
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.process->memory > b.process->memory; });
  return of_jobs;
}

std::vector<Row> JobRows(const State& state) {
  const Filter filter(state);
  std::vector<Row> entries, ended, rows;
  auto of_jobs = ProcessesOfJobs(state, entries);
  std::erase_if(entries, [&](const Row& row) { return !filter.Fits(*row.gpu, *row.process); });
  for (const auto& job : state.status.jobs) {
    if (spec::IsWaiting(job.state)) continue;
    bool fits = filter.Fits(job);
    if (auto processes = of_jobs.find(job.id); !fits && processes != of_jobs.end()) {
      std::erase_if(processes->second, [&](const Row& row) { return !filter.Fits(*row.gpu, *row.process); });
      fits = !processes->second.empty();
    }
    if (fits) (IsActive(job) ? entries : ended).push_back(RowOf(job));
  }
  Sort(state, entries);
  for (auto& entry : entries) {
    const bool is_job = !entry.process;
    const std::int64_t id = is_job ? entry.job->id : 0;
    rows.push_back(std::move(entry));
    if (!is_job || !state.processes) continue;
    for (auto& process : of_jobs[id]) {
      process.below = true;
      rows.push_back(std::move(process));
    }
    if (rows.back().below) rows.back().last = true;
  }
  // The one that ended last comes first.
  std::stable_sort(ended.begin(), ended.end(),
                   [](const Row& a, const Row& b) { return a.job->ended_at > b.job->ended_at; });
  for (auto& row : ended) rows.push_back(std::move(row));
  return rows;
}

std::vector<Row> QueueRows(const State& state) {
  const Filter filter(state);
  std::vector<Row> rows;
  if (!state.queue) return rows;
  rows.reserve(state.queue->size());
  for (const auto& queued : *state.queue) {
    if (!filter.Fits(queued)) continue;
    Row row;
    row.id = {RowId::Kind::kJob, queued.id};
    row.queued = &queued;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> SharingRows(const State& state) {
  const Filter filter(state);
  std::vector<Row> rows;
  if (!state.share) return rows;
  for (const auto& gpu : state.share->gpus) {
    Row heading;
    heading.id = {RowId::Kind::kHeading, 0, gpu.uuid};
    heading.share_gpu = &gpu;
    std::vector<Row> jobs;
    for (const auto& job : gpu.jobs) {
      Row row;
      row.id = {RowId::Kind::kJob, job.id, gpu.uuid};
      row.job = FindJob(state, job.id);
      row.share_gpu = &gpu;
      row.share_job = &job;
      if (filter.empty() || (row.job && filter.Fits(*row.job))) jobs.push_back(std::move(row));
    }
    if (jobs.empty()) continue;
    rows.push_back(std::move(heading));
    for (auto& row : jobs) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> ProcessRows(const State& state) {
  const Filter filter(state);
  std::vector<Row> rows;
  for (const auto& gpu : state.status.gpus)
    for (const auto& process : gpu.processes)
      if (filter.Fits(gpu, process)) rows.push_back(RowOf(state, gpu, process));
  Sort(state, rows);
  return rows;
}

}  // namespace

std::optional<JobLabel> NameOf(const Row& row) {
  if (row.job) return JobLabel{row.job->id, row.job->tag, row.job->user};
  if (row.queued) return JobLabel{row.queued->id, row.queued->tag, row.queued->user};
  if (row.share_job) return JobLabel{row.share_job->id, row.share_job->tag, {}};
  return std::nullopt;
}

const api::JobView* FindJob(const State& state, std::int64_t id) {
  const auto& jobs = state.status.jobs;
  const auto it = std::find_if(jobs.begin(), jobs.end(), [&](const auto& job) { return job.id == id; });
  return it == jobs.end() ? nullptr : &*it;
}

JobHostUsage HostUseOf(const State& state, const api::JobView& job) {
  JobHostUsage use;
  std::vector<int> seen;
  for (const auto& gpu : state.status.gpus) {
    for (const auto& process : gpu.processes) {
      if (process.job != job.id || std::find(seen.begin(), seen.end(), process.pid) != seen.end()) continue;
      seen.push_back(process.pid);
      const auto facts = state.facts.find(process.pid);
      if (facts == state.facts.end()) continue;
      use.memory = use.memory.value_or(base::Bytes{}) + facts->second.resident;
      if (facts->second.cpu) use.cpu = use.cpu.value_or(0) + *facts->second.cpu;
    }
  }
  return use;
}

std::vector<const api::GpuView*> GpusShown(const State& state) {
  const Filter filter(state);
  std::vector<const api::GpuView*> gpus;
  for (const auto& gpu : state.status.gpus)
    if (filter.Leaves(gpu)) gpus.push_back(&gpu);
  return gpus;
}

std::optional<unsigned> UtilizationOf(const State& state, const api::JobView& job) {
  std::optional<unsigned> most;
  for (const auto& gpu : state.status.gpus) {
    std::optional<unsigned> sum;
    for (const auto& process : gpu.processes)
      if (process.job == job.id && process.gpu_percent) sum = sum.value_or(0) + *process.gpu_percent;
    if (sum) most = std::max(most.value_or(0), *sum);
  }
  return most;
}

std::vector<Row> RowsOf(const State& state) {
  switch (state.page) {
    case Page::kJobs:
      return JobRows(state);
    case Page::kQueue:
      return QueueRows(state);
    case Page::kSharing:
      return SharingRows(state);
    case Page::kProcesses:
      return ProcessRows(state);
  }
  return {};
}

}  // namespace gpuman::cli::top
