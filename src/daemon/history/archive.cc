#include "daemon/history/archive.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

namespace gpuman::daemon {
namespace {

using history::kTiers;
using history::Row;

// Rows of ended series for which it is not waited any longer.
constexpr std::size_t kManyEnded = history::Recorder::kMaxEnded / 2;

void LogLine(const std::string& sentence) { spdlog::warn("history: {}", sentence); }

// The rows of a series that were not written when the question came.
struct InMemory {
  std::array<std::vector<Row>, kTiers> rows;
  std::array<std::vector<Row>, kTiers> writing;  // of batch `number`
  std::uint64_t number = 0;
};

// From the earliest row of the series to the end of the latest.
std::optional<history::Store::Range> RangeOf(const history::Store& store, const history::Key& key,
                                             const InMemory& memory) {
  auto range = history::Store::RangeOf(store.ViewOf(key.kind, kTiers - 1), key.name);
  if (range) range->last += history::kSteps.back();
  const auto look = [&](const std::vector<Row>& rows, std::int64_t step) {
    for (const Row& row : rows)
      range = {std::min(range ? range->first : row.at, row.at),
               std::max(range ? range->last : row.at + step, row.at + step)};
  };
  for (std::size_t tier = 0; tier < kTiers; ++tier) {
    look(memory.rows[tier], history::kSteps[tier]);
    look(memory.writing[tier], history::kSteps[tier]);
  }
  return range;
}

history::Query QuestionOf(const Archive::Asked& asked, const history::Store& store, const InMemory& memory) {
  const auto range = asked.since ? std::nullopt : RangeOf(store, asked.key, memory);
  const std::int64_t now = asked.second + 1;
  const std::int64_t until = asked.until.value_or(range ? std::min(range->last, now) : now);
  return {asked.since.value_or(range ? range->first : until - 3600), until, asked.points};
}

}  // namespace

Archive::Archive(std::filesystem::path folder, ArchiveSettings settings, base::Executor to_threads,
                 base::Executor to_loop, Wants wants)
    : folder_(std::move(folder)),
      settings_(settings),
      to_threads_(std::move(to_threads)),
      to_loop_(std::move(to_loop)),
      wants_(std::move(wants)),
      recorder_(settings.hold) {
  Open();
}

Archive::~Archive() { *self_ = nullptr; }

void Archive::Open() {
  if (settings_.disk.count == 0 || store_ || std::exchange(opening_, true)) return;
  to_threads_([self = self_, to_loop = to_loop_, folder = folder_, settings = settings_, wants = wants_] {
    auto opened = history::Store::Open(folder, settings.disk, LogLine);
    history::Recorder recorder(settings.hold);
    if (opened) (*opened)->Replay(recorder, wants);
    std::string problem = opened ? "" : opened.error().message;
    std::shared_ptr<history::Store> store = opened ? std::move(*opened) : nullptr;
    to_loop([self, store = std::move(store), problem = std::move(problem), recorder = std::move(recorder)] {
      if (!*self) return;
      (*self)->problem_ = problem;
      if (!store) LogLine("nothing is recorded: " + problem);
      (*self)->Opened(store, recorder);
    });
  });
}

void Archive::Opened(std::shared_ptr<history::Store> store, history::Recorder recorder) {
  opening_ = false;
  store_ = std::move(store);
  recorder_ = std::move(recorder);
  Apply();
}

void Archive::Apply() {
  recorder_.SetHold(settings_.hold);
  if (settings_.disk.count == 0 || !store_) return;
  to_threads_([store = store_, disk = settings_.disk] { store->SetBudget(disk); });
}

void Archive::SetSettings(const ArchiveSettings& settings) {
  settings_ = settings;
  Apply();
  Open();
}

void Archive::Add(const history::Key& key, std::int64_t second, const history::HistorySample& reading) {
  if (is_recording()) recorder_.Add(key, second, reading);
}

void Archive::End(const history::Key& key) { recorder_.End(key); }

void Archive::OnTick(base::MonoTime now, std::int64_t second) {
  if (!store_ || writing_ || (now < write_at_ && recorder_.ended() < kManyEnded)) return;
  write_at_ = now + settings_.flush;
  Write(second);
}

void Archive::Write(std::int64_t second) {
  auto batch = recorder_.Take(second);
  if (batch.empty()) return;
  writing_ = std::make_shared<const Writing>(Writing{std::move(batch), ++batches_});
  to_threads_([self = self_, to_loop = to_loop_, store = store_, writing = writing_] {
    auto result = store->Write(writing->batch, writing->number);
    to_loop([self, result = std::move(result)] {
      if (*self) (*self)->Written(result);
    });
  });
}

void Archive::Written(const base::Result<>& result) {
  writing_.reset();
  const std::string problem = result ? "" : result.error().message;
  if (!problem.empty() && problem_.empty()) LogLine("a part is lost: " + problem);
  problem_ = problem;
  if (recorder_.dropped() == dropped_) return;
  LogLine(std::to_string(recorder_.dropped() - dropped_) +
          " rows of ended jobs are lost: there are too many");
  dropped_ = recorder_.dropped();
}

void Archive::Stop(std::int64_t second) {
  if (!store_) return;
  const auto batch = recorder_.Take(second + 1);
  if (const auto written = store_->Write(batch, ++batches_); !written)
    LogLine("the last minutes are lost: " + written.error().message);
}

std::function<Archive::Answer()> Archive::Ask(Asked asked) const {
  const auto memory = std::make_shared<InMemory>();
  for (std::size_t tier = 0; tier < kTiers; ++tier) memory->rows[tier] = recorder_.RowsOf(asked.key, tier);
  if (writing_) {
    memory->number = writing_->number;
    for (const auto& chunk : writing_->batch) {
      if (chunk.key != asked.key) continue;
      auto& rows = memory->writing[chunk.tier];
      rows.insert(rows.end(), chunk.rows.begin(), chunk.rows.end());
    }
  }
  return [store = store_, asked = std::move(asked), memory] {
    Answer answer;
    answer.plan = history::PlanOf(QuestionOf(asked, *store, *memory), store->Oldest(asked.key.kind));
    const auto& plan = answer.plan;
    history::Buckets buckets(plan);
    const auto add = [&](const Row& row) { buckets.Add(row); };
    const auto view = store->ViewOf(asked.key.kind, plan.tier);
    history::Store::Read(view, asked.key.name, plan.since, plan.until, add);
    std::for_each(memory->rows[plan.tier].begin(), memory->rows[plan.tier].end(), add);
    if (view.written < memory->number)
      std::for_each(memory->writing[plan.tier].begin(), memory->writing[plan.tier].end(), add);
    answer.rows = buckets.rows();
    return answer;
  };
}

}  // namespace gpuman::daemon
