#include "ledger/ledger_mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ledger/wire/words.h"

namespace gpuman::ledger {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Fd;
using base::Result;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

LedgerMapping::LedgerMapping(LedgerMapping&& other) noexcept
    : file_(std::move(other.file_)), ledger_(std::exchange(other.ledger_, nullptr)) {}

LedgerMapping& LedgerMapping::operator=(LedgerMapping&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(ledger_, other.ledger_);
  return *this;
}

LedgerMapping::~LedgerMapping() {
  if (ledger_ != nullptr) ::munmap(ledger_, sizeof(wire::Ledger));
}

Result<LedgerMapping> LedgerMapping::MakeEmpty(std::int64_t job) {
  LedgerMapping page(
      Fd(::memfd_create(fmt::format("gpuman-ledger-{}", job).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!page.file_.ok()) return base::FailSystem(errno, "making a ledger");
  if (::ftruncate(page.descriptor(), sizeof(wire::Ledger)) != 0 ||
      ::fcntl(page.descriptor(), F_ADD_SEALS, kSeals) != 0)
    return base::FailSystem(errno, "giving a ledger its size");
  GPUMAN_TRY(page.Map());
  return page;
}

Result<LedgerMapping> LedgerMapping::Create(std::int64_t job) {
  GPUMAN_ASSIGN(LedgerMapping page, MakeEmpty(job));
  page->magic = wire::kMagic;
  page->version = wire::kVersion;
  page->job = static_cast<std::uint64_t>(job);
  return page;
}

Result<LedgerMapping> LedgerMapping::Restore(std::string_view bytes, std::int64_t job) {
  GPUMAN_ASSIGN(LedgerMapping page, MakeEmpty(job));
  if (bytes.size() == sizeof(wire::Ledger)) std::memcpy(page.ledger_, bytes.data(), bytes.size());
  return Adopt(std::move(page.file_), job);
}

Result<LedgerMapping> LedgerMapping::Adopt(Fd file, std::int64_t job) {
  struct stat status {};
  const auto refuse = [&](const char* why) {
    return Fail(ErrorCode::kCorrupt, fmt::format("this is no ledger of job {}: {}", job, why));
  };
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return refuse("it is no file");
  if (status.st_size != static_cast<off_t>(sizeof(wire::Ledger))) return refuse("it has another size");
  if (::fcntl(file.get(), F_GET_SEALS) != kSeals) return refuse("its size is not sealed");
  LedgerMapping page(std::move(file));
  GPUMAN_TRY(page.Map());
  if (wire::Load(page->magic) != wire::kMagic || wire::Load(page->version) != wire::kVersion ||
      wire::Load(page->job) != static_cast<std::uint64_t>(job))
    return refuse("its beginning says something else");
  return page;
}

Result<> LedgerMapping::Map() {
  void* const at = ::mmap(nullptr, sizeof(wire::Ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (at == MAP_FAILED) return base::FailSystem(errno, "mapping a ledger");
  ledger_ = static_cast<wire::Ledger*>(at);
  return {};
}

Result<Fd> LedgerMapping::Open() const {
  Fd fresh(::open(fmt::format("/proc/self/fd/{}", descriptor()).c_str(), O_RDWR | O_CLOEXEC));
  if (!fresh.ok()) return base::FailSystem(errno, "opening a ledger again");
  return fresh;
}

}  // namespace gpuman::ledger
