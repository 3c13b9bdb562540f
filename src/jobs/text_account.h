// The memory for the text of jobs: commands, environments, scripts and the other words with which they were
// submitted. A value that several jobs share (shared.h) counts once. Not thread-safe.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "base/units.h"
#include "jobs/job.h"

namespace gpuman::jobs {

// The size in memory: each text with the object that holds it.
base::Bytes SizeOf(const std::vector<std::string>& texts);
base::Bytes SizeOf(const Variables& variables);
base::Bytes SizeOf(const spec::JobSpec& spec);

class TextAccount {
 public:
  // How a job was counted. Shared values are identified by address: they must live until the entry is
  // removed.
  struct Entry {
    base::Bytes own{};
    const Variables* environment = nullptr;
    const spec::JobSpec* spec = nullptr;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  static Entry EntryOf(const Job& job);

  void Add(const Entry& entry);
  void Remove(const Entry& entry);
  base::Bytes bytes() const { return bytes_; }
  // The bytes that Add would add.
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
