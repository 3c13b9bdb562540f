#include "blocks.h"

#include <algorithm>
#include <thread>

namespace gpuman::load {

using base::Bytes;
using base::Result;
using Json = nlohmann::ordered_json;

Result<> Blocks::Take(Bytes size) {
  const auto before = MonotonicNs();
  auto block = Allocate(session_, options_.api, size);
  const auto after = MonotonicNs();
  if (!block) {
    if (block.error().code == base::ErrorCode::kExhausted) {
      Json fields{{"requested", size.count}, {"total", total_.count}, {"before_ns", before}};
      if (const auto free = session_.Free()) fields["free"] = free->count;
      report_.Event("oom", fields);
    }
    return base::Fail(std::move(block).error());
  }
  total_ += (*block)->size();
  report_.Event("alloc", {{"bytes", (*block)->size().count},
                          {"total", total_.count},
                          {"before_ns", before},
                          {"after_ns", after}});
  taken_.push_back({std::move(*block), seed_ + taken_.size() + 1});
  if (!options_.verify) return {};
  GPUMAN_TRY(taken_.back().block->Fill(taken_.back().seed));
  return session_.Synchronize();
}

Result<> Blocks::Climb() {
  const Bytes all = Of(options_.alloc);
  const Bytes step = options_.step ? std::max(Of(options_.step), Bytes{1}) : all;
  for (Bytes asked; asked < all;) {
    if (asked.count) std::this_thread::sleep_for(options_.interval);
    const Bytes now = std::min(step, all - asked);
    GPUMAN_TRY(Take(now));
    asked += now;
  }
  return {};
}

Result<> Blocks::Add() {
  if (!options_.verify) return {};
  for (auto& taken : taken_) {
    GPUMAN_TRY(taken.block->Add());
    ++taken.added;
  }
  return {};
}

Result<> Blocks::Spoil() {
  if (!options_.flip_byte || taken_.empty()) return {};
  return taken_.front().block->FlipByte(*options_.flip_byte);
}

Result<bool> Blocks::Verify() {
  if (!options_.verify) return true;
  Mismatches all;
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    GPUMAN_ASSIGN(const Mismatches found, taken_[i].block->Check(taken_[i].seed, taken_[i].added));
    if (found.words)
      report_.Event("mismatch", {{"block", i}, {"words", found.words}, {"first_word", found.first}});
    all.words += found.words;
  }
  report_.Event("verify", {{"bytes", total_.count}, {"blocks", taken_.size()}, {"wrong_words", all.words}});
  return all.words == 0;
}

}  // namespace gpuman::load
