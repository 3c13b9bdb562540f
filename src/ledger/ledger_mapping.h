// The ledger's memory, on the daemon's side: an anonymous file that cannot change its size.
#pragma once

#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "ledger/wire/layout.h"

namespace gpuman::ledger {

// Move-only; thread-compatible. The content is shared with the job's processes and may change at any moment.
class LedgerMapping {
 public:
  // Everything is zero except magic, version and `job`.
  static base::Result<LedgerMapping> Create(std::int64_t job);
  // Takes a ledger that an earlier daemon made and that was found in a process of the job. kCorrupt: the file
  // is no ledger of that job.
  static base::Result<LedgerMapping> Adopt(base::Fd file, std::int64_t job);
  // Takes the bytes of a ledger whose memory is gone. Errors as Adopt.
  static base::Result<LedgerMapping> Restore(std::string_view bytes, std::int64_t job);
  LedgerMapping(LedgerMapping&& other) noexcept;
  LedgerMapping& operator=(LedgerMapping&& other) noexcept;
  ~LedgerMapping();

  wire::Ledger& operator*() const { return *ledger_; }
  wire::Ledger* operator->() const { return ledger_; }
  // The daemon's own open file description.
  int descriptor() const { return file_.get(); }
  // A new open file description of the same file, for another process.
  base::Result<base::Fd> Open() const;

 private:
  explicit LedgerMapping(base::Fd file) : file_(std::move(file)) {}
  static base::Result<LedgerMapping> MakeEmpty(std::int64_t job);
  base::Result<> Map();

  base::Fd file_;
  wire::Ledger* ledger_ = nullptr;
};

}  // namespace gpuman::ledger
