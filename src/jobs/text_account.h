// What the text of jobs takes: commands, environments, scripts and the other words that they were submitted
// with. What several jobs share (shared.h) counts once. Not thread-safe.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "base/units.h"
#include "jobs/job.h"

namespace gpuman::jobs {

// In memory: each text with what holds it.
base::Bytes SizeOf(const std::vector<std::string>& texts);
base::Bytes SizeOf(const Variables& variables);
base::Bytes SizeOf(const QueueSpec& queue_spec);

class TextAccount {
 public:
  // What a job was counted by. What is shared is named by its address: it must live until it is taken out.
  struct Entry {
    base::Bytes own{};
    const Variables* environment = nullptr;
    const QueueSpec* queue_spec = nullptr;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  static Entry EntryOf(const Job& job);

  void Add(const Entry& entry);
  void Remove(const Entry& entry);
  base::Bytes bytes() const { return bytes_; }
  // What Add would add.
  base::Bytes More(const Entry& entry) const;

 private:
  struct Text {
    std::size_t jobs = 0;
    base::Bytes size{};
  };
  template <typename T>
  void AddShared(const T* value);
  void RemoveShared(const void* value);

  base::Bytes bytes_{};
  std::unordered_map<const void*, Text> shared_;
};

}  // namespace gpuman::jobs
