#include "sim/state/memory.h"

namespace gpuman::sim {
namespace {

constexpr unsigned kSequenceBits = 24;
constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << kSequenceBits) - 1;
constexpr unsigned kSlotBits = 12;
static_assert(kMaxProcesses == 1u << kSlotBits);
constexpr unsigned kUnitBits = 40;
constexpr std::uint64_t kUnitMask = (std::uint64_t{1} << kUnitBits) - 1;

struct Total {
  std::uint64_t units;
  unsigned slot;
  std::uint64_t sequence;
};

struct Numbered {  // an intent (units as two's complement) or what is held
  std::uint64_t sequence;
  std::uint64_t units;
};

std::uint64_t Pack(const Total& total) {
  return total.units << (kSlotBits + kSequenceBits) | std::uint64_t{total.slot} << kSequenceBits |
         total.sequence;
}

Total UnpackTotal(std::uint64_t word) {
  return {word >> (kSlotBits + kSequenceBits),
          static_cast<unsigned>(word >> kSequenceBits & ((1u << kSlotBits) - 1)), word & kSequenceMask};
}

std::uint64_t Pack(const Numbered& value) { return value.sequence << kUnitBits | (value.units & kUnitMask); }
Numbered Unpack(std::uint64_t word) { return {word >> kUnitBits, word & kUnitMask}; }
std::uint64_t Next(std::uint64_t sequence) { return (sequence + 1) & kSequenceMask; }

// Applies the change that `word` names to its slot, unless another process has.
void Complete(Shared& shared, unsigned gpu, std::uint64_t word) {
  const Total total = UnpackTotal(word);
  ProcessGpu& entry = shared.processes[total.slot].gpu[gpu];
  const Numbered intent = Unpack(entry.intent.load());
  std::uint64_t held_word = entry.held.load();
  const Numbered held = Unpack(held_word);
  if (intent.sequence != total.sequence || Next(held.sequence) != total.sequence) return;
  entry.held.compare_exchange_strong(held_word, Pack(Numbered{total.sequence, held.units + intent.units}));
}

std::uint64_t LoadCompleted(Shared& shared, unsigned gpu) {
  const std::uint64_t word = shared.gpu[gpu].memory.load();
  Complete(shared, gpu, word);
  return word;
}

}  // namespace

std::uint64_t UnitsForBytes(std::uint64_t bytes) {
  return bytes / kAccountingUnit + (bytes % kAccountingUnit != 0);
}

bool ChangeHeld(Shared& shared, unsigned gpu, unsigned slot, std::int64_t units,
                std::uint64_t capacity_units) {
  ProcessGpu& entry = shared.processes[slot].gpu[gpu];
  LoadCompleted(shared, gpu);
  const Numbered held = Unpack(entry.held.load());
  if (units < 0 && held.units < static_cast<std::uint64_t>(-units)) return false;
  const std::uint64_t sequence = Next(held.sequence);
  entry.intent.store(Pack(Numbered{sequence, static_cast<std::uint64_t>(units)}));
  for (;;) {
    std::uint64_t word = LoadCompleted(shared, gpu);
    const std::uint64_t now = UnpackTotal(word).units;
    if (units > 0 && (now > capacity_units || static_cast<std::uint64_t>(units) > capacity_units - now))
      return false;
    const std::uint64_t wanted = Pack(Total{now + static_cast<std::uint64_t>(units), slot, sequence});
    if (shared.gpu[gpu].memory.compare_exchange_weak(word, wanted)) {
      Complete(shared, gpu, wanted);
      return true;
    }
  }
}

void GiveBackAll(Shared& shared, unsigned slot, std::uint64_t owner) {
  for (unsigned gpu = 0; gpu < kMaxDevices; ++gpu) {
    if (gpu >= shared.gpus && gpu < kMaxGpus) continue;
    ProcessGpu& entry = shared.processes[slot].gpu[gpu];
    for (;;) {
      LoadCompleted(shared, gpu);
      std::uint64_t intent = entry.intent.load();
      const Numbered held = Unpack(entry.held.load());
      // While the slot belongs to the dead process, only sweepers like this one change `held`; a sweeper that
      // has finished frees the slot, and every later change has a higher sequence number than the intent
      // written here.
      if (held.units == 0 || shared.processes[slot].owner.load() != owner) break;
      const Numbered wanted{Next(held.sequence), ~held.units + 1};
      if (intent != Pack(wanted) && !entry.intent.compare_exchange_strong(intent, Pack(wanted))) continue;
      std::uint64_t word = LoadCompleted(shared, gpu);
      if (Unpack(entry.held.load()).sequence != held.sequence) continue;  // another sweeper was faster
      const std::uint64_t less = Pack(Total{UnpackTotal(word).units - held.units, slot, wanted.sequence});
      if (shared.gpu[gpu].memory.compare_exchange_strong(word, less)) Complete(shared, gpu, less);
    }
  }
}

std::uint64_t UsedUnits(const Shared& shared, unsigned gpu) {
  return UnpackTotal(shared.gpu[gpu].memory.load()).units;
}

std::uint64_t HeldUnits(const ProcessSlot& slot, unsigned gpu) {
  return Unpack(slot.gpu[gpu].held.load()).units;
}

}  // namespace gpuman::sim
