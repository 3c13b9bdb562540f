#include "cli/compat/slurm/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>

#include "api/queue_json.h"
#include "cli/compat/slurm/batch_script.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::slurm {
namespace {

using api::Submission;
using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr int kUsualPriority = 128;
constexpr int kNiceStep = 100;  // the step of Slurm's own --nice without a number

tl::unexpected<base::Error> Refuse(std::string what, std::string hint) {
  return Fail(ErrorCode::kUnsatisfiable, std::move(what), std::move(hint));
}

// The options, by their names in the API, that Translator finds words of Slurm for. Each other one is
// refused.
constexpr std::array<std::string_view, 21> kTranslated{
    "memory",       "soft",    "priority",    "share",       "compute",       "latency", "project",
    "conda_env",    "stdin",   "stdout",      "stderr",      "host_memory",   "cpus",    "begin",
    "time_limit_s", "retries", "auto_cancel", "warn_signal", "warn_before_s", "notify",  "hold"};

// As gpuman submit has it: "--trace-allocations".
std::string OptionThatSets(const std::string& name) {
  queue::SubmitSettings settings;
  for (const Option& option : queue::SubmitOptions(settings, {}))
    if (option.sets == name) return NameOf(option);
  return name;
}

struct Unknown {
  bool asked;
  const char* option;
  const char* why;
  const char* instead;
};

// Refuses what has no translation, whatever the other options are.
Result<> CheckTranslatable(const Submission& job) {
  constexpr const char* kQos = "ask for a QOS or a partition that has it: --slurm-option qos=NAME";
  const std::array<Unknown, 17> unknown{
      {{!job.gpus.devices.empty(), "--gpu", "Slurm chooses the GPUs",
        "write --gpus N, with --gpu-model if it matters"},
       {job.gpus.free_memory.has_value(), "--gpu-free", "Slurm knows no free memory",
        "write --share --memory SIZE, which takes shards"},
       {job.share && job.gpus.count > 1, "--share", "Slurm gives a job the shards of one GPU",
        "write --gpus 1, or leave --share out"},
       {job.share && job.gpus.model.has_value(), "--gpu-model", "Slurm's shards have no model",
        "name the nodes: --slurm-option constraint=NAME"},
       {job.share && job.memory && job.memory->IsRelative(), "--memory",
        "shards are a size, and which GPU it will be is not known", "write a size such as 8GiB"},
       {job.memory_auto, "--memory auto", "what past runs used is known to the queue of one machine",
        "write a size such as 8GiB; gpuman stats --by name helps to find it"},
       {job.priority > kUsualPriority, "--priority", "in Slurm users can only lower theirs", kQos},
       {job.preemptible, "--preemptible", "in Slurm the partition or the QOS decides this", kQos},
       {job.max_concurrent.has_value(), "--max-concurrent", "Slurm has no groups of jobs",
        "write an array: --array 0-99%4"},
       {job.group.has_value(), "--group", "Slurm has no groups of jobs", "write an array: --array 0-99%1"},
       {job.mps || job.mps_threads.has_value(), "--mps", "Slurm has its own option for this",
        "write --slurm-option gres=mps:N"},
       {job.device_profile.has_value(), "--device-profile", "it is applied by the queue of one machine",
        "write --slurm-option gpu-freq=VALUE where the cluster allows it"},
       {job.compute && !job.share, "--compute", "a job that does not share its GPUs has no turns",
        "add --share"},
       {job.latency && !job.share, "--latency", "a job that does not share its GPUs has nobody to go before",
        "add --share"},
       {job.idle_suspend.has_value(), "--idle-suspend", "gpuman's plugin for Slurm has no such option",
        "leave it out; [idle] suspend_after on the nodes holds for steps too"},
       {!job.preload, "--no-preload", "on nodes of Slurm the administrator decides this (plugstack.conf)",
        "leave it out"},
       {job.grace.has_value(), "--grace", "KillWait in slurm.conf sets this", "leave it out"}}};
  for (const auto& [asked, option, why, instead] : unknown)
    if (asked) return Refuse(fmt::format("{}: {}", option, why), instead);
  for (const std::string& name : api::ChangedOptions(job)) {
    if (std::find(kTranslated.begin(), kTranslated.end(), name) != kTranslated.end()) continue;
    return Refuse(fmt::format("{}: gpuman's plugin for Slurm has no such option", OptionThatSets(name)),
                  "leave it out");
  }
  return {};
}

std::string ExactSize(base::Bytes size) {
  if (size.count % base::GiB(1).count == 0) return fmt::format("{}GiB", size.count / base::GiB(1).count);
  if (size.count % base::MiB(1).count == 0) return fmt::format("{}MiB", size.count / base::MiB(1).count);
  return std::to_string(size.count);
}
std::string SizeText(const base::SizeSpec& size) {
  return size.IsRelative() ? fmt::format("{}%", size.percent) : ExactSize(size.bytes);
}
std::uint64_t RoundedUp(std::uint64_t amount, std::uint64_t unit) {
  return amount / unit + (amount % unit == 0 ? 0 : 1);
}

class Translator {
 public:
  Translator(const Submission& job, const TranslationContext& context) : job_(job), context_(context) {}

  Result<SbatchRequest> Run() {
    GPUMAN_TRY(CheckTranslatable(job_));
    Add("job-name", Name());
    Add("chdir", Directory());
    Add("export", "ALL");
    GPUMAN_TRY(AddGpus());
    AddMachine();
    GPUMAN_TRY(AddTimes());
    GPUMAN_TRY(AddOrder());
    GPUMAN_TRY(AddDependencies());
    GPUMAN_TRY(AddFiles());
    GPUMAN_TRY(AddMail());
    GPUMAN_TRY(AddOwn());
    GPUMAN_ASSIGN(made_.script, BatchScript(job_));
    return std::move(made_);
  }

 private:
  void Add(std::string_view name, std::string_view value) {
    made_.options.push_back(fmt::format("--{}={}", name, value));
  }
  void Add(std::string_view flag) { made_.options.push_back(fmt::format("--{}", flag)); }

  std::string Name() {
    made_.name = context_.fallback_name.empty() ? "gpuman" : context_.fallback_name;
    if (!job_.command.empty()) made_.name = job_.command.front();
    made_.name.erase(0, made_.name.rfind('/') + 1);
    if (job_.name) made_.name = *job_.name;
    return made_.name;
  }
  const std::string& Directory() const {
    return job_.directory.empty() ? context_.directory : job_.directory;
  }

  Result<> AddGpus() {
    if (job_.gpus.model) {
      const auto& model = *job_.gpus.model;
      const bool one_word = std::all_of(model.begin(), model.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == '+';
      });
      if (!one_word)
        return Refuse(fmt::format("--gpu-model: '{}' cannot be a GPU type in Slurm", model),
                      "scontrol show node has the types behind Gres=gpu:");
    }
    if (job_.share)
      Add("gres", fmt::format("shard:{}", RoundedUp(job_.memory ? job_.memory->bytes.count : 0,
                                                    context_.site.shard.count)));
    else if (job_.gpus.count > 0)
      Add("gres", job_.gpus.model ? fmt::format("gpu:{}:{}", *job_.gpus.model, job_.gpus.count)
                                  : fmt::format("gpu:{}", job_.gpus.count));
    if (job_.memory) Add("gpuman-mem", SizeText(*job_.memory));
    if (job_.soft) Add("gpuman-soft", SizeText(*job_.soft));
    if (job_.share) Add("gpuman-share");
    if (job_.compute) Add("gpuman-compute", spec::ToString(*job_.compute));
    if (job_.latency) Add("gpuman-latency");
    return {};
  }

  void AddMachine() {
    if (job_.host_memory)
      Add("mem", fmt::format("{}M", RoundedUp(job_.host_memory->count, base::MiB(1).count)));
    if (job_.cpus) Add("cpus-per-task", std::to_string(*job_.cpus));
  }

  Result<> AddTimes() {
    if (job_.time_limit) {
      const auto seconds = Seconds(*job_.time_limit);
      Add("time", fmt::format("{}-{:02}:{:02}:{:02}", seconds / 86'400, seconds / 3600 % 24,
                              seconds / 60 % 60, seconds % 60));
    }
    if (job_.warn_before) {
      constexpr std::int64_t kMax = 65'535;
      const auto seconds = Seconds(*job_.warn_before);
      if (seconds > kMax) return Refuse("--warn: Slurm warns 65535s before at the most", "write less");
      if (job_.retries.count > 0)
        return Refuse("--warn: with --retries the signal would end the script that runs the command again",
                      "leave one of them out");
      Add("signal",
          fmt::format("B:{}@{}", spec::NameOf(job_.warn_signal.value_or(spec::Signal{SIGUSR1})), seconds));
    }
    if (job_.begin && *job_.begin > context_.now)
      Add("begin", fmt::format("now+{}", Seconds(*job_.begin - context_.now)));
    return {};
  }
  static std::int64_t Seconds(base::Millis time) {
    return std::chrono::ceil<std::chrono::seconds>(time).count();
  }

  Result<> AddOrder() {
    if (job_.project) made_.options.push_back(context_.site.project_option + "=" + *job_.project);
    if (job_.priority < kUsualPriority)
      Add("nice", std::to_string((kUsualPriority - job_.priority) * kNiceStep));
    if (job_.hold) Add("hold");
    if (job_.retries.count > 0) Add("requeue");
    if (!job_.array) return {};
    std::string list;
    for (const auto& [first, last, step] : job_.array->indices) {
      list += list.empty() ? "" : ",";
      list += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
      if (first != last && step != 1) list += fmt::format(":{}", step);
    }
    if (job_.array->limit) list += fmt::format("%{}", *job_.array->limit);
    Add("array", list);
    return {};
  }

  Result<> AddDependencies() {
    if (job_.depends.list.empty()) return {};
    std::string list;
    for (const auto& [kind, word] : job_.depends.list) {
      auto named = context_.job_of(word);
      if (!named) return Fail(std::move(named.error()).In("--depends"));
      list += list.empty() ? "" : job_.depends.mode == spec::DependencyMode::kAny ? "?" : ",";
      list += fmt::format("{}:{}", spec::ToString(kind), InSlurm(*named));
    }
    Add("dependency", list);
    Add("kill-on-invalid-dep", job_.auto_cancel ? "yes" : "no");
    return {};
  }

  // Turns gpuman's file pattern into Slurm's: `%` before a letter that is not gpuman's stands for itself.
  Result<std::string> File(std::string_view option, const std::string& name) const {
    std::string file;
    if (!name.starts_with('/')) {
      for (const char c : Directory()) file += c == '%' ? std::string("%%") : std::string(1, c);
      file += '/';
    }
    for (std::size_t i = 0; i < name.size(); ++i) {
      const char letter = name[i] == '%' && i + 1 < name.size() ? name[i + 1] : '\0';
      if (name[i] != '%')
        file += name[i];
      else if (letter == 'j' || letter == 'x' || letter == '%' ||
               (job_.array && (letter == 'A' || letter == 'a')))
        file += {'%', name[++i]};
      else if (letter == 'A' || letter == 'a')
        file += name[++i] == 'A' ? "%j" : "0";
      else
        file += "%%";
    }
    if (file.find('\\') != std::string::npos)
      return Refuse(fmt::format("{}: Slurm does not take a \\ in the name of a file", option),
                    "name it without one");
    return file;
  }

  Result<> AddFiles() {
    if (job_.stdin_file) {
      GPUMAN_ASSIGN(const auto file, File("--input", *job_.stdin_file));
      Add("input", file);
    }
    const std::string usual = job_.array ? "slurm-%A_%a.out" : "slurm-%j.out";
    GPUMAN_ASSIGN(made_.output, File("--output", job_.stdout_file.value_or(usual)));
    Add("output", made_.output);
    if (job_.stderr_file) {
      GPUMAN_ASSIGN(made_.errors, File("--error", *job_.stderr_file));
      Add("error", made_.errors);
    }
    return {};
  }

  Result<> AddMail() {
    const auto& notify = job_.notify;
    if (!notify.webhooks.empty())
      return Refuse("--notify-url: Slurm cannot post to a URL",
                    "write --notify-mail, or let the command post");
    if (notify.mails.empty()) return {};
    if (notify.mails.size() > 1)
      return Refuse("--notify-mail: Slurm sends mail to one address only", "name a list or one of them");
    struct Word {
      spec::NotifyOn ours;
      std::string_view slurm;
    };
    using enum spec::NotifyOn;
    constexpr std::array<Word, 5> kWords{{{kStarted, "BEGIN"},
                                          {kFailed, "FAIL"},
                                          {kTimeout, "TIME_LIMIT"},
                                          {kRequeued, "REQUEUE"},
                                          {kAll, "ALL"}}};
    std::string types;
    for (const auto event : notify.on) {
      const auto* known =
          std::find_if(kWords.begin(), kWords.end(), [&](const Word& w) { return w.ours == event; });
      if (known == kWords.end())
        return Refuse(
            fmt::format("--notify-on: Slurm cannot tell of '{}' alone", spec::ToString(event)),
            "started, failed, timeout, requeued or all; without --notify-on it tells of every end of a job");
      types += types.empty() ? "" : ",";
      types += known->slurm;
    }
    Add("mail-user", notify.mails.front());
    Add("mail-type", types.empty() ? "END" : types);
    return {};
  }

  // The user's own options come last: if an option occurs twice, sbatch uses the last one.
  Result<> AddOwn() {
    for (const auto& word : context_.slurm_options) {
      const std::string option = word.starts_with('-') ? word : "--" + word;
      const auto name = option.substr(0, option.find('='));
      for (const char* ours :
           {"--parsable", "--wrap", "--wait", "--test-only", "--array", "--output", "--error", "--job-name",
            "--chdir", "--export", "--export-file", "--version", "--help"})
        if (name == ours)
          return Fail(ErrorCode::kInvalidArgument, fmt::format("--slurm-option: gpuman sets {} itself", name),
                      "see gpuman submit --help");
      if (!option.starts_with("--"))
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("--slurm-option: '{}' is not a long option", word),
                    "write it as --slurm-option partition=NAME");
      made_.options.push_back(option);
    }
    return {};
  }

  const Submission& job_;
  const TranslationContext& context_;
  SbatchRequest made_;
};

}  // namespace

Result<ClusterSettings> SiteOf(const base::EnvironmentLookup& environment) {
  ClusterSettings site;
  if (const auto word = environment("GPUMAN_SLURM_PROJECT")) {
    if (*word != "account" && *word != "comment" && *word != "wckey")
      return Fail(ErrorCode::kInvalidArgument, fmt::format("GPUMAN_SLURM_PROJECT: '{}' is unknown", *word),
                  "account, comment or wckey");
    site.project_option = "--" + *word;
  }
  if (const auto text = environment("GPUMAN_SLURM_SHARD")) {
    auto size = base::ParseBytes(*text);
    if (!size) return Fail(std::move(size.error()).In("GPUMAN_SLURM_SHARD"));
    site.shard = *size;
  }
  return site;
}

Result<SbatchRequest> Translate(const Submission& job, const TranslationContext& context) {
  return Translator(job, context).Run();
}

std::string ExpandFile(std::string_view pattern, const SlurmJobId& name, std::uint32_t id,
                       std::string_view job_name) {
  std::string file;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char letter = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[++i] : '\0';
    if (letter == 'j')
      file += std::to_string(id);
    else if (letter == 'A')
      file += std::to_string(name.job);
    else if (letter == 'a')
      file += std::to_string(name.task.value_or(0));
    else if (letter == 'x')
      file += job_name;
    else
      file += letter == '\0' ? pattern[i] : letter;
  }
  return file;
}

}  // namespace gpuman::cli::slurm
