#include "jobs/job.h"

namespace gpuman::jobs {
namespace {

class Hasher {
 public:
  void Add(std::size_t part) { hash_ = hash_ * 1'000'003 ^ part; }
  void Add(const std::string& text) { Add(std::hash<std::string>()(text)); }
  void Add(double number) { Add(std::hash<double>()(number)); }
  void Add(base::Millis time) { Add(static_cast<std::size_t>(time.count())); }
  void Add(base::Bytes bytes) { Add(static_cast<std::size_t>(bytes.count)); }
  void Add(int number) { Add(static_cast<std::size_t>(number)); }
  template <typename T>
  void Add(const std::optional<T>& value) {
    Add(value.has_value() ? 1 : 0);
    if (value) Add(*value);
  }
  void Add(const std::optional<base::SizeSpec>& size) {
    Add(size ? size->bytes : base::Bytes{});
    Add(size ? size->percent : 0.0);
  }
  void Add(const std::optional<base::WallTime>& time) {
    Add(time ? time->time_since_epoch() : base::Millis(0));
  }
  template <typename T>
  void Add(const std::vector<T>& values) {
    for (const auto& value : values) Add(value);
  }
  std::size_t hash() const { return hash_; }

 private:
  std::size_t hash_ = 0;
};

}  // namespace

std::size_t JobSpecHash::operator()(const spec::JobSpec& spec) const {
  Hasher hasher;
  hasher.Add(spec.script);
  for (const auto* const text : {&spec.project, &spec.conda_env, &spec.stdin_file, &spec.stdout_file,
                                 &spec.stderr_file, &spec.device_profile})
    hasher.Add(*text);
  hasher.Add(spec.gpus.count);
  hasher.Add(spec.gpus.devices);
  hasher.Add(spec.memory);
  hasher.Add(spec.memory_on_each);
  hasher.Add(spec.host_memory);
  hasher.Add(spec.cpus);
  hasher.Add(spec.time_limit);
  hasher.Add(spec.begin);
  hasher.Add(spec.priority);
  hasher.Add(spec.weight);
  hasher.Add(spec.grace);
  hasher.Add(spec.retries.count);
  hasher.Add(spec.retries.delay);
  hasher.Add(spec.group.name);
  hasher.Add(spec.notify.webhooks);
  hasher.Add(spec.notify.mails);
  hasher.Add(spec.soft);
  hasher.Add(spec.warn_signal);
  hasher.Add(spec.warn_before);
  hasher.Add(spec.gpus.model);
  hasher.Add(spec.gpus.free_memory);
  hasher.Add(spec.retries.on_exit_codes);
  hasher.Add(spec.mps_threads);
  hasher.Add(spec.group.limit);
  for (const auto& each : spec.depends.list) hasher.Add(static_cast<std::size_t>(each.job.value));
  return hasher.hash();
}

std::string_view ToString(JobState state) { return base::WordOf(WordsOf(state), state); }

std::optional<JobState> JobStateFromString(std::string_view word) {
  return base::ValueOf(WordsOf(JobState{}), word);
}

}  // namespace gpuman::jobs
