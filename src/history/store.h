// The files of history: a folder with a fixed budget.
//
// Each kind and resolution has a partition: its own files, and its own part of the budget, so that many short
// jobs do not push out the history of GPUs, nor seconds that of months. A file is a row of blocks, each with
// its length and a checksum; blocks are only appended. Where a partition is full, its oldest file goes.
// docs/history.md has the format.
//
// Nothing is synced: a crash of the machine loses the last minutes. What is torn, damaged or foreign is left
// out with one line in the log, and never stops anybody.
//
// Thread-safe. A function that reads or writes files blocks for them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "history/point.h"
#include "history/recorder.h"

namespace gpuman::history {

class Store {
 public:
  using Log = std::function<void(const std::string& sentence)>;  // called by any thread
  using OnRow = std::function<void(const Row&)>;

  // The least budget: with less, a partition would not have room for a block.
  static constexpr base::Bytes kMinBudget = base::MiB(1);

  // Makes the folder, reads what is in it, and removes what is beyond the budget.
  static base::Result<std::unique_ptr<Store>> Open(std::filesystem::path folder, base::Bytes budget, Log log);

  void SetBudget(base::Bytes budget);
  // Writes a batch. `number` grows from 1 from batch to batch. Where a part of it cannot be written, the rest
  // is, and the files stay as they were; the error is the first.
  base::Result<> Write(const Batch& batch, std::uint64_t number);

  // What a read needs to know of a partition; it does not change while others write.
  struct File {
    std::filesystem::path path;
    std::uint64_t size = 0;            // of its readable beginning
    std::int64_t first = 0, last = 0;  // times of rows, the earliest and the latest
  };
  struct View {
    std::vector<File> files;    // in the order of writing
    std::uint64_t written = 0;  // the number of the last batch
  };
  View ViewOf(SubjectKind kind, std::size_t tier) const;
  // The earliest time of a row of each resolution; nullopt: there is none.
  std::array<std::optional<std::int64_t>, kTiers> Oldest(SubjectKind kind) const;
  base::Bytes size() const;  // of all its files

  // Gives `on_row` the rows of one series from `from` on and before `until`, in the order of writing.
  static void Read(const View& view, const std::string& name, std::int64_t from, std::int64_t until,
                   const OnRow& on_row);

  // The times of the earliest and the latest row of a series; nullopt: there is none.
  struct Range {
    std::int64_t first = 0, last = 0;
  };
  static std::optional<Range> RangeOf(const View& view, const std::string& name);

  // Gives the recorder the rows that have not become rows of a coarser resolution, of the series that `wants`
  // names. Called before the first write.
  void Replay(Recorder& recorder, const std::function<bool(const Key&)>& wants) const;

 private:
  struct Partition {
    std::vector<File> files;
    std::vector<std::uint64_t> sizes;  // of the whole files
    std::uint64_t next = 1;            // number of the next file
    bool fresh = true;                 // the next block begins a file
    std::uint64_t total() const;
  };

  Store(std::filesystem::path folder, base::Bytes budget, Log log);
  base::Result<> ReadFolder();
  void ReadOne(const std::filesystem::path& path, Partition& partition);
  Partition& PartitionOf(SubjectKind kind, std::size_t tier);
  const Partition& PartitionOf(SubjectKind kind, std::size_t tier) const;
  std::uint64_t RoomOf(SubjectKind kind, std::size_t tier) const;
  void MakeRoom(SubjectKind kind, std::size_t tier, std::uint64_t more);
  base::Result<> BeginFile(SubjectKind kind, std::size_t tier);
  base::Result<> Append(SubjectKind kind, std::size_t tier, std::string_view bytes, std::int64_t first,
                        std::int64_t last);
  void ReplayTier(Recorder& recorder, SubjectKind kind, std::size_t tier,
                  const std::function<bool(const Key&)>& wants) const;

  const std::filesystem::path folder_;
  const Log log_;
  mutable std::mutex mutex_;
  base::Bytes budget_;
  std::array<std::array<Partition, kTiers>, kKinds> partitions_;
  std::uint64_t written_ = 0;
};

}  // namespace gpuman::history
