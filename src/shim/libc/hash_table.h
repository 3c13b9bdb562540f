// A map from a number that is not zero to a small value, for a library without the C++ runtime. It uses open
// addressing, in memory that it takes from the kernel and that a forked child does not get. An object of
// zeros is an empty table, so a table can lie in memory that a fork wipes. Not thread-safe.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpuman::shim {

template <typename Value>
class HashTable {
 public:
  static_assert(std::is_trivially_copyable_v<Value> && std::is_trivially_destructible_v<Value>);

  // Returns the value of the key, or null. The pointer is good until the table changes.
  Value* Find(std::uint64_t key) {
    if (capacity_ == 0 || key == 0) return nullptr;
    Entry& entry = entries_[IndexOf(key)];
    return entry.key == key ? &entry.value : nullptr;
  }

  // Returns the value of the key, all zeros when the key was not there; null when there is no memory.
  Value* Insert(std::uint64_t key) {
    if (key == 0 || (2 * (size_ + 1) > capacity_ && !Grow())) return nullptr;
    Entry& entry = entries_[IndexOf(key)];
    if (entry.key == 0) {
      entry.key = key;
      entry.value = Value{};
      ++size_;
    }
    return &entry.value;
  }

  // Removes the key. Returns false when it is not there.
  bool Take(std::uint64_t key, Value& value) {
    if (capacity_ == 0 || key == 0) return false;
    std::size_t hole = IndexOf(key);
    if (entries_[hole].key != key) return false;
    value = entries_[hole].value;
    --size_;
    // An entry behind the hole moves into the hole, if it would have been placed at the hole or before it.
    for (std::size_t next = Next(hole); entries_[next].key != 0; next = Next(next)) {
      const std::size_t home = Home(entries_[next].key);
      if (((next - home) & (capacity_ - 1)) < ((next - hole) & (capacity_ - 1))) continue;
      entries_[hole] = entries_[next];
      hole = next;
    }
    entries_[hole].key = 0;
    return true;
  }

  // Calls function(key, value) for each entry. The function must not change the table.
  template <typename Function>
  void ForEach(Function function) {
    for (std::size_t i = 0; i < capacity_; ++i) {
      if (entries_[i].key != 0) function(entries_[i].key, entries_[i].value);
    }
  }

  std::size_t size() const { return size_; }

  // Gives the memory back; the table is empty afterwards.
  void Reset() {
    if (entries_ != nullptr) ::munmap(entries_, capacity_ * sizeof(Entry));
    entries_ = nullptr;
    capacity_ = size_ = 0;
  }

 private:
  struct Entry {
    std::uint64_t key;  // 0: free
    Value value;
  };

  std::size_t Home(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> 20) & (capacity_ - 1);
  }
  std::size_t Next(std::size_t place) const { return (place + 1) & (capacity_ - 1); }
  // Returns the place where the key is, or would go.
  std::size_t IndexOf(std::uint64_t key) const {
    std::size_t place = Home(key);
    while (entries_[place].key != 0 && entries_[place].key != key) place = Next(place);
    return place;
  }

  bool Grow() {
    constexpr std::size_t kFirst = 256;
    const std::size_t capacity = capacity_ == 0 ? kFirst : 2 * capacity_;
    void* const memory =
        ::mmap(nullptr, capacity * sizeof(Entry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    ::madvise(memory, capacity * sizeof(Entry), MADV_DONTFORK);
    HashTable grown;
    grown.entries_ = static_cast<Entry*>(memory);
    grown.capacity_ = capacity;
    ForEach([&](std::uint64_t key, const Value& value) {
      grown.entries_[grown.IndexOf(key)] = {key, value};
    });
    grown.size_ = size_;
    Reset();
    *this = grown;
    return true;
  }

  Entry* entries_ = nullptr;
  std::size_t capacity_ = 0;  // a power of two
  std::size_t size_ = 0;
};

}  // namespace gpuman::shim
