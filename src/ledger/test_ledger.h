// A job, its GPUs, and its ledger as a process of it has it. For tests.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/ids.h"
#include "ledger/ledgers.h"
#include "ledger/wire/layout.h"

namespace gpuman::ledger {

inline constexpr base::JobId kOwnedJob{7};
inline const std::string kFirst = "GPU-00112233-4455-6677-8899-aabbccddeeff";
inline const std::string kSecond = "GPU-ffffffff-4455-6677-8899-aabbccddeeff";

inline GpuLimit Limit(const std::string& uuid, std::uint64_t hard) {
  return {uuid, base::Bytes{hard}, {}, {}};
}

// A process's view, as the shim maps it.
class Mapped {
 public:
  explicit Mapped(base::Fd& owner)
      : at_(::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, owner.get(), 0)) {
    owner.Close();
  }
  ~Mapped() { ::munmap(at_, sizeof(wire::Ledger)); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  wire::Ledger& operator*() const { return *static_cast<wire::Ledger*>(at_); }

 private:
  void* at_;
};

}  // namespace gpuman::ledger
