#include "mover/copy_out_planner.h"

#include <utility>

namespace gpuman::mover {
namespace {

// Chunks that are hashed at once: so many that a launch costs little, and so few that the first copy begins
// soon.
constexpr std::size_t kGroup = 512;

}  // namespace

CopyOutPlanner::CopyOutPlanner(Hasher* hasher, const HashKey& key, std::span<const DeviceMemory> memory,
                               std::span<HostCopy> copies, std::size_t first, const Segments& with_process)
    : key_(key),
      hasher_(hasher),
      memory_(memory),
      copies_(copies),
      next_(first),
      coming_(Begin(first)),
      group_end_(first) {
  for (const Segment* const segment : with_process) trusted_.emplace(segment, true);
}

std::optional<CopyOutPlanner::Group> CopyOutPlanner::Begin(std::size_t piece) {
  if (hasher_ == nullptr || piece == memory_.size()) return std::nullopt;
  Group group{piece, piece};
  std::vector<driver::abi::CUdeviceptr> chunks;
  for (; group.end < memory_.size() && chunks.size() < kGroup; ++group.end)
    for (std::size_t i = 0; i < copies_[group.end].chunks.size(); ++i)
      chunks.push_back(memory_[group.end].address() + i * kChunk);
  // Where the GPU gives no hashes, all is copied.
  if (auto pending = hasher_->Begin(chunks)) group.pending = std::move(*pending);
  return group;
}

void CopyOutPlanner::NextGroup() {
  hashes_.clear();
  used_ = 0;
  if (!coming_) {
    group_end_ = memory_.size();
    return;
  }
  Group group = std::move(*coming_);
  coming_ = Begin(group.end);
  group_end_ = group.end;
  if (!group.pending) return;
  if (auto hashes = hasher_->Await(std::move(*group.pending))) hashes_ = std::move(*hashes);
}

void CopyOutPlanner::Plan() {
  if (next_ == group_end_) NextGroup();
  HostCopy& copy = copies_[next_++];
  if (hashes_.empty()) return PlanWholeCopy(copy);
  const auto hashes = std::span(hashes_).subspan(used_, copy.chunks.size());
  used_ += copy.chunks.size();
  PlanCopyOut(copy, hashes, key_, [this](const Segment* segment) { return IsTrusted(segment); });
}

bool CopyOutPlanner::IsTrusted(const Segment* segment) {
  const auto known = trusted_.find(segment);
  if (known != trusted_.end()) return known->second;
  return trusted_.emplace(segment, segment->IsOursAlone()).first->second;
}

std::size_t CountChanged(Hasher* hasher, std::span<const RestoredPiece> pieces) {
  if (hasher == nullptr) return 0;
  std::vector<driver::abi::CUdeviceptr> chunks;
  std::vector<const ChunkHash*> were;
  for (const auto& [device, copy] : pieces) {
    for (std::size_t i = 0; i < copy->chunks.size(); ++i) {
      if (copy->chunks[i].state != ChunkRecord::State::kHeld) continue;
      chunks.push_back(device + i * kChunk);
      were.push_back(&copy->chunks[i].hash);
    }
  }
  if (chunks.empty()) return 0;
  const auto hashes = hasher->Hash(chunks);
  if (!hashes) return 0;
  std::size_t changed = 0;
  for (std::size_t i = 0; i < were.size(); ++i)
    if ((*hashes)[i] != *were[i]) ++changed;
  return changed;
}

}  // namespace gpuman::mover
