#include "history/recorder.h"

#include <utility>

namespace gpuman::history {

void Recorder::Add(const Key& key, std::int64_t second, const HistorySample& reading) {
  if (second < 0 || second > kLastTime || key.name.empty()) return;
  Series& series = series_[key];
  if (series.second && series.second->at == second) {
    Replace(*series.second, reading);
  } else if (series.second || !series.reading || series.last != second) {  // else its row was taken already
    if (series.second) Emit(key, series, 0, *std::exchange(series.second, std::nullopt));
    Fill(key, series, second);
    series.second = RowOf(second, reading);
  }
  series.reading = reading;
  series.last = second;
}

// The last reading held until this one.
void Recorder::Fill(const Key& key, Series& series, std::int64_t until) {
  if (!series.reading || until <= series.last || until - series.last - 1 > hold_) return;
  for (std::int64_t at = series.last + 1; at < until; ++at) Emit(key, series, 0, RowOf(at, *series.reading));
}

void Recorder::Emit(const Key& key, Series& series, std::size_t tier, const Row& row) {
  auto& pending = series.pending[tier];
  if (!pending.empty() && pending.back().at >= row.at) MoveOut(key, tier, pending);
  pending.push_back(row);
  if (tier + 1 < kTiers) RollUp(key, series, tier + 1, row);
}

void Recorder::RollUp(const Key& key, Series& series, std::size_t tier, const Row& row) {
  if (const auto done = series.rollups[tier].Add(row)) Emit(key, series, tier, *done);
}

void Recorder::MoveOut(const Key& key, std::size_t tier, std::vector<Row>& rows) {
  auto moved = std::exchange(rows, {});
  if (moved.empty()) return;
  if (ended_rows_ + moved.size() > kMaxEnded) {
    dropped_ += moved.size();
    return;
  }
  ended_rows_ += moved.size();
  ended_.push_back({key, tier, std::move(moved)});
}

void Recorder::Close(const Key& key, Series& series) {
  if (series.second) Emit(key, series, 0, *std::exchange(series.second, std::nullopt));
  for (std::size_t tier = 1; tier < kTiers; ++tier)
    if (const auto open = series.rollups[tier].End()) Emit(key, series, tier, *open);
  for (std::size_t tier = 0; tier < kTiers; ++tier) MoveOut(key, tier, series.pending[tier]);
}

void Recorder::End(const Key& key) {
  const auto it = series_.find(key);
  if (it == series_.end()) return;
  Close(key, it->second);
  series_.erase(it);
}

Batch Recorder::Take(std::int64_t now) {
  for (auto it = series_.begin(); it != series_.end();) {
    auto& [key, series] = *it;
    const std::int64_t age = now - series.last;
    if (age > kForgotten || age < -kForgotten) {
      Close(key, series);
      it = series_.erase(it);
      continue;
    }
    if (series.second && series.second->at < now)
      Emit(key, series, 0, *std::exchange(series.second, std::nullopt));
    ++it;
  }
  Batch batch = std::exchange(ended_, {});
  ended_rows_ = 0;
  for (auto& [key, series] : series_) {
    for (std::size_t tier = 0; tier < kTiers; ++tier) {
      auto& pending = series.pending[tier];
      if (pending.empty() || (tier > 0 && pending.size() < kBlock)) continue;
      batch.push_back({key, tier, std::exchange(pending, {})});
    }
  }
  return batch;
}

std::vector<Row> Recorder::RowsOf(const Key& key, std::size_t tier) const {
  std::vector<Row> rows;
  for (const SeriesRows& chunk : ended_)
    if (chunk.key == key && chunk.tier == tier) rows.insert(rows.end(), chunk.rows.begin(), chunk.rows.end());
  const auto it = series_.find(key);
  if (it == series_.end()) return rows;
  const Series& series = it->second;
  rows.insert(rows.end(), series.pending[tier].begin(), series.pending[tier].end());
  // What is under way is in no longer bucket yet.
  const auto add = [&](Row row) {
    row.at = BucketOf(row.at, kSteps[tier]);
    rows.push_back(row);
  };
  for (std::size_t i = tier; i > 0; --i)
    if (const auto& open = series.rollups[i].open()) add(*open);
  if (series.second) add(*series.second);
  return rows;
}

void Recorder::Replay(const Key& key, std::size_t tier, const Row& row) {
  Series& series = series_[key];
  series.last = row.at + kSteps[tier] - 1;
  if (tier + 1 < kTiers) RollUp(key, series, tier + 1, row);
}

}  // namespace gpuman::history
