#include "history/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "history/segment.h"

namespace gpuman::history {
namespace {

// Parts of the budget in thousandths. Months of GPUs and of jobs have most.
constexpr std::array<std::array<std::uint64_t, kTiers>, kKinds> kParts{{{40, 120, 340}, {60, 140, 300}}};
// A partition has so many files when it is full: so much of it goes at once.
constexpr std::uint64_t kFilesOfPartition = 8;
constexpr std::size_t kLongestFile = std::size_t{1} << 30;
constexpr std::size_t kMaxReplayed = 8192;  // rows of a series

// The readable beginning of a file that others may append to.
std::optional<std::string> Beginning(const Store::File& file) {
  auto opened = base::OpenFile(file.path, O_RDONLY);
  if (!opened) return std::nullopt;  // it was the oldest, and has gone
  std::string text(file.size, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t more =
        ::pread(opened->get(), text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    have += static_cast<std::size_t>(more);
  }
  text.resize(have);
  return text;
}

}  // namespace

std::uint64_t Store::Partition::total() const {
  std::uint64_t sum = 0;
  for (const auto size : sizes) sum += size;
  return sum;
}

Store::Store(std::filesystem::path folder, base::Bytes budget, Log log)
    : folder_(std::move(folder)), log_(std::move(log)), budget_(budget) {}

base::Result<std::unique_ptr<Store>> Store::Open(std::filesystem::path folder, base::Bytes budget, Log log) {
  GPUMAN_TRY(base::MakeDirectories(folder, 0700));
  std::unique_ptr<Store> store(new Store(std::move(folder), budget, std::move(log)));
  GPUMAN_TRY(store->ReadFolder());
  store->SetBudget(budget);
  return store;
}

base::Result<> Store::ReadFolder() {
  std::error_code error;
  std::vector<std::pair<std::uint64_t, std::filesystem::path>> found;
  std::size_t foreign = 0;
  for (auto entry = std::filesystem::directory_iterator(folder_, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const auto name = ParseFileName(entry->path().filename().string());
    if (name) {
      auto& next = PartitionOf(name->kind, name->tier).next;
      next = std::max(next, name->number + 1);
    }
    if (name && entry->is_regular_file(ignored) && !entry->is_symlink(ignored))
      found.emplace_back(name->number, entry->path());
    else
      ++foreign;
  }
  if (error) return base::Fail(base::SystemError(error.value(), "reading " + folder_.string()));
  if (foreign > 0)
    log_(fmt::format("{} has {} files that are not of history; they are left alone", folder_.string(),
                     foreign));
  std::sort(found.begin(), found.end());
  for (const auto& entry : found) {
    const std::filesystem::path& path = entry.second;
    const auto name = ParseFileName(path.filename().string());
    ReadOne(path, PartitionOf(name->kind, name->tier));
  }
  return {};
}

void Store::ReadOne(const std::filesystem::path& path, Partition& partition) {
  File file{path, 0, kLastTime, 0};
  const auto text = base::ReadFile(path, kLongestFile);
  WalkResult walked;
  if (text)
    walked = WalkBlocks(
        *text, [](const BlockHead&) { return true; },
        [&](const BlockHead& head) {
          file.first = std::min(file.first, head.first);
          file.last = std::max(file.last, head.last);
        });
  file.size = walked.readable;
  std::error_code ignored;
  const auto whole = std::filesystem::file_size(path, ignored);
  const bool rest = text && walked.readable < text->size();
  if (!text)
    log_(fmt::format("{} is left out: {}", path.string(), text.error().message));
  else if (walked.foreign)
    log_(fmt::format("{} is left out: it is not a file of history of this version", path.string()));
  else if (walked.damaged > 0 || rest)
    log_(fmt::format("{}: {} of {} bytes are readable, without {} damaged blocks", path.string(),
                     walked.readable, text->size(), walked.damaged));
  partition.files.push_back(std::move(file));
  partition.sizes.push_back(ignored ? 0 : whole);
  partition.fresh = !text || walked.foreign || rest;
}

Store::Partition& Store::PartitionOf(SubjectKind kind, std::size_t tier) {
  return partitions_[static_cast<std::size_t>(kind)][tier];
}
const Store::Partition& Store::PartitionOf(SubjectKind kind, std::size_t tier) const {
  return partitions_[static_cast<std::size_t>(kind)][tier];
}

std::uint64_t Store::RoomOf(SubjectKind kind, std::size_t tier) const {
  return budget_.count / 1000 * kParts[static_cast<std::size_t>(kind)][tier];
}

void Store::SetBudget(base::Bytes budget) {
  const std::lock_guard lock(mutex_);
  budget_ = std::max(budget, kMinBudget);
  for (const auto kind : {SubjectKind::kGpu, SubjectKind::kJob})
    for (std::size_t tier = 0; tier < kTiers; ++tier) MakeRoom(kind, tier, 0);
}

// The oldest files go until `more` bytes fit.
void Store::MakeRoom(SubjectKind kind, std::size_t tier, std::uint64_t more) {
  Partition& partition = PartitionOf(kind, tier);
  std::uint64_t total = partition.total();
  while (!partition.files.empty() && total + more > RoomOf(kind, tier)) {
    std::error_code error;
    std::filesystem::remove(partition.files.front().path, error);
    if (error)
      log_(fmt::format("{} cannot be removed: {}", partition.files.front().path.string(), error.message()));
    total -= partition.sizes.front();
    partition.files.erase(partition.files.begin());
    partition.sizes.erase(partition.sizes.begin());
    if (partition.files.empty()) partition.fresh = true;
  }
}

base::Result<> Store::BeginFile(SubjectKind kind, std::size_t tier) {
  Partition& partition = PartitionOf(kind, tier);
  GPUMAN_TRY(base::MakeDirectories(folder_, 0700));
  const auto path = folder_ / NameOf({kind, tier, partition.next});
  GPUMAN_ASSIGN(const base::Fd made, base::OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  ++partition.next;
  if (auto written = base::WriteAll(made.get(), kFileHeader); !written) {
    ::unlink(path.c_str());
    return base::Fail(std::move(written.error()).In("writing " + path.string()));
  }
  partition.files.push_back({path, kFileHeader.size(), kLastTime, 0});
  partition.sizes.push_back(kFileHeader.size());
  partition.fresh = false;
  return {};
}

base::Result<> Store::Append(SubjectKind kind, std::size_t tier, std::string_view bytes, std::int64_t first,
                             std::int64_t last) {
  MakeRoom(kind, tier, bytes.size() + kFileHeader.size());
  Partition& partition = PartitionOf(kind, tier);
  const bool full =
      partition.files.empty() || partition.sizes.back() >= RoomOf(kind, tier) / kFilesOfPartition;
  base::Fd opened;
  if (!partition.fresh && !full)
    opened = base::OpenFile(partition.files.back().path, O_WRONLY | O_APPEND).value_or(base::Fd());
  if (!opened.ok()) {  // somebody may have removed the file
    GPUMAN_TRY(BeginFile(kind, tier));
    GPUMAN_ASSIGN(opened, base::OpenFile(partition.files.back().path, O_WRONLY | O_APPEND));
  }
  File& file = partition.files.back();
  if (auto written = base::WriteAll(opened.get(), bytes); !written) {
    // A part of it may be there.
    if (::ftruncate(opened.get(), static_cast<off_t>(file.size)) != 0) partition.fresh = true;
    return base::Fail(std::move(written.error()).In("writing " + file.path.string()));
  }
  file.size += bytes.size();
  file.first = std::min(file.first, first);
  file.last = std::max(file.last, last);
  partition.sizes.back() = file.size;
  return {};
}

base::Result<> Store::Write(const Batch& batch, std::uint64_t number) {
  struct Piece {
    std::string bytes;
    std::int64_t first = kLastTime, last = 0;
  };
  std::array<std::array<Piece, kTiers>, kKinds> pieces;
  base::Result<> result;
  const std::lock_guard lock(mutex_);
  const auto write = [&](SubjectKind kind, std::size_t tier) {
    auto& piece = pieces[static_cast<std::size_t>(kind)][tier];
    if (piece.bytes.empty()) return;
    auto done = Append(kind, tier, piece.bytes, piece.first, piece.last);
    if (!done && result) result = std::move(done);
    piece = {};
  };
  for (const SeriesRows& chunk : batch) {
    auto& piece = pieces[static_cast<std::size_t>(chunk.key.kind)][chunk.tier];
    for (std::size_t at = 0; at < chunk.rows.size(); at += kMaxRows) {
      const auto rows = std::span(chunk.rows).subspan(at, std::min(kMaxRows, chunk.rows.size() - at));
      piece.bytes += Framed(EncodeBlock(chunk.key.name, rows));
      piece.first = std::min(piece.first, rows.front().at);
      piece.last = std::max(piece.last, rows.back().at);
      // A piece is no larger than a file.
      if (piece.bytes.size() >= RoomOf(chunk.key.kind, chunk.tier) / kFilesOfPartition)
        write(chunk.key.kind, chunk.tier);
    }
  }
  for (const auto kind : {SubjectKind::kGpu, SubjectKind::kJob})
    for (std::size_t tier = 0; tier < kTiers; ++tier) write(kind, tier);
  written_ = number;
  return result;
}

Store::View Store::ViewOf(SubjectKind kind, std::size_t tier) const {
  const std::lock_guard lock(mutex_);
  return {PartitionOf(kind, tier).files, written_};
}

std::array<std::optional<std::int64_t>, kTiers> Store::Oldest(SubjectKind kind) const {
  const std::lock_guard lock(mutex_);
  std::array<std::optional<std::int64_t>, kTiers> oldest;
  for (std::size_t tier = 0; tier < kTiers; ++tier)
    for (const File& file : PartitionOf(kind, tier).files)
      if (file.first <= file.last) oldest[tier] = std::min(oldest[tier].value_or(kLastTime), file.first);
  return oldest;
}

base::Bytes Store::size() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& partitions : partitions_)
    for (const auto& partition : partitions) sum += partition.total();
  return {sum};
}

void Store::Read(const View& view, const std::string& name, std::int64_t from, std::int64_t until,
                 const OnRow& on_row) {
  for (const File& file : view.files) {
    if (file.last < from || file.first >= until) continue;
    const auto text = Beginning(file);
    if (!text) continue;
    WalkBlocks(
        *text,
        [&](const BlockHead& head) { return head.name == name && head.last >= from && head.first < until; },
        [&](const BlockHead& head) {
          const auto rows = ReadRows(head);
          if (!rows) return;  // written by somebody else
          for (const Row& row : *rows)
            if (row.at >= from && row.at < until) on_row(row);
        });
  }
}

std::optional<Store::Range> Store::RangeOf(const View& view, const std::string& name) {
  std::optional<Range> range;
  for (const File& file : view.files) {
    const auto text = Beginning(file);
    if (!text) continue;
    WalkBlocks(
        *text, [&](const BlockHead& head) { return head.name == name; },
        [&](const BlockHead& head) {
          range = {std::min(range ? range->first : head.first, head.first),
                   std::max(range ? range->last : head.last, head.last)};
        });
  }
  return range;
}

void Store::Replay(Recorder& recorder, const std::function<bool(const Key&)>& wants) const {
  for (const auto kind : {SubjectKind::kGpu, SubjectKind::kJob})
    for (std::size_t tier = kTiers - 1; tier > 0; --tier) ReplayTier(recorder, kind, tier - 1, wants);
}

// Rows of `tier` behind the last one that is part of a written row of the next.
void Store::ReplayTier(Recorder& recorder, SubjectKind kind, std::size_t tier,
                       const std::function<bool(const Key&)>& wants) const {
  const auto walk = [&](std::size_t of, const auto& on_block) {
    for (const File& file : ViewOf(kind, of).files) {
      const auto text = Beginning(file);
      if (!text) continue;
      WalkBlocks(
          *text,
          [&](const BlockHead& head) {
            return wants({kind, std::string(head.name)});
          },
          on_block);
    }
  };
  std::map<std::string, std::int64_t, std::less<>> done;  // the end of the last bucket, by series
  walk(tier + 1, [&](const BlockHead& head) {
    done.insert_or_assign(std::string(head.name), head.last + kSteps[tier + 1]);
  });
  std::map<std::string, std::vector<Row>> missing;
  walk(tier, [&](const BlockHead& head) {
    const auto known = done.find(head.name);
    const std::int64_t from = known == done.end() ? 0 : known->second;
    auto& rows = missing[std::string(head.name)];
    if (head.first < from || rows.size() > kMaxReplayed) rows.clear();  // so what came before is done as well
    if (head.last < from) return;
    const auto read = ReadRows(head);
    if (!read) return;
    for (const Row& row : *read)
      if (row.at >= from) rows.push_back(row);
  });
  for (const auto& [name, rows] : missing)
    for (const Row& row : rows) recorder.Replay({kind, name}, tier, row);
}

}  // namespace gpuman::history
