// The manifest of one batch of a process's memory (gpu_transfer.h): it says which pieces are in host memory,
// and where. The process has descriptors of the manifest and of the segments; a later mover finds them in the
// process and can go on with them.
//
// The process can write the manifest at any moment, and is not trusted. So the mover reads the manifest only
// once, when it finds it, and checks its content; from then on the values in this object count, and the mover
// only writes the manifest.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "mover/layout.h"
#include "mover/segments.h"

namespace gpuman::mover {

// Move-only; thread-compatible.
class HostMemoryManifest {
 public:
  // A manifest for data that are about to come, in pieces that Seal will name.
  static base::Result<HostMemoryManifest> Make();
  // Writes the layout and FillState::kFilling to the manifest.
  base::Result<> Seal(Layout layout);

  // A manifest of an earlier mover, and the segments that its layout names, in this order.
  struct Found;
  // All manifests of a process that an earlier mover served, but for the `known` ones; waits while that mover
  // is still at work. kCorrupt: the data are lost.
  using InodePredicate = std::function<bool(std::uint64_t inode)>;
  static base::Result<std::vector<Found>> Find(const base::ProcessId& process, const InodePredicate& known);

  const Layout& layout() const { return layout_; }
  int file() const { return file_.get(); }
  std::uint64_t inode() const;
  FillState content() const { return content_; }
  void Become(FillState content);
  // How many of the pieces, from the first on, are whole.
  std::size_t whole() const { return content_ == FillState::kComplete ? layout_.pieces.size() : whole_; }
  void SetWhole(std::size_t pieces);
  // Records which chunks of a piece (chunk_hash.h) are zeros, and so are not in host memory. The caller sets
  // them before the piece is whole.
  void SetZeros(std::size_t piece, const std::vector<bool>& chunks);
  std::vector<bool> Zeros(std::size_t piece) const;

 private:
  HostMemoryManifest() = default;
  void ReadWord();
  void ReadZeros();
  void SetLayout(Layout layout);
  Layout layout_;
  std::vector<std::size_t> first_chunk_;  // by piece: the number of chunks before it
  std::vector<std::uint8_t> zeros_;       // a bit for each chunk; in the manifest, behind the layout
  std::uint64_t zeros_at_ = 0;
  FillState content_ = FillState::kEmpty;
  std::size_t whole_ = 0;
  base::Fd file_;
  base::Fd at_work_;  // its own open file description, locked while a mover may fill the manifest
};

struct HostMemoryManifest::Found {
  HostMemoryManifest manifest;
  std::vector<Segment> segments;
};

}  // namespace gpuman::mover
