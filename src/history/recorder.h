// Makes rows of readings, in all resolutions, and keeps them until they are written. Without clock and files.
//
// A reading holds until the next one, for `hold` seconds at most: the sampler does not report a round in
// which nothing changed. A longer silence is a gap. Where the clock is set back, the rows that follow are
// rows of those times; the ones that were there stay.
//
// The rows of ten seconds and of five minutes wait until a block of them is full. After a crash, Replay makes
// them again from the rows that were written: each resolution is made of the finer one alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "history/point.h"
#include "history/rollup.h"

namespace gpuman::history {

// Rows of one series whose times rise.
struct SeriesRows {
  Key key;
  std::size_t tier = 0;  // of kSteps
  std::vector<Row> rows;
};
using Batch = std::vector<SeriesRows>;

// Not thread-safe.
class Recorder {
 public:
  // So many rows make a full block.
  static constexpr std::size_t kBlock = 64;
  // A series without a reading for so long is ended, in seconds.
  static constexpr std::int64_t kForgotten = 600;
  // Rows of ended series that nobody takes: further ones are dropped.
  static constexpr std::size_t kMaxEnded = 20'000;

  explicit Recorder(std::int64_t hold) : hold_(hold) {}

  void SetHold(std::int64_t hold) { hold_ = hold; }
  // `second`: since 1970, by the clock of the wall.
  void Add(const Key& key, std::int64_t second, const HistorySample& reading);
  // No reading of this series will come soon. Its rows are taken with the next batch.
  void End(const Key& key);
  // Takes the rows to write: those of seconds, except of the second `now`; full blocks of the others.
  Batch Take(std::int64_t now);
  // The rows of a series that were not taken, the ones under way included, in the order of recording.
  std::vector<Row> RowsOf(const Key& key, std::size_t tier) const;
  // Rows of ended series that wait to be taken.
  std::size_t ended() const { return ended_rows_; }
  std::size_t dropped() const { return dropped_; }

  // A row of `tier` that was written before; the row of the next resolution that it is part of was not. Rows
  // come in the order in which they were written, of coarser resolutions first.
  void Replay(const Key& key, std::size_t tier, const Row& row);

 private:
  struct Series {
    std::optional<Row> second;             // under way
    std::optional<HistorySample> reading;  // the last; nullopt: only replayed rows came
    std::array<std::vector<Row>, kTiers> pending;
    // The first is not used.
    std::array<Rollup, kTiers> rollups{Rollup{kSteps[0]}, Rollup{kSteps[1]}, Rollup{kSteps[2]}};
    std::int64_t last = 0;  // the second of the last reading or replayed row
  };

  void Emit(const Key& key, Series& series, std::size_t tier, const Row& row);
  void RollUp(const Key& key, Series& series, std::size_t tier, const Row& row);
  void Fill(const Key& key, Series& series, std::int64_t until);
  void Close(const Key& key, Series& series);
  void MoveOut(const Key& key, std::size_t tier, std::vector<Row>& rows);

  std::int64_t hold_;
  std::map<Key, Series> series_;
  Batch ended_;  // rows of ended series, and of times before the clock was set back
  std::size_t ended_rows_ = 0, dropped_ = 0;
};

}  // namespace gpuman::history
