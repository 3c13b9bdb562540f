#include "jobs/store_jobs.h"

#include <fmt/format.h>

#include <future>
#include <optional>
#include <string>
#include <unordered_map>

#include "jobs/record.h"
#include "jobs/store_schema.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {

constexpr std::size_t kRowsAtOnce = 1000;

// A part that jobs have in common: each row is read once.
template <typename T>
class Parts {
 public:
  Parts(SQLite::Database& db, SharedTextTable& shared, Result<T> (*parse)(std::string_view))
      : db_(db), shared_(shared), parse_(parse) {}

  // Does nothing if the job's row refers to none.
  Result<> Take(SQLite::Statement& job, int column, std::optional<T>& into) {
    if (job.isColumnNull(column)) return {};
    const std::int64_t row = job.getColumn(column).getInt64();
    if (const auto it = read_.find(row); it != read_.end()) {
      into = it->second;
      return {};
    }
    SQLite::Statement query(db_, "SELECT text FROM shared WHERE id=?");
    query.bind(1, row);
    if (!query.executeStep()) return Fail(ErrorCode::kCorrupt, fmt::format("its part {} is missing", row));
    GPUMAN_ASSIGN(into, parse_(query.getColumn(0).getString()));
    shared_.Learn(into->pointer(), row);
    read_.emplace(row, *into);
    return {};
  }

 private:
  SQLite::Database& db_;
  SharedTextTable& shared_;
  Result<T> (*parse_)(std::string_view);
  std::unordered_map<std::int64_t, T> read_;
};

// A row of the table, and the job made from it.
struct JobRow {
  std::int64_t id = 0;
  std::string record;
  std::optional<Environment> environment{};
  std::optional<Shared<ResourceLimits>> limits{};
  std::optional<Shared<spec::JobSpec>> spec{};
  Result<Job> job{};  // an error: of one of its parts
};

// Parsing takes most of a daemon's start: a second processor, if there is one, does half of it.
void ParseAll(std::vector<JobRow>& rows) {
  const auto parse = [&rows](std::size_t from, std::size_t to) {
    // Equal values exist once, so that no duplicates are freed later and leave holes in the heap.
    ValueDeduplicator<JobOwner, OwnerHash> owners;
    ValueDeduplicator<std::string, std::hash<std::string>> directories;
    ValueDeduplicator<spec::JobSpec, JobSpecHash> specs;
    for (std::size_t i = from; i < to; ++i) {
      JobRow& row = rows[i];
      if (!row.job) continue;
      row.job = ParseJob(row.record, row.spec.value_or(Shared<spec::JobSpec>{}));
      if (!row.job) continue;
      row.job->owner = owners.Share(row.job->owner);
      row.job->directory = directories.Share(row.job->directory);
      row.job->spec = specs.Share(row.job->spec);
      if (row.environment) row.job->environment = std::move(*row.environment);
      if (row.limits) row.job->resource_limits = std::move(*row.limits);
    }
  };
  auto other = std::async([&] { parse(rows.size() / 2, rows.size()); });
  parse(0, rows.size() / 2);
  other.get();
}

}  // namespace

Result<std::vector<Job>> ReadJobs(SQLite::Database& db, SharedTextTable& shared,
                                  const std::filesystem::path& file) {
  Parts<Environment> environments(db, shared, ParseEnvironment);
  Parts<Shared<ResourceLimits>> limits(
      db, shared, [](std::string_view text) -> Result<Shared<ResourceLimits>> { return ParseLimits(text); });
  Parts<Shared<spec::JobSpec>> spec(
      db, shared, [](std::string_view text) -> Result<Shared<spec::JobSpec>> { return ParseSpec(text); });
  std::vector<Job> jobs;
  jobs.reserve(static_cast<std::size_t>(db.execAndGet("SELECT count(*) FROM jobs").getInt64()));
  SQLite::Statement rows(db, "SELECT id,record,environment,limits,terms FROM jobs ORDER BY id");
  std::vector<JobRow> some;
  for (bool more = true; more;) {
    some.clear();
    while (some.size() < kRowsAtOnce && (more = rows.executeStep())) {
      JobRow& row = some.emplace_back(JobRow{rows.getColumn(0).getInt64(), rows.getColumn(1).getString()});
      if (auto read = environments.Take(rows, 2, row.environment); !read) row.job = Fail(read.error());
      if (auto read = limits.Take(rows, 3, row.limits); !read) row.job = Fail(read.error());
      if (auto read = spec.Take(rows, 4, row.spec); !read) row.job = Fail(read.error());
    }
    ParseAll(some);
    for (auto& row : some) {
      if (!row.job)
        return Fail(
            ErrorCode::kCorrupt,
            fmt::format("job {} in {} cannot be read: {}", row.id, file.string(), row.job.error().message),
            WayOut(file));
      jobs.push_back(std::move(*row.job));
    }
  }
  return jobs;
}

}  // namespace gpuman::jobs
