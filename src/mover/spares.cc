#include "mover/spares.h"

namespace gpuman::mover {

std::optional<Spares::Spare> Spares::Surplus(Shelf& shelf) {
  if (shelf.kept.size() <= shelf.expected) return std::nullopt;
  std::optional<Spare> surplus = std::move(shelf.kept.back());
  shelf.kept.pop_back();
  return surplus;
}

void Spares::Expect(int gpu, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++shelves_[{gpu, bytes}].expected;
}

std::optional<Spares::Spare> Spares::Take(int gpu, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Shelf& shelf = shelves_[{gpu, bytes}];
  if (shelf.expected > 0) --shelf.expected;
  if (shelf.kept.empty()) return std::nullopt;
  std::optional<Spare> spare = std::move(shelf.kept.back());
  shelf.kept.pop_back();
  return spare;
}

void Spares::Forgo(int gpu, std::uint64_t bytes) {
  std::optional<Spare> dropped;  // outside of the lock: the driver takes its time
  const std::lock_guard lock(mutex_);
  Shelf& shelf = shelves_[{gpu, bytes}];
  if (shelf.expected > 0) --shelf.expected;
  dropped = Surplus(shelf);
}

void Spares::Leave(Memory memory, base::Fd file) {
  if (!memory || !file.ok()) return;
  const std::pair key{memory.gpu(), memory.bytes()};
  const std::lock_guard lock(mutex_);
  Shelf& shelf = shelves_[key];
  if (shelf.kept.size() < shelf.expected) shelf.kept.push_back({std::move(memory), std::move(file)});
}

bool Spares::Empty() {
  std::vector<Spare> dropped;
  const std::lock_guard lock(mutex_);
  for (auto& [key, shelf] : shelves_) {
    for (Spare& spare : shelf.kept) dropped.push_back(std::move(spare));
    shelf.kept.clear();
  }
  return !dropped.empty();
}

}  // namespace gpuman::mover
