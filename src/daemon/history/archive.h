// Records readings and answers questions about them: the recorder on the event loop, the files on threads.
// The loop never waits for the disk.
//
// Lives on the event loop; not thread-safe, but for the function that Ask returns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/units.h"
#include "history/query.h"
#include "history/recorder.h"
#include "history/store.h"

namespace gpuman::daemon {

struct ArchiveSettings {
  base::Bytes disk;       // 0: nothing is recorded; files stay as they are
  base::Millis flush{};   // between two writes
  std::int64_t hold = 2;  // as the recorder's, in seconds
};

class Archive {
 public:
  using Wants = std::function<bool(const history::Key&)>;

  // `to_threads` and `to_loop` call their argument later, on a thread and on the loop. `wants`: of which
  // series rows are to go on that an earlier daemon began; called on a thread.
  Archive(std::filesystem::path folder, ArchiveSettings settings, base::Executor to_threads,
          base::Executor to_loop, Wants wants);
  ~Archive();
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  void SetSettings(const ArchiveSettings& settings);
  // `second`: since 1970. Nothing is recorded before the files are read.
  void Add(const history::Key& key, std::int64_t second, const history::HistorySample& reading);
  void End(const history::Key& key);
  // Writes when it is time.
  void OnTick(base::MonoTime now, std::int64_t second);
  // Writes all; waits for the disk. Call it once, at the end.
  void Stop(std::int64_t second);

  bool is_recording() const { return settings_.disk.count > 0 && store_; }
  // Why nothing is recorded, as a sentence; empty: there is no reason.
  const std::string& problem() const { return problem_; }

  struct Answer {
    history::Plan plan;
    std::vector<history::Row> rows;  // of its buckets
  };
  // Without a beginning the answer is about all that is there of a series; without an end up to now, or with
  // neither up to the last of it.
  struct Asked {
    history::Key key;
    std::optional<std::int64_t> since{}, until{};
    std::int64_t points = 300;
    std::int64_t second = 0;  // now
  };
  // Only while is_recording(). The function reads files: a thread calls it.
  std::function<Answer()> Ask(Asked asked) const;

 private:
  // What is being written; readers need it until it is.
  struct Writing {
    history::Batch batch;
    std::uint64_t number = 0;
  };

  void Open();
  void Opened(std::shared_ptr<history::Store> store, history::Recorder recorder);
  void Write(std::int64_t second);
  void Apply();
  void Written(const base::Result<>& result);

  const std::filesystem::path folder_;
  ArchiveSettings settings_;
  const base::Executor to_threads_, to_loop_;
  const Wants wants_;
  std::shared_ptr<history::Store> store_;  // shared with threads
  history::Recorder recorder_;
  std::shared_ptr<const Writing> writing_;
  std::uint64_t batches_ = 0;
  base::MonoTime write_at_{};
  bool opening_ = false;
  std::string problem_;
  std::size_t dropped_ = 0;
  // A posted function that outlives this object finds nullptr here.
  std::shared_ptr<Archive*> self_ = std::make_shared<Archive*>(this);
};

}  // namespace gpuman::daemon
