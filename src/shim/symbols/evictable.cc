#include "shim/symbols/evictable.h"

#include <cstdlib>
#include <cstring>

#include "ledger/wire/messages.h"

namespace gpuman::shim {

bool MayBeEvicted() {
  enum : int { kUnknown, kYes, kNo };
  static int known = kUnknown;
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == kUnknown) {
    const char* const says = std::getenv(ledger::wire::kEvictableVariable);
    answer = says != nullptr && std::strcmp(says, "1") == 0 ? kYes : kNo;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == kYes;
}

}  // namespace gpuman::shim
