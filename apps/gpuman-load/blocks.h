// The memory that a process of the load takes for itself: block after block, filled, changed and checked.
#pragma once

#include <memory>
#include <vector>

#include "allocators.h"
#include "options.h"
#include "report.h"
#include "session.h"

namespace gpuman::load {

// Must not outlive the session.
class Blocks {
 public:
  // `seed`: distinct for each process, a multiple of 2^32.
  Blocks(const Options& options, Report& report, Session& session, std::uint64_t seed)
      : options_(options), report_(report), session_(session), seed_(seed) {}

  // Takes one more block and reports it. kExhausted: the device has no more.
  base::Result<> Take(base::Bytes size);
  // Takes all of --alloc, in steps.
  base::Result<> Climb();
  // Queues a change of every word, where they are to be verified.
  base::Result<> Add();
  // Spoils the byte of --flip-byte, if it is given.
  base::Result<> Spoil();
  // Checks all blocks and reports what is wrong; false if data is wrong.
  base::Result<bool> Verify();

  base::Bytes total() const { return total_; }
  base::Bytes Of(const std::optional<base::SizeSpec>& size) const {
    return size ? size->Of(session_.device().memory) : base::Bytes{};
  }

 private:
  struct Taken {
    std::unique_ptr<Block> block;
    std::uint64_t seed;
    std::uint64_t added = 0;
  };

  const Options& options_;
  Report& report_;
  Session& session_;
  const std::uint64_t seed_;
  std::vector<Taken> taken_;
  base::Bytes total_;
};

}  // namespace gpuman::load
